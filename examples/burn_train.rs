//! Burn's own trainer, with its metrics, checkpointers and summary, on a task of ours; the run that
//! comes of it is one like any other:
//!
//! ```text
//! cargo run --release -p polyglow-examples --features burn-train --example burn_train -- runs/burned
//! polyglow evaluate runs/burned
//! ```
//!
//! docs/burn-train.md says what our loop has that this one lacks, and the other way round.
#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use std::env;
use std::error::Error;
use std::sync::Arc;

use burn::optim::AdamConfig;
use burn::train::metric::LossMetric;
use burn::train::{Learner, SupervisedTraining};
use polyglow_data::sources::BatchSource;
use polyglow_metrics::Measure;
use polyglow_predict::measures::PERPLEXITY;
use polyglow_train::burn_train::{Batches, Learnable, Scheduled, ScoreMetric, WholeSet};
use polyglow_train::tasks::configured;
use polyglow_train::train::Schedule;
use polyglow_train::{Config, Silent, Task, Training, load_runner};

const CONFIG: &str = r#"
    data = { corpus = "digits" }
    tokenizer = { kind = "word" }
    model = { d_model = 32, d_ff = 64, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1, norm = "pre" }
    train = { max_epochs = 6, max_tokens = 600, lr = 5e-3, warmup_steps = 100 }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let run = env::args().nth(1).unwrap_or("runs/burned".to_owned());
    let overrides: Vec<String> = env::args().skip(2).collect();
    let config = Config::from_text(CONFIG, &overrides)?;
    let training = Training::prepare(config, &run, &mut Silent)?;
    let (plan, train) = (&training.plan, &training.plan.config.train);
    let num_epochs = train.max_epochs.unwrap_or(1) as usize;

    // The model is a module of Burn's, and the task brings its batches, its loss and its scores.
    let shape = plan.model_shape(&training.tokenizers)?;
    let model = shape.init(plan.config.seed, &plan.training_device()?);
    let learnable = Learnable::new(configured(training.setting()?, &training.data)?, model);
    let source = Arc::clone(learnable.task().source());
    let last_step = (num_epochs * source.plan(0)?.len()) as u64;
    let batches = Batches::new(source, plan.config.seed);

    // From here on it is Burn's: any optimizer, scheduler, metric, renderer and strategy will do.
    let adam = AdamConfig::new()
        .with_beta_1(train.betas[0] as f32)
        .with_beta_2(train.betas[1] as f32)
        .with_epsilon(train.eps as f32);
    let schedule = Scheduled::from(Schedule::new(train, last_step, plan.d_model));
    let directory = format!("{run}-logs");
    let result = SupervisedTraining::new(directory, Arc::new(batches), Arc::new(WholeSet))
        .metrics((LossMetric::new(), ScoreMetric::new(PERPLEXITY)))
        .metric_valid_numeric(ScoreMetric::new(Measure::BLEU))
        .with_default_checkpointers()
        .with_interrupter(learnable.interrupter())
        .num_epochs(num_epochs)
        .summary()
        .launch(Learner::new(learnable, adam.init(), schedule));
    if let Some(error) = result.error {
        return Err(error.to_string().into());
    }

    result.model.save(&training, last_step)?;
    let runner = load_runner(&run, &plan.device)?;
    println!("1 2 3 -> {}", runner.best(&["1 2 3"])?.concat());
    Ok(())
}
