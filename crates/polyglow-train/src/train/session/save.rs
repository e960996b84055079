//! How a training is saved, and what becomes of it where it cannot be.

use burn::tensor::TensorData;
use polyglow_model::parameter;

use super::Session;
use crate::error::{Context, ErrorKind, Result, failed, with_hint};
use crate::run::Content;
use crate::tasks::Task;

impl<T: Task> Session<'_, T> {
    /// What a checkpoint of this step holds.
    ///
    /// # Errors
    /// As [`Self::check`]; a weight is not finite, and such a checkpoint would be of no use.
    pub fn content(&mut self) -> Result<Content> {
        self.check()?;
        let model = self.model.as_ref().context("a step failed before this")?;
        let content =
            Content { model: parameter::read(model), optimizer: self.optimizer.state(), ema: self.optimizer.ema() };
        let is_finite = |(_, data): &(String, TensorData)| data.iter::<f32>().all(f32::is_finite);
        if !content.model.iter().all(is_finite) {
            let error = failed!("after step {} a weight is not finite: nothing is saved", self.state.step)
                .of_kind(ErrorKind::NotFinite);
            return Err(with_hint(error, format!("try a lower `train.lr`; {}", self.what_is_left())));
        }
        Ok(content)
    }

    /// Writes a checkpoint of this step.
    ///
    /// # Errors
    /// It cannot be written. The newest before it is still there, and so is the best.
    pub fn save(&mut self, content: &Content) -> Result<()> {
        let written = if self.training.lock.is_held() {
            self.checkpoints.save(content, &self.state)
        } else {
            let run = self.training.run.root().display();
            Err(failed!("cannot write to `{run}`: it is gone, or another training has taken its place"))
        };
        match written {
            Ok(path) => {
                self.saved = Some(path);
                Ok(())
            }
            Err(error) => {
                if self.state.best.is_some_and(|best| best.step == self.state.step) {
                    // A best that is nowhere to be found is none, and its validation brought nothing.
                    let (best, stale_validations) = self.before_best;
                    (self.state.best, self.state.stale_validations) = (best, stale_validations + 1);
                }
                let advice = error.hint().map(|hint| hint + "; ").unwrap_or_default();
                Err(with_hint(error, advice + &self.what_is_left()))
            }
        }
    }

    /// Says what the same command does next: it resumes, or begins again where nothing was saved.
    pub fn what_is_left(&self) -> String {
        match &self.saved {
            Some(path) => format!("the same command resumes from the last checkpoint, `{}`", path.display()),
            None => "no checkpoint was saved, so the same command begins again".to_owned(),
        }
    }
}
