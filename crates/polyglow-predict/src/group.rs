//! Several processes that train or translate together, each a rank: what they tell each other.
//!
//! A rank comes to every exchange in the same order as all others, or they wait for it. [`Alone`]
//! is a process by itself, whose exchanges cost nothing; the program has one of MPI.

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
/// Those of every method: another rank cannot be reached, or has not come in time.
pub trait Group: Debug + Send + Sync {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// The number of this process among those of its machine, from 0.
    fn local_rank(&self) -> usize;

    /// How many of them are on this machine.
    fn local_size(&self) -> usize;

    /// What every rank gives, in the order of the ranks.
    ///
    /// # Errors
    /// See [`Group`].
    fn all_gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>>;

    /// What rank 0 gives; what the others give is not looked at.
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

    /// The machine of each rank.
    fn hosts(&self) -> &[String];

    /// How long the others are waited for from now on, and how long until now: without end at
    /// first, since what comes before the first step may take long in one rank.
    fn wait_at_most(&self, limit: Duration) -> Duration {
        limit
    }

    /// What exchanges have cost this rank since the last call.
    fn take_times(&self) -> Times;
}

/// Where the time of exchanges went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Waiting until all ranks were there.
    pub waiting: Duration,
    /// Sending, receiving and adding.
    pub exchanging: Duration,
}

/// A process by itself.
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

/// The group of a process by itself.
pub fn alone() -> Arc<dyn Group> {
    Arc::new(Alone)
}

/// An error as it goes from rank to rank.
#[derive(Serialize, Deserialize)]
struct Told {
    message: String,
    hint: Option<String>,
    kind: ErrorKind,
}

impl From<&TrainError> for Told {
    fn from(error: &TrainError) -> Self {
        Self {
            message: error.to_string(),
            hint: error.hint(),
            kind: error.kind(),
        }
    }
}

impl From<Told> for TrainError {
    fn from(
        Told {
            message,
            hint,
            kind,
        }: Told,
    ) -> Self {
        let error = Self::new(message).with_kind(kind);
        match hint {
            Some(hint) => with_hint(error, hint),
            None => error,
        }
    }
}

impl dyn Group + '_ {
    /// Whether this is the rank that reads what only one may read, writes, and speaks.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Whether this process is by itself.
    pub fn is_alone(&self) -> bool {
        self.size() == 1
    }

    /// Whether any rank says yes.
    ///
    /// # Errors
    /// See [`Group`].
    pub fn any(&self, own: bool) -> Result<bool> {
        if self.is_alone() {
            return Ok(own);
        }
        Ok(self
            .all_gather(vec![u8::from(own)])?
            .iter()
            .any(|other| other[..] == [1]))
    }

    /// What every rank found, in the order of the ranks.
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

    /// What every rank found, in the order of the ranks, or its error. If this one failed, it still
    /// has to come, or the others would wait for it.
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
        let told = self.all_gather(pack(&own.as_ref().map_err(Told::from))?)?;
        let unpacked = told.iter().map(|bytes| unpack::<Result<T, Told>>(bytes));
        unpacked
            .map(|told| Ok(told?.map_err(TrainError::from)))
            .collect()
    }

    /// `rank 3 on HOST`.
    pub fn name(&self, rank: usize) -> String {
        let host = self
            .hosts()
            .get(rank)
            .map_or(String::new(), |host| format!(" on {host}"));
        format!("rank {rank}{host}")
    }

    /// What rank 0 found; the others do not look. If it failed, all fail.
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
            return unpack::<Result<T, Told>>(&self.broadcast(Vec::new())?)?
                .map_err(TrainError::from);
        }
        let found = find();
        self.broadcast(pack(&found.as_ref().map_err(Told::from))?)?;
        found
    }

    /// Does the same in every rank, but first in rank 0, then in the first of every other machine,
    /// then in all others: what one leaves in a directory, those after it find.
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
        let (mut make, mut found) = (Some(make), None);
        for turn in 0..turns {
            if turn == own_turn {
                found = make.take().map(|make| make());
            }
            let failed = found
                .take_if(|found| found.is_err() && turn == own_turn)
                .and_then(Result::err);
            let all = self.gather_results(failed.map_or(Ok(()), Err))?;
            if let Some((rank, error)) = (0..)
                .zip(all)
                .find_map(|(rank, other)| Some((rank, other.err()?)))
            {
                return Err(if rank == self.rank() {
                    error
                } else {
                    error.context(self.name(rank))
                });
            }
        }
        found.context("every rank has a turn")?
    }
}

fn pack(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).context("what a rank tells the others")
}

fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).context("what another rank told")
}
