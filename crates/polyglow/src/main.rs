//! The `polyglow` program: it chooses the allocator, and the library does the rest.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: polyglow::allocator::Allocator = polyglow::allocator::Allocator;

fn main() -> ExitCode {
    polyglow::allocator::keep_freed_memory();
    polyglow::run()
}
