//! The input of `translate`: lines, with the options of each.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::anyhow;
use polyglow_data::error::DataError;
use polyglow_data::lines::Lines;
use polyglow_predict::translate::Request;
use polyglow_predict::wording::shell_word;

use super::{PORTION, TranslateArgs};
use crate::failure::with_hint;

/// The hint for files that go with the input.
const ONE_LINE_EACH: &str =
    "there must be one line for each line of the input; a blank line asks for nothing";

/// The lines to translate, with the prefix and the constraints of each.
pub(super) struct Input {
    pub(super) lines: Lines,
    first: Option<String>,
    prefix: Option<Lines>,
    constraints: Option<Lines>,
    /// Whether a person types the lines, who expects an answer to each; a file is faster in large
    /// portions.
    pub(super) typed: bool,
}

impl Input {
    pub(super) fn open(args: &TranslateArgs) -> anyhow::Result<Self> {
        let lines = match &args.file {
            Some(path) => {
                Lines::open(path).map_err(|error| explain_missing(error, path, &args.model.run))?
            }
            None => Lines::from_reader(io::stdin(), Path::new("standard input"))?,
        };
        let prefix = args.prefix.as_deref().map(Lines::open).transpose()?;
        let constraints = args.constraints.as_deref().map(Lines::open).transpose()?;
        let typed = args.file.is_none() && io::stdin().is_terminal();
        Ok(Self {
            lines,
            first: None,
            prefix,
            constraints,
            typed,
        })
    }

    /// The lines of the input if it is a file that can be read twice, before the first is taken.
    pub(super) fn count(&self) -> Option<usize> {
        let path = self.lines.path();
        if !path.metadata().is_ok_and(|found| found.is_file()) {
            // To open a pipe once more would take its text away.
            return None;
        }
        Lines::open(path)
            .ok()
            .map(|lines| lines.take_while(Result::is_ok).count())
    }

    /// Reads the first line, so that an unreadable input is an error before the output is created.
    pub(super) fn probe(&mut self) -> anyhow::Result<()> {
        if !self.typed {
            self.first = self.lines.next().transpose()?;
        }
        Ok(())
    }

    /// Skips lines that an earlier command has translated.
    pub(super) fn skip(&mut self, lines: usize) -> anyhow::Result<()> {
        for _ in 0..lines {
            if self.next_line()?.is_none() {
                let error = anyhow!(
                    "the output has {lines} lines' translations, and the input only {}",
                    self.lines.line()
                );
                return Err(with_hint(
                    error,
                    "is it the same input? Without `--resume` the output is made anew",
                ));
            }
            let number = self.lines.line();
            partner(&mut self.prefix, number)?;
            partner(&mut self.constraints, number)?;
        }
        Ok(())
    }

    /// Takes the next line of the input, which [`Self::probe`] may have read.
    fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        match self.first.take() {
            Some(line) => Ok(Some(line)),
            None => Ok(self.lines.next().transpose()?),
        }
    }

    /// Reads the next lines, with what goes with each; `None` at the end.
    pub(super) fn portion(&mut self) -> anyhow::Result<Option<Vec<Request>>> {
        let mut requests = Vec::new();
        while requests.len() < if self.typed { 1 } else { PORTION } {
            let Some(text) = self.next_line()? else {
                break;
            };
            let number = self.lines.line();
            let prefix = partner(&mut self.prefix, number)?.unwrap_or_default();
            let constraints = partner(&mut self.constraints, number)?.unwrap_or_default();
            let constraints = constraints
                .split('\t')
                .map(str::trim)
                .filter(|phrase| !phrase.is_empty());
            let constraints = constraints.map(str::to_owned).collect();
            requests.push(Request {
                text,
                prefix,
                constraints,
                ..Request::default()
            });
        }
        Ok((!requests.is_empty()).then_some(requests))
    }

    /// Checks that the other files have no more lines than the input.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        let read = self.lines.line();
        for lines in [&mut self.prefix, &mut self.constraints]
            .into_iter()
            .flatten()
        {
            let more = lines.next().transpose()?.is_some();
            if more {
                let error = anyhow!(
                    "`{}` has more than the {read} lines of the input",
                    lines.path().display()
                );
                return Err(with_hint(error, ONE_LINE_EACH));
            }
        }
        Ok(())
    }
}

/// Returns the error for a missing file, with the hint that its name may be the text itself; any
/// other error stays.
fn explain_missing(error: DataError, path: &Path, run: &Path) -> anyhow::Error {
    if path.symlink_metadata().is_ok() {
        return error.into();
    }
    let text = path.display().to_string();
    let run = shell_word(run);
    let quoted = shell_word(&text);
    let advice = format!(
        "to translate a sentence, pipe it: `echo {quoted} | polyglow translate {run}`, or type it with `-i`"
    );
    let is_sentence = text.contains(char::is_whitespace);
    let spelled = if is_sentence {
        ""
    } else {
        "is the name spelled right, from the current directory? "
    };
    with_hint(
        anyhow!("there is no file `{text}`"),
        format!("{spelled}{advice}"),
    )
}

/// Reads the line of a file that goes with line `number` of the input; `None` without a file.
fn partner(lines: &mut Option<Lines>, number: u64) -> anyhow::Result<Option<String>> {
    let Some(lines) = lines else { return Ok(None) };
    let line = lines.next().transpose()?;
    if line.is_none() {
        let error = anyhow!(
            "`{}` has no line {number}, but the input does",
            lines.path().display()
        );
        return Err(with_hint(error, ONE_LINE_EACH));
    }
    Ok(line)
}
