//! Translation with a trained model: the target, given the source.

use std::sync::Arc;

use polyglow_data::config::Content;
use polyglow_data::padded::Padded;
use polyglow_data::pair::Pair;
use polyglow_metrics::Measure;
use polyglow_model::{Generate, Pair as Inputs, Predict, Task};

use super::{Examples, Reads, TaskFacts, TaskUse};
use crate::device::upload_rows;
use crate::error::{Context, Result};
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::long_lines::LongLines;
use crate::measures::TOKEN_ACCURACY;
use crate::runner::Runner;
use crate::scoring::{Scoring, TranslationScores};
use crate::source::EncodedSource;
use crate::teacher_forcing::{Forced, Predicted, at_targets};

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Translation,
    name: "translation",
    content: Content::PAIRS,
    reads: Reads::Pair,
    writes: true,
    scores: &[
        Measure::BLEU,
        Measure::CHRF,
        Measure::EXACT_MATCH,
        TOKEN_ACCURACY,
    ],
    examples: "sentences",
    does: "translates",
    advice: "`polyglow translate` is for it, and `polyglow evaluate` scores it",
    command: "translate {run}",
    note: "then type sentences, one per line",
    hub_tag: "translation",
    description: "An encoder-decoder Transformer that translates",
};

/// Models that translate.
#[derive(Clone, Copy, Debug)]
pub struct Translation;

impl TaskUse for Translation {
    fn facts(&self) -> &'static TaskFacts {
        &FACTS
    }

    fn evaluate(
        &self,
        runner: &Runner,
        examples: &Examples,
        options: &EvaluationOptions,
    ) -> Result<Evaluation> {
        evaluate(runner, examples.pairs()?, options)
    }

    fn teacher_forced(&self, runner: &Runner, pairs: &[Pair]) -> Result<Vec<Forced>> {
        teacher_forced(runner, pairs)
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
    options: &EvaluationOptions,
) -> Result<Evaluation> {
    let sources = runner.sources.references(pairs);
    let names: Vec<&str> = sources.iter().map(|(source, _)| *source).collect();
    let translations =
        runner.in_portions(&names, |names| runner.best_for(names, &options.search))?;
    let mut references: Vec<Vec<&str>> = Vec::with_capacity(sources.len());
    for (_, targets) in &sources {
        references.push(targets.iter().map(|&index| &*pairs[index].tgt).collect());
    }
    let scoring = Scoring::new(Arc::clone(&runner.tgt), options.bleu.clone())?;
    let scores = TranslationScores::new(&translations, &references, &scoring)?;
    let own_scores = scoring.own_scores(&translations, &references)?;
    let forced = runner.in_portions(pairs, |pairs| teacher_forced(runner, pairs))?;
    let long = LongLines::from_cut(forced.iter().map(|pair| pair.truncated));
    long.warn("pair", runner.longest, "scored");
    let mut hypotheses = vec![String::new(); pairs.len()];
    for ((_, targets), translation) in sources.iter().zip(&translations) {
        for &index in targets {
            hypotheses[index].clone_from(translation);
        }
    }
    let mut evaluation = Evaluation::from_forced(forced).with_translations(hypotheses, scores);
    for (key, score) in own_scores {
        evaluation = evaluation.with_score(key, score);
    }
    Ok(evaluation)
}

/// Returns how probable the models find the target of each pair, given its source and all targets
/// before (teacher forcing). A side that is longer than the models is cut, which the result says
/// ([`Forced::truncated`]); [`LongLines`] warns of such pairs. A target that was cut has no EOS.
///
/// # Errors
/// A line cannot be encoded.
pub fn teacher_forced<M: Predict<Inputs>>(
    runner: &Runner<M>,
    pairs: &[Pair],
) -> Result<Vec<Forced>> {
    let rows = encode_pairs(runner, pairs)?;
    let special = runner.tgt.special();
    let multiple = runner.pad_multiple;
    runner.shortest_first(&rows, Row::width, |rows| {
        let sources: Vec<&EncodedSource> = rows.iter().map(|row| &row.src).collect();
        let targets: Vec<&[u32]> = rows.iter().map(|row| &*row.tgt).collect();
        let tgt_in = Padded::begun(&targets, special.bos, special.pad, multiple);
        let log_probs = runner.log_probs(|index, member| {
            let inputs = Inputs {
                src: runner.upload_sources(index, &sources),
                tgt_in: upload_rows(&tgt_in, &runner.device),
            };
            member.model.predict(inputs).logits()
        });
        let tgt_out = Padded::ended(&targets, special.eos, special.pad, multiple);
        let predicted = at_targets(&log_probs, tgt_out.ids, tgt_out.len, Some(special.pad), &[]);
        let rows = rows.iter().zip(&predicted);
        Ok(rows.map(|(row, predicted)| row.forced(predicted)).collect())
    })
}

fn encode_pairs<M>(runner: &Runner<M>, pairs: &[Pair]) -> Result<Vec<Row>> {
    let targets: Vec<&str> = pairs.iter().map(|pair| &*pair.tgt).collect();
    let sources: Vec<&str> = pairs.iter().map(|pair| &*pair.src).collect();
    let tgt = runner.tgt.encode_batch(&targets);
    let tgt = tgt.context("encoding the target")?;
    let src = runner.encode(&sources);
    let src = src.map_err(|error| error.context("encoding the source"))?;
    let tags = runner.tgt_tags()?;
    let mut rows = Vec::with_capacity(pairs.len());
    for (src, tgt) in src.into_iter().zip(tgt) {
        rows.push(Row::new(src, &tags, &tgt, runner.longest));
    }
    Ok(rows)
}

/// An encoded pair, of which no side is longer than the models read.
struct Row {
    src: EncodedSource,
    /// The ids of the target, behind its tags.
    tgt: Vec<u32>,
    /// The number of tags among them, which have no score.
    num_tags: usize,
    /// Whether a side was cut.
    truncated: bool,
    /// Whether the target was cut, so that no EOS follows its ids.
    is_tgt_cut: bool,
}

impl Row {
    fn new(mut src: EncodedSource, tags: &[u32], text: &[u32], longest: usize) -> Self {
        let mut tgt = [tags, text].concat();
        let is_tgt_cut = tgt.len() > longest;
        let is_src_cut = src.truncate(longest);
        tgt.truncate(longest);
        Self {
            src,
            tgt,
            num_tags: tags.len().min(longest),
            truncated: is_tgt_cut || is_src_cut,
            is_tgt_cut,
        }
    }

    /// Returns the number of positions of the longer side, BOS or EOS included.
    fn width(&self) -> usize {
        self.src.num_positions().max(self.tgt.len()) + 1
    }

    /// Returns the result for the pair, given the predictions at its targets and at the EOS after
    /// them, which does not count if the target was cut.
    fn forced(&self, predicted: &[Predicted]) -> Forced {
        let end = if self.is_tgt_cut {
            self.tgt.len()
        } else {
            predicted.len()
        };
        let targets = &predicted[self.num_tags..end];
        Forced {
            truncated: self.truncated,
            ..Forced::new(targets)
        }
    }
}
