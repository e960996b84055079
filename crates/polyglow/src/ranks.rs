//! One process of several that `mpirun` has started: how they find each other and end together.

#[cfg(feature = "mpi")]
mod cores;
#[cfg(feature = "mpi")]
mod mpi;
#[cfg(feature = "mpi")]
mod version;

use std::env;
use std::process::ExitCode;
use std::sync::Arc;

use polyglow_predict::group::{Group, alone};

use crate::failure;

/// The variables in which launchers give the number of processes: Open MPI, MPICH and Intel MPI,
/// and Slurm's `srun` with `PMIx`.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// Reads the number of processes that a launcher has started; 1 without a launcher.
fn launched() -> usize {
    SIZES
        .iter()
        .filter_map(|name| env::var(name).ok()?.parse().ok())
        .max()
        .unwrap_or(1)
}

/// Joins the others where a launcher has started several processes.
///
/// # Errors
/// It has, and this build does not know MPI; or MPI does not start.
pub(crate) fn enter() -> anyhow::Result<Arc<dyn Group>> {
    match launched() {
        0 | 1 => Ok(alone()),
        #[cfg(feature = "mpi")]
        size => mpi::start(size),
        #[cfg(not(feature = "mpi"))]
        size => {
            // Each of them would do the whole work, in the same directory.
            let error = failure::usage(anyhow::anyhow!(
                "a launcher has started {size} processes, and this build does not know MPI"
            ));
            Err(failure::with_hint(
                error,
                "build it in: `cargo build --release --features mpi`; docs/cluster.md has all of it",
            ))
        }
    }
}

/// Warns of what only the ranks together know, once messages are shown.
pub(crate) fn warn() {
    #[cfg(feature = "mpi")]
    mpi::warn();
}

/// Waits before an error of this process is reported, unless it is rank 0. An error that all ranks
/// have is reported by rank 0, which ends the others while they wait here; an error of one rank
/// alone is reported after a moment.
pub(crate) fn waits_to_tell() {
    #[cfg(feature = "mpi")]
    mpi::let_first_speak();
}

/// Returns the beginning of this process's errors: nothing, or `rank 3 on HOST: `.
pub(crate) fn prefix() -> String {
    #[cfg(feature = "mpi")]
    return mpi::prefix();
    #[cfg(not(feature = "mpi"))]
    String::new()
}

/// Ends this process, when all others end as well: after the end of the work, or where all have
/// stopped together.
pub(crate) fn end(code: u8) -> ExitCode {
    #[cfg(feature = "mpi")]
    if [0, failure::STOPPED].contains(&code) {
        mpi::end();
    } else {
        mpi::end_all(code);
    }
    ExitCode::from(code)
}

/// Ends this process and all others, which would deadlock without it.
pub(crate) fn end_all(code: u8) -> ExitCode {
    #[cfg(feature = "mpi")]
    mpi::end_all(code);
    ExitCode::from(code)
}
