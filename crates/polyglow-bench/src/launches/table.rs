//! Counts as text.

use std::io::{self, Write};

use polyglow_train::workload::BatchShape;

use super::count::{Counts, LaunchesReport};

/// Writes the counts as tables.
///
/// # Errors
/// `out` cannot be written to.
pub(super) fn print_launches(out: &mut dyn Write, report: &LaunchesReport) -> io::Result<()> {
    let LaunchesReport {
        device,
        parameters,
        batch: BatchShape {
            rows,
            src_len,
            tgt_len,
        },
        ..
    } = report;
    writeln!(
        out,
        "{device}, {parameters} parameters, a batch of {rows}x{src_len}x{tgt_len}; counted, not run\n"
    )?;
    writeln!(
        out,
        "{:>8} {:>8} {:>9} {:>10} {:>8}  PHASE",
        "LAUNCHES", "BLOCKS", "READ GB", "WRITTEN GB", "TFLOP"
    )?;
    for phase in report.phases.iter().chain([&report.step]) {
        print_counts(out, phase)?;
    }
    writeln!(
        out,
        "\n{:>8} {:>8} {:>9} {:>10} {:>8}  OPERATIONS",
        "LAUNCHES", "BLOCKS", "READ GB", "WRITTEN GB", "TFLOP"
    )?;
    for kind in &report.kinds {
        print_counts(out, kind)?;
    }
    writeln!(out, "\n{:>8}  KERNEL", "LAUNCHES")?;
    for (name, launches) in &report.kernels {
        writeln!(out, "{launches:>8}  {name}")?;
    }
    writeln!(
        out,
        "\npeak of tensors {:.2} GB",
        report.peak_memory as f64 / 1e9
    )?;
    writeln!(
        out,
        "the host queues a step in {:.1} ms",
        report.host_seconds * 1e3
    )?;
    let estimates: Vec<String> = report
        .estimates
        .iter()
        .map(|estimate| format!("{} {:.1} ms", estimate.device, estimate.seconds * 1e3))
        .collect();
    writeln!(
        out,
        "a step as estimated from data sheets: {}",
        estimates.join(", ")
    )
}

fn print_counts(out: &mut dyn Write, counts: &Counts) -> io::Result<()> {
    let Counts {
        name,
        launches,
        blocks,
        read,
        written,
        flops,
    } = counts;
    let [read, written] = [read, written].map(|bytes| *bytes as f64 / 1e9);
    writeln!(
        out,
        "{launches:>8} {blocks:>8} {read:>9.2} {written:>10.2} {:>8.2}  {name}",
        flops / 1e12
    )
}
