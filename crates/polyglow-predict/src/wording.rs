//! Words for messages.

use std::ffi::OsStr;
use std::fmt::Display;

/// A number with its noun: `1 thread`, `2 threads`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    format!(
        "{number} {noun}{}",
        if number == N::from(1) { "" } else { "s" }
    )
}

/// A path or another argument of a command that is printed to be typed: in quotes where a shell
/// would read it in another way.
///
/// ```
/// use polyglow_predict::wording::shell_word;
///
/// assert_eq!(shell_word("runs/my"), "runs/my");
/// # #[cfg(unix)]
/// assert_eq!(shell_word("my runs/$1"), "'my runs/$1'");
/// ```
pub fn shell_word(argument: impl AsRef<OsStr>) -> String {
    let argument = argument.as_ref().to_string_lossy();
    if cfg!(windows) {
        // Neither `cmd` nor PowerShell has `shlex`'s quotes, and a path has no double quotes there.
        let is_plain = |letter: char| letter.is_alphanumeric() || r"\/:._-".contains(letter);
        return if !argument.is_empty() && argument.chars().all(is_plain) {
            argument.into_owned()
        } else {
            format!("\"{argument}\"")
        };
    }
    // Only a NUL cannot be quoted, which no argument has.
    shlex::try_quote(&argument).map_or_else(|_| argument.clone().into_owned(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!(
            [0, 1, 2].map(|number| counted(number, "thread")),
            ["0 threads", "1 thread", "2 threads"]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was() {
        for word in [
            "runs/my",
            "my runs/a",
            "it's",
            "$HOME",
            "a\"b",
            "*",
            "",
            "~/x",
            "Läufe/ü",
            "a\nb",
            "!x",
        ] {
            let script = format!("printf %s {}", shell_word(word));
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word, "{script}");
        }
        assert_eq!(shell_word("runs/my-1.2_b"), "runs/my-1.2_b");
    }
}
