//! A beam search that can be looked at: what was kept at each position, and what might have come
//! next.

use polyglow_data::padded::Padded;
use polyglow_model::search::{
    Candidate, Incremental, NextToken, SearchRequest, Sentence, SpecialTokens, search,
};
use polyglow_predict::Result;
use polyglow_predict::device::upload_rows;
use polyglow_predict::runner::Runner;
use serde::Serialize;

/// A search for the translation of a line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Beam {
    /// The tokens of the line, with its end mark.
    pub source: Vec<String>,
    /// The hypotheses that were kept at each position, the best first.
    pub steps: Vec<Vec<Row>>,
    /// What was found, the best first.
    pub found: Vec<Row>,
}

/// A hypothesis.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its tokens so far.
    pub tokens: Vec<Token>,
    /// Its text so far.
    pub text: String,
    /// Its log-probability, in nats.
    pub log_prob: f32,
    /// What hypotheses that have ended are ranked by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// The most probable tokens after it, the best first; none of a hypothesis that has ended.
    pub next: Vec<Next>,
}

/// A token, as it is shown.
pub type Token = String;

/// What may come next.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Next {
    /// The token.
    pub token: Token,
    /// Its log-probability after what was there, in nats.
    pub log_prob: f32,
    /// Whether it ends the hypothesis.
    pub ends: bool,
}

impl Beam {
    /// Translates a line with a beam of this width, and keeps what was kept.
    pub(crate) fn search(runner: &Runner, line: &str, beam_size: usize) -> Result<Self> {
        let config = runner.search_for(&SearchRequest {
            beam_size: Some(beam_size),
            ..SearchRequest::default()
        })?;
        let member = &runner.members[0];
        let (special, tgt) = (member.src.special(), runner.tgt.special());
        let mut ids = member.src.encode(line)?;
        ids.truncate(runner.longest);
        let src = upload_rows(
            &Padded::ended(&[&ids], special.eos, special.pad, 1),
            &runner.device,
        );
        let max_len = config.max_len(ids.len()).min(runner.longest + 1);
        let min_len = config.min_len(ids.len()).min(max_len);
        let sentence = Sentence {
            min_len,
            max_len,
            number: 1,
            ..Sentence::default()
        };
        let special_tokens = SpecialTokens {
            bos: tgt.bos,
            eos: tgt.eos,
        };
        let next = Incremental::new([(&member.model, src)], &[tgt.pad, tgt.bos]);
        let mut watched = Watched::new(next);
        let hypotheses = search(&mut watched, &[sentence], &config, special_tokens).swap_remove(0);

        let shown = |ids: &[u32]| {
            ids.iter()
                .map(|&id| runner.tgt.shown(id))
                .collect::<Vec<Token>>()
        };
        let next = |candidate: &Candidate| Next {
            token: runner.tgt.shown(candidate.id),
            log_prob: candidate.log_prob,
            ends: candidate.id == special_tokens.eos,
        };
        let step = |rows: &Vec<Path>| {
            let row = |Path {
                           ids,
                           log_prob,
                           next: candidates,
                       }: &Path| {
                let next = candidates
                    .iter()
                    .filter(|candidate| candidate.log_prob.is_finite())
                    .map(next)
                    .collect();
                Ok(Row {
                    tokens: shown(ids),
                    text: runner.tgt.decode(ids)?,
                    log_prob: *log_prob,
                    score: None,
                    next,
                })
            };
            rows.iter().map(row).collect::<Result<Vec<Row>>>()
        };
        let found = |found: &polyglow_model::search::Hypothesis| {
            let (text, score) = (runner.tgt.decode(&found.ids)?, Some(found.score));
            Ok(Row {
                tokens: shown(&found.ids),
                text,
                log_prob: found.log_prob,
                score,
                next: Vec::new(),
            })
        };
        ids.push(special.eos);
        Ok(Self {
            source: ids.iter().map(|&id| member.src.shown(id)).collect(),
            steps: watched.steps.iter().map(step).collect::<Result<_>>()?,
            found: hypotheses.iter().map(found).collect::<Result<_>>()?,
        })
    }
}

/// A hypothesis in work.
#[derive(Clone, Debug, Default)]
struct Path {
    ids: Vec<u32>,
    log_prob: f32,
    next: Vec<Candidate>,
}

/// A scorer that keeps what it was asked, and what it said.
struct Watched<N> {
    inner: N,
    rows: Vec<Path>,
    steps: Vec<Vec<Path>>,
}

impl<N> Watched<N> {
    fn new(inner: N) -> Self {
        Self {
            inner,
            rows: Vec::new(),
            steps: Vec::new(),
        }
    }
}

impl<N: NextToken> NextToken for Watched<N> {
    fn advance(
        &mut self,
        newest: &[u32],
        count: usize,
        requested: &[Vec<u32>],
    ) -> Vec<Vec<Candidate>> {
        if self.steps.is_empty() {
            // What is fed first is the mark before the sentence, which is no part of it.
            self.rows = vec![Path::default(); newest.len()];
        } else {
            for (row, &id) in self.rows.iter_mut().zip(newest) {
                let candidate = row.next.iter().find(|candidate| candidate.id == id);
                row.log_prob += candidate
                    .expect("a search continues a row with one of its candidates")
                    .log_prob;
                row.ids.push(id);
            }
        }
        let found = self.inner.advance(newest, count, requested);
        for (row, next) in self.rows.iter_mut().zip(&found) {
            row.next.clone_from(next);
        }
        self.steps.push(self.rows.clone());
        found
    }

    fn select(&mut self, rows: &[usize]) {
        self.rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
        self.inner.select(rows);
    }
}
