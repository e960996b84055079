//! Translation: the target, given the source.

pub mod alignment;

use std::marker::PhantomData;
use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use polyglow_data::batch::PairBatch;
use polyglow_data::corpus::in_order;
use polyglow_data::example::Example;
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::Pair;
use polyglow_data::sources::{BatchSource, PairSource};
use polyglow_metrics::Tokenizer as BleuTokenizer;
use polyglow_model::{Generate, Pair as Inputs, Predict, Targets, alignment_loss};
use polyglow_predict::TaskPlan;
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::error::{Context, Result, TrainError};
use polyglow_predict::evaluation::Evaluation;
use polyglow_predict::runner::Runner;
use polyglow_predict::scoring::{Scoring, TranslationScores};
use polyglow_predict::teacher_forcing::{Forced, Predicted, at_targets};

use super::{BatchSize, ID_BYTES, LongLines, Loss, Setting, Task, Validation};
use crate::workload::BatchShape;

/// Learning to translate, with any model that predicts pairs and can be searched, and from any
/// source of pairs.
pub struct Translation<M = polyglow_model::Model, S = PairSource> {
    source: Arc<S>,
    setting: Setting,
    pad_id: u32,
    model: PhantomData<fn() -> M>,
}

impl<M> Translation<M> {
    /// Translation of the pairs in `cache`.
    ///
    /// # Errors
    /// The config asks for BPE dropout with a tokenizer that is not plain BPE.
    pub fn new(setting: Setting, cache: Arc<IdCache>) -> Result<Self> {
        let links = setting.plan.config.train.alignment_weight > 0.0;
        let source = PairSource::new(cache, setting.plan.batching(), links)?;
        Ok(Self::from_source(setting, source))
    }
}

impl<M, S> Translation<M, S> {
    /// Translation of the pairs of a source.
    pub fn from_source(setting: Setting, source: S) -> Self {
        let pad_id = setting.tokenizers.tgt.special().pad;
        Self {
            source: Arc::new(source),
            setting,
            pad_id,
            model: PhantomData,
        }
    }
}

/// A batch of pairs on the device.
pub struct Pairs {
    inputs: Inputs,
    /// What is predicted, `[batch * tgt_len]`.
    targets: Targets,
    /// Where each target position should look, `[batch, tgt_len, src_len]`.
    gold_attention: Option<Tensor<3>>,
}

impl<M, S> Task for Translation<M, S>
where
    M: Predict<Inputs> + Generate + 'static,
    S: BatchSource<Batch = PairBatch, Error: Into<TrainError>>,
{
    type Model = M;
    type Source = S;
    type Inputs = Pairs;

    fn source(&self) -> &Arc<S> {
        &self.source
    }

    fn size(&self, batch: &PairBatch) -> BatchSize {
        let PairBatch {
            src,
            tgt_in,
            tgt_out,
            gold_attention,
        } = batch;
        let num_values = src.ids.len() + tgt_in.ids.len() + tgt_out.ids.len();
        let bytes = ID_BYTES * (num_values + gold_attention.as_ref().map_or(0, Vec::len));
        let targets = tgt_out.num_real();
        // An image has as many positions as patches, whatever its bytes.
        let (src_len, num_real) = match self.setting.plan.task {
            TaskPlan::Captions { num_patches, .. } => (num_patches, num_patches * src.num_rows()),
            _ => (src.len, src.num_real()),
        };
        let shape = BatchShape {
            rows: src.num_rows(),
            src_len,
            tgt_len: tgt_out.len,
        };
        BatchSize {
            shape,
            real_positions: num_real + targets,
            targets,
            bytes,
        }
    }

    fn upload(&self, batch: &PairBatch, device: &Device) -> Pairs {
        let PairBatch {
            src,
            tgt_in,
            tgt_out,
            gold_attention,
        } = batch;
        let shape = [src.num_rows(), tgt_out.len, src.len];
        let gold_attention = gold_attention
            .as_ref()
            .map(|gold| Tensor::from_data(TensorData::new(gold.clone(), shape), device));
        let inputs = Inputs {
            src: upload_rows(src, device),
            tgt_in: upload_rows(tgt_in, device),
        };
        Pairs {
            inputs,
            targets: upload_targets(&tgt_out.ids, self.pad_id, device),
            gold_attention,
        }
    }

    fn loss(&self, model: &M, batch: Pairs) -> Loss {
        let Pairs {
            inputs,
            targets,
            gold_attention,
        } = batch;
        let train = &self.setting.plan.config.train;
        let Some(gold) = gold_attention else {
            return model
                .predict(inputs)
                .loss(targets, train.label_smoothing, self.pad_id)
                .into();
        };
        let (prediction, attention) = model.predict_aligned(inputs);
        let loss = Loss::from(prediction.loss(targets, train.label_smoothing, self.pad_id));
        match attention.map(|attention| alignment_loss(attention, gold) * train.alignment_weight) {
            Some(guided) => Loss {
                minimized: loss.minimized + guided,
                ..loss
            },
            None => loss,
        }
    }

    fn uniform_loss(&self) -> Option<f64> {
        Some(self.setting.uniform_loss())
    }

    fn validate(&self, model: M) -> Result<Option<Validation>> {
        let pairs = self.setting.valid.pairs();
        if pairs.is_empty() {
            return Ok(None);
        }
        let evaluation = evaluate(&self.setting.runner(model), pairs, &self.setting.bleu)?;
        Ok(Some(Validation::new(evaluation, pairs)))
    }
}

/// Translates the sources and scores the result, and scores the targets under the models. Captions
/// of one image are references of one output.
///
/// # Errors
/// A line cannot be encoded or decoded.
pub fn evaluate<M: Predict<Inputs> + Generate>(
    runner: &Runner<M>,
    pairs: &[Pair],
    bleu: &BleuTokenizer,
) -> Result<Evaluation> {
    let sources = match runner.task {
        TaskPlan::Captions { .. } => in_order(pairs),
        _ => pairs
            .iter()
            .enumerate()
            .map(|(place, pair)| (pair.src.as_str(), vec![place]))
            .collect(),
    };
    let names: Vec<&str> = sources.iter().map(|(source, _)| *source).collect();
    let found = runner.in_portions(&names, |names| runner.best(names))?;
    let references =
        |(_, places): &(&str, Vec<usize>)| places.iter().map(|&place| &*pairs[place].tgt).collect();
    let references: Vec<Vec<&str>> = sources.iter().map(references).collect();
    let scoring = Scoring::new(Arc::clone(&runner.tgt), bleu.clone())?;
    let scores = TranslationScores::of(&found, &references, &scoring)?;
    let forced = runner.in_portions(pairs, |pairs| teacher_forced(runner, pairs))?;
    LongLines::from_cut(forced.iter().map(|pair| pair.truncated)).warn(
        "pair",
        runner.longest,
        "scored",
    );
    let mut hypotheses = vec![String::new(); pairs.len()];
    for ((_, places), found) in sources.iter().zip(&found) {
        for &place in places {
            hypotheses[place].clone_from(found);
        }
    }
    Ok(Evaluation::of_forced(forced).with_translations(hypotheses, scores))
}

/// How probable the models find the target of each pair, given its source and all targets
/// before (teacher forcing). A side that is longer than the models is cut, with a
/// mark, of which [`LongLines`] warns; no end is made up for a target that was cut.
///
/// # Errors
/// A line cannot be encoded.
pub fn teacher_forced<M: Predict<Inputs>>(
    runner: &Runner<M>,
    pairs: &[Pair],
) -> Result<Vec<Forced>> {
    let rows = encode_pairs(runner, pairs)?;
    let tgt_special = runner.tgt.special();
    let width = |row: &Row| runner.positions(&row.src).max(row.tgt.len()) + 1;
    runner.shortest_first(&rows, width, |rows| {
        let batch = |member: usize| {
            let example = |row: &&Row| Example {
                src: row.src[member].clone(),
                tgt: row.tgt.clone(),
            };
            let examples: Vec<Example> = rows.iter().map(example).collect();
            PairBatch::new(
                &examples,
                runner.members[member].src.special(),
                tgt_special,
                runner.pad_multiple,
            )
        };
        let log_probs = runner.log_probs(|index, member| {
            let PairBatch { src, tgt_in, .. } = batch(index);
            let inputs = Inputs {
                src: upload_rows(&src, &runner.device),
                tgt_in: upload_rows(&tgt_in, &runner.device),
            };
            member.model.predict(inputs).logits()
        });
        let targets = batch(0).tgt_out;
        let found = at_targets(
            &log_probs,
            targets.ids,
            targets.len,
            Some(tgt_special.pad),
            &[],
        );
        Ok(rows
            .iter()
            .zip(&found)
            .map(|(row, found)| row.forced(found))
            .collect())
    })
}

fn encode_pairs<M>(runner: &Runner<M>, pairs: &[Pair]) -> Result<Vec<Row>> {
    let texts = |side: fn(&Pair) -> &str| pairs.iter().map(side).collect::<Vec<_>>();
    let tgt = runner
        .tgt
        .encode_batch(&texts(|pair| &pair.tgt))
        .context("encoding the target")?;
    let src = runner
        .encode(&texts(|pair| &pair.src))
        .map_err(|error| error.context("encoding the source"))?;
    let longest_src = if runner.reads_images() {
        usize::MAX
    } else {
        runner.longest
    };
    Ok(src
        .into_iter()
        .zip(tgt)
        .map(|(src, tgt)| Row::new(src, tgt, [longest_src, runner.longest]))
        .collect())
}

/// A pair in ids, its source once for each member, no side longer than the models read.
struct Row {
    src: Vec<Vec<u32>>,
    tgt: Vec<u32>,
    /// Whether a side was cut.
    truncated: bool,
    /// Whether the target was cut, and does not end where its ids do.
    goes_on: bool,
}

impl Row {
    fn new(
        mut src: Vec<Vec<u32>>,
        mut tgt: Vec<u32>,
        [longest_src, longest_tgt]: [usize; 2],
    ) -> Self {
        let goes_on = tgt.len() > longest_tgt;
        let truncated = goes_on || src.iter().any(|src| src.len() > longest_src);
        for src in &mut src {
            src.truncate(longest_src);
        }
        tgt.truncate(longest_tgt);
        Self {
            src,
            tgt,
            truncated,
            goes_on,
        }
    }

    /// What was found at its targets and at the end mark behind them, which a target that goes on
    /// does not have.
    fn forced(&self, found: &[Predicted]) -> Forced {
        let targets = if self.goes_on {
            &found[..self.tgt.len()]
        } else {
            found
        };
        Forced {
            truncated: self.truncated,
            ..Forced::new(targets)
        }
    }
}
