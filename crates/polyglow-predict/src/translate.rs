//! Lines to lines, order and count kept: one path for `translate`, `generate`, `evaluate` and
//! validation.

use polyglow_model::Generate;
use polyglow_model::search::{
    Hypothesis, Incremental, SearchConfig, SearchRequest, Sentence, SpecialTokens, search,
};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Result, TrainError, bail, ensure};
use crate::runner::{ENCODED_WHOLE, Runner};
use crate::source::EncodedSource;
use crate::split::{join, split};

/// A line to translate, and the requirements on its translation. The search for it is that of a
/// [`SearchRequest`], which all lines of a call share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// The line.
    pub text: String,
    /// The beginning of the translation, without regard to spaces around it; empty for any
    /// beginning.
    pub prefix: String,
    /// Phrases that the translation contains.
    pub constraints: Vec<String>,
    /// The number of its line, for messages and for the random numbers of its samples; `None` for
    /// its position among the requests, counted on from the first line.
    pub number: Option<u64>,
    /// The number of the part of its line, counted from 0, where several requests are of one line:
    /// each has random numbers of its own.
    pub part: u64,
}

/// A translation of a line, or what a language model wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Translated {
    /// The text, without line breaks.
    pub text: String,
    /// Its log-probability and score; `None` unless they were requested.
    pub scores: Option<Scores>,
}

/// The log-probability and the score of a translation.
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
    source: EncodedSource,
    sentence: Sentence,
}

impl<M: Generate> Runner<M> {
    /// Returns the best translation of every line, as the runner's config searches for it; a blank
    /// line stays blank, and none has a line break in it.
    ///
    /// # Errors
    /// As [`Self::translate`].
    pub fn best(&self, lines: &[impl AsRef<str>]) -> Result<Vec<String>> {
        self.best_for(lines, &SearchRequest::default())
    }

    /// Returns the best translation of every line, as [`Self::best`] does, with these search
    /// options.
    ///
    /// # Errors
    /// As [`Self::translate`].
    pub fn best_for(
        &self,
        lines: &[impl AsRef<str>],
        search: &SearchRequest,
    ) -> Result<Vec<String>> {
        let requests: Vec<Request> = lines
            .iter()
            .map(|line| Request {
                text: line.as_ref().to_owned(),
                ..Request::default()
            })
            .collect();
        let translations = self.translate(&requests, search)?;
        Ok(translations
            .into_iter()
            .map(|mut best| best.swap_remove(0).text)
            .collect())
    }

    /// Returns up to `search.n_best` translations of every line, at least one of each, the best
    /// first; of a blank line one that is blank. They have scores if `search` asks for them.
    ///
    /// Lines are batched by length, so a call with many lines is faster than many calls. A line
    /// longer than the model was made for is translated in pieces, with a warning.
    ///
    /// # Errors
    /// `search` is out of range; a line cannot be encoded or an output cannot be decoded; a prefix
    /// or a constraint cannot be met.
    pub fn translate(
        &self,
        requests: &[Request],
        search: &SearchRequest,
    ) -> Result<Vec<Vec<Translated>>> {
        self.translate_observed(requests, 1, search, &mut |_| {})
    }

    /// Translates as [`Self::translate`] does, and calls `observe` after each batch with the number
    /// of requests that are done. `first_line` is the number of the first line in its file, for
    /// messages and for the random numbers of sampling.
    ///
    /// # Errors
    /// As [`Self::translate`].
    pub fn translate_observed(
        &self,
        requests: &[Request],
        first_line: usize,
        search: &SearchRequest,
        observe: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Translated>>> {
        let config = self.search_for(search)?;
        let pieces = self.pieces(requests, first_line, &config)?;
        let mut num_left = vec![0; requests.len()];
        for piece in &pieces {
            num_left[piece.request] += 1;
        }
        let mut num_done = num_left.iter().filter(|&&pieces| pieces == 0).count();
        let translations = self.longest_first(
            &pieces,
            config.beam_size,
            |piece| piece.source.num_positions(),
            |batch| self.translations(batch, &config, search),
            |batch| {
                for piece in batch {
                    num_left[piece.request] -= 1;
                    num_done += usize::from(num_left[piece.request] == 0);
                }
                observe(num_done);
            },
        )?;
        let request_of_piece = pieces.iter().map(|piece| piece.request);
        let translations = request_of_piece.zip(translations).collect();
        Ok(join(translations, requests.len(), search.scores))
    }

    /// Cuts all requests into pieces; a blank one has none.
    fn pieces(
        &self,
        requests: &[Request],
        first_line: usize,
        search: &SearchConfig,
    ) -> Result<Vec<Piece>> {
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
        for (index, (request, source)) in requests.iter().zip(encoded).enumerate() {
            let line = request.number.unwrap_or((first_line + index) as u64);
            let has_wishes = !request.prefix.trim().is_empty() || !request.constraints.is_empty();
            if is_blank(request, &source) {
                if has_wishes {
                    tracing::warn!(
                        "line {line} is blank and stays blank: its prefix and constraints are left out"
                    );
                }
                continue;
            }
            let mut parts = if self.is_short(request, &source) {
                vec![source]
            } else {
                self.encode_pieces(&request.text, line)?
            };
            if parts.len() == 1 {
                let source = parts.remove(0);
                let sentence = self
                    .sentence(request, &source, line, search)
                    .with_context(|| format!("line {line}"))?;
                pieces.push(Piece {
                    request: index,
                    source,
                    sentence,
                });
                continue;
            }
            too_long.push(line);
            ensure!(
                !has_wishes,
                "line {line} is too long to be translated with a prefix or with constraints"
            );
            for (number, source) in (0..).zip(parts) {
                let mut sentence = self.sentence(request, &source, line, search)?;
                sentence.part[1] = number;
                pieces.push(Piece {
                    request: index,
                    source,
                    sentence,
                });
            }
        }
        warn_of_long_lines(&too_long, self.longest);
        Ok(pieces)
    }

    /// Whether a request is translated as a whole; a longer text is cut into pieces.
    fn is_short(&self, request: &Request, source: &EncodedSource) -> bool {
        source
            .num_tokens()
            .is_none_or(|tokens| is_encoded_whole(request) && tokens <= self.longest)
    }

    /// Encodes the pieces of a text, each no longer than the models.
    fn encode_pieces(&self, text: &str, line: u64) -> Result<Vec<EncodedSource>> {
        let longest = self.longest;
        let mut budget = longest;
        loop {
            let parts = split::<TrainError>(text, budget, &|parts: &[&str]| {
                let parts = self.encode(parts)?;
                Ok(parts.iter().map(EncodedSource::num_positions).collect())
            })?;
            let mut pieces = self.encode(&parts)?;
            let lens = pieces.iter().map(EncodedSource::num_positions);
            let excess = lens.max().unwrap_or(0).saturating_sub(longest);
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
                for piece in &mut pieces {
                    piece.truncate(longest);
                }
            }
            return Ok(pieces);
        }
    }

    /// Returns the requirements on the hypotheses for a piece of a request with this source.
    fn sentence(
        &self,
        request: &Request,
        source: &EncodedSource,
        line: u64,
        search: &SearchConfig,
    ) -> Result<Sentence> {
        let most = self.longest + 1;
        // A space at its end would be written twice: most tokens begin with the space before their
        // word.
        let prefix = request.prefix.trim();
        let prefix = self.writable(prefix, self.tgt.encode(prefix)?)?;
        let mut constraints = Vec::with_capacity(request.constraints.len());
        for phrase in &request.constraints {
            constraints.push(self.writable(phrase, self.encode_inside(phrase)?)?);
        }
        let start = self.tgt_tags()?;
        // The last one is the end of the sentence.
        let num_requested = prefix.len() + constraints.iter().map(Vec::len).sum::<usize>();
        let needed = start.len() + num_requested + 1;
        ensure!(
            needed <= most,
            "its prefix and constraints have {needed} tokens, more than the {most} that the model can write"
        );
        let src_len = source.num_tokens();
        let min_len = src_len.map_or(0, |src_len| search.min_len(src_len));
        // The size of an image does not limit the length of its description.
        let max_len = search.max_len(src_len.unwrap_or(self.longest));
        let max_len = max_len.min(most).max(needed);
        Ok(Sentence {
            min_len: min_len.min(max_len),
            max_len,
            start,
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

    /// Translates some pieces in one batch.
    fn translations(
        &self,
        batch: &[&Piece],
        config: &SearchConfig,
        search: &SearchRequest,
    ) -> Result<Vec<Vec<Translated>>> {
        let mut translations = Vec::with_capacity(batch.len());
        for hypotheses in self.hypotheses(batch, config, search.scores) {
            let best = hypotheses.iter().take(search.n_best);
            let best = best.map(|hypothesis| self.decode(hypothesis, search.scores));
            translations.push(best.collect::<Result<_>>()?);
        }
        Ok(translations)
    }

    /// Searches for the hypotheses for each piece. Without `scores`, those of greedy search mean
    /// nothing.
    fn hypotheses(
        &self,
        pieces: &[&Piece],
        config: &SearchConfig,
        scores: bool,
    ) -> Vec<Vec<Hypothesis>> {
        let special = self.tgt.special();
        let encoded: Vec<&EncodedSource> = pieces.iter().map(|piece| &piece.source).collect();
        let mut sources = Vec::with_capacity(self.members.len());
        for (index, member) in self.members.iter().enumerate() {
            sources.push((&member.model, self.upload_sources(index, &encoded)));
        }
        let sentences: Vec<Sentence> = pieces.iter().map(|piece| piece.sentence.clone()).collect();
        let mut next = Incremental::new(sources, &[special.pad, special.bos]);
        // Greedy search alone finds the best without log-probabilities.
        if !scores && config.is_greedy() {
            next = next.without_normalization();
        }
        let special_tokens = SpecialTokens {
            bos: special.bos,
            eos: special.eos,
        };
        search(&mut next, &sentences, config, special_tokens)
    }

    fn decode(&self, hypothesis: &Hypothesis, scores: bool) -> Result<Translated> {
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
            scores: scores.then_some(Scores { log_prob, score }),
        })
    }
}

/// Whether the text of a request is encoded as a whole; a longer one is cut first.
fn is_encoded_whole(request: &Request) -> bool {
    request.text.len() <= ENCODED_WHOLE
}

/// Whether there is nothing to translate in a request, whose text has this source if it is encoded
/// as a whole.
fn is_blank(request: &Request, source: &EncodedSource) -> bool {
    // A line of characters that cannot be seen has no tokens.
    let has_no_tokens = is_encoded_whole(request) && source.num_tokens() == Some(0);
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
