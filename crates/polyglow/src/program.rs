//! The name of the running program in the commands that messages advise: a program that adds parts
//! of its own to polyglow has another name.

use std::sync::OnceLock;

use clap::CommandFactory;
use polyglow_train::run::Program;

use crate::cli::Cli;

/// The name in messages, unless [`name_this`] gives another one.
const POLYGLOW: &str = "polyglow";

static NAME: OnceLock<String> = OnceLock::new();

/// Lets messages name the program of this process, as [`Program::this`] has it.
pub(crate) fn name_this() {
    // A process is one program, whatever else calls this.
    let _ = NAME.set(Program::this().name);
}

/// Returns the name of the program, as it stands before a command: `polyglow`.
pub(crate) fn name() -> &'static str {
    NAME.get().map_or(POLYGLOW, String::as_str)
}

/// Returns a message in which commands, such as `polyglow train`, are those of this program.
pub(crate) fn with_own_commands(message: &str) -> String {
    match name() {
        POLYGLOW => message.to_owned(),
        name => with_commands_of(name, message),
    }
}

fn with_commands_of(program: &str, message: &str) -> String {
    let cli = Cli::command();
    let commands = cli.get_subcommands().map(clap::Command::get_name);
    commands.fold(message.to_owned(), |message, command| {
        message.replace(
            &format!("{POLYGLOW} {command}"),
            &format!("{program} {command}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_the_program_and_the_library_keeps_its_name() {
        let hint = "`polyglow help config arch`, or `cat x | polyglow translate RUN`: polyglow can";
        let expected = "`mine help config arch`, or `cat x | mine translate RUN`: polyglow can";
        assert_eq!(with_commands_of("mine", hint), expected);
        assert_eq!(with_own_commands(hint), hint);
    }
}
