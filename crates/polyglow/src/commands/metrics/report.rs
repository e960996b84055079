//! The scores of one system, as text or as JSON with sacreBLEU's fields.

use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::ser::PrettyFormatter;

use super::Style;
use super::scoring::{Scored, Scores};

/// Writes one score for each metric: lines aligned at their equals signs, or an object, or a list
/// of several.
pub(super) fn write_corpus(
    out: &mut impl Write,
    all_scores: &[Scores],
    style: Style,
) -> anyhow::Result<()> {
    let mut results = Vec::new();
    for scores in all_scores {
        let signature = scores.signature.to_string();
        for scored in &scores.scores {
            results.push(match style {
                Style {
                    score_only: true, ..
                } => number(scored, style.width),
                Style { json: true, .. } => indented(
                    &Record {
                        scored,
                        scores,
                        signature: &signature,
                        width: style.width,
                    },
                    1,
                )?,
                _ => line(scored, scores, style),
            });
        }
    }
    match &results[..] {
        results if !style.json => write_aligned(out, results)?,
        [result] => writeln!(out, "{result}")?,
        results => writeln!(out, "[\n{}\n]", results.join(",\n"))?,
    }
    Ok(())
}

/// Writes one score for each line: a line of text or one JSON object.
pub(super) fn write_sentences(
    out: &mut impl Write,
    all_scores: &[Scores],
    style: Style,
) -> anyhow::Result<()> {
    for scores in all_scores {
        let signature = scores.signature.to_string();
        for scored in &scores.scores {
            let result = match style {
                Style {
                    score_only: true, ..
                } => number(scored, style.width),
                Style { json: true, .. } => serde_json::to_string(&Record {
                    scored,
                    scores,
                    signature: &signature,
                    width: style.width,
                })?,
                _ => line(scored, scores, style),
            };
            writeln!(out, "{result}")?;
        }
    }
    Ok(())
}

/// JSON indented by this many spaces per level.
pub(super) fn indented(value: &impl Serialize, spaces: usize) -> anyhow::Result<String> {
    let indent = " ".repeat(spaces);
    let mut json = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut json,
        PrettyFormatter::with_indent(indent.as_bytes()),
    ))?;
    Ok(String::from_utf8(json)?)
}

/// The score with its interval; sacreBLEU leaves out one around zero.
fn number(scored: &Scored, width: usize) -> String {
    match scored.confidence.filter(|confidence| confidence.mean > 0.0) {
        Some(confidence) => format!("{:.width$} ({confidence:.width$})", scored.value),
        None => format!("{:.width$}", scored.value),
    }
}

fn line(scored: &Scored, all: &Scores, style: Style) -> String {
    let signature = if style.short {
        all.signature.short()
    } else {
        all.signature.to_string()
    };
    let line = format!(
        "{}|{signature} = {} {}",
        scored.name,
        number(scored, style.width),
        scored.details
    );
    line.trim_end().to_owned()
}

/// Writes lines so that the first equals sign of each is in the same column; those without one stay
/// as they are.
fn write_aligned(out: &mut impl Write, lines: &[String]) -> io::Result<()> {
    let widest = lines.iter().map(|line| column(line)).max().unwrap_or(0);
    for line in lines {
        let indent = if line.contains('=') {
            widest - column(line)
        } else {
            0
        };
        writeln!(out, "{:indent$}{line}", "")?;
    }
    Ok(())
}

/// The column of the first equals sign of a line; 0 without one.
fn column(line: &str) -> usize {
    line.split_once('=')
        .map_or(0, |(left, _)| left.chars().count())
}

/// A score as sacreBLEU writes it to JSON: rounded, and with the signature both whole and in
/// pieces.
struct Record<'a> {
    scored: &'a Scored,
    scores: &'a Scores,
    signature: &'a str,
    width: usize,
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { scored, width, .. } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &scored.name)?;
        map.serialize_entry("score", &rounded::<S::Error>(scored.value, *width)?)?;
        map.serialize_entry("signature", self.signature)?;
        if let Some(confidence) = scored.confidence.filter(|confidence| confidence.mean > 0.0) {
            map.serialize_entry(
                "confidence_mean",
                &rounded::<S::Error>(confidence.mean, *width)?,
            )?;
            map.serialize_entry(
                "confidence_var",
                &rounded::<S::Error>(confidence.half_width, *width)?,
            )?;
            map.serialize_entry("confidence", &format!("{confidence:.width$}"))?;
        }
        if !scored.details.is_empty() {
            map.serialize_entry("verbose_score", &scored.details)?;
        }
        for (key, value) in self.scores.signature.entries() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Rounds a number to `width` decimals, as it is printed.
fn rounded<E: serde::ser::Error>(value: f64, width: usize) -> Result<f64, E> {
    format!("{value:.width$}").parse().map_err(E::custom)
}
