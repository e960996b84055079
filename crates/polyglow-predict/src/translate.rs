//! Lines to lines, order and count kept: one path for `translate`, `generate`, `evaluate` and
//! validation.

use polyglow_data::padded::Padded;
use polyglow_model::Generate;
use polyglow_model::search::{Hypothesis, Incremental, Sentence, SpecialTokens, search};
use serde::{Deserialize, Serialize};

use crate::device::upload_rows;
use crate::error::{Context, Result, TrainError, bail, ensure};
use crate::runner::{ENCODED_WHOLE, Runner};
use crate::split::{join, split};

/// A line to translate, and what is asked of its translation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// The line.
    pub text: String,
    /// What the translation begins with, without regard to spaces around it; empty for any
    /// beginning.
    pub prefix: String,
    /// Phrases that the translation contains.
    pub constraints: Vec<String>,
    /// The number of its line, for messages and for the random numbers of its samples; `None` for
    /// its position among the requests, counted on from the first line.
    pub number: Option<u64>,
    /// Which part of its line it is, counted from 0, where several requests are of one line: each
    /// has random numbers of its own.
    pub part: u64,
}

/// A translation of a line, or what a language model wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Translated {
    /// The text, without line breaks.
    pub text: String,
    /// How probable it is; `None` if that was not requested and greedy search did without it.
    pub scores: Option<Scores>,
}

/// How probable a translation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Log-probability under the model, in nats; of a line in pieces, their sum.
    pub log_prob: f32,
    /// The score that translations of one line are ranked by: the log-probability, normalized by
    /// the length penalty.
    pub score: f32,
}

impl Scores {
    /// The scores of two pieces of a line together: their sums, if both have scores.
    #[must_use]
    pub fn sum(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        left.zip(right).map(|(left, right)| Self {
            log_prob: left.log_prob + right.log_prob,
            score: left.score + right.score,
        })
    }
}

/// A piece of a request: the whole, but for those that are longer than a model has positions.
struct Piece {
    /// The index of the request.
    request: usize,
    /// Source ids, one for each member.
    ids: Vec<Vec<u32>>,
    sentence: Sentence,
}

impl<M: Generate> Runner<M> {
    /// The best translation of every line; a blank line stays blank, and none has a line break in
    /// it.
    ///
    /// # Errors
    /// As [`Self::translate`].
    pub fn best(&self, lines: &[impl AsRef<str>]) -> Result<Vec<String>> {
        let requests: Vec<Request> = lines
            .iter()
            .map(|line| Request {
                text: line.as_ref().to_owned(),
                ..Request::default()
            })
            .collect();
        let translations = self.translate_observed(&requests, 1, false, &mut |_| {})?;
        Ok(translations
            .into_iter()
            .map(|mut best| best.swap_remove(0).text)
            .collect())
    }

    /// Up to `beam_size` translations of every line, at least one of each, the best first; of a
    /// blank line one that is blank.
    ///
    /// `first_line` is the number of the first line in its file, for messages and for the random
    /// numbers of sampling. Lines are batched by length, so a call with many lines is faster than
    /// many calls. A line longer than the model was made for is translated in pieces, with a
    /// warning.
    ///
    /// # Errors
    /// A line cannot be encoded or an output cannot be decoded; a wish cannot be fulfilled.
    pub fn translate(
        &self,
        requests: &[Request],
        first_line: usize,
    ) -> Result<Vec<Vec<Translated>>> {
        self.translate_observed(requests, first_line, true, &mut |_| {})
    }

    /// As [`Self::translate`]; `observe` is called after each batch with the number of requests
    /// that are done. Unless they are to be `scored`, greedy search need not normalize over the
    /// vocabulary, and translations have no scores.
    ///
    /// # Errors
    /// As [`Self::translate`].
    pub fn translate_observed(
        &self,
        requests: &[Request],
        first_line: usize,
        scored: bool,
        observe: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Translated>>> {
        let pieces = self.pieces(requests, first_line)?;
        let mut num_left = vec![0; requests.len()];
        for piece in &pieces {
            num_left[piece.request] += 1;
        }
        let mut num_done = num_left.iter().filter(|&&pieces| pieces == 0).count();
        let translations = self.longest_first(
            &pieces,
            |piece| self.positions(&piece.ids),
            |batch| self.translations(batch, scored),
            |batch| {
                for piece in batch {
                    num_left[piece.request] -= 1;
                    num_done += usize::from(num_left[piece.request] == 0);
                }
                observe(num_done);
            },
        )?;
        let translations = pieces
            .iter()
            .map(|piece| piece.request)
            .zip(translations)
            .collect();
        Ok(join(translations, requests.len()))
    }

    /// The pieces of all requests; a blank one has none.
    fn pieces(&self, requests: &[Request], first_line: usize) -> Result<Vec<Piece>> {
        let texts: Vec<&str> = requests
            .iter()
            .map(|request| {
                if is_encoded_whole(request) {
                    &*request.text
                } else {
                    ""
                }
            })
            .collect();
        let encoded = self.encode(&texts)?;
        let mut pieces = Vec::with_capacity(requests.len());
        let mut too_long = Vec::new();
        for (index, (request, ids)) in requests.iter().zip(encoded).enumerate() {
            let line = request.number.unwrap_or((first_line + index) as u64);
            let has_wishes = !request.prefix.trim().is_empty() || !request.constraints.is_empty();
            if is_blank(request, &ids) {
                if has_wishes {
                    tracing::warn!(
                        "line {line} is blank and stays blank: its prefix and constraints are left out"
                    );
                }
                continue;
            }
            let is_short = is_encoded_whole(request) && len(&ids) <= self.longest;
            let mut parts = vec![ids];
            if !self.reads_images() && !is_short {
                parts = self.encode_pieces(&request.text, line)?;
            }
            if parts.len() == 1 {
                let ids = parts.remove(0);
                let sentence = self
                    .sentence(request, &ids, line)
                    .with_context(|| format!("line {line}"))?;
                pieces.push(Piece {
                    request: index,
                    ids,
                    sentence,
                });
                continue;
            }
            too_long.push(line);
            ensure!(
                !has_wishes,
                "line {line} is too long to be translated with a prefix or with constraints"
            );
            for (number, ids) in (0..).zip(parts) {
                let mut sentence = self.sentence(request, &ids, line)?;
                sentence.part[1] = number;
                pieces.push(Piece {
                    request: index,
                    ids,
                    sentence,
                });
            }
        }
        warn_of_long_lines(&too_long, self.longest);
        Ok(pieces)
    }

    /// The source ids of the pieces of a text, each no longer than the models.
    fn encode_pieces(&self, text: &str, line: u64) -> Result<Vec<Vec<Vec<u32>>>> {
        let longest = self.longest;
        let count = |parts: &[&str]| Ok(self.encode(parts)?.iter().map(|ids| len(ids)).collect());
        let mut budget = longest;
        loop {
            let mut pieces = self.encode(&split::<TrainError>(text, budget, &count)?)?;
            let excess = pieces
                .iter()
                .map(|ids| len(ids))
                .max()
                .unwrap_or(0)
                .saturating_sub(longest);
            // Two parts may have more tokens together than each alone, as where the space between
            // them is one.
            budget = budget.saturating_sub(excess);
            if excess > 0 && budget > 0 {
                continue;
            }
            if excess > 0 {
                tracing::warn!(
                    "line {line} has a character of more than {longest} tokens: it is read in part"
                );
                pieces
                    .iter_mut()
                    .flatten()
                    .for_each(|ids| ids.truncate(longest));
            }
            return Ok(pieces);
        }
    }

    /// What the hypotheses for a piece of a request with these source ids have to be.
    fn sentence(&self, request: &Request, ids: &[Vec<u32>], line: u64) -> Result<Sentence> {
        // An image says nothing of how long its description will be.
        let src_len = if self.reads_images() {
            self.longest
        } else {
            len(ids)
        };
        let most = self.longest + 1;
        // A space at its end would be written twice: most tokens begin with the space before their
        // word.
        let prefix = request.prefix.trim();
        let prefix = self.writable(prefix, self.tgt.encode(prefix)?)?;
        let constraint = |phrase: &String| self.writable(phrase, self.encode_inside(phrase)?);
        let constraints: Vec<Vec<u32>> = request
            .constraints
            .iter()
            .map(constraint)
            .collect::<Result<_, _>>()?;
        let needed = prefix.len() + constraints.iter().map(Vec::len).sum::<usize>() + 1;
        ensure!(
            needed <= most,
            "its prefix and constraints have {needed} tokens, more than the {most} that the model can write"
        );
        let max_len = self.search.max_len(src_len).min(most).max(needed);
        let min_len = if self.reads_images() {
            0
        } else {
            self.search.min_len(src_len).min(max_len)
        };
        Ok(Sentence {
            min_len,
            max_len,
            prefix,
            constraints,
            number: line,
            part: [request.part, 0],
        })
    }

    /// The ids of a phrase as they are after another word: some tokenizers make the space a part of
    /// them.
    fn encode_inside(&self, phrase: &str) -> Result<Vec<u32>> {
        let before = self.tgt.encode("a")?;
        let both = self.tgt.encode(&format!("a {phrase}"))?;
        match both.strip_prefix(&before[..]) {
            Some(inside) => Ok(inside.to_vec()),
            None => Ok(self.tgt.encode(phrase)?),
        }
    }

    /// Checks the ids of text that a translation is to have.
    fn writable(&self, text: &str, ids: Vec<u32>) -> Result<Vec<u32>> {
        ensure!(
            text.is_empty() || !ids.is_empty(),
            "nothing of `{text}` is left as tokens"
        );
        if ids.contains(&self.tgt.special().unk) {
            bail!(
                "`{text}` has words that the target vocabulary lacks, so no translation can have it"
            );
        }
        Ok(ids)
    }

    /// The translations of each piece.
    fn translations(&self, batch: &[&Piece], scored: bool) -> Result<Vec<Vec<Translated>>> {
        // Greedy search alone finds the best without log-probabilities.
        let has_scores = scored || !self.search.is_greedy();
        let mut translations = Vec::with_capacity(batch.len());
        for hypotheses in self.hypotheses(batch, has_scores) {
            translations.push(
                hypotheses
                    .iter()
                    .map(|hypothesis| self.decode(hypothesis, has_scores))
                    .collect::<Result<_>>()?,
            );
        }
        Ok(translations)
    }

    /// The hypotheses for each piece. Unless it `has_scores`, the search is greedy, and the scores
    /// of the hypotheses mean nothing.
    fn hypotheses(&self, pieces: &[&Piece], has_scores: bool) -> Vec<Vec<Hypothesis>> {
        let special = self.tgt.special();
        let source = |index: usize| {
            let rows: Vec<&[u32]> = pieces.iter().map(|piece| &*piece.ids[index]).collect();
            let special = self.members[index].src.special();
            upload_rows(
                &Padded::ended(&rows, special.eos, special.pad, self.pad_multiple),
                &self.device,
            )
        };
        let sources = self
            .members
            .iter()
            .enumerate()
            .map(|(index, member)| (&member.model, source(index)));
        let sentences: Vec<Sentence> = pieces.iter().map(|piece| piece.sentence.clone()).collect();
        let mut next = Incremental::new(sources, &[special.pad, special.bos]);
        if !has_scores {
            next = next.without_normalization();
        }
        let special_tokens = SpecialTokens {
            bos: special.bos,
            eos: special.eos,
        };
        search(&mut next, &sentences, &self.search, special_tokens)
    }

    fn decode(&self, hypothesis: &Hypothesis, has_scores: bool) -> Result<Translated> {
        let Hypothesis {
            ref ids,
            log_prob,
            score,
        } = *hypothesis;
        // A break inside a translation would make two lines of one.
        let text = self
            .tgt
            .decode(ids)
            .context("decoding a translation")?
            .replace(['\n', '\r'], " ");
        Ok(Translated {
            text: text.trim().to_owned(),
            scores: has_scores.then_some(Scores { log_prob, score }),
        })
    }
}

/// Whether the text of a request is encoded as a whole; a longer one is cut first.
fn is_encoded_whole(request: &Request) -> bool {
    request.text.len() <= ENCODED_WHOLE
}

/// Whether there is nothing to translate in a request, whose text has these ids if it is encoded as
/// a whole.
fn is_blank(request: &Request, ids: &[Vec<u32>]) -> bool {
    // A line of characters that cannot be seen has no tokens.
    let has_no_tokens = is_encoded_whole(request) && !ids.is_empty() && len(ids) == 0;
    request.text.trim().is_empty() || has_no_tokens
}

/// Warns of the lines with these numbers, which have more tokens than the `longest` that a model
/// reads.
fn warn_of_long_lines(lines: &[u64], longest: usize) {
    match lines {
        [] => {}
        [line] => {
            tracing::warn!(
                "line {line} has more than the model's {longest} tokens: it is translated in pieces"
            );
        }
        [first, .., last] => {
            let count = lines.len();
            tracing::warn!(
                "{count} lines, the first of them {first} and the last {last}, have more than the model's {longest} \
                 tokens: they are translated in pieces"
            );
        }
    }
}

/// The most ids that a member has for a text.
fn len(ids: &[Vec<u32>]) -> usize {
    ids.iter().map(Vec::len).max().unwrap_or(0)
}
