//! Compiling the kernels of GPUs before they are needed, without computing anything.

/// A guard: while it lives, operations on GPUs compile and tune their kernels, which runs
/// candidates, but do not compute their results, so whatever is read from the device is
/// meaningless.
///
/// It holds for all threads of the process, and does nothing on devices without compiled kernels.
#[derive(Debug)]
pub struct CompileOnly {
    #[cfg(feature = "gpu")]
    _dry_run: burn::cubecl::dry_run::DryRun,
}

impl CompileOnly {
    /// Returns a guard, from which on operations only compile.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            #[cfg(feature = "gpu")]
            _dry_run: burn::cubecl::dry_run::DryRun::new(),
        }
    }
}
