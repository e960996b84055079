//! Several processes that train or translate together, each a rank, and their exchanges.
//!
//! Every rank makes the same exchanges in the same order, or they deadlock. [`Alone`] is a group of
//! size 1, whose exchanges cost nothing; the program has one of MPI.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use polyglow_model::Precision;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Context, ErrorKind, Result, TrainError, with_hint};

/// A group of processes that work on one thing.
///
/// # Errors
/// A method that returns a `Result` fails if another rank cannot be reached, or is late.
pub trait Group: Debug + Send + Sync {
    /// Returns the number of this process, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn size(&self) -> usize;

    /// Returns the number of this process among those of its machine, from 0.
    fn local_rank(&self) -> usize;

    /// Returns the number of processes on this machine.
    fn local_size(&self) -> usize;

    /// Returns the bytes that every rank passes, in the order of the ranks.
    ///
    /// # Errors
    /// See [`Group`].
    fn all_gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>>;

    /// Returns the bytes that rank 0 passes; those of the others are ignored.
    ///
    /// # Errors
    /// See [`Group`].
    fn broadcast(&self, own: Vec<u8>) -> Result<Vec<u8>>;

    /// Replaces `values`, as many in every rank and a multiple of the number of ranks, by their sum
    /// over the ranks: that of rank 0 and 1, then of that and 2, and so on, so that every rank gets
    /// the same bits, and those that one process gets which adds them in this order.
    ///
    /// With another precision than f32 they are rounded to it as they are sent, and so is the sum.
    /// It is added in f32.
    ///
    /// # Errors
    /// See [`Group`].
    fn sum(&self, values: &mut [f32], precision: Precision) -> Result<()>;

    /// Returns the machine of each rank.
    fn hosts(&self) -> &[String];

    /// Sets the timeout for peers and returns the previous one: there is none at first, since the
    /// work before the first step may take long in one rank.
    fn wait_at_most(&self, limit: Duration) -> Duration {
        limit
    }

    /// Returns the time that this rank has spent on exchanges since the last call.
    fn take_times(&self) -> Times;
}

/// The time of exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Waiting until all ranks were there.
    pub waiting: Duration,
    /// Sending, receiving and adding.
    pub exchanging: Duration,
}

/// The group of a single process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Group for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn local_rank(&self) -> usize {
        0
    }

    fn local_size(&self) -> usize {
        1
    }

    fn all_gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        Ok(vec![own])
    }

    fn broadcast(&self, own: Vec<u8>) -> Result<Vec<u8>> {
        Ok(own)
    }

    fn sum(&self, _: &mut [f32], _: Precision) -> Result<()> {
        Ok(())
    }

    fn hosts(&self) -> &[String] {
        &[]
    }

    fn take_times(&self) -> Times {
        Times::default()
    }
}

/// Makes the group of a single process.
pub fn alone() -> Arc<dyn Group> {
    Arc::new(Alone)
}

/// An error as it goes from rank to rank.
#[derive(Serialize, Deserialize)]
struct SentError {
    message: String,
    hint: Option<String>,
    kind: ErrorKind,
}

impl From<&TrainError> for SentError {
    fn from(error: &TrainError) -> Self {
        Self {
            message: error.to_string(),
            hint: error.hint(),
            kind: error.kind(),
        }
    }
}

impl From<SentError> for TrainError {
    fn from(
        SentError {
            message,
            hint,
            kind,
        }: SentError,
    ) -> Self {
        let error = Self::new(message).with_kind(kind);
        match hint {
            Some(hint) => with_hint(error, hint),
            None => error,
        }
    }
}

impl dyn Group + '_ {
    /// Returns whether this is rank 0, which reads what only one may read, writes and prints.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Returns whether this is a single process.
    pub fn is_alone(&self) -> bool {
        self.size() == 1
    }

    /// Returns in every rank whether any of them has passed `true`.
    ///
    /// # Errors
    /// See [`Group`].
    pub fn any(&self, own: bool) -> Result<bool> {
        if self.is_alone() {
            return Ok(own);
        }
        let all = self.all_gather(vec![u8::from(own)])?;
        Ok(all.iter().any(|other| other[..] == [1]))
    }

    /// Returns the value that every rank passes, in the order of the ranks.
    ///
    /// # Errors
    /// See [`Group`].
    pub fn gather<T: Serialize + DeserializeOwned>(&self, own: T) -> Result<Vec<T>> {
        if self.is_alone() {
            return Ok(vec![own]);
        }
        self.all_gather(pack(&own)?)?
            .iter()
            .map(|bytes| unpack(bytes))
            .collect()
    }

    /// Returns the value or the error that every rank passes, in the order of the ranks. A rank
    /// that has failed must call this, too, or the others would wait for it.
    ///
    /// # Errors
    /// See [`Group`].
    pub fn gather_results<T: Serialize + DeserializeOwned>(
        &self,
        own: Result<T>,
    ) -> Result<Vec<Result<T>>> {
        if self.is_alone() {
            return Ok(vec![own]);
        }
        let all = self.all_gather(pack(&own.as_ref().map_err(SentError::from))?)?;
        all.iter()
            .map(|bytes| Ok(unpack::<Result<T, SentError>>(bytes)?.map_err(TrainError::from)))
            .collect()
    }

    /// Returns the name of a rank in messages: `rank 3 on HOST`.
    pub fn name(&self, rank: usize) -> String {
        let host = self
            .hosts()
            .get(rank)
            .map_or(String::new(), |host| format!(" on {host}"));
        format!("rank {rank}{host}")
    }

    /// Runs `find` in rank 0 alone, and returns its result in every rank. If it fails, all fail.
    ///
    /// # Errors
    /// That of `find`, in every rank; or see [`Group`].
    pub fn share<T: Serialize + DeserializeOwned>(
        &self,
        find: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if self.is_alone() {
            return find();
        }
        if !self.is_first() {
            return unpack::<Result<T, SentError>>(&self.broadcast(Vec::new())?)?
                .map_err(TrainError::from);
        }
        let result = find();
        // Also an error: the others wait for the broadcast.
        self.broadcast(pack(&result.as_ref().map_err(SentError::from))?)?;
        result
    }

    /// Runs `make` in every rank, but first in rank 0, then in the first of every other machine,
    /// then in all others: files that one writes, those after it can read.
    ///
    /// # Errors
    /// That of `make`, in every rank; or see [`Group`].
    pub fn in_turn<T>(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let own_turn = if self.is_first() {
            0
        } else {
            1 + usize::from(self.local_rank() > 0)
        };
        let turns = if self.is_alone() { 1 } else { 3 };
        let mut make = Some(make);
        let mut result = None;
        for turn in 0..turns {
            let mut outcome = Ok(());
            if turn == own_turn
                && let Some(make) = make.take()
            {
                match make() {
                    Ok(value) => result = Some(value),
                    Err(error) => outcome = Err(error),
                }
            }
            // After each turn all ranks meet, so that none begins before those ahead of it are
            // done, and all end at the first error.
            for (rank, outcome) in self.gather_results(outcome)?.into_iter().enumerate() {
                if let Err(error) = outcome {
                    return Err(if rank == self.rank() {
                        error
                    } else {
                        error.context(self.name(rank))
                    });
                }
            }
        }
        result.context("every rank has a turn")
    }
}

fn pack(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).context("a message to the other ranks")
}

fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).context("a message of another rank")
}
