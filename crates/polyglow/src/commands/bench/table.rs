//! Measurements as text.

use std::io::{self, Write};

use polyglow_predict::wording::counted;
use polyglow_train::workload::BatchShape;

use crate::bench::{
    BucketReport, COLUMNS, DataReport, Machine, Operations, RanksReport, RanksRow, SearchReport,
    Spread, StepReport,
};
#[cfg(feature = "gpu")]
use crate::bench::{Counts, LaunchesReport};

pub(super) fn print_steps(out: &mut dyn Write, report: &StepReport) -> io::Result<()> {
    print_machine(out, &report.machine)?;
    let (parameters, precision) = (report.parameters, report.precision.name());
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
        let median = |spread: &Spread| format!("{:.2}", spread.median * 1e3);
        writeln!(
            out,
            "{:>14} {:>22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9.0} {:>8.1} {:>4.0} %",
            format!("{rows}x{src_len}x{tgt_len}"),
            milliseconds(&bucket.step),
            median(upload),
            median(forward),
            median(backward),
            median(update),
            median(read),
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
        let (time, rate) = (milliseconds(&times.time), times.target_tokens_per_second);
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
    let (rate, tokens) = (
        report.batched_pairs_per_second,
        report.target_tokens_per_second,
    );
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

#[cfg(feature = "gpu")]
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
    let line = |out: &mut dyn Write, counts: &Counts| {
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
    };
    writeln!(
        out,
        "{:>8} {:>8} {:>9} {:>10} {:>8}  PHASE",
        "LAUNCHES", "BLOCKS", "READ GB", "WRITTEN GB", "TFLOP"
    )?;
    report
        .phases
        .iter()
        .chain([&report.step])
        .try_for_each(|phase| line(out, phase))?;
    writeln!(
        out,
        "\n{:>8} {:>8} {:>9} {:>10} {:>8}  OPERATIONS",
        "LAUNCHES", "BLOCKS", "READ GB", "WRITTEN GB", "TFLOP"
    )?;
    report.kinds.iter().try_for_each(|kind| line(out, kind))?;
    writeln!(out, "\n{:>8}  KERNEL", "LAUNCHES")?;
    report
        .kernels
        .iter()
        .try_for_each(|(name, launches)| writeln!(out, "{launches:>8}  {name}"))?;
    writeln!(
        out,
        "\npeak of tensors {:.2} GB",
        report.peak_memory as f64 / 1e9
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

pub(super) fn print_ranks(out: &mut dyn Write, report: &RanksReport) -> io::Result<()> {
    let RanksReport {
        network,
        work,
        rows,
    } = report;
    let (megabytes, parameters) = (
        (work.parameters * work.bytes_per_value) as f64 / 1e6,
        work.parameters,
    );
    let (micro_batch, update) = (work.micro_batch_seconds * 1e3, work.update_seconds * 1e3);
    let (rate, latency) = (network.bits_per_second / 1e9, network.latency * 1e6);
    writeln!(
        out,
        "{parameters} parameters, {megabytes:.1} MB of gradients in each step"
    )?;
    writeln!(
        out,
        "a micro-batch takes {micro_batch:.1} ms forward and backward, the update {update:.1} ms"
    )?;
    writeln!(
        out,
        "{rate} Gbit/s between machines, {latency} us a message, one rank on each machine"
    )?;
    writeln!(
        out,
        "a rank copies, sends and adds {} GB/s",
        network.host_bytes_per_second / 1e9
    )?;
    writeln!(
        out,
        "\nAn estimate: a rank's rate as a share of what it makes alone, by its micro-batches in a step"
    )?;
    write!(out, "{:>6} {:>9}", "RANKS", "SUMS MS")?;
    COLUMNS
        .iter()
        .try_for_each(|micro_batches| write!(out, " {micro_batches:>6}"))?;
    writeln!(out, "  accumulate_steps FOR 90 %")?;
    for RanksRow {
        ranks,
        exchange_seconds,
        efficiency,
        accumulate_steps,
    } in rows
    {
        write!(out, "{ranks:>6} {:>9.1}", exchange_seconds * 1e3)?;
        efficiency
            .iter()
            .try_for_each(|share| write!(out, " {:>4.0} %", share * 1e2))?;
        writeln!(out, "  {accumulate_steps:>25}")?;
    }
    Ok(())
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
    let (threads, peak) = (counted(*threads, "thread"), matmul_peak / 1e9);
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
