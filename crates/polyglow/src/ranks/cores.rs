//! The cores of a machine that each of its ranks works with.

use std::thread;

use serde::{Deserialize, Serialize};

/// The cores that a rank may use.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cores {
    host: String,
    /// Cores that it may keep busy, by its binding and by the limits of a container.
    usable: usize,
    /// Cores of the machine.
    all: usize,
    /// The cores that it is bound to, as the system tells; empty where it does not.
    bound_to: Vec<u8>,
}

impl Cores {
    pub(super) fn of_this_process(host: String) -> Self {
        let usable = thread::available_parallelism().map_or(1, usize::from);
        Self {
            host,
            usable,
            all: number().max(usable),
            bound_to: binding(),
        }
    }

    /// The threads for this one of all ranks: its part of the cores that it shares with others.
    pub(super) fn threads(&self, ranks: &[Self]) -> usize {
        let sharing = ranks
            .iter()
            .filter(|other| other.host == self.host && other.bound_to == self.bound_to)
            .count();
        (self.usable / sharing.max(1)).max(1)
    }

    /// Returns a warning about a machine on which ranks are bound to few of many cores.
    pub(super) fn warning(&self, ranks: &[Self]) -> Option<String> {
        let here: Vec<&Self> = ranks
            .iter()
            .filter(|other| other.host == self.host)
            .collect();
        let used: usize = here.iter().map(|rank| rank.threads(ranks)).sum();
        let is_bound = here.len() > 1 && here.iter().all(|other| other.bound_to == self.bound_to)
            || used >= self.all;
        let Self { host, all, .. } = self;
        (!is_bound && !self.bound_to.is_empty()).then(|| {
            format!(
                "the {} ranks on {host} may use {used} of its {all} cores: with `--bind-to none`, `mpirun` lets them use all",
                here.len()
            )
        })
    }
}

/// The cores of this machine, whether or not this process may use them.
#[expect(
    unsafe_code,
    reason = "the standard library only counts the cores that this process may use"
)]
fn number() -> usize {
    // SAFETY: it reads a number of the system.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(cores).unwrap_or(1)
}

/// The cores that this process is bound to.
fn binding() -> Vec<u8> {
    // Its line of `Cpus_allowed` is a mask in hexadecimal digits.
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed:"));
    mask.map(|mask| mask.trim().as_bytes().to_vec())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(host: &str, usable: usize, bound_to: &str) -> Cores {
        Cores {
            host: host.to_owned(),
            usable,
            all: 8,
            bound_to: bound_to.as_bytes().to_vec(),
        }
    }

    #[test]
    fn ranks_share_the_cores_that_they_are_bound_to_together() {
        let free = [rank("a", 8, "ff"), rank("a", 8, "ff"), rank("b", 8, "ff")];
        assert_eq!(
            free.iter()
                .map(|rank| rank.threads(&free))
                .collect::<Vec<_>>(),
            [4, 4, 8]
        );
        assert!(free.iter().all(|rank| rank.warning(&free).is_none()));
        // A container's limit counts for all that are in it.
        let limited = [rank("a", 2, "ff"), rank("a", 2, "ff")];
        assert_eq!(limited[0].threads(&limited), 1);
        assert!(limited[0].warning(&limited).is_none());
    }

    #[test]
    fn ranks_that_are_bound_to_one_core_of_many_are_warned_of() {
        let bound = [rank("a", 1, "01"), rank("a", 1, "02"), rank("b", 8, "ff")];
        assert_eq!(bound[0].threads(&bound), 1);
        let warning = bound[0].warning(&bound).unwrap_or_default();
        assert!(
            warning.contains("the 2 ranks on a may use 2 of its 8 cores"),
            "{warning}"
        );
        assert!(bound[2].warning(&bound).is_none());
        let halves = [rank("a", 4, "0f"), rank("a", 4, "f0")];
        assert!(halves[0].warning(&halves).is_none(), "all cores are in use");
    }
}
