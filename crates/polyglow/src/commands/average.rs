//! `polyglow average`: the mean of the newest checkpoints.

use std::path::PathBuf;

use anyhow::{anyhow, ensure};
use burn::tensor::TensorData;
use clap::Args;
use polyglow_predict::wording::shell_word;
use polyglow_train::run::{Checkpoint, Checkpoints, Content, RunDirectory};

use super::counts;
use crate::failure::with_hint;
use crate::program;

/// The checkpoint that is written.
const NAME: &str = "average";

/// The arguments of `polyglow average`.
#[derive(Args)]
pub(crate) struct AverageArgs {
    /// Directory of the run
    run: PathBuf,
    /// Number of checkpoints to average, counted from the newest [default: `train.keep_last`, or
    /// all if there are fewer]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = counts())]
    last: Option<usize>,
}

/// Writes the mean of the weights of the newest checkpoints as the checkpoint `average`.
///
/// Weights near the end of training differ in directions that hardly matter to the loss; their mean
/// mostly scores better than the last of them (Vaswani et al., 2017, section 6.1, average the last
/// 5 or 20).
///
/// # Errors
/// There is no such run; it has fewer checkpoints than requested, or none; one of them is
/// damaged, or of another shape than the newest; the average cannot be written.
pub(crate) fn run(args: &AverageArgs) -> anyhow::Result<()> {
    let run = RunDirectory::existing(&args.run)?;
    let checkpoints = run.checkpoints(1);
    checkpoints.tidy(|name| name == NAME)?;
    let mut steps = checkpoints.steps()?;
    // A fork begins with step 0, whose weights are another training's; an imported run has nothing
    // else.
    if steps.len() > 1 {
        steps.retain(|step| *step > 0);
    }
    // What else was kept is an old `best`.
    let last = args
        .last
        .unwrap_or(steps.len().min(run.config()?.train.keep_last));
    ensure!(
        !steps.is_empty(),
        "no checkpoint in `{}`: nothing has been trained there yet",
        args.run.display()
    );
    let names: Vec<String> = steps.iter().map(|step| format!("step-{step}")).collect();
    if last > names.len() {
        let error = anyhow!(
            "`--last {last}`: `{}` has only {} checkpoints, {}",
            args.run.display(),
            names.len(),
            names.join(", ")
        );
        return Err(with_hint(
            error,
            "training keeps the newest `train.keep_last` checkpoints; a run may be resumed with a higher value",
        ));
    }
    if last == 1 {
        tracing::warn!("the average of one checkpoint is that checkpoint");
    }
    let chosen = &names[names.len() - last..];
    let (newest, model) = mean(&checkpoints, chosen)?;
    let content = Content {
        model,
        optimizer: Vec::new(),
        ema: Vec::new(),
    };
    let path = checkpoints.write(NAME, &content, &newest.state)?;
    tracing::info!(
        "wrote the average of {} to `{}`",
        chosen.join(", "),
        path.display()
    );
    tracing::info!(
        "score it: {} evaluate {} --checkpoint {NAME}",
        program::name(),
        shell_word(&args.run)
    );
    Ok(())
}

/// The mean of every tensor over checkpoints given from old to new, and the newest of them.
///
/// It is summed in `f64` in that order, so that the same checkpoints give the same bits.
fn mean(
    checkpoints: &Checkpoints,
    names: &[String],
) -> anyhow::Result<(Checkpoint, Vec<(String, TensorData)>)> {
    let (newest, older) = names
        .split_last()
        .ok_or_else(|| anyhow::anyhow!("there is nothing to average"))?;
    let newest = checkpoints.find(newest)?;
    let mut tensors: Vec<(String, TensorData)> = newest
        .model()?
        .rest()
        .map(|(name, data)| (name.clone(), data.clone()))
        .collect();
    let mut sums: Vec<Vec<f64>> = tensors
        .iter()
        .map(|(_, data)| vec![0.0; data.num_elements()])
        .collect();
    for name in older {
        let mut weights = checkpoints.find(name)?.model()?;
        for ((tensor, data), sum) in tensors.iter().zip(&mut sums) {
            add(sum, &weights.take(tensor, data.shape())?);
        }
        weights.finish()?;
    }
    for ((_, data), mut sum) in tensors.iter_mut().zip(sums) {
        add(&mut sum, data);
        let mean: Vec<f32> = sum
            .iter()
            .map(|sum| (sum / names.len() as f64) as f32)
            .collect();
        *data = TensorData::new(mean, data.shape().clone());
    }
    Ok((newest, tensors))
}

fn add(sum: &mut [f64], data: &TensorData) {
    sum.iter_mut()
        .zip(data.iter::<f64>())
        .for_each(|(sum, value)| *sum += value);
}
