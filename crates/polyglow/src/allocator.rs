//! One setting of the allocator that `main.rs` chooses.

/// mimalloc's number for `mi_option_purge_delay`: its bundled `mimalloc.h` has it at this place in every version.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// How long freed memory stays ours before it goes back to the system, in milliseconds.
const DELAY: std::ffi::c_long = 10_000;

/// Keeps freed memory for ten seconds before it goes back to the system.
///
/// A training step frees its large temporaries and asks for them again in the next one; giving the pages back in
/// between costs up to a third of the step in page faults. `MIMALLOC_PURGE_DELAY` in the environment still wins.
#[expect(unsafe_code, reason = "mimalloc's options are reached through its C interface only")]
pub fn keep_freed_memory() {
    // SAFETY: the function takes two integers, writes an option in mimalloc's own table, and ignores a number it
    // does not know.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, DELAY) }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "mimalloc's options are reached through its C interface only")]
mod tests {
    use std::process::Command;

    use super::*;

    /// The test that runs itself again as a child, whose environment mimalloc has not read yet.
    const NAME: &str = "allocator::tests::the_number_is_that_of_the_purge_delay_and_the_environment_wins";
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
        assert_eq!(purge_delay(), DELAY);
        let program = std::env::current_exe().expect("a test knows its program");
        let child = Command::new(program).args(["--exact", NAME]).env(VARIABLE, "4321").output();
        let output = child.expect("the test runs again");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
    }
}
