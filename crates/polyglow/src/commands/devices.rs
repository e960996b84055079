//! `polyglow devices`: the backends of this build and the devices found.

use std::io::{self, Write};

use clap::Args;
use polyglow_predict::device::{self, DeviceInfo};
use serde::Serialize;

/// The arguments of `polyglow devices`.
#[derive(Args)]
pub(crate) struct DevicesArgs {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON report.
#[derive(Serialize)]
struct Report {
    /// Backends in this build, whether or not they found a device.
    backends: Vec<&'static str>,
    devices: Vec<DeviceInfo>,
}

/// Prints one line per device, or JSON with `backends` (those compiled in) and `devices`.
///
/// # Errors
/// Stdout cannot be written to.
pub(crate) fn run(args: &DevicesArgs) -> anyhow::Result<()> {
    let report = Report {
        backends: device::compiled_in(),
        devices: device::list(),
    };
    let mut stdout = io::stdout().lock();
    if args.json {
        return Ok(writeln!(
            stdout,
            "{}",
            serde_json::to_string_pretty(&report)?
        )?);
    }
    writeln!(stdout, "{:<12} {:<15} ADAPTER", "DEVICE", "KIND")?;
    for backend in report.backends {
        let mut found = report
            .devices
            .iter()
            .filter(|device| device.backend == backend)
            .peekable();
        if found.peek().is_none() {
            writeln!(
                stdout,
                "{backend:<12} {:<15} nothing found on this machine",
                "-"
            )?;
        }
        for device in found {
            writeln!(
                stdout,
                "{:<12} {:<15} {}",
                device.name, device.kind, device.adapter
            )?;
        }
    }
    Ok(())
}
