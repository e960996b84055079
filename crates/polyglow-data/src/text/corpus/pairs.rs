//! Lines of files become pairs.
//!
//! A file is read as it is needed, one line at a time, and wrong content is an error of the
//! iterator at the line where it stands. A file without lines is an error, too: it is hardly ever
//! meant.

use std::path::PathBuf;
use std::sync::Arc;

use super::cleaned::Cleaner;
use super::cut::Cut;
use super::tmx::TmxPairs;
use super::{labeled, text};
use crate::error::DataError;
use crate::image_set::ImageSet;
use crate::labeled::LabeledLines;
use crate::lines::Lines;
use crate::pair::Pair;
use crate::tagged::TaggedSentences;

/// Iterates over the pairs of one part; files are read line by line.
pub struct Pairs {
    pub(super) reader: Reader,
    /// Whether the sides are exchanged.
    pub(super) is_reversed: bool,
    pub(super) is_text: bool,
    /// The position at which the part ends too early, if that is no error.
    pub(super) cut: Option<Cut>,
    /// The number of pairs that were read.
    pub(super) num_read: u64,
    /// Cleans the pairs, of which some are then left out.
    pub(super) cleaner: Option<Cleaner>,
}

/// The source of the pairs, and how far it was read.
pub(super) enum Reader {
    Embedded {
        pairs: Arc<Vec<Pair>>,
        next: usize,
    },
    TwoFiles {
        src: Lines,
        tgt: Lines,
    },
    Tsv(Lines),
    Tmx(Box<TmxPairs>),
    Text(Lines),
    Labeled {
        lines: LabeledLines,
        path: PathBuf,
        /// Whether a line was read, without which the file is empty.
        any: bool,
    },
    Tagged(TaggedSentences),
    Images {
        images: Arc<ImageSet>,
        next: usize,
    },
}

impl Iterator for Pairs {
    type Item = Result<Pair, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut next = self.read();
        // While the cleaner is asked, it is away.
        if let Some(mut cleaner) = self.cleaner.take() {
            while let Some(Ok(pair)) = &next {
                if let Some(cleaned) = cleaner.clean(pair) {
                    next = Some(Ok(cleaned));
                    break;
                }
                next = self.read();
            }
            self.cleaner = Some(cleaner);
        }
        if self.is_text
            && let Some(Ok(pair)) = &mut next
        {
            pair.src.clear();
        }
        next
    }
}

impl Pairs {
    /// Returns the number of pairs that were read so far, with those that cleaning has left out: the
    /// line of the last pair that was returned, in a file with a pair on each line.
    pub fn num_read(&self) -> u64 {
        self.num_read
    }

    /// Reads the next pair, not cleaned yet, with its sides in the order in which they are wanted.
    fn read(&mut self) -> Option<Result<Pair, DataError>> {
        let cut = self.cut.as_ref();
        if cut.is_some_and(|cut| cut.is_behind(self.num_read)) {
            return None;
        }
        let next = self.reader.next();
        match &next {
            Some(Ok(_)) => self.num_read += 1,
            Some(Err(error)) if cut.is_some_and(|cut| cut.accept(error, self.num_read)) => {
                return None;
            }
            _ => {}
        }
        if !self.is_reversed {
            return next;
        }
        next.map(|pair| pair.map(|Pair { src, tgt }| Pair { src: tgt, tgt: src }))
    }
}

impl Reader {
    /// Reads the next pair as it is in the source.
    fn next(&mut self) -> Option<Result<Pair, DataError>> {
        match self {
            Reader::Embedded { pairs, next } => {
                *next += 1;
                pairs.get(*next - 1).cloned().map(Ok)
            }
            Reader::TwoFiles { src, tgt } => next_of_two(src, tgt).transpose(),
            Reader::Tsv(lines) => next_of_tsv(lines).transpose(),
            Reader::Tmx(pairs) => pairs.next(),
            Reader::Text(lines) => text::next(lines).transpose(),
            Reader::Labeled { lines, path, any } => {
                let next = lines.next().map(|line| line.map(labeled::labeled_pair));
                let is_first = !std::mem::replace(any, true);
                next.or_else(|| is_first.then(|| Err(DataError::Empty { path: path.clone() })))
            }
            Reader::Tagged(sentences) => sentences.next(),
            // Pixels never become text: the source is empty, and batches take images by number.
            Reader::Images { images, next } => {
                *next += 1;
                let label = images.label_ids.get(*next - 1);
                label.map(|&id| {
                    Ok(Pair {
                        src: String::new(),
                        tgt: images.labels.names()[id as usize].clone(),
                    })
                })
            }
        }
    }
}

/// Reads the next line of each side as a pair; `None` if both files end.
fn next_of_two(src: &mut Lines, tgt: &mut Lines) -> Result<Option<Pair>, DataError> {
    match (src.next().transpose()?, tgt.next().transpose()?) {
        (Some(src), Some(tgt)) => Ok(Some(Pair { src, tgt })),
        (None, None) if src.line() == 0 => Err(DataError::Empty {
            path: src.path().to_owned(),
        }),
        (None, None) => Ok(None),
        // One file has ended before the other.
        _ => {
            // The line counts of both files help more than the first missing line: a difference of
            // 1 is an odd line somewhere, and a large one a truncated file.
            // A file that cannot be read to its end has at least these.
            _ = skip_to_end(src).and(skip_to_end(tgt));
            Err(DataError::LineCount {
                src: src.path().to_owned(),
                src_lines: src.line(),
                tgt: tgt.path().to_owned(),
                tgt_lines: tgt.line(),
            })
        }
    }
}

/// Reads the rest of a file, to count its lines.
fn skip_to_end(lines: &mut Lines) -> Result<(), DataError> {
    lines.try_for_each(|line| line.map(drop))
}

/// Reads the next line as a pair; `None` at the end of the file.
fn next_of_tsv(lines: &mut Lines) -> Result<Option<Pair>, DataError> {
    let Some(line) = lines.next().transpose()? else {
        return if lines.line() == 0 {
            Err(DataError::Empty {
                path: lines.path().to_owned(),
            })
        } else {
            Ok(None)
        };
    };
    match *line.split('\t').collect::<Vec<_>>() {
        [src, tgt] => Ok(Some(Pair {
            src: src.to_owned(),
            tgt: tgt.to_owned(),
        })),
        ref columns => Err(DataError::Columns {
            path: lines.path().to_owned(),
            line: lines.line(),
            count: columns.len(),
            texts: text_columns(columns),
        }),
    }
}

/// The first two columns that look like text, counted from 1: those with spaces or with many
/// letters, and not numbers, links or licenses.
fn text_columns(columns: &[&str]) -> Option<[usize; 2]> {
    let mut texts = columns
        .iter()
        .zip(1..)
        .filter(|(column, _)| is_text(column))
        .map(|(_, number)| number);
    Some([texts.next()?, texts.next()?])
}

/// Whether a column looks like text.
fn is_text(column: &str) -> bool {
    let letters = column
        .chars()
        .filter(|character| character.is_alphabetic())
        .count();
    let is_long = column.contains(' ') || letters > 8;
    letters > 0 && is_long && !column.contains("://") && !column.starts_with("CC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_with_text_are_recognized_among_numbers_links_and_licenses() {
        for (line, texts) in [
            ("12\tThe dog sleeps.\t77\tDer Hund schläft.", Some([2, 4])),
            (
                "The dog.\tDer Hund.\tCC-BY 2.0 (France) Attribution: tatoeba.org",
                Some([1, 2]),
            ),
            ("1.07\tThe dog.\tDer Hund.", Some([2, 3])),
            ("en\tde\tThe dog.\tDer Hund.", Some([3, 4])),
            ("https://a.org/x y\tThe dog.\tDer Hund.", Some([2, 3])),
            ("a\tb\tc", None),
            ("no tab", None),
        ] {
            assert_eq!(
                text_columns(&line.split('\t').collect::<Vec<_>>()),
                texts,
                "{line}"
            );
        }
    }
}
