//! From a config to a trained model, its scores and a translation:
//!
//! ```text
//! cargo run --release -p polyglow-examples --example train -- runs/digits
//! ```
//!
//! The same command resumes a run that was stopped. `polyglow help config` explains every key of a
//! config.
#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use std::env;

use polyglow_predict::evaluation::Scores;
use polyglow_train::{Config, Observer, Result, Stop, Training, load_runner};

const CONFIG: &str = r#"
    data = { corpus = "digits" }           # learns to reverse "1 2 3"; for files, set `train`, `valid`, `src` and `tgt`
    tokenizer = { kind = "word" }
    model = { d_model = 32, d_ff = 64, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1, norm = "pre" }

    [train]
    max_steps = 400
    validate_every = 200
    max_tokens = 600
    lr = 5e-3
    warmup_steps = 100
"#;

/// Prints the scores of each validation.
struct Printer;

impl Observer for Printer {
    fn scores(&mut self, step: u64, scores: &Scores, _: &serde_json::Value) {
        println!("after {step} steps: {scores}");
    }
}

fn main() -> Result<()> {
    let run = env::args().nth(1).unwrap_or("runs/digits".to_owned());
    let mut training = Training::prepare(Config::from_text(CONFIG, &[])?, &run, &mut Printer)?;
    let (ending, state) = training.run(&Stop::default(), &mut Printer)?;
    println!("{ending:?} with {} tokens", state.tokens);

    let runner = load_runner(&run, &training.plan.device)?;
    println!("1 2 3 -> {}", runner.best(&["1 2 3"])?.concat());
    Ok(())
}
