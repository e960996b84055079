//! The `polyglow` program: it chooses the allocator, and the library does the rest.

use std::process::ExitCode;

/// Training frees and allocates the same large temporaries at every step, which mimalloc does fastest.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    polyglow::allocator::keep_freed_memory();
    polyglow::run()
}
