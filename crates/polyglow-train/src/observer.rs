//! What a training tells whoever runs it.

use polyglow_predict::error::Result;
use polyglow_predict::evaluation::Scores;

use crate::run::RunDirectory;
use crate::train::TrainReport;
use crate::workload::BatchShape;

/// What the observer of a training wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Training continues.
    #[default]
    GoOn,
    /// The end after this step, with a checkpoint.
    Stop,
    /// The end at once, without a checkpoint of the last steps.
    Abort,
}

/// Is told how a training goes, and may ask for its end. Every method has a default that does
/// nothing.
///
/// ```
/// use polyglow_train::{Config, Ending, Observer, Stop, Training, Wish};
///
/// /// Counts steps, and stops after the first.
/// struct Once(u64);
///
/// impl Observer for Once {
///     fn step(&mut self, step: u64) {
///         self.0 = step;
///     }
///
///     fn wish(&self) -> Wish {
///         if self.0 > 0 { Wish::Stop } else { Wish::GoOn }
///     }
/// }
///
/// let text = "data.corpus = 'digits'
///     tokenizer.kind = 'word'
///     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
///     train = { max_steps = 2, max_tokens = 200 }";
/// let (dir, mut once) = (tempfile::tempdir()?, Once(0));
/// let mut training = Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut once)?;
/// let (ending, state) = training.run(&Stop::default(), &mut once)?;
/// assert_eq!((ending, state.step), (Ending::Stopped, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer {
    /// The run has a directory, before anything but its config is in it.
    ///
    /// # Errors
    /// The training cannot be observed there; it then ends.
    fn opened(&mut self, _run: &RunDirectory) -> Result<()> {
        Ok(())
    }

    /// Work other than steps is being done: what it is, and how far it is.
    fn activity(&mut self, _what: &str) {}

    /// That work is done.
    fn idle(&mut self) {}

    /// Steps are about to begin, after `step` and up to `last_step`.
    ///
    /// # Errors
    /// The training cannot be observed; it then ends.
    fn begin(&mut self, _run: &RunDirectory, _step: u64, _last_step: u64) -> Result<()> {
        Ok(())
    }

    /// The device is given a batch of this shape, or is done with all of them.
    fn batch(&mut self, _shape: Option<BatchShape>) {}

    /// A step is done.
    fn step(&mut self, _step: u64) {}

    /// What the steps since the last report gave, and the record of it in `metrics.jsonl`.
    fn report(&mut self, _report: &TrainReport<'_>, _record: &serde_json::Value) {}

    /// Validation after a step begins.
    fn validating(&mut self, _step: u64) {}

    /// The scores of a validation, and the record of them in `metrics.jsonl`.
    fn scores(&mut self, _step: u64, _scores: &Scores, _record: &serde_json::Value) {}

    /// Steps are over, whatever the reason.
    fn end(&mut self) {}

    /// What is wanted; asked after each step.
    fn wish(&self) -> Wish {
        Wish::GoOn
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
