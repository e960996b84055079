//! A beam search, step by step: the hypotheses that were kept at each position, and the tokens that
//! might have come next.

use polyglow_data::padded::Padded;
use polyglow_data::pair_tags::prepend;
use polyglow_model::search::{
    Candidate, Hypothesis, Incremental, Scorer, SearchRequest, Sentence, SpecialTokens, search,
};
use polyglow_predict::Result;
use polyglow_predict::device::upload_rows;
use polyglow_predict::runner::Runner;
use serde::Serialize;

/// A search for the translation of a line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Beam {
    /// The tokens of the line, and EOS.
    pub source: Vec<String>,
    /// The hypotheses that were kept at each position, the best first.
    pub steps: Vec<Vec<Row>>,
    /// The hypotheses that have ended, the best first; `found` in JSON.
    #[serde(rename = "found")]
    pub hypotheses: Vec<Row>,
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
    /// The score that ended hypotheses are ranked by; `None` before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// The most probable tokens after it, the best first; empty after the end.
    pub next: Vec<Next>,
}

/// A token, as it is shown.
pub type Token = String;

/// A token that may come next.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Next {
    /// The token.
    pub token: Token,
    /// Its log-probability given the hypothesis before it, in nats.
    pub log_prob: f32,
    /// Whether it ends the hypothesis.
    pub ends: bool,
}

impl Beam {
    /// Translates a line with a beam of this size, and keeps every step.
    ///
    /// # Errors
    /// The line cannot be encoded; the beam is too large.
    pub(crate) fn search(runner: &Runner, line: &str, beam_size: usize) -> Result<Self> {
        let config = runner.search_for(&SearchRequest {
            beam_size: Some(beam_size),
            ..SearchRequest::default()
        })?;
        let member = &runner.members[0];
        let special = member.src.special();
        let mut ids = member.src.encode(line)?;
        prepend(&runner.src_tags(member)?, &mut ids);
        ids.truncate(runner.longest);
        let src = Padded::ended(&[&ids], special.eos, special.pad, 1);
        let src = upload_rows(&src, &runner.device);
        let max_len = config.max_len(ids.len()).min(runner.longest + 1);
        let sentence = Sentence {
            min_len: config.min_len(ids.len()).min(max_len),
            max_len,
            start: runner.tgt_tags()?,
            number: 1,
            ..Sentence::default()
        };
        let tgt = runner.tgt.special();
        let tgt_special = SpecialTokens {
            bos: tgt.bos,
            eos: tgt.eos,
        };
        let next = Incremental::new([(&member.model, src)], &[tgt.pad, tgt.bos]);
        let mut recorder = Recorder::new(next, sentence.start.len());
        let hypotheses = search(&mut recorder, &[sentence], &config, tgt_special).swap_remove(0);

        let mut steps = Vec::with_capacity(recorder.steps.len());
        for paths in recorder.steps {
            let rows = paths.into_iter().map(|path| unfinished_row(runner, path));
            steps.push(rows.collect::<Result<_>>()?);
        }
        let ended = hypotheses
            .iter()
            .map(|hypothesis| ended_row(runner, hypothesis));
        let hypotheses = ended.collect::<Result<_>>()?;
        ids.push(special.eos);
        Ok(Self {
            source: ids.iter().map(|&id| member.src.shown(id)).collect(),
            steps,
            hypotheses,
        })
    }
}

/// A hypothesis before its end, with the candidates for its next token.
fn unfinished_row(runner: &Runner, path: Path) -> Result<Row> {
    let eos = runner.tgt.special().eos;
    let mut next = Vec::new();
    for candidate in path.next {
        // Candidates that the search must not take have no probability.
        if candidate.log_prob.is_finite() {
            next.push(Next {
                token: runner.tgt.shown(candidate.id),
                log_prob: candidate.log_prob,
                ends: candidate.id == eos,
            });
        }
    }
    Ok(Row {
        tokens: shown(runner, &path.ids),
        text: runner.tgt.decode(&path.ids)?,
        log_prob: path.log_prob,
        score: None,
        next,
    })
}

/// A hypothesis that has ended.
fn ended_row(runner: &Runner, hypothesis: &Hypothesis) -> Result<Row> {
    Ok(Row {
        tokens: shown(runner, &hypothesis.ids),
        text: runner.tgt.decode(&hypothesis.ids)?,
        log_prob: hypothesis.log_prob,
        score: Some(hypothesis.score),
        next: Vec::new(),
    })
}

/// The tokens of ids, as they are shown.
fn shown(runner: &Runner, ids: &[u32]) -> Vec<Token> {
    ids.iter().map(|&id| runner.tgt.shown(id)).collect()
}

/// A hypothesis before its end.
#[derive(Clone, Debug, Default)]
struct Path {
    ids: Vec<u32>,
    log_prob: f32,
    next: Vec<Candidate>,
}

/// A scorer that records the hypotheses that it is called with, and the candidates that it returns.
struct Recorder<N> {
    inner: N,
    /// The number of tokens at the start of every hypothesis that cost nothing.
    num_free: usize,
    /// The hypotheses that the search keeps now.
    paths: Vec<Path>,
    /// The hypotheses that it has kept at each position.
    steps: Vec<Vec<Path>>,
}

impl<N> Recorder<N> {
    fn new(inner: N, num_free: usize) -> Self {
        Self {
            inner,
            num_free,
            paths: Vec::new(),
            steps: Vec::new(),
        }
    }
}

impl<N: Scorer> Scorer for Recorder<N> {
    fn advance(
        &mut self,
        newest: &[u32],
        count: usize,
        requested: &[Vec<u32>],
    ) -> Vec<Vec<Candidate>> {
        if self.steps.is_empty() {
            // The first input is BOS, which is no part of a hypothesis.
            self.paths = vec![Path::default(); newest.len()];
        } else {
            for (path, &id) in self.paths.iter_mut().zip(newest) {
                let candidate = path.next.iter().find(|candidate| candidate.id == id);
                if path.ids.len() >= self.num_free {
                    path.log_prob += candidate
                        .expect("a search continues a hypothesis with one of its candidates")
                        .log_prob;
                }
                path.ids.push(id);
            }
        }
        let candidates = self.inner.advance(newest, count, requested);
        for (path, next) in self.paths.iter_mut().zip(&candidates) {
            path.next.clone_from(next);
        }
        self.steps.push(self.paths.clone());
        candidates
    }

    fn select(&mut self, rows: &[usize]) {
        self.paths = rows.iter().map(|&row| self.paths[row].clone()).collect();
        self.inner.select(rows);
    }
}
