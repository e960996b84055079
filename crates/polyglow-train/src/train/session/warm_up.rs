//! The forward and the backward pass, once for each shape of batch, before the first step: a GPU
//! compiles and tunes its kernels then. Only the largest is computed, from which most batches that
//! its memory does not hold are known.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

use polyglow_data::batching::EpochPlan;
use polyglow_data::sources::BatchSource;
use polyglow_kernels::CompileOnly;
use polyglow_predict::error::Result;

use super::Session;
use crate::observer::Observer;
use crate::tasks::Task;
use crate::train::Stop;
use crate::train::sums::GradientSum;
use crate::workload::BatchShape;

impl<T: Task> Session<'_, T> {
    /// Makes the device ready for the shapes of this epoch; does nothing in host memory, where
    /// nothing is compiled.
    ///
    /// The results are discarded, and dropout has a key in every step, so this does not change
    /// training.
    ///
    /// # Errors
    /// The data cannot be planned or read; the device fails, which may also be a panic.
    pub fn warm_up(&self, stop: &Stop, observer: &mut dyn Observer) -> Result<()> {
        let plan = &self.training.plan;
        if plan.on_host || self.ending().is_some() {
            return Ok(());
        }
        let started = Instant::now();
        let source = self.task.source();
        let epoch = self.state.epoch;
        let epoch_plan = source.plan(epoch).map_err(Into::into)?;
        let positions = one_of_each_shape(&**source, &epoch_plan, epoch);
        let mut gradients = GradientSum::default();
        // With several micro-batches a step, gradients of one are in memory while the next is
        // computed. Those of the smallest batch take as much, and the least time: it comes first.
        let sums = plan.config.train.accumulate_steps > 1;
        let first = positions.last().filter(|_| sums);
        let computed = 1 + usize::from(first.is_some());
        for (number, &position) in first.into_iter().chain(&positions).enumerate() {
            if stop.is_requested() {
                break;
            }
            let _compile_only = (number >= computed).then(CompileOnly::begin);
            let number = (number + 1).min(positions.len());
            observer.activity(&format!(
                "preparing the device: batch shape {number} of {}",
                positions.len()
            ));
            let batch = source
                .batch(epoch, epoch_plan.batch(position))
                .map_err(Into::into)?;
            self.note(self.task.size(&batch).shape, observer);
            let batch_gradients = self.stepper.warm_up_kernels(&batch)?;
            if sums {
                gradients.add(self.stepper.model()?, batch_gradients);
            }
            // Waits, so that the work of many shapes does not pile up in memory.
            self.stepper.device().sync()?;
        }
        observer.idle();
        let seconds = started.elapsed().as_secs_f64();
        tracing::info!(
            "the device is ready for {} batch shapes after {seconds:.1} s",
            positions.len()
        );
        Ok(())
    }
}

/// Returns the position of a batch of each shape that an epoch has, the largest first: what does
/// not fit should fail soon.
fn one_of_each_shape<S: BatchSource>(source: &S, plan: &EpochPlan, epoch: u64) -> Vec<usize> {
    let mut shapes: BTreeMap<BatchShape, usize> = BTreeMap::new();
    for position in 0..plan.len() {
        let shape = BatchShape::from(source.size(epoch, plan.batch(position)).0);
        shapes.insert(shape, position);
    }
    let mut shapes: Vec<(BatchShape, usize)> = shapes.into_iter().collect();
    shapes.sort_by_key(|(shape, _)| Reverse(shape.positions()));
    shapes.into_iter().map(|(_, position)| position).collect()
}
