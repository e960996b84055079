//! The files that are scored, as lines that belong together.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use polyglow_data::error::DataError;
use polyglow_data::lines::read_text;
use polyglow_metrics::{Tokenizer, lines};

use super::MetricsArgs;
use crate::failure::{usage, with_hint};

/// From this many lines that end in ` .`, sacreBLEU considers a text tokenized.
const TOKENIZED_LINES: usize = 100;

/// Share of the letters of a script without spaces in too long words, from which a tokenizer does
/// not suit the text.
pub(crate) const PHRASES: f64 = 0.5;
/// Lines by which the tokenizer is tested.
const SOME_LINES: usize = 1000;

/// The texts of all files.
pub(super) struct Input {
    systems: Vec<Text>,
    references: Vec<Text>,
    num_refs: usize,
}

/// A file and what is in it.
struct Text {
    path: PathBuf,
    content: String,
}

/// The lines of all files, as many in each.
pub(super) struct Systems<'a> {
    /// The name of each system: its file.
    pub(super) names: Vec<String>,
    /// The hypotheses of each system.
    pub(super) hypotheses: Vec<Vec<&'a str>>,
    /// The references, a stream each.
    pub(super) references: Vec<Vec<&'a str>>,
}

impl Input {
    /// Reads all files.
    ///
    /// # Errors
    /// A file is named twice as a system, or stdin twice at all; a file cannot be read or is not
    /// UTF-8.
    pub(super) fn read(args: &MetricsArgs) -> anyhow::Result<Self> {
        let systems: Vec<&PathBuf> = std::iter::once(&args.hypothesis)
            .chain(&args.systems)
            .collect();
        let twice = (1..systems.len()).find(|&index| systems[..index].contains(&systems[index]));
        if let Some(index) = twice {
            let error = anyhow!("`{}` is given twice as a system", systems[index].display());
            return Err(usage(with_hint(
                error,
                "give each system once, under a name of its own",
            )));
        }
        let from_stdin = systems
            .iter()
            .copied()
            .chain(&args.references)
            .filter(|path| is_stdin(path))
            .count();
        if from_stdin > 1 {
            let error = anyhow!(
                "`-` is given {from_stdin} times, but standard input can be read only once"
            );
            return Err(usage(with_hint(error, "save the others to files")));
        }
        Ok(Self {
            systems: systems
                .into_iter()
                .map(|path| Text::read(path))
                .collect::<Result<_, _>>()?,
            references: args
                .references
                .iter()
                .map(|path| Text::read(path))
                .collect::<Result<_, _>>()?,
            num_refs: args.num_refs,
        })
    }

    /// Splits the texts into lines that belong together.
    ///
    /// # Errors
    /// A text is empty or its number of lines differs from the first; a line has the wrong number
    /// of references.
    pub(super) fn systems(&self) -> anyhow::Result<Systems<'_>> {
        let hypotheses: Vec<_> = self.systems.iter().map(Text::lines).collect();
        let references: Vec<_> = self.references.iter().map(Text::lines).collect();
        let texts: Vec<_> = self.systems.iter().chain(&self.references).collect();
        let counts: Vec<_> = hypotheses
            .iter()
            .chain(&references)
            .map(|lines| lines.len() as u64)
            .collect();
        for (text, &count) in texts.iter().zip(&counts) {
            if count == 0 {
                let error = DataError::Empty {
                    path: text.path.clone(),
                };
                return Err(with_hint(
                    error,
                    "there must be one line per segment, blank if the segment has no text",
                ));
            }
            if count != counts[0] {
                return Err(different_lengths(texts[0], counts[0], text, count));
            }
        }
        let references = match (self.num_refs, self.references.first()) {
            (2.., Some(text)) => split_references(text, &references[0], self.num_refs)?,
            _ => references,
        };
        Ok(Systems {
            names: self.systems.iter().map(Text::name).collect(),
            hypotheses,
            references,
        })
    }
}

impl Text {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let (content, path) = if is_stdin(path) {
            let name = Path::new("standard input");
            (read_text(io::stdin(), name)?, name)
        } else {
            let file = File::open(path).map_err(|source| unreadable(path, source))?;
            (read_text(file, path)?, path)
        };
        if content.starts_with('\u{feff}') {
            tracing::warn!(
                "`{}` begins with a byte-order mark, which is scored as a character, as sacreBLEU does",
                path.display()
            );
        }
        Ok(Self {
            path: path.to_owned(),
            content,
        })
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn lines(&self) -> Vec<&str> {
        lines(&self.content)
    }
}

impl Systems<'_> {
    /// Warns if many hypotheses end in ` .`, as tokenized text does.
    pub(super) fn warn_of_tokens(&self) {
        for (name, hypotheses) in self.names.iter().zip(&self.hypotheses) {
            let tokenized = hypotheses
                .iter()
                .filter(|line| line.ends_with(" ."))
                .count();
            if tokenized >= TOKENIZED_LINES {
                tracing::warn!(
                    "{tokenized} lines of `{name}` end in ` .`: BLEU is comparable only for text that is not tokenized \
                     (`--force` silences this)"
                );
            }
        }
    }

    /// Warns if the tokenizer hardly splits the references, for want of spaces.
    pub(super) fn warn_of_phrases(&self, tokenizer: &Tokenizer) {
        let share =
            tokenizer.unsplit_share(self.references.iter().flatten().copied().take(SOME_LINES));
        if share > PHRASES {
            tracing::warn!(
                "the references are of a script without spaces, and `{}` leaves {:.0} % of its letters in words of more than 10: \
                 BLEU compares whole phrases (`--tokenize auto` takes what suits the script, `--force` silences this)",
                tokenizer.name(),
                100.0 * share
            );
        }
    }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The error of a file that cannot be opened.
fn unreadable(path: &Path, source: io::Error) -> anyhow::Error {
    let error = DataError::Io {
        path: path.to_owned(),
        source,
    };
    with_hint(
        error,
        "give the path of a file, from the current directory on, or `-` for standard input",
    )
}

/// The error of two texts with different numbers of lines.
fn different_lengths(
    first: &Text,
    first_lines: u64,
    other: &Text,
    other_lines: u64,
) -> anyhow::Error {
    let error = DataError::LineCount {
        src: first.path.clone(),
        src_lines: first_lines,
        tgt: other.path.clone(),
        tgt_lines: other_lines,
    };
    with_hint(
        error,
        "line n of each file must belong to the same segment; look for lines that were split, joined or dropped",
    )
}

/// Splits each line at its first tabs into `num_refs` references.
fn split_references<'a>(
    text: &Text,
    lines: &[&'a str],
    num_refs: usize,
) -> anyhow::Result<Vec<Vec<&'a str>>> {
    let mut streams = vec![Vec::with_capacity(lines.len()); num_refs];
    for (line, number) in lines.iter().zip(1..) {
        let fields: Vec<&str> = line.splitn(num_refs, '\t').collect();
        if fields.len() != num_refs {
            let found = fields.len();
            let error = anyhow!(
                "`{}` line {number}: {found} references instead of {num_refs}",
                text.path.display()
            );
            return Err(with_hint(
                error,
                "`--num-refs` expects this many references on each line, separated by tabs",
            ));
        }
        for (stream, field) in streams.iter_mut().zip(fields) {
            stream.push(field);
        }
    }
    Ok(streams)
}
