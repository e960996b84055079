//! The tasks that models are trained for, as far as their use is concerned: one file and one row of
//! facts for each task.
//!
//! Commands, checks, reports and model cards read the facts; none of them asks which task it is. A
//! task is trained by its other half in `polyglow-train`, in a file of the same name.

pub mod captions;
pub mod hidden_tokens;
pub mod images;
pub mod labels;
pub mod language;
pub mod tags;
pub mod translation;
pub mod words;

use std::fmt::Debug;
use std::sync::Arc;

use polyglow_data::config::{Content, DataConfig, ImageConfig, TargetKind};
use polyglow_data::pair::Pair;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_metrics::Measure;
use polyglow_model::{ModelConfig, Task};

use crate::error::{Result, TrainError};
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::measures::{LOSS, PERPLEXITY};
use crate::runner::Runner;
use crate::teacher_forcing::Forced;
use labels::Guess;

/// The facts about a task that messages and the choice of commands depend on.
#[derive(Debug)]
pub struct TaskFacts {
    /// The task that the architecture names.
    pub kind: Task,
    /// The name in reports, such as `translation`.
    pub name: &'static str,
    /// The kind of examples in a corpus.
    pub content: Content,
    /// The input of a model.
    pub reads: Reads,
    /// Whether a model writes text, token by token.
    pub writes: bool,
    /// The scores that a validation may give, beside the loss and the perplexity.
    pub scores: &'static [Measure],
    /// The plural noun for examples in reports: `sentences`.
    pub examples: &'static str,
    /// A predicate for messages, after "which": `translates`.
    pub does: &'static str,
    /// A sentence for error messages that names the commands for its models.
    pub advice: &'static str,
    /// The command that uses a model, with `{run}` for its directory.
    pub command: &'static str,
    /// A note to the user beside that command; may be empty.
    pub note: &'static str,
    /// The task tag on model hubs: `text-generation`.
    pub hub_tag: &'static str,
    /// A description of a model, for its model card.
    pub description: &'static str,
}

impl TaskFacts {
    /// Returns whether a model writes a text for a source, which can be compared with references.
    pub fn has_references(&self) -> bool {
        self.writes && self.reads != Reads::Target
    }

    /// Returns the scores that a validation may give.
    pub fn all_scores(&self) -> impl Iterator<Item = Measure> {
        [LOSS, PERPLEXITY]
            .into_iter()
            .chain(self.scores.iter().copied())
    }

    /// Returns whether a model translates text.
    pub fn translates(&self) -> bool {
        self.writes && self.reads == Reads::Pair
    }

    /// Returns whether a model writes text of its own, for no source.
    pub fn generates(&self) -> bool {
        self.writes && self.reads == Reads::Target
    }

    /// Returns whether a model describes images.
    pub fn describes_images(&self) -> bool {
        self.writes && self.reads == Reads::ImageAndTarget
    }

    /// Returns whether a model answers with labels, of which there are a few.
    pub fn gives_labels(&self) -> bool {
        self.content.target != TargetKind::Text
    }

    /// Returns whether a model predicts tokens at positions of a text, written or hidden.
    pub fn predicts_tokens(&self) -> bool {
        self.writes || self.predicts_hidden_tokens()
    }

    /// Returns whether a model predicts tokens of a text that were hidden from it.
    pub fn predicts_hidden_tokens(&self) -> bool {
        self.reads == Reads::Source && !self.gives_labels()
    }

    /// Returns whether a model reads images.
    pub fn reads_images(&self) -> bool {
        matches!(self.reads, Reads::Image | Reads::ImageAndTarget)
    }
}

/// The input that a model reads before it predicts, or while it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// A source, and the target as far as it is known.
    Pair,
    /// A text on the source side.
    Source,
    /// A text that has one side only.
    Target,
    /// An image.
    Image,
    /// An image, and the target as far as it is known.
    ImageAndTarget,
}

/// Held-out examples.
#[derive(Clone, Debug)]
pub enum Examples<'a> {
    /// Pairs, lines, or texts with labels.
    Text(&'a [Pair]),
    /// Images with labels.
    Images(Vec<LabeledImage<'a>>),
}

/// An image and its label.
#[derive(Clone, Copy, Debug)]
pub struct LabeledImage<'a> {
    /// `[height, width, channels]`, row-major.
    pub pixels: &'a [u8],
    /// The name of its label.
    pub label: &'a str,
}

impl Examples<'_> {
    /// Returns the pairs.
    ///
    /// # Errors
    /// These are images.
    pub fn pairs(&self) -> Result<&[Pair]> {
        match self {
            Self::Text(pairs) => Ok(pairs),
            Self::Images(_) => Err(wrong_examples()),
        }
    }

    /// Returns the images.
    ///
    /// # Errors
    /// These are texts.
    pub fn images(&self) -> Result<&[LabeledImage<'_>]> {
        match self {
            Self::Images(images) => Ok(images),
            Self::Text(_) => Err(wrong_examples()),
        }
    }
}

fn wrong_examples() -> TrainError {
    TrainError::new("image models are scored on images, all others on text")
}

/// A task as its trained models do it, with the settings that only this task has.
pub trait TaskUse: Debug + Send + Sync {
    /// Returns the row of facts.
    fn facts(&self) -> &'static TaskFacts;

    /// Returns how images are read; `None` of models that read text.
    fn images(&self) -> Option<ImageConfig> {
        None
    }

    /// Writes the settings that only this task has into a `[data]` table, which may leave them open.
    fn fill_in(&self, data: &mut DataConfig) {
        if let Some(images) = self.images() {
            data.images = Some(images);
        }
    }

    /// Returns how many positions a model has, where that is not decided by the longest sentence.
    fn num_positions(&self) -> Option<usize> {
        None
    }

    /// Returns how many positions each source takes up, where that is the same for all.
    fn source_positions(&self) -> Option<usize> {
        None
    }

    /// Checks that a model with this tokenizer of targets can be scored on held-out examples, before
    /// it is trained.
    ///
    /// # Errors
    /// The examples have nothing that the model could be scored on, or labels that it cannot give.
    fn check_held_out(&self, _tgt: &Tokenizer, _examples: &Examples) -> Result<()> {
        Ok(())
    }

    /// Scores the models of a runner on held-out examples, of which there is at least one. Tasks
    /// whose models write no text ignore `options`.
    ///
    /// # Errors
    /// The examples are not what the models were trained for, or one cannot be encoded or decoded.
    fn evaluate(
        &self,
        runner: &Runner,
        examples: &Examples,
        options: &EvaluationOptions,
    ) -> Result<Evaluation>;

    /// Returns what the models answer to each of some texts, none of which is blank, if they give
    /// labels.
    ///
    /// # Errors
    /// A text cannot be encoded; the models do not label texts.
    fn classify(&self, _runner: &Runner, _texts: &[&str]) -> Result<Vec<Guess>> {
        Err(TrainError::new("these models do not label texts"))
    }

    /// Returns how probable the models find the target of each pair, given its source and the
    /// tokens before.
    ///
    /// # Errors
    /// A line cannot be encoded; the models do not write text.
    fn teacher_forced(&self, _runner: &Runner, _pairs: &[Pair]) -> Result<Vec<Forced>> {
        Err(TrainError::new(
            "only models that write text are scored token by token",
        ))
    }
}

/// Makes the using half of a task from the tables of a config.
type MakeUse = fn(&ModelConfig, &DataConfig) -> Arc<dyn TaskUse>;

/// The table of tasks.
const TASKS: [(&TaskFacts, MakeUse); 8] = [
    (&translation::FACTS, |_, _| {
        Arc::new(translation::Translation)
    }),
    (&language::FACTS, |_, data| {
        Arc::new(language::Language {
            context_len: data.context_len,
        })
    }),
    (&words::FACTS, |_, data| {
        Arc::new(words::WordVectors {
            skip_grams: data.words(),
        })
    }),
    (&labels::FACTS, |_, _| Arc::new(labels::Labels)),
    (&tags::FACTS, |_, _| Arc::new(tags::Tags)),
    (&images::FACTS, |_, data| {
        Arc::new(images::Images {
            images: data.images(),
        })
    }),
    (&captions::FACTS, |model, data| {
        Arc::new(captions::Captions::new(model, data))
    }),
    (&hidden_tokens::FACTS, |_, _| {
        Arc::new(hidden_tokens::HiddenTokens)
    }),
];

/// Returns the row of facts of a task.
pub fn facts(kind: Task) -> &'static TaskFacts {
    row(kind).0
}

/// Makes the task that a model with this `[model]` table is for, on data with this `[data]` table.
pub fn task_use(model: &ModelConfig, data: &DataConfig) -> Arc<dyn TaskUse> {
    row(model.task()).1(model, data)
}

fn row(kind: Task) -> (&'static TaskFacts, MakeUse) {
    TASKS
        .into_iter()
        .find(|(facts, _)| facts.kind == kind)
        .expect("every task has a row")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_a_row_of_its_own() {
        for kind in Task::ALL {
            assert_eq!(
                TASKS.iter().filter(|(facts, _)| facts.kind == kind).count(),
                1
            );
        }
    }
}
