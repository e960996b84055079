//! Translations as text, as a table, or as JSON.

use std::io::{self, Write};

use polyglow_data::alignment::Link;
use polyglow_data::pair::Pair;
use polyglow_model::search::SearchRequest;
use polyglow_predict::runner::Runner;
use polyglow_predict::translate::{Request, Scores, Translated};
use polyglow_train::Result;
use polyglow_train::tasks::translation::alignment::align;
use serde::Serialize;

use super::sentences::{join, sentence_requests};
use super::{Format, TranslateArgs};

/// The output that translations are written to, and their format.
pub(super) struct Results {
    pub(super) out: Box<dyn Write>,
    format: Format,
    search: SearchRequest,
    replace_unknown: bool,
    /// The language by which lines are cut into sentences, if they are.
    split: Option<String>,
}

/// A translation with the source word of each of its words.
#[derive(Clone)]
pub(super) struct Aligned {
    pub(super) translation: Translated,
    /// Empty unless the format has them.
    pub(super) links: Vec<Link>,
}

impl Aligned {
    fn without_links(translation: Translated) -> Self {
        Self {
            translation,
            links: Vec::new(),
        }
    }
}

/// A line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    line: usize,
    source: &'a str,
    hypotheses: Vec<HypothesisRecord<'a>>,
}

#[derive(Serialize)]
struct HypothesisRecord<'a> {
    text: &'a str,
    #[serde(flatten)]
    scores: Option<Scores>,
    /// For each word of the text the source word with the most attention, both counted from 0:
    /// `[source, target]`.
    alignment: &'a [Link],
}

impl Results {
    /// `language` is the code of the language that the model reads.
    pub(super) fn new(
        out: Box<dyn Write>,
        args: &TranslateArgs,
        search: SearchRequest,
        language: &str,
    ) -> Self {
        let split = args.split_sentences.then(|| language.to_owned());
        Self {
            out,
            format: args.format,
            search,
            replace_unknown: args.replace_unknown,
            split,
        }
    }

    /// Translates lines, the first of which has this number, and writes the results. `observe` is
    /// called with the number of those that are translated.
    pub(super) fn write(
        &mut self,
        runner: &Runner,
        requests: &[Request],
        first_line: usize,
        observe: &mut dyn FnMut(usize),
    ) -> anyhow::Result<()> {
        let text = self.text(runner, requests, first_line, observe)?;
        self.out.write_all(&text)?;
        Ok(self.out.flush()?)
    }

    /// As [`Self::write`], but returns what would be written.
    pub(super) fn text(
        &self,
        runner: &Runner,
        requests: &[Request],
        first_line: usize,
        observe: &mut dyn FnMut(usize),
    ) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let aligned = if let Some(language) = &self.split {
            let sentences = sentence_requests(requests, first_line, language);
            // The longest sentences come first, so that most lines are done at the end: their share
            // is that of the sentences.
            let num_sentences = sentences.len().max(1);
            let translations =
                runner.translate_observed(&sentences, first_line, &self.search, &mut |done| {
                    observe(done * requests.len() / num_sentences);
                })?;
            let aligned = self.align(runner, &sentences, translations)?;
            join(requests, language, aligned, self.search.scores)
        } else {
            let translations =
                runner.translate_observed(requests, first_line, &self.search, observe)?;
            self.align(runner, requests, translations)?
        };
        for (index, (request, best)) in requests.iter().zip(&aligned).enumerate() {
            let line = first_line + index;
            match self.format {
                Format::Text => self.write_text(&mut out, best)?,
                Format::Tsv => write_tsv(&mut out, line, best)?,
                Format::Jsonl => write_json(&mut out, line, &request.text, best)?,
            }
        }
        Ok(out)
    }

    /// The best translations of each request, with source words in place of unknown ones if that is
    /// asked for, and aligned with the words of their sources if the format has links.
    fn align(
        &self,
        runner: &Runner,
        requests: &[Request],
        mut translations: Vec<Vec<Translated>>,
    ) -> Result<Vec<Vec<Aligned>>> {
        if self.replace_unknown {
            let sources: Vec<&str> = requests
                .iter()
                .map(|request| request.text.as_str())
                .collect();
            runner.replace_unknown(&sources, &mut translations)?;
        }
        let mut lines: Vec<Vec<Aligned>> = translations
            .into_iter()
            .map(|best| best.into_iter().map(Aligned::without_links).collect())
            .collect();
        if self.format != Format::Jsonl {
            return Ok(lines);
        }
        let mut pairs = Vec::new();
        for (request, best) in requests.iter().zip(&lines) {
            pairs.extend(best.iter().map(|aligned| Pair {
                src: request.text.clone(),
                tgt: aligned.translation.text.clone(),
            }));
        }
        for (aligned, mut layers) in lines.iter_mut().flatten().zip(align(runner, &pairs)?) {
            aligned.links = layers.pop().unwrap_or_default();
        }
        Ok(lines)
    }

    /// Always `n_best` lines, so that line numbers map to the input.
    fn write_text(&self, out: &mut Vec<u8>, best: &[Aligned]) -> io::Result<()> {
        for rank in 0..self.search.n_best {
            writeln!(
                out,
                "{}",
                best.get(rank)
                    .map_or("", |aligned| &aligned.translation.text)
            )?;
        }
        Ok(())
    }
}

fn write_tsv(out: &mut Vec<u8>, line: usize, best: &[Aligned]) -> io::Result<()> {
    for (rank, aligned) in (1..).zip(best) {
        let Translated { text, scores } = &aligned.translation;
        let text = text.replace('\t', " ");
        match scores {
            Some(Scores { score, log_prob }) => {
                writeln!(out, "{line}\t{rank}\t{score:.6}\t{log_prob:.6}\t{text}")?;
            }
            None => writeln!(out, "{line}\t{rank}\t\t\t{text}")?,
        }
    }
    Ok(())
}

fn write_json(out: &mut Vec<u8>, line: usize, source: &str, best: &[Aligned]) -> Result<()> {
    let hypotheses = best.iter().map(|aligned| HypothesisRecord {
        text: &aligned.translation.text,
        scores: aligned.translation.scores,
        alignment: &aligned.links,
    });
    let record = Record {
        line,
        source,
        hypotheses: hypotheses.collect(),
    };
    Ok(writeln!(out, "{}", serde_json::to_string(&record)?)?)
}
