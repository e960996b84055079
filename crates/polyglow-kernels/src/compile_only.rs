//! Kernels are compiled before they are needed.

/// While it lives, kernels on GPUs are compiled and tuned, which runs candidates, but what an
/// operation would compute is not computed: nothing that is read means anything. It holds for every
/// thread, and does nothing where no kernels are compiled.
#[derive(Debug)]
pub struct CompileOnly {
    #[cfg(feature = "gpu")]
    _dry_run: burn::cubecl::dry_run::DryRun,
}

impl CompileOnly {
    /// From here on.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            #[cfg(feature = "gpu")]
            _dry_run: burn::cubecl::dry_run::DryRun::new(),
        }
    }
}
