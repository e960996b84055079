//! The forward and the backward pass, once for each shape of batch, before the first step: a GPU compiles and tunes its
//! kernels then, and most batches that its memory does not hold are known at once.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Instant;

use polyglow_data::epoch::Epoch;

use super::Session;
use crate::error::Result;
use crate::observer::Observer;
use crate::train::step::forward;
use crate::train::sums::GradientSum;
use crate::train::{StepConfig, Stop, batching};
use crate::workload::BatchShape;

impl Session<'_> {
    /// Makes the device ready for the shapes of this epoch; does nothing in host memory, where nothing is compiled.
    ///
    /// The results are thrown away, and each step seeds the device anew, so training goes on as if this had not been.
    ///
    /// # Errors
    /// The text cannot be planned; the device fails, which may also be a panic.
    pub fn warm_up(&self, stop: &Stop, observer: &mut dyn Observer) -> Result<()> {
        let (Some(model), config) = (&self.model, &self.training.config) else { return Ok(()) };
        if model.on_host() || self.ending().is_some() {
            return Ok(());
        }
        let started = Instant::now();
        let shapes = self.shapes()?;
        let step_config = StepConfig {
            seed: config.seed,
            step: 0,
            lr: 0.0,
            label_smoothing: config.train.label_smoothing,
            alignment_weight: config.train.alignment_weight,
        };
        let mut gradients = GradientSum::default();
        // With several micro-batches a step, gradients are there while the next one is worked on: those of the smallest.
        let sums = config.train.accumulate_steps > 1;
        let first = shapes.last().filter(|_| sums);
        for (number, shape) in first.into_iter().chain(&shapes).enumerate() {
            if stop.asked() {
                break;
            }
            let number = number.min(shapes.len() - 1);
            observer.activity(&format!("making the device ready: batches of shape {} of {}", number + 1, shapes.len()));
            let mut batch = shape.random_batch_for(model);
            if config.train.alignment_weight > 0.0 {
                batch.gold_attention = Some(vec![0.0; shape.rows * shape.tgt_len * shape.src_len]);
            }
            let (_, minimized) =
                forward(model, &batch, &self.device, step_config, config.seed, &mut |phase| self.note(phase, observer));
            let found = minimized.backward();
            if sums {
                gradients.add(model, found);
            }
            // Waits, so that the work of many shapes does not pile up in memory.
            self.device.sync()?;
        }
        observer.idle();
        let seconds = started.elapsed().as_secs_f64();
        tracing::info!("the device is ready for {} shapes of batches after {seconds:.1} s", shapes.len());
        Ok(())
    }

    /// The different shapes of the batches of this epoch, the largest first: what does not fit should fail soon.
    fn shapes(&self) -> Result<Vec<BatchShape>> {
        let cache = &self.training.cache;
        let epoch = Epoch::new(cache, &batching(&self.training.config), self.state.epoch)?;
        let shapes: BTreeSet<BatchShape> = BatchShape::of_epoch(&epoch, cache).collect();
        let mut shapes: Vec<BatchShape> = shapes.into_iter().collect();
        shapes.sort_by_key(|shape| Reverse(shape.positions()));
        Ok(shapes)
    }
}
