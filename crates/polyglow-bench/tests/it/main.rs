//! The built program, as its users run it.

mod compare;
#[cfg(feature = "wgpu")]
mod launches;
mod program;
mod ranks;
