//! `polyglow clean --explain`: what becomes of a pair, and what decided it.

use std::io::{self, Write};
use std::ops::Range;

use anyhow::anyhow;
use polyglow_data::clean::cleaning::{Cleaning, ScoreLimit};
use polyglow_data::clean::filtered::{Cleaned, Explanation, Filtered};
use polyglow_data::clean::findings::escaped;
use polyglow_data::clean::links::PairLinks;
use polyglow_data::clean::own_language::Guess;
use polyglow_data::clean::words::number_ranges;
use polyglow_data::corpus::{Corpus, Part};
use polyglow_data::pair::Pair;
use polyglow_data::raw_bytes::without_raw_bytes;

use super::scores::Scores;
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

/// A line of the text that is to be explained.
pub(super) struct ExplainedLine {
    /// The number of its corpus.
    part: usize,
    /// Counted from 1.
    line: u64,
    pair: Pair,
}

/// Finds the lines at some positions.
///
/// # Errors
/// There is no such position (exit code 2); the text cannot be read.
pub(super) fn find(
    corpus: &Corpus,
    positions: &[LinePosition],
) -> anyhow::Result<Vec<ExplainedLine>> {
    let lines = positions.iter().map(|position| find_one(corpus, position));
    lines.collect()
}

/// Prints what becomes of the pairs in some lines; `scores` are those by which pairs are removed, if there
/// are any.
///
/// # Errors
/// The output is refused.
pub(super) fn print(
    out: &mut impl Write,
    filtered: &Filtered,
    corpus: &Corpus,
    scores: Option<&Scores>,
    lines: &[ExplainedLine],
) -> io::Result<()> {
    let cleaning = filtered.cleaning();
    let mut explained = Vec::with_capacity(lines.len());
    for line in lines {
        let index = cleaning.start(line.part) + line.line - 1;
        explained.push((line, index, filtered.explain(index, &line.pair)));
    }
    let pairs: Vec<&Pair> = explained
        .iter()
        .map(|(_, _, explanation)| &explanation.cleaned.pair)
        .collect();
    let aligned = filtered.link(&pairs);
    for ((line, index, explanation), links) in explained.iter().zip(&aligned) {
        let ExplainedLine { part, line, pair } = line;
        writeln!(out, "{}:{line}", corpus.parts()[*part].name())?;
        write_evidence(out, pair, explanation)?;
        write_words(out, explanation, links)?;
        if let Some(scores) = scores {
            write_score(out, scores, *index, explanation)?;
        }
        write_reasons(out, explanation)?;
        write_numbers(out, explanation, links)?;
        if let Some(first) = explanation.first {
            writeln!(out, "  it repeats {}", name_of(cleaning, corpus, first))?;
        }
        if let Some(Pair { src, tgt }) = &explanation.held_out {
            let [src, tgt] = [src, tgt].map(|side| escaped(side));
            writeln!(out, "  the held-out pair: {src} | {tgt}")?;
        }
    }
    for gap in filtered.report().gaps {
        writeln!(out, "note: {gap}")?;
    }
    Ok(())
}

/// Finds the line at a position.
fn find_one(corpus: &Corpus, position: &LinePosition) -> anyhow::Result<ExplainedLine> {
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
    for (line, pair) in (1..).zip(corpus.parts()[part].pairs()?) {
        let pair = pair?;
        if line == position.line {
            return Ok(ExplainedLine { part, line, pair });
        }
    }
    Err(usage(anyhow!(
        "`{}` has no line {}",
        names[part],
        position.line
    )))
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

/// Writes a pair with what is known of it.
fn write_evidence(out: &mut impl Write, pair: &Pair, explanation: &Explanation) -> io::Result<()> {
    let Explanation {
        cleaned,
        guesses,
        margins,
        ..
    } = explanation;
    let Cleaned { pair: repaired, .. } = cleaned;
    let shown = Pair {
        src: without_raw_bytes(&pair.src).into_owned(),
        tgt: without_raw_bytes(&pair.tgt).into_owned(),
    };
    writeln!(out, "  source    {}", escaped(&shown.src))?;
    writeln!(out, "  target    {}", escaped(&shown.tgt))?;
    if *repaired != shown {
        let names: Vec<&str> = cleaned.repair_names().collect();
        let names = if names.is_empty() {
            "white space, which counts as no repair".to_owned()
        } else {
            names.join(", ")
        };
        writeln!(
            out,
            "  repaired  {} | {} ({names})",
            escaped(&repaired.src),
            escaped(&repaired.tgt)
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
            .map(|(name, margin)| {
                if margin.is_infinite() {
                    format!("{name} (without a limit)")
                } else {
                    format!("{name} {margin:+.2}")
                }
            })
            .collect();
        writeln!(
            out,
            "  above the limit by (below 0 is removed): {}",
            margins.join(", ")
        )?;
    }
    Ok(())
}

/// Writes which words of a pair have no partner on the other side.
fn write_words(
    out: &mut impl Write,
    explanation: &Explanation,
    links: &PairLinks,
) -> io::Result<()> {
    let Pair { src, tgt } = &explanation.cleaned.pair;
    let sides = [("source", src), ("target", tgt)];
    for ((side, text), ranges) in sides.into_iter().zip(&links.unlinked) {
        let words: Vec<&str> = ranges.iter().map(|range| &text[range.clone()]).collect();
        if !words.is_empty() {
            let words = words.join(", ");
            writeln!(out, "  {side} words without a partner: {words}")?;
        }
    }
    Ok(())
}

/// Writes the numbers for which a pair is removed, and which of them are linked.
fn write_numbers(
    out: &mut impl Write,
    explanation: &Explanation,
    links: &PairLinks,
) -> io::Result<()> {
    let [src_numbers, tgt_numbers] = &explanation.numbers_without_partner;
    for (side, numbers) in [("source", src_numbers), ("target", tgt_numbers)] {
        if !numbers.is_empty() {
            let numbers = numbers.join(", ");
            writeln!(out, "  {side} numbers without a partner: {numbers}")?;
        }
    }
    let Pair { src, tgt } = &explanation.cleaned.pair;
    let tgt_ranges = ranges_of_numbers(tgt, tgt_numbers);
    for (from, src_range) in ranges_of_numbers(src, src_numbers) {
        for (to, tgt_range) in &tgt_ranges {
            if are_linked(&src_range, tgt_range, links) {
                writeln!(out, "  {from} is linked to {to}")?;
            }
        }
    }
    Ok(())
}

/// Returns where some of the numbers of a text stand.
fn ranges_of_numbers(text: &str, numbers: &[String]) -> Vec<(String, Range<usize>)> {
    let mut ranges = number_ranges(text);
    ranges.retain(|(number, _)| numbers.contains(number));
    ranges
}

/// Returns whether a word in a range of the source is linked to one in a range of the target: a
/// number with separators is several words.
fn are_linked(src: &Range<usize>, tgt: &Range<usize>, links: &PairLinks) -> bool {
    links
        .links
        .iter()
        .any(|[from, to]| src.contains(&from.start) && tgt.contains(&to.start))
}

/// Writes the score of a pair, by its number, and the limit.
fn write_score(
    out: &mut impl Write,
    scores: &Scores,
    index: u64,
    explanation: &Explanation,
) -> io::Result<()> {
    let score = scores.values[index as usize];
    if score.is_nan() {
        let why = if explanation.reasons.is_empty() {
            "the model gives none"
        } else {
            "it is removed without one"
        };
        return writeln!(out, "  no score: {why}");
    }
    match scores.limit {
        Some(ScoreLimit { lowest, .. }) => {
            writeln!(
                out,
                "  score {score:.3}; the lowest that stays is {lowest:.3}"
            )
        }
        None => writeln!(out, "  score {score:.3}, by which nothing is removed"),
    }
}

/// Writes whether a pair stays, or all reasons to remove it.
fn write_reasons(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let Some((first, others)) = explanation.reasons.split_first() else {
        return writeln!(out, "  stays");
    };
    writeln!(out, "  removed: {} (pairs {})", first.key, first.title)?;
    for reason in others {
        writeln!(out, "  also:    {} (pairs {})", reason.key, reason.title)?;
    }
    Ok(())
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
