//! Translates the lines of the standard input with a trained model:
//!
//! ```text
//! echo "1 2 3" | cargo run --release -p polyglow-examples --example translate -- runs/digits
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use std::{env, error::Error, io};

use polyglow_train::{device, load_runner};

fn main() -> Result<(), Box<dyn Error>> {
    let run = env::args().nth(1).ok_or("which run?")?;
    let runner = load_runner(run, &device::open("flex")?)?;
    let lines: Vec<String> = io::stdin().lines().collect::<Result<_, _>>()?;
    // All lines at once: they are batched by length, and come back in their order.
    for translation in runner.best(&lines)? {
        println!("{translation}");
    }
    Ok(())
}
