//! Whether what was written translates as the model that it was written from.

use half::f16;
use polyglow_data::config::{Content, Split};
use polyglow_data::corpus::Corpus;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_kernels::Layout;
use polyglow_model::quantization;
use polyglow_model::random::Random;
use polyglow_predict::error::{Result, failed, with_hint};
use polyglow_train::Plan;

use super::Precision;
use super::array::Array;
use super::ctranslate2::to_int8;
use super::portable::Portable;

/// The most tokens of a line that is made up.
const LONGEST: usize = 12;

/// Translates lines with what was written and with what should have been written, and makes sure
/// that every one becomes the same.
///
/// # Errors
/// One does not: its number, and what it became.
pub(super) fn same(
    written: &Portable,
    original: &Portable,
    lines: &[String],
    plan: &Plan,
) -> Result<()> {
    equal(
        lines,
        &translate(original, lines, plan)?,
        &translate(written, lines, plan)?,
    )
}

/// Makes sure that two models have translated lines alike.
///
/// # Errors
/// As [`same`].
pub(super) fn equal(lines: &[String], ours: &[String], theirs: &[String]) -> Result<()> {
    for (number, (line, (ours, theirs))) in (1..).zip(lines.iter().zip(ours.iter().zip(theirs))) {
        if ours != theirs {
            let error = failed!(
                "what was written translates otherwise: line {number}, `{line}`, becomes `{theirs}` in place of `{ours}`"
            );
            return Err(with_hint(
                error,
                "nothing was kept; this is a bug in polyglow: please report it with the run's config",
            ));
        }
    }
    Ok(())
}

/// Searches as the run does, with batches as it has them.
fn translate(model: &Portable, lines: &[String], plan: &Plan) -> Result<Vec<String>> {
    let runner = model.runner(&plan.device)?;
    let mut runner = runner.with_search(plan.config.search.clone());
    runner.max_tokens = plan.max_tokens;
    runner.pad_multiple = plan.pad_multiple;
    // A format may have room for longer lines than the run's model.
    runner.longest = runner
        .longest
        .min(plan.config.tokenizer.planned_len(plan.config.data.max_len));
    runner.best(lines)
}

/// The first `count` lines of the test set, or of the validation set; where neither can be read,
/// lines of random tokens.
///
/// # Errors
/// A token cannot be spelled.
pub(super) fn lines(model: &Portable, count: usize) -> Result<Vec<String>> {
    let data = &model.config.data;
    let mut splits: Vec<Split> = data.test_names().into_iter().map(Split::Test).collect();
    splits.extend(data.has_valid().then_some(Split::Valid));
    for split in splits {
        let found = Corpus::open(data, Content::PAIRS, split).and_then(|corpus| {
            corpus
                .pairs()
                .take(count)
                .map(|pair| Ok(pair?.src))
                .collect::<Result<Vec<_>, _>>()
        });
        match found {
            Ok(lines) if !lines.is_empty() => return Ok(lines),
            Ok(_) => {}
            Err(error) => tracing::info!("not verified on {split:?}: {error}"),
        }
    }
    tracing::info!("the run has no test set at hand: it is verified on lines of random tokens");
    random_lines(&model.tokenizers.src, count)
}

fn random_lines(tokenizer: &Tokenizer, count: usize) -> Result<Vec<String>> {
    let mut random = Random::new(&[count as u64]);
    let mut below = |limit: usize| (random.uniform() * limit as f64) as usize;
    let mut line = || {
        let ids: Vec<u32> = (0..=below(LONGEST))
            .map(|_| below(tokenizer.vocab_size()) as u32)
            .collect();
        Ok(tokenizer.decode(&ids)?.replace(['\n', '\r'], " "))
    };
    (0..count).map(|_| line()).collect()
}

/// The model with its numbers rounded as they are written.
#[must_use]
pub(super) fn rounded(model: &Portable, precision: Precision) -> Portable {
    let mut model = model.clone();
    for (name, array) in &mut model.arrays.0 {
        match precision {
            Precision::Float32 => {}
            Precision::Float16 => array
                .values
                .iter_mut()
                .for_each(|value| *value = f16::from_f32(*value).to_f32()),
            Precision::Int8 => to_bytes_and_back(name, array),
        }
    }
    model
}

fn to_bytes_and_back(name: &str, array: &mut Array) {
    let Some(layout) = quantization::layout(name, &array.shape) else {
        return;
    };
    // One scale for each output, which is a row here.
    let mut rows = if layout == Layout::InOut {
        array.transposed()
    } else {
        array.clone()
    };
    let width = rows.width();
    let (values, scales) = to_int8(&rows.values, width);
    rows.values = values
        .iter()
        .enumerate()
        .map(|(place, value)| f32::from(*value) / scales[place / width])
        .collect();
    *array = if layout == Layout::InOut {
        rows.transposed()
    } else {
        rows
    };
}

#[cfg(test)]
mod tests {
    use polyglow_data::tokenizer::Tokenizers;
    use polyglow_model::parameter;

    use super::*;
    use crate::array::Arrays;
    use polyglow_train::config::Config;

    const CONFIG: &str = "data.corpus = 'digits'
        tokenizer.kind = 'word'
        model = { d_model = 8, d_ff = 8, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
        train.max_steps = 1";

    fn portable(plan: &Plan) -> Portable {
        let corpus =
            Corpus::open(&plan.config.data, plan.content, Split::Train).expect("it is embedded");
        let tokenizers = Tokenizers::train(&plan.config.tokenizer, &corpus, &mut |_, _| {})
            .expect("the corpus has words");
        let model = plan
            .model_shape(&tokenizers)
            .expect("it is valid")
            .init(3, &plan.device);
        let array = |(name, data): (String, burn::tensor::TensorData)| {
            (
                name,
                Array {
                    shape: data.shape().to_vec(),
                    values: data.iter::<f32>().collect(),
                },
            )
        };
        let arrays = Arrays(parameter::read(&model).into_iter().map(array).collect());
        Portable {
            config: plan.config.clone(),
            tokenizers,
            arrays,
        }
    }

    #[test]
    fn what_translates_otherwise_is_found() {
        let plan = Plan::new(Config::from_text(CONFIG, &[]).expect("it is a config"))
            .expect("flex is in this build");
        let original = portable(&plan);
        let lines = lines(&original, 20).expect("the corpus has a test set");
        assert_eq!(lines.len(), 20);
        same(&original, &original, &lines, &plan).expect("it is the same model");
        let mut other = original.clone();
        let embedding = other
            .arrays
            .0
            .get_mut("src_embedding.weight")
            .expect("it has embeddings");
        embedding.values.rotate_left(8);
        let error = same(&other, &original, &lines, &plan)
            .expect_err("it is another model")
            .to_string();
        assert!(error.contains("translates otherwise: line "), "{error}");
        // Rounded to 8 bits and rounded again it stays as it is.
        let once = rounded(&original, Precision::Int8);
        assert_ne!(once.arrays, original.arrays);
        let twice = rounded(&once, Precision::Int8);
        for (name, array) in &once.arrays.0 {
            let largest = array
                .values
                .iter()
                .fold(0.0f32, |largest, value| largest.max(value.abs()));
            let near = |(left, right): (&f32, &f32)| (left - right).abs() <= largest * 1e-6;
            assert!(
                array
                    .values
                    .iter()
                    .zip(&twice.arrays.0[name].values)
                    .all(near),
                "{name}"
            );
        }
    }
}
