//! How a training is saved, and what becomes of it where it cannot be.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::TensorData;
use polyglow_predict::error::{ErrorKind, Result, failed, with_hint};
use polyglow_predict::weights::{self, Weights};
use sha2::{Digest, Sha256};

use super::Session;
use crate::run::{Content, Lock};
use crate::tasks::Task;

impl<T: Task> Session<'_, T> {
    /// Reads a checkpoint of this step from the device.
    ///
    /// # Errors
    /// As [`Self::check`]; a weight is not finite, and such a checkpoint would be of no use.
    pub fn content(&mut self) -> Result<Content> {
        self.check()?;
        let mut content = self.stepper.content()?;
        let group = Arc::clone(&self.training.plan.group);
        if !group.is_alone() {
            let hashes = group.gather(hash(&content))?;
            if hashes.iter().any(|hash| *hash != hashes[0]) {
                if !std::mem::replace(&mut self.warned_of_drift, true) {
                    tracing::warn!(
                        "the ranks have computed slightly different weights, as processors of different kinds do; \
                         from here on, and at each save, those of rank 0 count"
                    );
                }
                self.take_from_first()?;
                content = self.stepper.content()?;
            }
        }
        let is_finite = |(_, data): &(String, TensorData)| data.iter::<f32>().all(f32::is_finite);
        if !content.model.iter().all(is_finite) {
            let error = failed!(
                "after step {} a weight is not finite: nothing is saved",
                self.state.step
            )
            .with_kind(ErrorKind::NotFinite);
            return Err(with_hint(
                error,
                format!("try a lower `train.lr`; {}", self.what_is_left()),
            ));
        }
        Ok(content)
    }

    /// Gives every rank the weights, the optimizer's state and the moving average of rank 0.
    pub(super) fn take_from_first(&mut self) -> Result<()> {
        let group = Arc::clone(&self.training.plan.group);
        let content = self.stepper.content()?;
        let mut shared = Vec::new();
        for tensors in [&content.model, &content.optimizer, &content.ema] {
            let own = if group.is_first() {
                weights::to_bytes(tensors)?
            } else {
                Vec::new()
            };
            let bytes = group.broadcast(own)?;
            shared.push(Weights::parse(&bytes, Path::new("what rank 0 shared"))?);
        }
        if group.is_first() {
            return Ok(());
        }
        let [model, state, ema] =
            <[Weights; 3]>::try_from(shared).map_err(|_| failed!("there are three"))?;
        self.stepper.restore_model(model)?;
        self.stepper.restore_state(state)?;
        self.stepper.restore_ema(ema)
    }

    /// Writes a checkpoint of this step.
    ///
    /// # Errors
    /// It cannot be written. The newest before it is still there, and so is the best.
    pub fn save(&mut self, content: &Content) -> Result<()> {
        let training = self.training;
        let written = training.plan.group.share(|| {
            if training.lock.as_ref().is_some_and(Lock::is_held) {
                return self.checkpoints.save(content, &self.state);
            }
            let run = training.run.root().display();
            Err(failed!(
                "cannot write to `{run}`: it is gone, or another training has taken its place"
            ))
        });
        match written {
            Ok(path) => {
                self.saved = Some(path);
                Ok(())
            }
            Err(error) => {
                if self
                    .state
                    .best
                    .is_some_and(|best| best.step == self.state.step)
                {
                    // A best that is nowhere to be found is none, and its validation brought
                    // nothing.
                    let (best, stale_validations) = self.before_best;
                    self.state.best = best;
                    self.state.stale_validations = stale_validations + 1;
                }
                let advice = error.hint().map(|hint| hint + "; ").unwrap_or_default();
                Err(with_hint(error, advice + &self.what_is_left()))
            }
        }
    }

    /// Says what the same command does next: it resumes, or begins again where nothing was saved.
    pub fn what_is_left(&self) -> String {
        match &self.saved {
            Some(path) => format!(
                "the same command resumes from the last checkpoint, `{}`",
                path.display()
            ),
            None => "no checkpoint was saved, so the same command begins again".to_owned(),
        }
    }
}

/// A hash that is the same in ranks with the same bits.
fn hash(content: &Content) -> Vec<u8> {
    let mut hash = Sha256::new();
    let tensors = [&content.model, &content.optimizer, &content.ema];
    tensors
        .into_iter()
        .flatten()
        .for_each(|(_, data)| hash.update(data.as_bytes()));
    hash.finalize().to_vec()
}
