//! Verification: does an exported model translate as the model that it was written from?

use half::f16;
use polyglow_data::config::Split;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_kernels::Layout;
use polyglow_model::quantization;
use polyglow_model::random::Random;
use polyglow_predict::error::{Result, failed, with_hint};
use polyglow_predict::runner::Runner;
use polyglow_train::Plan;
use polyglow_train::config::Config;
use polyglow_train::run::RunDirectory;

use super::Precision;
use super::array::Array;
use super::ctranslate2::to_int8;
use super::format::Writing;
use super::portable::Portable;

/// The most tokens of a line of random tokens.
const LONGEST: usize = 12;

/// Returns two models ready to translate: the one that was written, as it was read again, and the
/// original with its weights rounded to the same data type.
///
/// # Errors
/// The weights that were read do not fit the config that was read.
pub(super) fn runners(written: &Portable, writing: &Writing, plan: &Plan) -> Result<[Runner; 2]> {
    let original = rounded(writing.model, writing.precision);
    Ok([runner(written, plan)?, runner(&original, plan)?])
}

/// Makes a runner with the run's search and with batches as the run makes them: another batch may
/// change the last digits of a score, and so a translation.
fn runner(model: &Portable, plan: &Plan) -> Result<Runner> {
    let runner = model.runner(&plan.device)?;
    // What was written says nothing of tags.
    let runner = runner.with_tags(plan.config.data.tags())?;
    let mut runner = runner.with_search(plan.config.search.clone());
    runner.max_tokens = plan.max_tokens;
    runner.pad_multiple = plan.pad_multiple;
    // A format may have room for longer texts than the run reads.
    let planned_len = plan.config.tokenizer.planned_len(plan.config.data.max_len);
    runner.longest = runner.longest.min(planned_len);
    Ok(runner)
}

/// Checks that two models translate lines alike.
///
/// # Errors
/// Two translations differ; the message has the number of the line and both.
pub(super) fn equal(lines: &[String], written: &Runner, original: &Runner) -> Result<()> {
    let ours = original.best(lines)?;
    let theirs = written.best(lines)?;
    let translations = ours.iter().zip(&theirs);
    for (number, (line, (ours, theirs))) in (1..).zip(lines.iter().zip(translations)) {
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

/// Returns the first `count` lines of the test set, or of the validation set, of which the run may
/// have kept a copy; lines of random tokens where neither can be read.
///
/// # Errors
/// A token cannot be spelled.
pub(super) fn lines(run: &RunDirectory, model: &Portable, count: usize) -> Result<Vec<String>> {
    let data = &model.config.data;
    let mut splits: Vec<Split> = data.test_names().into_iter().map(Split::Test).collect();
    splits.extend(data.has_valid().then_some(Split::Valid));
    for split in splits {
        match first_sources(run, &model.config, split, count) {
            Ok(lines) if !lines.is_empty() => return Ok(lines),
            Ok(_) => {}
            Err(error) => tracing::info!("not verified on {}: {error}", named(split)),
        }
    }
    tracing::info!("the run has no test set at hand: it is verified on lines of random tokens");
    random_lines(&model.tokenizers.src, count)
}

fn named(split: Split<'_>) -> String {
    match split {
        Split::Train => "the training set".to_owned(),
        Split::Valid => "the validation set".to_owned(),
        Split::Test(name) => format!("the set `{name}`"),
    }
}

fn first_sources(
    run: &RunDirectory,
    config: &Config,
    split: Split,
    count: usize,
) -> Result<Vec<String>> {
    let corpus = run.open_set(config, split)?;
    let mut lines = Vec::new();
    for pair in corpus.pairs().take(count) {
        lines.push(pair?.src);
    }
    Ok(lines)
}

fn random_lines(tokenizer: &Tokenizer, count: usize) -> Result<Vec<String>> {
    let mut random = Random::new(&[count as u64]);
    let mut lines = Vec::with_capacity(count);
    for _ in 0..count {
        let mut ids = Vec::new();
        for _ in 0..=random_below(&mut random, LONGEST) {
            ids.push(random_below(&mut random, tokenizer.vocab_size()) as u32);
        }
        lines.push(tokenizer.decode(&ids)?.replace(['\n', '\r'], " "));
    }
    Ok(lines)
}

fn random_below(random: &mut Random, limit: usize) -> usize {
    (random.uniform() * limit as f64) as usize
}

/// Returns the model with its weights rounded to a data type, so that it can be compared with what
/// was written.
#[must_use]
pub(super) fn rounded(model: &Portable, precision: Precision) -> Portable {
    let mut model = model.clone();
    for (name, array) in &mut model.arrays.0 {
        match precision {
            Precision::Float32 => {}
            Precision::Float16 => {
                for value in &mut array.values {
                    *value = f16::from_f32(*value).to_f32();
                }
            }
            Precision::Int8 => round_to_int8(name, array),
        }
    }
    model
}

/// Rounds a matrix to 8 bits; other arrays stay as they are.
fn round_to_int8(name: &str, array: &mut Array) {
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
    for (index, value) in values.iter().enumerate() {
        rows.values[index] = f32::from(*value) / scales[index / width];
    }
    *array = if layout == Layout::InOut {
        rows.transposed()
    } else {
        rows
    };
}

#[cfg(test)]
mod tests {
    use polyglow_data::corpus::Corpus;
    use polyglow_data::tokenizer::Tokenizers;
    use polyglow_model::parameter;

    use super::*;
    use crate::array::Arrays;

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
        let mut arrays = Arrays::default();
        for (name, data) in parameter::read(&model) {
            let array = Array {
                shape: data.shape().to_vec(),
                values: data.iter::<f32>().collect(),
            };
            arrays.put(name, array);
        }
        Portable {
            config: plan.config.clone(),
            tokenizers,
            arrays,
        }
    }

    #[test]
    fn a_model_that_translates_differently_is_an_error() {
        let plan = Plan::new(Config::from_text(CONFIG, &[]).expect("it is a config"))
            .expect("flex is in this build");
        let original = portable(&plan);
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let run = RunDirectory::new(dir.path());
        run.create(&plan.config).expect("it can be written");
        let lines = lines(&run, &original, 20).expect("the corpus has a test set");
        assert_eq!(lines.len(), 20);
        let runner = |model| runner(model, &plan).expect("the weights fit");
        equal(&lines, &runner(&original), &runner(&original)).expect("it is the same model");
        let mut other = original.clone();
        let embedding = other
            .arrays
            .0
            .get_mut("src_embedding.weight")
            .expect("it has embeddings");
        embedding.values.rotate_left(8);
        let error = equal(&lines, &runner(&other), &runner(&original))
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
