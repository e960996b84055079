//! Work on several cores side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use rayon::ThreadPoolBuilder;

use crate::error::{Context, Result};

/// What `run` gives for `0..count`, in order. So many threads take one after the other, each with one core for whatever is in
/// it: several small products side by side are faster than each of them on all cores. `ended` is told in this thread which
/// is done.
///
/// # Errors
/// The first error, after which no more are begun; a thread cannot be started.
pub(super) fn each<T: Send>(
    count: usize,
    threads: usize,
    run: impl Fn(usize) -> Result<T> + Sync,
    mut ended: impl FnMut(usize),
) -> Result<Vec<T>> {
    if count < 2 || threads < 2 {
        return (0..count).map(|place| run(place).inspect(|_| ended(place))).collect();
    }
    let pool = || ThreadPoolBuilder::new().num_threads(1).build().context("another thread cannot be started");
    let pools = (0..threads.min(count)).map(|_| pool()).collect::<Result<Vec<_>>>()?;
    let (next, (sender, receiver)) = (AtomicUsize::new(0), mpsc::channel());
    let work = |sender: mpsc::Sender<(usize, Result<T>)>| loop {
        let place = next.fetch_add(1, Ordering::Relaxed);
        if place >= count {
            return;
        }
        let found = run(place);
        if found.is_err() {
            next.store(count, Ordering::Relaxed);
        }
        // Whoever reads is in the scope, until all have ended.
        let _ = sender.send((place, found));
    };
    let mut all: Vec<Option<Result<T>>> = thread::scope(|scope| {
        for pool in &pools {
            let (sender, work) = (sender.clone(), &work);
            scope.spawn(move || pool.install(|| work(sender)));
        }
        drop(sender);
        let mut all: Vec<Option<Result<T>>> = (0..count).map(|_| None).collect();
        for (place, found) in receiver {
            ended(place);
            all[place] = Some(found);
        }
        all
    });
    // What was not begun is behind what failed.
    all.drain(..).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::failed;

    #[test]
    fn results_are_in_order_whichever_thread_has_them() {
        for threads in [1, 2, 5, 200] {
            let mut ended = Vec::new();
            let found = each(100, threads, |place| Ok(place * place), |place| ended.push(place)).expect("none fails");
            assert!(found.iter().copied().eq((0..100).map(|place| place * place)));
            ended.sort_unstable();
            assert!(ended.into_iter().eq(0..100));
            let inside = each(3, threads, |_| Ok(rayon::current_num_threads()), |_| ()).expect("none fails");
            assert!(threads == 1 || inside == [1, 1, 1], "{inside:?}");
        }
        assert!(each(0, 4, Ok, |_| ()).expect("nothing fails").is_empty());
    }

    #[test]
    fn an_error_ends_the_work() {
        for threads in [1, 3] {
            let run = |place| if place == 7 { Err(failed!("seven")) } else { Ok(place) };
            assert_eq!(each(1_000_000, threads, run, |_| ()).expect_err("one fails").to_string(), "seven");
        }
    }
}
