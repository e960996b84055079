//! `polyglow clean --explain`: what becomes of a pair, and what decided it.

use std::io::{self, Write};

use anyhow::anyhow;
use polyglow_data::clean::cleaning::Cleaning;
use polyglow_data::clean::filtered::{Cleaned, Explanation, Filtered};
use polyglow_data::clean::own_language::Guess;
use polyglow_data::corpus::{Corpus, Part};
use polyglow_data::pair::Pair;

use crate::failure::usage;

/// A line of the text: `17`, or `data/train.en:17` of one of several corpora.
#[derive(Clone, Debug)]
pub(crate) struct LinePosition {
    /// The name of the corpus, as reports have it; the only one if it is missing.
    part: Option<String>,
    /// Counted from 1.
    line: u64,
}

impl LinePosition {
    /// Reads a position.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (part, line) = match text.rsplit_once(':') {
            Some((part, line)) => (Some(part.to_owned()), line),
            None => (None, text),
        };
        match line.parse() {
            Ok(line) if line > 0 => Ok(Self { part, line }),
            _ => Err(
                "a position is the number of a line, or a file and that: `data/train.en:17`"
                    .to_owned(),
            ),
        }
    }
}

/// Prints what becomes of the pairs at some positions.
///
/// # Errors
/// There is no such position (exit code 2); the text cannot be read.
pub(super) fn print(
    out: &mut impl Write,
    filtered: &Filtered,
    corpus: &Corpus,
    positions: &[LinePosition],
) -> anyhow::Result<()> {
    for position in positions {
        let cleaning = filtered.cleaning();
        let (name, index, pair) = find(cleaning, corpus, position)?;
        writeln!(out, "{name}:{}", position.line)?;
        let explanation = filtered.explain(index, &pair);
        write(out, &pair, &explanation)?;
        if let Some(first) = explanation.first {
            writeln!(out, "  it repeats {}", name_of(cleaning, corpus, first))?;
        }
        if let Some(Pair { src, tgt }) = &explanation.held_out {
            writeln!(out, "  the held-out pair: {src} | {tgt}")?;
        }
    }
    Ok(())
}

/// Returns the name of the corpus of a position, the number of its pair, and the pair.
fn find(
    cleaning: &Cleaning,
    corpus: &Corpus,
    position: &LinePosition,
) -> anyhow::Result<(String, u64, Pair)> {
    let names: Vec<String> = corpus.parts().iter().map(Part::name).collect();
    let part = match &position.part {
        None if names.len() == 1 => Some(0),
        None => None,
        Some(name) => corpus.parts().iter().position(|part| part.is_called(name)),
    };
    let Some(part) = part else {
        let known = names.join("`, `");
        return Err(usage(anyhow!(
            "name the line by one of the files `{known}`, as in `{}:{}`",
            names[0],
            position.line
        )));
    };
    let skipped = usize::try_from(position.line - 1).unwrap_or(usize::MAX);
    let Some(pair) = corpus.parts()[part].pairs()?.nth(skipped) else {
        return Err(usage(anyhow!(
            "`{}` has no line {}",
            names[part],
            position.line
        )));
    };
    let index = cleaning.start(part) + position.line - 1;
    Ok((names[part].clone(), index, pair?))
}

/// The corpus and the line of a pair, by its number.
fn name_of(cleaning: &Cleaning, corpus: &Corpus, index: u64) -> String {
    let parts = corpus.parts();
    let is_begun = |part: &usize| cleaning.start(*part) <= index;
    let part = (0..parts.len()).rfind(is_begun).unwrap_or(0);
    format!(
        "{}:{}",
        parts[part].name(),
        index - cleaning.start(part) + 1
    )
}

/// Writes a pair with what becomes of it.
fn write(out: &mut impl Write, pair: &Pair, explanation: &Explanation) -> io::Result<()> {
    let Explanation {
        cleaned,
        guesses,
        margins,
        without_partner,
        ..
    } = explanation;
    let Cleaned {
        pair: repaired,
        repairs,
        is_swapped,
        removed,
    } = cleaned;
    writeln!(out, "  source    {}", pair.src)?;
    writeln!(out, "  target    {}", pair.tgt)?;
    if repaired != pair {
        let swapped = is_swapped.then_some("swapped");
        let names: Vec<&str> = repairs.names().chain(swapped).collect();
        let names = if names.is_empty() {
            "white space, which counts as no repair".to_owned()
        } else {
            names.join(", ")
        };
        writeln!(
            out,
            "  repaired  {} | {} ({names})",
            repaired.src, repaired.tgt
        )?;
    }
    for (side, guess) in ["source", "target"].into_iter().zip(guesses) {
        if let Some(Guess {
            code,
            probability,
            own,
        }) = guess
        {
            let language = code.unwrap_or(if own < probability {
                "the language of the other side"
            } else {
                "its own"
            });
            writeln!(
                out,
                "  {side} is in its own language with the probability {own:.3}; most probable: {language}, {probability:.3}"
            )?;
        }
    }
    if !margins.is_empty() {
        let margins: Vec<String> = margins
            .iter()
            .map(|(name, margin)| format!("{name} {margin:+.2}"))
            .collect();
        writeln!(
            out,
            "  above the limit by (below 0 is removed): {}",
            margins.join(", ")
        )?;
    }
    for (side, words) in ["source", "target"].into_iter().zip(without_partner) {
        if !words.is_empty() {
            let words = words.join(", ");
            writeln!(out, "  {side} words without a partner: {words}")?;
        }
    }
    match removed {
        Some(reason) => writeln!(out, "  removed: {} (pairs {})", reason.key, reason.title),
        None => writeln!(out, "  stays"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_a_line_with_or_without_its_file() {
        let position = LinePosition::parse("C:/data/train.en:17").expect("it is one");
        assert_eq!(
            (position.part.as_deref(), position.line),
            (Some("C:/data/train.en"), 17)
        );
        let position = LinePosition::parse("3").expect("it is one");
        assert_eq!((position.part, position.line), (None, 3));
        assert!(LinePosition::parse("0").is_err() && LinePosition::parse("train.en").is_err());
    }
}
