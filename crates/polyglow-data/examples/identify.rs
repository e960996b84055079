//! Tells the language of each line of standard input, by what it learns from a directory with a file of
//! text for each language, named after it.
//!
//! ```sh
//! cargo run --release -p polyglow-data --example identify -- DIRECTORY < LINES > LANGUAGES
//! ```
//!
//! `scripts/compare_languages.py` compares it with other programs.

#![expect(clippy::print_stderr, reason = "an example prints what it measures")]

use std::borrow::Cow;
use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::time::Instant;
use std::{env, fs};

use polyglow_data::clean::language::identifier::{Identifier, NgramCounts};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = env::args()
        .nth(1)
        .ok_or("give a directory with a file for each language")?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory)? {
        names.push(
            entry?
                .file_name()
                .into_string()
                .map_err(|_| "a name is not UTF-8")?,
        );
    }
    names.sort();
    let mut languages = Vec::new();
    for name in &names {
        let text = fs::read_to_string(format!("{directory}/{name}"))?;
        let mut counts = NgramCounts::default();
        for line in text.lines() {
            counts.add(&in_nfc(line), 1);
        }
        languages.push(counts);
    }
    let identifier = Identifier::learn(&languages);
    let lines: Vec<String> = io::stdin().lines().collect::<Result<_, _>>()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let started = Instant::now();
    for line in &lines {
        let scores = identifier.scores(&in_nfc(line));
        let best = scores
            .iter()
            .enumerate()
            .max_by(|left, right| left.1.total_cmp(right.1));
        let name = best.map_or("", |(language, _)| &names[language]);
        writeln!(out, "{name}")?;
    }
    let seconds = started.elapsed().as_secs_f64();
    eprintln!(
        "{} languages, {:.0} lines a second",
        names.len(),
        lines.len() as f64 / seconds
    );
    Ok(())
}

fn in_nfc(line: &str) -> Cow<'_, str> {
    match is_nfc_quick(line.chars()) {
        IsNormalized::Yes => line.into(),
        _ => line.nfc().collect::<String>().into(),
    }
}
