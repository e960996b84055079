//! Parallel work on several cores.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Context, Result};

/// The number of results that may wait for an earlier one, for each thread.
const AHEAD: usize = 2;

/// Calls `run` with each of `0..count`, and passes the results to `take`, in order and in this
/// thread.
///
/// `threads` threads take one index after the other, each with its share of the cores for its
/// operations: several small matrix products in parallel are faster than each of them on all cores.
///
/// # Errors
/// The first error in order, after which no more are begun; a thread cannot be started.
pub fn each<T: Send>(
    count: usize,
    threads: usize,
    run: impl Fn(usize) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T),
) -> Result<()> {
    let threads = threads.min(count);
    if threads < 2 {
        return (0..count).try_for_each(|index| run(index).map(|result| take(index, result)));
    }
    let cores = (rayon::current_num_threads() / threads).max(1);
    let pools = Pools::take(threads, cores)?;
    let next = AtomicUsize::new(0);
    let taken = Taken::default();
    let (sender, receiver) = channel();
    let work = |sender: Sender<_>| loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count || !taken.is_near(index, AHEAD * threads) {
            return;
        }
        let result = catch_unwind(AssertUnwindSafe(|| run(index)));
        if !matches!(result, Ok(Ok(_))) {
            // The other threads begin no more.
            next.store(count, Ordering::Relaxed);
        }
        // Without a receiver, the calling thread is panicking or has returned an error.
        if sender.send((index, result)).is_err() {
            return;
        }
    };
    let ended = thread::scope(|scope| {
        for pool in &pools.all {
            let sender = sender.clone();
            let work = &work;
            scope.spawn(move || pool.install(|| work(sender)));
        }
        // The loop below ends when the threads have dropped theirs.
        drop(sender);
        let _end = EndOnDrop(&taken);
        // Results that came before the one that is due.
        let mut early = BTreeMap::new();
        let mut due = 0;
        for (index, result) in receiver {
            early.insert(index, result.unwrap_or_else(|panic| resume_unwind(panic)));
            while let Some(result) = early.remove(&due) {
                take(due, result?);
                due += 1;
                taken.set(due);
            }
        }
        Ok(())
    });
    IDLE.set(Some(pools));
    ended
}

/// The number of results that have been taken: a thread that is far ahead waits, so that memory
/// does not fill with results that wait for a slow thread.
#[derive(Default)]
struct Taken {
    /// [`ENDED`] when no more are.
    count: Mutex<usize>,
    changed: Condvar,
}

const ENDED: usize = usize::MAX;

impl Taken {
    /// Waits until less than `ahead` results are missing before that of `index`; returns `false` if
    /// no more are taken.
    fn is_near(&self, index: usize, ahead: usize) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_while(count, |count| index >= count.saturating_add(ahead));
        *waited.unwrap_or_else(PoisonError::into_inner) != ENDED
    }

    fn set(&self, count: usize) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) = count;
        self.changed.notify_all();
    }
}

/// Wakes the waiting threads when it is dropped, also by an error or a panic.
struct EndOnDrop<'a>(&'a Taken);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(ENDED);
    }
}

/// Threads that are kept for the next call from this thread, and with them what the allocator keeps
/// for each: a training calls once a step.
struct Pools {
    all: Vec<ThreadPool>,
    cores: usize,
}

thread_local! {
    static IDLE: Cell<Option<Pools>> = const { Cell::new(None) };
}

impl Pools {
    fn take(threads: usize, cores: usize) -> Result<Self> {
        let idle = IDLE
            .take()
            .filter(|idle| idle.all.len() == threads && idle.cores == cores);
        if let Some(idle) = idle {
            return Ok(idle);
        }
        let mut all = Vec::with_capacity(threads);
        for _ in 0..threads {
            let pool = ThreadPoolBuilder::new().num_threads(cores).build();
            all.push(pool.context("another thread cannot be started")?);
        }
        Ok(Self { all, cores })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::failed;

    #[test]
    fn results_are_in_order_whichever_thread_has_them() {
        for threads in [1, 2, 5, 200] {
            let mut found = Vec::new();
            each(
                100,
                threads,
                |place| Ok(place * place),
                |place, square| found.push((place, square)),
            )
            .expect("none fails");
            assert!(
                found
                    .into_iter()
                    .eq((0..100).map(|place| (place, place * place)))
            );
        }
        each(0, 4, Ok, |_, _| panic!("there is nothing")).expect("nothing fails");
    }

    #[test]
    fn threads_share_the_cores() {
        let cores = |threads| {
            let mut inside = Vec::new();
            let pool = ThreadPoolBuilder::new()
                .num_threads(6)
                .build()
                .expect("six threads");
            let all = || {
                each(
                    3,
                    threads,
                    |_| Ok(rayon::current_num_threads()),
                    |_, cores| inside.push(cores),
                )
            };
            pool.install(all).expect("none fails");
            inside
        };
        assert_eq!([1, 2, 3, 10].map(cores), [[6; 3], [3; 3], [2; 3], [2; 3]]);
    }

    #[test]
    fn nobody_is_far_ahead_of_a_slow_thread() {
        let (begun, is_slow) = (AtomicUsize::new(0), AtomicUsize::new(1));
        let run = |place| {
            begun.fetch_max(place, Ordering::Relaxed);
            if place == 0 {
                // Until the other thread has nothing left that it may do.
                while begun.load(Ordering::Relaxed) < 3 {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(50));
                is_slow.store(0, Ordering::Relaxed);
            }
            Ok((place, is_slow.load(Ordering::Relaxed)))
        };
        let mut early = 0;
        each(50, 2, run, |_, (place, is_slow)| {
            early = early.max(place * is_slow);
        })
        .expect("none fails");
        assert!(early < AHEAD * 2, "{early}");
    }

    #[test]
    fn an_error_ends_the_work() {
        for threads in [1, 3] {
            let run = |place| {
                if place == 7 {
                    Err(failed!("seven"))
                } else {
                    Ok(place)
                }
            };
            let mut taken = Vec::new();
            let error =
                each(1_000_000, threads, run, |place, _| taken.push(place)).expect_err("one fails");
            assert_eq!(
                (error.to_string(), taken),
                ("seven".to_owned(), (0..7).collect())
            );
        }
    }

    #[test]
    fn a_panic_keeps_its_message() {
        let run = |place| {
            if place == 7 {
                panic!("seven")
            } else {
                Ok(place)
            }
        };
        let panic = catch_unwind(|| each(1_000_000, 3, run, |_, _| ())).expect_err("one panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"seven"));
    }
}
