//! Measurements for developers of polyglow: whether a device computes what the CPU does (`compare`), the
//! work of a GPU in a training step (`launches`, `profile`), and the gain of a training from several
//! machines (`ranks`). Measurements for users are in `polyglow bench`.
//!
//! Under the name `polyglow`, as by a link to it, it is that program: one file then has all that is
//! carried to a machine with a GPU.

mod compare;
mod launches;
mod ranks;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: polyglow::allocator::Allocator = polyglow::allocator::Allocator;

/// Measurements for developers of polyglow.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    verbosity: polyglow::Verbosity,
}

#[derive(Subcommand)]
enum Command {
    /// Compare what a device computes with what the CPU does: kernels, gradients, searches
    Compare(compare::CompareArgs),
    /// Count what a GPU does in a training step, without a GPU: kernels, bytes, operations, memory
    Launches(launches::LaunchesArgs),
    /// Time each kernel of a training step on a GPU
    Profile(launches::LaunchesArgs),
    /// Estimate what a training gains from several processes, by a model of the network
    Ranks(ranks::RanksArgs),
}

fn main() -> ExitCode {
    polyglow::allocator::keep_freed_memory();
    let name = std::env::args_os().next().unwrap_or_default();
    if Path::new(&name)
        .file_stem()
        .is_some_and(|stem| stem == "polyglow")
    {
        return polyglow::run();
    }
    polyglow::run_program(run)
}

/// Reads the arguments of this process and runs the command. Help and wrong usage are printed here.
fn run() -> anyhow::Result<u8> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => {
            message.print()?;
            return Ok(u8::try_from(message.exit_code()).unwrap_or(1));
        }
    };
    polyglow::begin(cli.verbosity)?;
    match cli.command {
        Command::Compare(args) => compare::run(&args)?,
        Command::Launches(args) => launches::run(&args)?,
        Command::Profile(args) => launches::profile(&args)?,
        Command::Ranks(args) => ranks::run(&args)?,
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
