//! Translations as text, as a table, or as JSON.

use std::io::{self, Write};

use polyglow_data::alignment::Link;
use polyglow_data::corpus::Pair;
use polyglow_train::Result;
use polyglow_train::predict::runner::Runner;
use polyglow_train::predict::translate::{Request, Translated};
use polyglow_train::tasks::translation::alignment::align;
use serde::Serialize;

use super::sentences::{join, sentence_requests};
use super::{Format, TranslateArgs};

/// Where translations are written, and how.
pub(super) struct Results {
    pub(super) out: Box<dyn Write>,
    format: Format,
    n_best: usize,
    replace_unknown: bool,
    /// The language by which lines are cut into sentences, if they are.
    split: Option<String>,
}

/// A translation with the source word of each of its words.
#[derive(Clone)]
pub(super) struct Aligned {
    pub(super) translation: Translated,
    /// Empty unless the format or `--replace-unknown` needs it.
    pub(super) links: Vec<Link>,
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
    log_prob: f32,
    score: f32,
    /// For each word of the text the source word with the most attention, both counted from 0: `[source, target]`.
    alignment: &'a [Link],
}

impl Results {
    /// `language` is the code of the language that the model reads.
    pub(super) fn new(out: Box<dyn Write>, args: &TranslateArgs, language: &str) -> Self {
        let split = args.split_sentences.then(|| language.to_owned());
        Self { out, format: args.format, n_best: args.n_best, replace_unknown: args.replace_unknown, split }
    }

    /// Translates lines, the first of which has this number, and writes the results. `observe` is told how many of them are
    /// translated.
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
        let scored = self.format != Format::Text;
        let aligned = if let Some(language) = &self.split {
            let (sentences, places) = sentence_requests(requests, first_line, language);
            let translations = runner.translate_parts(&sentences, &places, scored, &mut |_| {})?;
            observe(requests.len());
            join(requests, language, self.align(runner, &sentences, translations)?)
        } else {
            let translations = runner.translate_observed(requests, first_line, scored, observe)?;
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

    /// Takes the best translations of each line, aligns those that need it, and replaces unknown words if asked to.
    fn align(
        &self,
        runner: &Runner,
        requests: &[Request],
        translations: Vec<Vec<Translated>>,
    ) -> Result<Vec<Vec<Aligned>>> {
        let unknown = runner.tgt.token(runner.tgt.special().unk).unwrap_or_default();
        let has_unknown = |text: &str| text.split_whitespace().any(|word| word == unknown);
        let plain = |translation| Aligned { translation, links: Vec::new() };
        let mut lines: Vec<Vec<Aligned>> =
            translations.into_iter().map(|best| best.into_iter().take(self.n_best).map(plain).collect()).collect();
        let mut places = Vec::new();
        let mut pairs = Vec::new();
        for (line, (request, best)) in requests.iter().zip(&lines).enumerate() {
            for (rank, Aligned { translation, .. }) in best.iter().enumerate() {
                if self.format == Format::Jsonl || self.replace_unknown && has_unknown(&translation.text) {
                    places.push((line, rank));
                    pairs.push(Pair { src: request.text.clone(), tgt: translation.text.clone() });
                }
            }
        }
        for ((line, rank), mut layers) in places.into_iter().zip(align(runner, &pairs)?) {
            let Aligned { translation, links } = &mut lines[line][rank];
            *links = layers.pop().unwrap_or_default();
            if self.replace_unknown && has_unknown(&translation.text) {
                translation.text = replace(&translation.text, &unknown, &requests[line].text, links);
            }
        }
        Ok(lines)
    }

    /// Always `n_best` lines, so that line numbers map to the input.
    fn write_text(&self, out: &mut Vec<u8>, best: &[Aligned]) -> io::Result<()> {
        for rank in 0..self.n_best {
            writeln!(out, "{}", best.get(rank).map_or("", |aligned| &aligned.translation.text))?;
        }
        Ok(())
    }
}

fn write_tsv(out: &mut Vec<u8>, line: usize, best: &[Aligned]) -> io::Result<()> {
    for (rank, Aligned { translation: Translated { text, log_prob, score }, .. }) in (1..).zip(best) {
        writeln!(out, "{line}\t{rank}\t{score:.6}\t{log_prob:.6}\t{}", text.replace('\t', " "))?;
    }
    Ok(())
}

fn write_json(out: &mut Vec<u8>, line: usize, source: &str, best: &[Aligned]) -> Result<()> {
    let hypotheses = best.iter().map(|Aligned { translation: Translated { text, log_prob, score }, links }| {
        HypothesisRecord { text, log_prob: *log_prob, score: *score, alignment: links }
    });
    let record = Record { line, source, hypotheses: hypotheses.collect() };
    Ok(writeln!(out, "{}", serde_json::to_string(&record)?)?)
}

/// Replaces each unknown word by the source word that it is linked to.
fn replace(text: &str, unknown: &str, source: &str, links: &[Link]) -> String {
    let source: Vec<&str> = source.split_whitespace().collect();
    let known = |(place, word): (usize, &str)| {
        let link = links.iter().find(|(_, tgt)| *tgt == place).filter(|_| word == unknown);
        link.and_then(|(src, _)| source.get(*src).copied()).unwrap_or(word).to_owned()
    };
    text.split_whitespace().enumerate().map(known).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_become_the_source_words_they_are_linked_to() {
        let links = [(2, 0), (0, 1), (1, 2)];
        assert_eq!(replace("die <unk> <unk>", "<unk>", "Anna Brown the", &links), "die Anna Brown");
        assert_eq!(replace("<unk>", "<unk>", "", &[]), "<unk>");
    }
}
