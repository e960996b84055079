//! `polyglow-bench launches`: a training step on a GPU, counted instead of run: kernels, bytes,
//! operations, memory. `polyglow-bench profile` runs it, and times each kernel.

#[cfg(feature = "gpu")]
mod count;
#[cfg(feature = "gpu")]
mod ledger;
#[cfg(feature = "gpu")]
mod operations;
#[cfg(feature = "gpu")]
mod profile;
#[cfg(feature = "gpu")]
mod roofline;
#[cfg(feature = "gpu")]
mod table;

use clap::Args;
use polyglow::bench::{ModelArgs, parse_shape, vocab_sizes};
use polyglow_train::workload::BatchShape;

/// The arguments of `polyglow-bench launches` and of `polyglow-bench profile`.
#[derive(Args)]
pub(crate) struct LaunchesArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// The batch of random sentences, as rows x source tokens x target tokens
    #[arg(
        long,
        value_name = "ROWSxSRCxTGT",
        default_value = "256x16x16",
        value_parser = parse_shape
    )]
    shape: BatchShape,
    /// Vocabulary size of random sentences
    #[arg(
        long,
        value_name = "N",
        default_value_t = polyglow::bench::VOCAB_SIZE,
        value_parser = vocab_sizes()
    )]
    vocab_size: usize,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the counts of a step on random sentences, for the model and the training that a config
/// names.
///
/// # Errors
/// The config is wrong; the device is no GPU, or fails.
#[cfg(feature = "gpu")]
pub(crate) fn run(args: &LaunchesArgs) -> anyhow::Result<()> {
    let plan = polyglow_train::Plan::new(args.model.load()?)?;
    let report = count::count_launches(&plan, args.shape, args.vocab_size)?;
    polyglow::bench::print_report(args.json, &report, table::print_launches)
}

/// Prints what each kernel of a step takes on a GPU, and what the step moves and computes beside it.
///
/// # Errors
/// As [`run`].
#[cfg(feature = "gpu")]
pub(crate) fn profile(args: &LaunchesArgs) -> anyhow::Result<()> {
    let plan = polyglow_train::Plan::new(args.model.load()?)?;
    let report = profile::profile(&plan, args.shape, args.vocab_size)?;
    polyglow::bench::print_report(args.json, &report, profile::print_profile)
}

/// Says which build counts launches.
///
/// # Errors
/// Always (exit code 2).
#[cfg(not(feature = "gpu"))]
pub(crate) fn run(_: &LaunchesArgs) -> anyhow::Result<()> {
    let error = polyglow::usage(anyhow::anyhow!(
        "`launches` needs a GPU's compiler, and this build has none"
    ));
    Err(polyglow::with_hint(
        error,
        "build it in: `cargo run --release -p polyglow-bench --features wgpu -- launches --device wgpu:cpu`",
    ))
}

/// Says which build profiles steps.
///
/// # Errors
/// Always (exit code 2).
#[cfg(not(feature = "gpu"))]
pub(crate) fn profile(args: &LaunchesArgs) -> anyhow::Result<()> {
    run(args)
}
