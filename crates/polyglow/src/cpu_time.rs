//! The time of the CPU, as it was divided between this process, other programs and other machines.

/// The time of all threads of the CPU since the machine started, or between two such times, in
/// ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTime {
    all: u64,
    /// Without work, or waiting for a disk.
    idle: u64,
    /// Given to other machines by the host of this virtual one.
    stolen: u64,
    /// Used by this process.
    own: u64,
}

impl CpuTime {
    /// Makes a time of these ticks, for tests.
    #[cfg(test)]
    pub(crate) fn of_ticks(all: u64, idle: u64, stolen: u64, own: u64) -> Self {
        Self {
            all,
            idle,
            stolen,
            own,
        }
    }

    /// Reads the time until now; `None` if the system does not report it, as outside of Linux.
    pub(crate) fn now() -> Option<Self> {
        let [machine, process] = ["/proc/stat", "/proc/self/stat"].map(fs_err::read_to_string);
        Self::read(&machine.ok()?, &process.ok()?)
    }

    /// Reads the time that has passed since `began`; `None` if the system does not report it, or
    /// if its clock has not moved.
    pub(crate) fn passed_since(began: Option<Self>) -> Option<Self> {
        let passed = Self::now()?.since(began?);
        (passed.all > 0).then_some(passed)
    }

    /// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal,
    /// and two that are part of the first two. And from `/proc/self/stat`, where user and system
    /// are the 12th and the 13th number after the program's name in brackets.
    fn read(machine: &str, process: &str) -> Option<Self> {
        let machine = numbers(machine.lines().next()?.strip_prefix("cpu ")?, 0, 8)?;
        // The program's name may have brackets and spaces, so the last bracket ends it.
        let process = numbers(process.rsplit_once(')')?.1, 11, 2)?;
        Some(Self {
            all: machine.iter().sum(),
            idle: machine[3..5].iter().sum(),
            stolen: machine[7],
            own: process.iter().sum(),
        })
    }

    fn since(self, began: Self) -> Self {
        // The system rounds each count by itself, so a count may be a tick lower than before.
        Self {
            all: self.all.saturating_sub(began.all),
            idle: self.idle.saturating_sub(began.idle),
            stolen: self.stolen.saturating_sub(began.stolen),
            own: self.own.saturating_sub(began.own),
        }
    }

    /// Returns the share of all time that other programs had, and the system for them.
    pub(crate) fn others(self) -> f64 {
        self.share(self.all.saturating_sub(self.idle + self.stolen + self.own))
    }

    /// Returns the share of all time that the host gave to other machines.
    pub(crate) fn stolen(self) -> f64 {
        self.share(self.stolen)
    }

    /// Returns the share of all time in which no program had work.
    pub(crate) fn idle(self) -> f64 {
        self.share(self.idle)
    }

    fn share(self, ticks: u64) -> f64 {
        ticks as f64 / self.all.max(1) as f64
    }
}

/// Reads `count` numbers of a line after the first `skipped` fields; `None` if one is missing or
/// no number.
fn numbers(line: &str, skipped: usize, count: usize) -> Option<Vec<u64>> {
    let fields = line.split_whitespace().skip(skipped).take(count);
    let numbers: Option<Vec<u64>> = fields.map(|field| field.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_others_and_stolen_time_are_shares_of_all() {
        let process = |ticks: &str| {
            format!("7 (a ) b) R 1 7 7 0 -1 4194304 9 0 0 0 {ticks} 0 0 20 0 2 0 5 6 7\n")
        };
        let at = |line: &str, ticks: &str| {
            CpuTime::read(&format!("{line}\ncpu0 1 2 3\n"), &process(ticks))
        };
        let began = at("cpu  100 10 40 800 20 0 5 25 7 0", "50 10").expect("it is whole");
        let ended = at("cpu  150 10 50 820 20 0 5 45 9 0", "70 15").expect("it is whole");
        // Of 100 ticks 20 were idle and 20 stolen, and 25 were this process's.
        let passed = ended.since(began);
        assert!(
            (passed.stolen() - 0.2).abs() < 1e-12 && (passed.others() - 0.35).abs() < 1e-12,
            "{passed:?}"
        );
        let nothing = began.since(began);
        assert!(nothing.stolen().abs() < 1e-12 && nothing.others().abs() < 1e-12);
        assert!(at("cpu  1 2 3", "1 2").is_none() && at("intr 1 2 3 4 5 6 7 8", "1 2").is_none());
        assert!(CpuTime::read("cpu  100 10 40 800 20 0 5 25 7 0", "7 (a) R 1").is_none());
    }
}
