//! The batches of one step.

use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_data::sources::Sharded;
use polyglow_predict::error::{Context, Result};

use crate::tasks::{BatchSize, MicroBatch, Task};
use crate::workload::BatchShape;

/// The micro-batches of a step, and where in the data they are.
pub(super) struct Window<T: Task> {
    /// The micro-batches of this process.
    pub(super) micro_batches: Vec<MicroBatch<T>>,
    /// The number, in the step, of the first of them.
    pub(super) first: usize,
    /// The examples of the step, of all processes.
    pub(super) examples: Vec<u32>,
    /// The position at which the next window begins.
    pub(super) next: Position,
}

impl<T: Task> Window<T> {
    /// Takes the next `len` positions of a stream, or fewer where the epoch ends.
    ///
    /// # Errors
    /// A batch cannot be read.
    pub(super) fn take_from(
        batches: &mut BatchStream<Sharded<T::Source>>,
        len: usize,
    ) -> Result<Self> {
        let mut micro_batches = Vec::with_capacity(len);
        let mut first = None;
        let mut examples = Vec::new();
        let mut number = 0;
        loop {
            let placed = batches
                .next_position()
                .context("the stream of batches ended")?
                .map_err(Into::into)?;
            let ends_epoch = placed.ends_epoch();
            let next = if ends_epoch {
                Position {
                    epoch: placed.epoch + 1,
                    position: 0,
                }
            } else {
                Position {
                    epoch: placed.epoch,
                    position: placed.position + 1,
                }
            };
            examples.extend(placed.examples);
            // Another process has the batch where this one has none.
            if let Some(batch) = placed.batch {
                first.get_or_insert(number);
                micro_batches.push(batch);
            }
            number += 1;
            // A window does not reach into the next epoch: `last_step` counts whole windows.
            if ends_epoch || number >= len {
                return Ok(Self {
                    micro_batches,
                    first: first.unwrap_or(0),
                    examples,
                    next,
                });
            }
        }
    }

    /// Returns the shape of the largest micro-batch, of all its shards together; `None` without
    /// any.
    pub(super) fn largest(&self, task: &T) -> Option<BatchShape> {
        self.micro_batches
            .iter()
            .map(|shards| BatchSize::of_all(shards.iter().map(|shard| task.size(shard))).shape)
            .max_by_key(BatchShape::positions)
    }
}
