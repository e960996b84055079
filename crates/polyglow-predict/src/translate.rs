//! Lines to lines, order and count kept: one path for `translate`, `generate`, `evaluate` and
//! validation.

use polyglow_data::padded::Padded;
use polyglow_model::Generate;
use polyglow_model::search::{Hypothesis, Incremental, Marks, Sentence, search};
use serde::{Deserialize, Serialize};

use crate::device::upload_rows;
use crate::error::{Context, Result, TrainError, bail, ensure};
use crate::runner::{ENCODED_WHOLE, Runner};
use crate::split::{join, split};

/// Bits of the number of a line; the number of a piece of it is in those above.
const PART_BITS: u32 = 40;
/// Bits of both; which part of its line a request is, is in those above.
const PLACE_BITS: u32 = 52;

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
    /// Tells the random numbers of its samples from those of other lines; `None` for the number of
    /// the line.
    pub number: Option<u64>,
}

/// A translation of a line, or what a language model wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Translated {
    /// The text, without line breaks.
    pub text: String,
    /// Log-probability under the model, in nats; of a line in pieces, their sum.
    pub log_prob: f32,
    /// What translations of one line are ranked by: the log-probability, normalized by the length
    /// penalty.
    pub score: f32,
}

/// A piece of a line: whole lines, but for those that are longer than a model has positions.
struct Piece {
    line: usize,
    /// Source ids, one for each member.
    ids: Vec<Vec<u32>>,
    sentence: Sentence,
}

impl Piece {
    fn len(&self) -> usize {
        len(&self.ids)
    }
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
        let first = |mut translations: Vec<Translated>| translations.swap_remove(0).text;
        Ok(self
            .translate_observed(&requests, 1, false, &mut |_| {})?
            .into_iter()
            .map(first)
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

    /// As [`Self::translate`]; `observe` is told after each batch how many of the lines are done.
    /// If nobody wants them `scored`, greedy search need not normalize over the vocabulary, and
    /// log-probabilities and scores are NaN.
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
        let places: Vec<(usize, u64)> = (first_line..)
            .zip(std::iter::repeat(0))
            .take(requests.len())
            .collect();
        self.translate_parts(requests, &places, scored, observe)
    }

    /// As [`Self::translate_observed`], where several requests may be of one line: `places` has for
    /// each the number of its line, and which of the line's parts it is, from 0.
    ///
    /// # Errors
    /// As [`Self::translate`].
    pub fn translate_parts(
        &self,
        requests: &[Request],
        places: &[(usize, u64)],
        scored: bool,
        observe: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Translated>>> {
        let pieces = self.pieces(requests, places)?;
        let mut left = vec![0; requests.len()];
        for piece in &pieces {
            left[piece.line] += 1;
        }
        let mut done = left.iter().filter(|&&pieces| pieces == 0).count();
        let found = self.longest_first(
            &pieces,
            |piece| self.positions(&piece.ids),
            |batch| {
                let decode = |found: Vec<Hypothesis>| {
                    found
                        .iter()
                        .map(|hypothesis| self.decode(hypothesis))
                        .collect()
                };
                self.hypotheses(batch, scored)
                    .into_iter()
                    .map(decode)
                    .collect()
            },
            |batch| {
                for piece in batch {
                    left[piece.line] -= 1;
                    done += usize::from(left[piece.line] == 0);
                }
                observe(done);
            },
        )?;
        let found = pieces.iter().map(|piece| piece.line).zip(found).collect();
        Ok(join(found, requests.len()))
    }

    fn pieces(&self, requests: &[Request], places: &[(usize, u64)]) -> Result<Vec<Piece>> {
        let whole = |request: &Request| request.text.len() <= ENCODED_WHOLE;
        let texts: Vec<&str> = requests
            .iter()
            .map(|request| {
                if whole(request) {
                    request.text.as_str()
                } else {
                    ""
                }
            })
            .collect();
        let encoded = self.encode(&texts)?;
        let longest = self.longest;
        let mut pieces = Vec::with_capacity(requests.len());
        let mut too_long = Vec::new();
        for (line, (request, ids)) in requests.iter().zip(encoded).enumerate() {
            let (number, place) = places[line];
            let wishes = !request.prefix.trim().is_empty() || !request.constraints.is_empty();
            // A line of characters that cannot be seen has no tokens; one that is cut first has
            // some.
            let has_no_tokens = !ids.is_empty() && whole(request) && len(&ids) == 0;
            let is_blank = request.text.trim().is_empty() || has_no_tokens;
            if is_blank {
                if wishes {
                    tracing::warn!(
                        "line {number} is blank and stays blank: its prefix and constraints are left out"
                    );
                }
                continue;
            }
            let mut parts = vec![ids];
            if !self.reads_images() && (!whole(request) || len(&parts[0]) > longest) {
                parts = self.encode_pieces(&request.text, number)?;
            }
            if parts.len() == 1 {
                let ids = parts.remove(0);
                // An image says nothing of how long its description will be.
                let src_len = if self.reads_images() {
                    longest
                } else {
                    len(&ids)
                };
                let mut sentence = self
                    .sentence(request, src_len, number)
                    .with_context(|| format!("line {number}"))?;
                sentence.number |= place << PLACE_BITS;
                pieces.push(Piece {
                    line,
                    ids,
                    sentence,
                });
                continue;
            }
            too_long.push(number);
            ensure!(
                !wishes,
                "line {number} is too long to be translated with a prefix or with constraints"
            );
            for (part, ids) in (0u64..).zip(parts) {
                let mut piece = Piece {
                    line,
                    ids,
                    sentence: Sentence::default(),
                };
                let whole = Request {
                    number: request.number,
                    ..Request::default()
                };
                piece.sentence = self.sentence(&whole, piece.len(), number)?;
                piece.sentence.number |= place << PLACE_BITS | part << PART_BITS;
                pieces.push(piece);
            }
        }
        match too_long[..] {
            [] => {}
            [line] => {
                tracing::warn!(
                    "line {line} has more than the model's {longest} tokens: it is translated in pieces"
                );
            }
            [first, .., last] => {
                let count = too_long.len();
                tracing::warn!(
                    "{count} lines, the first of them {first} and the last {last}, have more than the model's {longest} \
                     tokens: they are translated in pieces"
                );
            }
        }
        Ok(pieces)
    }

    /// The source ids of the pieces of a text, each no longer than the models.
    fn encode_pieces(&self, text: &str, number: usize) -> Result<Vec<Vec<Vec<u32>>>> {
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
                    "line {number} has a character of more than {longest} tokens: it is read in part"
                );
                pieces
                    .iter_mut()
                    .flatten()
                    .for_each(|ids| ids.truncate(longest));
            }
            return Ok(pieces);
        }
    }

    /// What is asked of the hypotheses for a line of `src_len` tokens.
    fn sentence(&self, request: &Request, src_len: usize, number: usize) -> Result<Sentence> {
        let most = self.longest + 1;
        // A space at its end would be written twice: most tokens begin with the space before their
        // word.
        let prefix = request.prefix.trim();
        let prefix = self.wanted(prefix, self.tgt.encode(prefix)?)?;
        let inside = |phrase: &String| self.wanted(phrase, self.encode_inside(phrase)?);
        let constraints: Vec<Vec<u32>> = request
            .constraints
            .iter()
            .map(inside)
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
            number: request.number.unwrap_or(number as u64),
        })
    }

    /// The ids of a phrase as they are after another word: some tokenizers make the space a part of
    /// them.
    fn encode_inside(&self, phrase: &str) -> Result<Vec<u32>> {
        let (before, both) = (
            self.tgt.encode("a")?,
            self.tgt.encode(&format!("a {phrase}"))?,
        );
        match both.strip_prefix(&before[..]) {
            Some(inside) => Ok(inside.to_vec()),
            None => Ok(self.tgt.encode(phrase)?),
        }
    }

    /// Checks the ids of text that a translation is to have.
    fn wanted(&self, text: &str, ids: Vec<u32>) -> Result<Vec<u32>> {
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

    /// The hypotheses for each piece.
    fn hypotheses(&self, pieces: &[&Piece], scored: bool) -> Vec<Vec<Hypothesis>> {
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
        let unscored = !scored && self.search.is_greedy();
        if unscored {
            next = next.without_normalization();
        }
        let mut found = search(
            &mut next,
            &sentences,
            &self.search,
            Marks {
                bos: special.bos,
                eos: special.eos,
            },
        );
        if unscored {
            for hypothesis in found.iter_mut().flatten() {
                (hypothesis.log_prob, hypothesis.score) = (f32::NAN, f32::NAN);
            }
        }
        found
    }

    fn decode(&self, hypothesis: &Hypothesis) -> Result<Translated> {
        let Hypothesis {
            ids,
            log_prob,
            score,
        } = hypothesis;
        // A break inside a translation would make two lines of one.
        let text = self
            .tgt
            .decode(ids)
            .context("decoding a translation")?
            .replace(['\n', '\r'], " ");
        Ok(Translated {
            text: text.trim().to_owned(),
            log_prob: *log_prob,
            score: *score,
        })
    }
}

/// The most ids that a member has for a text.
fn len(ids: &[Vec<u32>]) -> usize {
    ids.iter().map(Vec::len).max().unwrap_or(0)
}
