//! `polyglow-bench ranks`: the gain of a training from several processes, each on a machine of its
//! own.

mod estimate;
mod table;

use std::path::PathBuf;

use clap::Args;
use polyglow::bench::{
    Batches, ModelArgs, Trace, parse_shape, print_report, repetitions, vocab_sizes,
};
use polyglow_model::{Precision, parameter};
use polyglow_train::Plan;
use polyglow_train::workload::BatchShape;

use self::estimate::{Network, RanksReport, Work};

/// The arguments of `polyglow-bench ranks`.
#[derive(Args)]
pub(crate) struct RanksArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// A batch of random sentences, as rows x source tokens x target tokens; may be repeated
    #[arg(long = "shape", value_name = "ROWSxSRCxTGT", value_parser = parse_shape)]
    shapes: Vec<BatchShape>,
    /// Vocabulary size of random sentences [default: 9708]
    #[arg(long, value_name = "N", value_parser = vocab_sizes())]
    vocab_size: Option<usize>,
    /// Measured repetitions, after a warm-up
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = repetitions())]
    repetitions: u64,
    /// Bits a second between two machines
    #[arg(long, value_name = "RATE", default_value = "10G", value_parser = parse_bits)]
    network: f64,
    /// Microseconds that a message takes besides its bytes
    #[arg(long, value_name = "N", default_value = "20", value_parser = parse_positive)]
    latency: f64,
    /// Gigabytes a second that a rank copies, sends and adds; the default was measured with TCP on
    /// one core of a virtual machine
    #[arg(long, value_name = "RATE", default_value = "0.75", value_parser = parse_positive)]
    host: f64,
    /// Milliseconds of a micro-batch, forward and backward, on another machine [default: measured
    /// on this one]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    micro_batch: Option<f64>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write a timeline of the measured steps that Perfetto (ui.perfetto.dev) and Chrome open
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Prints an estimate for 2 to 1024 ranks, from the time of a step on this machine or from one that
/// was given.
///
/// # Errors
/// The config is wrong; the device fails; text cannot be read.
pub(crate) fn run(args: &RanksArgs) -> anyhow::Result<()> {
    let batches = Batches::new(&args.model, &args.shapes, args.vocab_size)?;
    let plan = Plan::new(args.model.load()?)?;
    let mut trace = Trace::default();
    if let Some(path) = &args.profile {
        // Written first, so that a path that is not writable fails before the measurement.
        trace.write(path)?;
    }
    let work = work(args, &plan, &batches, &mut trace)?;
    let network = Network {
        bits_per_second: args.network,
        latency: args.latency * 1e-6,
        host_bytes_per_second: args.host * 1e9,
    };
    print_report(
        args.json,
        &RanksReport::new(work, network),
        table::print_ranks,
    )?;
    match &args.profile {
        Some(path) => trace.write(path),
        None => Ok(()),
    }
}

/// The work of a rank between two exchanges.
fn work(
    args: &RanksArgs,
    plan: &Plan,
    batches: &Batches,
    trace: &mut Trace,
) -> anyhow::Result<Work> {
    let bytes_per_value = if plan.config.train.exchange_precision == Precision::Bf16 {
        2
    } else {
        4
    };
    if let Some(milliseconds) = args.micro_batch {
        let model = batches
            .model_shape(plan)?
            .init(plan.config.seed, &plan.device);
        return Ok(Work {
            parameters: parameter::count(&model),
            micro_batch_seconds: milliseconds * 1e-3,
            update_seconds: 0.0,
            bytes_per_value,
        });
    }
    let times = batches.time_steps(plan, args.repetitions, trace)?;
    Ok(Work {
        parameters: times.parameters,
        micro_batch_seconds: times.step - times.update,
        update_seconds: times.update,
        bytes_per_value,
    })
}

/// Reads `10G` or `2.5M`, in bits a second.
fn parse_bits(text: &str) -> Result<f64, String> {
    let unit = if text.ends_with(['G', 'g']) {
        1e9
    } else if text.ends_with(['M', 'm']) {
        1e6
    } else {
        return Err("expected a number and a unit, as in 10G or 100M".to_owned());
    };
    let number = parse_positive(&text[..text.len() - 1])
        .map_err(|_| "expected a number above 0 before the unit, as in 10G".to_owned())?;
    Ok(number * unit)
}

/// Reads a number above zero.
fn parse_positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_unit() {
        assert_eq!(parse_bits("2.5M"), Ok(2.5e6));
        assert_eq!(parse_bits("10g"), Ok(1e10));
        for wrong in ["", "10", "G", "0G", "-1G", "infG", "10é"] {
            assert!(parse_bits(wrong).is_err(), "{wrong}");
        }
    }
}
