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
/// The file cannot be read; the pooling needs a model, or the query has no
/// known word (exit code 2).
pub(super) fn sentences(opened: &Opened, args: &SentencesArgs, json: bool) -> anyhow::Result<()> {
    let SentencesArgs {
        file,
        pool,
        query,
        shown,
    } = args;
    let mut texts = read_lines(file)?;
    let num_lines = texts.len();
    texts.extend(query.clone());
    let sentences = vectors(opened, &texts, *pool)?;
    let mut reports = Vec::new();
    for (index, &line) in sentences.lines().iter().enumerate() {
        let is_query = line > num_lines;
        if query.is_some() && !is_query {
            continue;
        }
        let neighbors = sentences.nearest(index, shown.count, num_lines).into_iter();
        let neighbors = neighbors.map(|near| LineNeighbor {
            line: near.line,
            cosine: near.cosine,
            text: &texts[near.line - 1],
        });
        reports.push(LineNeighbors {
            line: (!is_query).then_some(line),
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
    print_text(&reports)
}

/// Computes a vector for each text that has a known word.
///
/// # Errors
/// The pooling needs a model, and there is a file (exit code 2); the device fails.
fn vectors(opened: &Opened, texts: &[String], pool: Pool) -> anyhow::Result<Sentences> {
    match opened {
        Opened::Run(run) => {
            let mut unknown = UnknownWords::default();
            for text in texts {
                unknown.look_at(run.reader().tokenizer, text);
            }
            unknown.warn();
            Ok(Sentences::from_model(run.reader(), texts, pool)?)
        }
        Opened::File(_) if pool == Pool::First => {
            let error = usage(anyhow!(
                "`--pool first`: a word vector does not depend on the other words of its line"
            ));
            Err(with_hint(
                error,
                "leave `--pool` out: a line is then the mean of its words",
            ))
        }
        Opened::File(embeddings) => Ok(Sentences::from_words(embeddings, texts)?),
    }
}

/// Prints each line, and below it those nearest to it.
fn print_text(reports: &[LineNeighbors<'_>]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for report in reports {
        let number = report
            .line
            .map_or_else(|| "query".to_owned(), |line| line.to_string());
        writeln!(out, "{number}\t{}", report.text)?;
        for LineNeighbor { line, cosine, text } in &report.neighbors {
            writeln!(out, "  {cosine:.4}\t{line}\t{text}")?;
        }
    }
    Ok(())
}
