//! The whole command line of polyglow, with an architecture of its own: see `model.rs`.

mod model;

use std::process::ExitCode;

use polyglow::Registry;

fn main() -> ExitCode {
    let registry = Registry::new()
        .program(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
        .architecture::<model::Grouped>("grouped");
    polyglow::run_with(registry)
}
