//! Measurements for developers of polyglow: the work of a GPU in a training step (`launches`), and the
//! gain of a training from several machines (`ranks`). Measurements for users are in `polyglow bench`.

mod launches;
mod ranks;

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
    /// Count what a GPU does in a training step, without a GPU: kernels, bytes, operations, memory
    Launches(launches::LaunchesArgs),
    /// Estimate what a training gains from several processes, by a model of the network
    Ranks(ranks::RanksArgs),
}

fn main() -> ExitCode {
    polyglow::allocator::keep_freed_memory();
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
        Command::Launches(args) => launches::run(&args)?,
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
