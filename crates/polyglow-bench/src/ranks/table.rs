//! An estimate as text.

use std::io::{self, Write};

use super::estimate::{COLUMNS, RanksReport, RanksRow};

/// Writes the estimate as a table.
///
/// # Errors
/// `out` cannot be written to.
pub(super) fn print_ranks(out: &mut dyn Write, report: &RanksReport) -> io::Result<()> {
    let RanksReport {
        network,
        work,
        rows,
    } = report;
    let parameters = work.parameters;
    let megabytes = (work.parameters * work.bytes_per_value) as f64 / 1e6;
    let micro_batch = work.micro_batch_seconds * 1e3;
    let update = work.update_seconds * 1e3;
    let rate = network.bits_per_second / 1e9;
    let latency = network.latency * 1e6;
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
    for micro_batches in COLUMNS {
        write!(out, " {micro_batches:>6}")?;
    }
    writeln!(out, "  accumulate_steps FOR 90 %")?;
    for RanksRow {
        ranks,
        exchange_seconds,
        efficiency,
        accumulate_steps,
    } in rows
    {
        write!(out, "{ranks:>6} {:>9.1}", exchange_seconds * 1e3)?;
        for share in efficiency {
            write!(out, " {:>4.0} %", share * 1e2)?;
        }
        writeln!(out, "  {accumulate_steps:>25}")?;
    }
    Ok(())
}
