//! Callbacks of a training: progress, reports and scores, and the request to end.

use polyglow_predict::error::Result;
use polyglow_predict::evaluation::Scores;

use crate::run::RunDirectory;
use crate::train::TrainReport;
use crate::workload::BatchShape;

/// The request of an observer to end its training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopRequest {
    /// There is no request: training continues.
    #[default]
    None,
    /// Training ends after this step, with a checkpoint.
    Stop,
    /// Training ends at once, without a checkpoint of the last steps.
    Abort,
}

/// Receives the progress of a training, and may end it. Every method has a default that does
/// nothing.
///
/// ```
/// use polyglow_train::{Config, Ending, Observer, Stop, Training, StopRequest};
///
/// /// Counts steps, and stops after the first.
/// struct Once(u64);
///
/// impl Observer for Once {
///     fn step(&mut self, step: u64) {
///         self.0 = step;
///     }
///
///     fn stop_request(&self) -> StopRequest {
///         if self.0 > 0 { StopRequest::Stop } else { StopRequest::None }
///     }
/// }
///
/// let text = "data.corpus = 'digits'
///     tokenizer.kind = 'word'
///     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
///     train = { max_steps = 2, max_tokens = 200 }";
/// let dir = tempfile::tempdir()?;
/// let mut once = Once(0);
/// let mut training = Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut once)?;
/// let (ending, state) = training.run(&Stop::default(), &mut once)?;
/// assert_eq!((ending, state.step), (Ending::Stopped, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer {
    /// Called once the run has a directory, before anything but its config is in it.
    ///
    /// # Errors
    /// The training cannot be observed there; it then ends.
    fn opened(&mut self, _run: &RunDirectory) -> Result<()> {
        Ok(())
    }

    /// Called while work other than steps is done, with its name and its progress.
    fn activity(&mut self, _what: &str) {}

    /// Called when such work is done.
    fn idle(&mut self) {}

    /// Called before the first step. A training that resumes has done `step` steps; the number of
    /// its last is `last_step`.
    ///
    /// # Errors
    /// The training cannot be observed; it then ends.
    fn begin(&mut self, _run: &RunDirectory, _step: u64, _last_step: u64) -> Result<()> {
        Ok(())
    }

    /// Called before a batch of this shape is sent to the device, and with `None` once all batches
    /// of a step are done.
    fn batch(&mut self, _shape: Option<BatchShape>) {}

    /// Called after each step.
    fn step(&mut self, _step: u64) {}

    /// Called with a summary of the steps since the last report, and its record in
    /// `metrics.jsonl`.
    fn report(&mut self, _report: &TrainReport<'_>, _record: &serde_json::Value) {}

    /// Called before a validation.
    fn validating(&mut self, _step: u64) {}

    /// Called with the scores of a validation, and their record in `metrics.jsonl`.
    fn scores(&mut self, _step: u64, _scores: &Scores, _record: &serde_json::Value) {}

    /// Called once after the last step, also where training ends with an error.
    fn end(&mut self) {}

    /// Returns whether training is to end, and how; called after each step.
    fn stop_request(&self) -> StopRequest {
        StopRequest::None
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
