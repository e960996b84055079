//! Saving a training, and its state after a save that fails.

use std::path::{Path, PathBuf};
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
        if self.have_drifted(&content)? {
            if !self.warned_of_drift {
                tracing::warn!(
                    "the ranks have computed slightly different weights, as processors of different kinds do; \
                     from here on, and at each save, those of rank 0 count"
                );
            }
            self.warned_of_drift = true;
            self.take_from_first()?;
            content = self.stepper.content()?;
        }
        if !content.model.iter().all(|(_, values)| is_finite(values)) {
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

    /// Returns whether another rank has other bits than rank 0, in which case a run that resumes
    /// from the checkpoint of rank 0 would differ from one that was not interrupted.
    fn have_drifted(&self, content: &Content) -> Result<bool> {
        let group = &self.training.plan.group;
        if group.is_alone() {
            return Ok(false);
        }
        let hashes = group.gather(hash(content))?;
        Ok(hashes.iter().any(|hash| *hash != hashes[0]))
    }

    /// Gives every rank the weights, the optimizer's state and the moving average of rank 0.
    pub(super) fn take_from_first(&mut self) -> Result<()> {
        let group = Arc::clone(&self.training.plan.group);
        let content = self.stepper.content()?;
        let mut shared = Vec::new();
        // One after the other, so that no message is larger than the weights.
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

    /// Writes `content`, which [`Self::content`] has returned after this step, as a checkpoint.
    ///
    /// # Errors
    /// It cannot be written. The newest before it is still there, and so is the best.
    pub fn save(&mut self, content: &Content) -> Result<()> {
        let written = self.training.plan.group.share(|| self.write(content));
        match written {
            Ok(path) => {
                self.saved = Some(path);
                Ok(())
            }
            Err(error) => {
                self.forget_best_of_this_step();
                let advice = error.hint().map(|hint| hint + "; ").unwrap_or_default();
                Err(with_hint(error, advice + &self.what_is_left()))
            }
        }
    }

    /// Writes a checkpoint if the run still belongs to this process; returns its path.
    fn write(&self, content: &Content) -> Result<PathBuf> {
        // A directory that was removed and made again by another training has the same path.
        if self.training.lock.as_ref().is_some_and(Lock::is_held) {
            return self.checkpoints.save(content, &self.state);
        }
        let run = self.training.run.root().display();
        Err(failed!(
            "cannot write to `{run}`: it is gone, or another training has taken its place"
        ))
    }

    /// Takes back that this step is the best: a best without a checkpoint is none, and its
    /// validation counts as stale.
    fn forget_best_of_this_step(&mut self) {
        let step = self.state.step;
        if self.state.best.is_some_and(|best| best.step == step) {
            self.state.best = self.before_best.best;
            self.state.stale_validations = self.before_best.stale_validations + 1;
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

fn is_finite(values: &TensorData) -> bool {
    values.iter::<f32>().all(f32::is_finite)
}

/// Computes a hash that is the same in ranks with the same bits.
fn hash(content: &Content) -> Vec<u8> {
    let mut hash = Sha256::new();
    for tensors in [&content.model, &content.optimizer, &content.ema] {
        for (_, values) in tensors {
            hash.update(values.as_bytes());
        }
    }
    hash.finalize().to_vec()
}
