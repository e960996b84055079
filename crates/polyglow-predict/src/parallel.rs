//! Work on several cores side by side.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Context, Result};

/// Results that may wait for an earlier one, for each thread.
const AHEAD: usize = 2;

/// Runs `0..count`, and gives `take` what comes of each, in order and in this thread.
///
/// So many threads take one after the other, each with its share of the cores for whatever is in
/// it: several small products side by side are faster than each of them on all cores.
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
        return (0..count).try_for_each(|place| run(place).map(|found| take(place, found)));
    }
    let cores = (rayon::current_num_threads() / threads).max(1);
    let pools = Pools::take(threads, cores)?;
    let (next, taken, (sender, receiver)) = (AtomicUsize::new(0), Taken::default(), channel());
    let work = |sender: Sender<_>| loop {
        let place = next.fetch_add(1, Ordering::Relaxed);
        if place >= count || !taken.is_near(place, AHEAD * threads) {
            return;
        }
        let found = catch_unwind(AssertUnwindSafe(|| run(place)));
        if !matches!(found, Ok(Ok(_))) {
            next.store(count, Ordering::Relaxed);
        }
        // If nobody takes it, this thread's owner is panicking.
        if sender.send((place, found)).is_err() {
            return;
        }
    };
    let found = thread::scope(|scope| {
        for pool in &pools.all {
            let (sender, work) = (sender.clone(), &work);
            scope.spawn(move || pool.install(|| work(sender)));
        }
        drop(sender);
        let _ended = EndOnDrop(&taken);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        for (place, found) in receiver {
            early.insert(place, found.unwrap_or_else(|panic| resume_unwind(panic)));
            while let Some(found) = early.remove(&due) {
                take(due, found?);
                due += 1;
                taken.set(due);
            }
        }
        Ok(())
    });
    IDLE.set(Some(pools));
    found
}

/// How many results have been taken: who is far ahead of that waits, so that memory does not fill
/// with what waits for one slow thread.
#[derive(Default)]
struct Taken {
    /// [`ENDED`] when no more are.
    count: Mutex<usize>,
    changed: Condvar,
}

const ENDED: usize = usize::MAX;

impl Taken {
    /// Waits until less than `ahead` results are missing before that of this place; false if no
    /// more are taken.
    fn is_near(&self, place: usize, ahead: usize) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let is_far = |count: &mut usize| place >= count.saturating_add(ahead);
        *self
            .changed
            .wait_while(count, is_far)
            .unwrap_or_else(PoisonError::into_inner)
            != ENDED
    }

    fn set(&self, count: usize) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) = count;
        self.changed.notify_all();
    }
}

/// Nobody waits for what an error or a panic has ended.
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
        let pool = |_| {
            ThreadPoolBuilder::new()
                .num_threads(cores)
                .build()
                .context("another thread cannot be started")
        };
        Ok(Self {
            all: (0..threads).map(pool).collect::<Result<_>>()?,
            cores,
        })
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
