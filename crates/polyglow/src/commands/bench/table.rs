//! Measurements as text.

use std::io::{self, Write};

use polyglow_predict::wording::counted;
use polyglow_train::workload::BatchShape;

use crate::bench::{
    BucketReport, DataReport, Machine, Operations, SearchReport, Spread, StepReport,
};

pub(super) fn print_steps(out: &mut dyn Write, report: &StepReport) -> io::Result<()> {
    print_machine(out, &report.machine)?;
    let parameters = report.parameters;
    let precision = report.precision.name();
    writeln!(
        out,
        "{parameters} parameters, products in {precision}; times in milliseconds: median (least to most)"
    )?;
    writeln!(
        out,
        "the parts are of steps that wait for each of them, and may be more or less than STEP together\n"
    )?;
    writeln!(
        out,
        "{:>14} {:>22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>6}",
        "BATCH",
        "STEP",
        "UPLOAD",
        "FORWARD",
        "BACKWARD",
        "UPDATE",
        "READ",
        "TOKENS/S",
        "GFLOP/S",
        "PEAK"
    )?;
    for bucket in &report.buckets {
        let BucketReport {
            batch:
                BatchShape {
                    rows,
                    src_len,
                    tgt_len,
                },
            upload,
            forward,
            backward,
            update,
            read,
            ..
        } = bucket;
        writeln!(
            out,
            "{:>14} {:>22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9.0} {:>8.1} {:>4.0} %",
            format!("{rows}x{src_len}x{tgt_len}"),
            milliseconds(&bucket.step),
            median_milliseconds(upload),
            median_milliseconds(forward),
            median_milliseconds(backward),
            median_milliseconds(update),
            median_milliseconds(read),
            bucket.target_tokens_per_second,
            bucket.flops_per_second / 1e9,
            bucket.share_of_peak * 1e2
        )?;
    }
    if let Some(stream) = &report.stream {
        writeln!(
            out,
            "\nover the corpus: {:.0} target tokens/s in {} steps; waiting for data {}",
            stream.target_tokens_per_second,
            stream.steps,
            milliseconds(&stream.data_wait)
        )?;
    }
    print_others(out, &report.machine)?;
    print_memory(out, report.peak_memory)
}

pub(super) fn print_searches(out: &mut dyn Write, report: &SearchReport) -> io::Result<()> {
    print_machine(out, &report.machine)?;
    writeln!(
        out,
        "{} source and {} target tokens; times in milliseconds\n",
        report.src_len, report.tgt_len
    )?;
    writeln!(
        out,
        "{:>9} {:>5} {:>5} {:>26} {:>9}",
        "SENTENCES", "BEAM", "BITS", "TIME", "TOKENS/S"
    )?;
    for times in &report.searches {
        let time = milliseconds(&times.time);
        let rate = times.target_tokens_per_second;
        writeln!(
            out,
            "{:>9} {:>5} {:>5} {time:>26} {rate:>9.0}",
            times.batch, times.beam_size, times.bits
        )?;
    }
    print_others(out, &report.machine)?;
    print_memory(out, report.peak_memory)
}

pub(super) fn print_data(out: &mut dyn Write, report: &DataReport) -> io::Result<()> {
    let DataReport {
        threads,
        pairs,
        bytes,
        batches,
        ..
    } = report;
    writeln!(
        out,
        "{pairs} pairs, {bytes} bytes, {}",
        counted(*threads, "thread")
    )?;
    writeln!(
        out,
        "read        {:>10.0} pairs/s",
        report.read_pairs_per_second
    )?;
    writeln!(out, "vocabulary  {:>10.2} s", report.vocabulary_seconds)?;
    writeln!(
        out,
        "encode      {:>10.0} pairs/s",
        report.encode_pairs_per_second
    )?;
    writeln!(
        out,
        "cache       {:>10.0} pairs/s",
        report.cache_pairs_per_second
    )?;
    writeln!(
        out,
        "plan        {:>10.3} s for {batches} batches",
        report.plan_seconds
    )?;
    let rate = report.batched_pairs_per_second;
    let tokens = report.target_tokens_per_second;
    writeln!(
        out,
        "batches     {rate:>10.0} pairs/s, {tokens:.0} target tokens/s"
    )?;
    let Operations { useful, done } = report.operations;
    let share = 1e2 * (1.0 - useful / done);
    writeln!(
        out,
        "operations  {:>10.0} billion an epoch, {share:.1} % of them on padding",
        done / 1e9
    )?;
    print_memory(out, report.peak_memory)
}

fn print_machine(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let Machine {
        device,
        instructions,
        threads,
        matmul_peak,
        ..
    } = machine;
    let instructions = instructions
        .map(|name| format!(", {name}"))
        .unwrap_or_default();
    let threads = counted(*threads, "thread");
    let peak = matmul_peak / 1e9;
    writeln!(
        out,
        "{device}{instructions}, {threads}; matrix products reach {peak:.1} GFLOP/s"
    )
}

fn print_others(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let Some((others, stolen)) = machine.others.zip(machine.stolen) else {
        return Ok(());
    };
    let [others, stolen] = [others, stolen].map(|share| share * 1e2);
    writeln!(
        out,
        "of this machine's CPU time {others:.1} % went to other programs, and {stolen:.1} % to other machines of its host"
    )
}

fn print_memory(out: &mut dyn Write, peak_memory: Option<u64>) -> io::Result<()> {
    peak_memory.map_or(Ok(()), |bytes| {
        writeln!(out, "peak memory {} MiB", bytes >> 20)
    })
}

fn median_milliseconds(spread: &Spread) -> String {
    format!("{:.2}", spread.median * 1e3)
}

/// The median, and the least and the most.
fn milliseconds(spread: &Spread) -> String {
    let Spread {
        median,
        least,
        most,
    } = spread;
    format!(
        "{:.2} ({:.2} to {:.2})",
        median * 1e3,
        least * 1e3,
        most * 1e3
    )
}
