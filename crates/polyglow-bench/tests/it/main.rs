//! The built program, as its users run it.

#[cfg(feature = "wgpu")]
mod launches;
mod program;
mod ranks;
