//! `polyglow bench`: how fast this machine trains, searches, and prepares text.

mod args;
mod table;

use std::ffi::OsString;

use anyhow::anyhow;
use clap::ValueEnum;
use polyglow_model::Transformer;
use polyglow_model::quantization::has_int8_kernels;
use polyglow_predict::tasks::facts;
use polyglow_train::Plan;
use polyglow_train::config::Config;

use crate::bench::{
    Batches, SearchReport, Trace, bench_data, bench_search, ensure_writes_text, print_report,
};
use crate::failure::{usage, with_hint};
pub(crate) use args::BenchArgs;
use args::Part;
use table::{print_data, print_searches, print_steps};

/// Parts of earlier versions that are commands of `polyglow-bench` now.
const MOVED: [&str; 2] = ["launches", "ranks"];

/// Measures, prints the report, and writes the timeline of `--profile`.
///
/// # Errors
/// The config is wrong (exit code 2); the device does not exist or fails; text cannot be read.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    if let Some(option) = args.unused() {
        let error = usage(anyhow!(
            "`{option}` changes nothing in this part of `bench`"
        ));
        return Err(with_hint(
            error,
            "leave it out; `polyglow bench --help` says which part each option is of",
        ));
    }
    let batches = Batches::new(&args.model, &args.shapes, args.vocab_size)?;
    let config = args.model.load()?;
    ensure_suits(&config, args)?;
    let mut trace = Trace::default();
    if let Some(path) = &args.profile {
        // Written first, so that a path that is not writable fails before the measurement.
        trace.write(path)?;
    }
    let plan = Plan::new(config)?;
    match args.part {
        Part::Step => {
            let report = batches.measure_steps(&plan, args.repetitions(), &mut trace)?;
            print_report(args.json, &report, print_steps)?;
        }
        Part::Search => {
            let report = search(args, &plan, &batches, &mut trace)?;
            print_report(args.json, &report, print_searches)?;
        }
        Part::Data => {
            let report = bench_data(&plan, &mut trace)?;
            print_report(args.json, &report, print_data)?;
        }
    }
    match &args.profile {
        Some(path) => trace.write(path),
        None => Ok(()),
    }
}

/// Refuses a model that this part cannot measure.
fn ensure_suits(config: &Config, args: &BenchArgs) -> anyhow::Result<()> {
    if args.part == Part::Search {
        ensure_writes_text(config)?;
    }
    if args.part == Part::Data && facts(config.model.task()).reads_images() {
        let error = usage(anyhow!(
            "`bench data` measures how text becomes batches, and this model reads images"
        ));
        return Err(with_hint(
            error,
            "`polyglow bench step CONFIG` measures its training",
        ));
    }
    if args.int8 && config.model.arch != Transformer::ARCH {
        let error = anyhow!("`--int8` is for `bench search` with `model.arch = \"transformer\"`");
        return Err(with_hint(
            usage(error),
            "leave `--int8` out: 8-bit matrices are measured for translation alone",
        ));
    }
    Ok(())
}

fn search(
    args: &BenchArgs,
    plan: &Plan,
    batches: &Batches,
    trace: &mut Trace,
) -> anyhow::Result<SearchReport> {
    let shape = batches.model_shape(plan)?;
    if args.int8 && !has_int8_kernels(&plan.device) {
        let error = anyhow!("`{}` has no 8-bit matrix products", plan.config.device);
        return Err(with_hint(
            usage(error),
            "leave `--int8` out, or give `--device flex`",
        ));
    }
    let bits: &[usize] = if args.int8 { &[32, 8] } else { &[32] };
    bench_search(plan, &shape, bits, args.repetitions(), trace)
}

/// Refuses the arguments of a part of `bench` that is a command of `polyglow-bench` now, whatever
/// else is wrong with them.
///
/// # Errors
/// They are such (exit code 2).
pub(crate) fn refuse_moved(arguments: &[OsString]) -> anyhow::Result<()> {
    let mut words = arguments
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str());
    if words.find(|word| !word.starts_with('-')) != Some("bench") {
        return Ok(());
    }
    let part = words.find(|word| MOVED.contains(word) || Part::from_str(word, false).is_ok());
    let Some(part) = part.filter(|part| MOVED.contains(part)) else {
        return Ok(());
    };
    let features = if part == "launches" {
        " --features wgpu"
    } else {
        ""
    };
    let error = anyhow!(
        "`bench {part}` is a command of `polyglow-bench` now, which is for those who develop polyglow"
    );
    Err(with_hint(
        usage(error),
        format!(
            "in the repository, with the same options: `cargo run --release -p polyglow-bench{features} -- {part}`"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_part_that_moved_is_refused() {
        let refused = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            refuse_moved(&arguments).is_err()
        };
        assert!(refused("polyglow bench ranks --network 100G"));
        assert!(refused("polyglow -v bench --repetitions 3 launches"));
        assert!(!refused("polyglow bench step ranks --speed"));
        assert!(!refused("polyglow bench --help"));
        assert!(!refused("polyglow translate bench ranks --speed"));
    }
}
