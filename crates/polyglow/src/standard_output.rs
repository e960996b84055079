//! Whether there is a standard output to write results to.
//!
//! A process may be started without one (`polyglow evaluate RUN >&-`, some cron jobs). Rust's
//! runtime then opens `/dev/null` in its place, where results would be lost in silence; so this is
//! looked at before `main`.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;

use crate::failure::with_hint;

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's runtime, which would open `/dev/null`: a system call and an atomic need no
/// runtime.
#[cfg(unix)]
#[ctor::ctor(unsafe)]
fn look() {
    let is_closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    IS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Makes sure that results can be written, before they are computed.
///
/// # Errors
/// The process was started without a standard output.
pub(crate) fn ensure_open() -> anyhow::Result<()> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        let error = anyhow!("standard output is closed, where the results would be written");
        return Err(with_hint(
            error,
            "give the command a standard output, such as `> FILE`",
        ));
    }
    Ok(())
}
