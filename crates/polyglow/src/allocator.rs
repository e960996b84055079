//! The allocator that `main.rs` chooses: mimalloc, with one setting, and with an error message if
//! memory runs out.

use std::alloc::{GlobalAlloc, Layout};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use mimalloc::MiMalloc;
use polyglow_train::workload::BatchShape;

/// mimalloc, which is fastest at freeing and allocating the same large temporaries at every step of
/// training.
///
/// If the system is out of memory, the process prints an error and ends with exit code 1. Rust
/// would abort it instead, and no part of this program can recover from a failed allocation.
pub struct Allocator;

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: every method hands its arguments on to mimalloc, which keeps the contract, and returns
// what mimalloc returns, unless that is null; then it does not return.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of the same method.
        require(unsafe { MiMalloc.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of the same method.
        require(unsafe { MiMalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of the same method.
        require(unsafe { MiMalloc.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}

fn require(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        out_of_memory(size)
    } else {
        memory
    }
}

/// Rows, source and target positions of the batch that the device works on. Atomics, not a lock,
/// because any thread reads them when it is out of memory.
static CURRENT: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Notes the batch that the device works on, or `None` when it is done.
pub(crate) fn note_batch(batch: Option<BatchShape>) {
    let BatchShape {
        rows,
        src_len,
        tgt_len,
    } = batch.unwrap_or_default();
    for (place, value) in CURRENT.iter().zip([rows, src_len, tgt_len]) {
        place.store(value, Ordering::Relaxed);
    }
}

fn current_batch() -> Option<BatchShape> {
    let [rows, src_len, tgt_len] =
        [0, 1, 2].map(|place: usize| CURRENT[place].load(Ordering::Relaxed));
    (rows > 0).then_some(BatchShape {
        rows,
        src_len,
        tgt_len,
    })
}

/// Prints an error and ends the process, without allocating.
#[cold]
fn out_of_memory(size: usize) -> ! {
    let mut text = [0; 512];
    let mut rest = &mut text[..];
    let _ = write!(
        rest,
        "error: out of memory: the system has no {size} bytes more"
    );
    let advice = match current_batch() {
        Some(batch) => {
            let _ = write!(rest, "; the batch: {batch}");
            "lower `train.max_tokens`, or free memory; the same command resumes from the newest checkpoint, if there is one"
        }
        None => "free memory, or raise the limit",
    };
    let _ = writeln!(rest, "\nhint: {advice}");
    let free = rest.len();
    let _ = std::io::stderr().write_all(&text[..text.len() - free]);
    signal_hook::low_level::exit(1)
}

/// mimalloc's number for `mi_option_purge_delay`: its bundled `mimalloc.h` has it at this place in
/// every version.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// The time that freed memory stays ours before it goes back to the system, in milliseconds, while
/// models are trained and used, and otherwise.
const LONG_DELAY: std::ffi::c_long = 10_000;
const SHORT_DELAY: std::ffi::c_long = 10;

/// Keeps freed memory for ten seconds before it goes back to the system.
///
/// A training step frees its large temporaries and asks for them again in the next one; giving the
/// pages back in between costs up to a third of the step in page faults. `MIMALLOC_PURGE_DELAY` in
/// the environment still wins.
pub fn keep_freed_memory() {
    set_delay(LONG_DELAY);
}

/// Gives freed memory back to the system soon, as mimalloc does by default: for commands that need
/// large tables one after the other, where speed does not depend on it.
pub(crate) fn give_back_freed_memory() {
    set_delay(SHORT_DELAY);
}

#[expect(
    unsafe_code,
    reason = "mimalloc's options are reached through its C interface only"
)]
fn set_delay(milliseconds: std::ffi::c_long) {
    // SAFETY: the function takes two integers, writes an option in mimalloc's own table, and
    // ignores a number it does not know.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, milliseconds) }
}

#[cfg(test)]
#[expect(
    unsafe_code,
    reason = "mimalloc's options are reached through its C interface only"
)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The test that runs itself again as a child, whose environment mimalloc has not read yet.
    const NAME: &str =
        "allocator::tests::the_number_is_that_of_the_purge_delay_and_the_environment_wins";
    const VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

    fn purge_delay() -> std::ffi::c_long {
        // SAFETY: the function takes an integer and reads mimalloc's own table.
        unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) }
    }

    #[test]
    fn the_number_is_that_of_the_purge_delay_and_the_environment_wins() {
        keep_freed_memory();
        if std::env::var_os(VARIABLE).is_some() {
            assert_eq!(purge_delay(), 4321);
            return;
        }
        assert_eq!(purge_delay(), LONG_DELAY);
        give_back_freed_memory();
        assert_eq!(purge_delay(), SHORT_DELAY);
        let program = std::env::current_exe().expect("a test knows its program");
        let child = Command::new(program)
            .args(["--exact", NAME])
            .env(VARIABLE, "4321")
            .output();
        let output = child.expect("the test runs again");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && stdout.contains("1 passed"),
            "{stdout}"
        );
    }
}
