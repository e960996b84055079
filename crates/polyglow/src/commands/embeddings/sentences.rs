//! `polyglow embeddings ... sentences`: the nearest lines of each line.

use std::io::{self, Write};

use anyhow::anyhow;
use polyglow_predict::unknown_words::UnknownWords;
use polyglow_view::embeddings::{Pool, Sentences};
use serde::Serialize;

use super::args::SentencesArgs;
use super::{Opened, print_json, read_lines};
use crate::failure::{usage, with_hint};

/// A line and those near it.
#[derive(Serialize)]
struct LineNeighbors<'a> {
    /// Its number from 1; `None` if the text is not in the file.
    line: Option<usize>,
    text: &'a str,
    neighbors: Vec<LineNeighbor<'a>>,
}

#[derive(Serialize)]
struct LineNeighbor<'a> {
    line: usize,
    cosine: f32,
    text: &'a str,
}

/// Prints the nearest lines of each line of the file, or of the query alone.
///
/// # Errors
/// The file cannot be read; something is asked that only a model can answer, or the query has no
/// known word (exit code 2).
pub(super) fn sentences(opened: &Opened, args: &SentencesArgs, json: bool) -> anyhow::Result<()> {
    let SentencesArgs {
        file,
        pool,
        query,
        shown,
    } = args;
    let mut texts = read_lines(file)?;
    let count = texts.len();
    texts.extend(query.clone());
    let found = match opened {
        Opened::Run(run) => {
            let mut unknown = UnknownWords::default();
            for text in &texts {
                unknown.look_at(run.reader().tokenizer, text);
            }
            unknown.warn();
            Sentences::from_model(run.reader(), &texts, *pool)?
        }
        Opened::File(_) if *pool == Pool::First => {
            let error = usage(anyhow!(
                "`--pool first`: a word vector does not depend on the other words of its line"
            ));
            return Err(with_hint(
                error,
                "leave `--pool` out: a line is then the mean of its words",
            ));
        }
        Opened::File(embeddings) => Sentences::from_words(embeddings, &texts)?,
    };
    let asked = |line: &usize| if query.is_some() { *line > count } else { true };
    let mut reports = Vec::new();
    for (place, line) in found
        .lines()
        .iter()
        .enumerate()
        .filter(|(_, line)| asked(line))
    {
        let near = found.nearest(place, shown.count, count).into_iter();
        let neighbors = near.map(|near| LineNeighbor {
            line: near.line,
            cosine: near.cosine,
            text: &texts[near.line - 1],
        });
        let number = (*line <= count).then_some(*line);
        reports.push(LineNeighbors {
            line: number,
            text: &texts[line - 1],
            neighbors: neighbors.collect(),
        });
    }
    if query.is_some() && reports.is_empty() {
        let error = usage(anyhow!("`--query` has no word that is in the vocabulary"));
        return Err(with_hint(
            error,
            "try another text; upper and lower case are different words to most vocabularies",
        ));
    }
    if json {
        return print_json(&reports);
    }
    let mut out = io::stdout().lock();
    for LineNeighbors {
        line,
        text,
        neighbors,
    } in &reports
    {
        writeln!(
            out,
            "{}\t{text}",
            line.map_or_else(|| "query".to_owned(), |line| line.to_string())
        )?;
        for LineNeighbor { line, cosine, text } in neighbors {
            writeln!(out, "  {cosine:.4}\t{line}\t{text}")?;
        }
    }
    Ok(())
}
