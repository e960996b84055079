//! Beam search over a batch of sentences, each of which ends on its own; one beam is greedy search.

use super::{NextToken, SearchConfig};

/// A translation as ids, and how probable the model thinks it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Target ids without the marks around them.
    pub ids: Vec<u32>,
    /// Log-probability of the ids and of the end mark, in nats.
    pub log_prob: f32,
    /// [`SearchConfig::score`] of it: what hypotheses are ranked by.
    pub score: f32,
}

/// The marks around a target sentence.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// Fed first.
    pub bos: u32,
    /// Ends a hypothesis.
    pub eos: u32,
}

/// A hypothesis that has not ended.
#[derive(Clone)]
struct Live {
    sentence: usize,
    ids: Vec<u32>,
    log_prob: f32,
}

/// Finds up to `beam_size` hypotheses for each sentence, the best first; at least one for each.
///
/// `next` starts with one row a sentence; `max_lens[sentence]` is the most tokens its hypotheses may have, end mark
/// included. At every position each sentence keeps its `beam_size` most probable unfinished hypotheses; one that ends
/// among the `beam_size` best is set aside. A sentence is done when `beam_size` hypotheses have ended, and its rows leave
/// the batch. Where none ended in time, the most probable unfinished ones are returned.
///
/// With a beam of one this is greedy search: the most probable token at each position until the end mark.
pub fn beam_search(
    next: &mut impl NextToken,
    max_lens: &[usize],
    config: &SearchConfig,
    marks: Marks,
) -> Vec<Vec<Hypothesis>> {
    let start = |sentence| Live { sentence, ids: Vec::new(), log_prob: 0.0 };
    let mut live: Vec<Live> = (0..max_lens.len()).map(start).collect();
    let mut ended: Vec<Vec<Hypothesis>> = vec![Vec::new(); max_lens.len()];
    while !live.is_empty() {
        let newest: Vec<u32> = live.iter().map(|hypothesis| *hypothesis.ids.last().unwrap_or(&marks.bos)).collect();
        // Twice as many as are kept: up to half of them may be end marks.
        let count = if config.beam_size == 1 { 1 } else { 2 * config.beam_size };
        let candidates = next.advance(&newest, count);

        let (mut kept, mut rows) = (Vec::new(), Vec::new());
        let mut first = 0;
        for group in live.chunk_by(|left, right| left.sentence == right.sentence) {
            let sentence = group[0].sentence;
            let ranked = rank(group, &candidates[first..first + group.len()], count);
            let grown = extend(group, &ranked, &mut ended[sentence], config, marks);
            let len = group[0].ids.len() + 1;
            if len >= max_lens[sentence] {
                surrender(&grown, &mut ended[sentence], config);
            } else if ended[sentence].len() < config.beam_size {
                rows.extend(grown.iter().map(|(row, _)| first + row));
                kept.extend(grown.into_iter().map(|(_, hypothesis)| hypothesis));
            }
            first += group.len();
        }
        if !kept.is_empty() && !rows.iter().copied().eq(0..live.len()) {
            next.select(&rows);
        }
        live = kept;
    }
    for hypotheses in &mut ended {
        if hypotheses.is_empty() {
            // Only a model without a single possible token (NaN weights) leaves a sentence with nothing.
            hypotheses.push(Hypothesis { ids: Vec::new(), log_prob: f32::NEG_INFINITY, score: f32::NEG_INFINITY });
        }
        hypotheses.sort_by(|left, right| right.score.total_cmp(&left.score));
        hypotheses.truncate(config.beam_size);
    }
    ended
}

/// `(row in the group, id, log-probability of the whole)` of the best continuations of one sentence, best first.
fn rank(group: &[Live], candidates: &[Vec<super::Candidate>], count: usize) -> Vec<(usize, u32, f32)> {
    let mut ranked: Vec<(usize, u32, f32)> = Vec::with_capacity(group.len() * count);
    for (row, (hypothesis, candidates)) in group.iter().zip(candidates).enumerate() {
        // A forbidden token is no candidate, even where there are not enough others.
        let possible = candidates.iter().filter(|next| next.log_prob > f32::NEG_INFINITY);
        ranked.extend(possible.map(|next| (row, next.id, hypothesis.log_prob + next.log_prob)));
    }
    // Ties go to the row that ranked first before, then to the smaller id, so that equal scores give equal output.
    ranked.sort_by(|left, right| right.2.total_cmp(&left.2).then((left.0, left.1).cmp(&(right.0, right.1))));
    ranked.truncate(count);
    ranked
}

/// The best unfinished hypotheses, each with its row in the group; those that end go to `ended`.
fn extend(
    group: &[Live],
    ranked: &[(usize, u32, f32)],
    ended: &mut Vec<Hypothesis>,
    config: &SearchConfig,
    marks: Marks,
) -> Vec<(usize, Live)> {
    let mut grown = Vec::with_capacity(config.beam_size);
    for (rank, &(row, id, log_prob)) in ranked.iter().enumerate() {
        let mut ids = group[row].ids.clone();
        if id == marks.eos {
            if rank < config.beam_size {
                let score = config.score(log_prob, ids.len() + 1);
                ended.push(Hypothesis { ids, log_prob, score });
            }
        } else if grown.len() < config.beam_size {
            ids.push(id);
            grown.push((row, Live { sentence: group[row].sentence, ids, log_prob }));
        }
    }
    grown
}

/// At the greatest length, unfinished hypotheses count only where nothing ended.
fn surrender(grown: &[(usize, Live)], ended: &mut Vec<Hypothesis>, config: &SearchConfig) {
    if ended.is_empty() {
        ended.extend(grown.iter().map(|(_, hypothesis)| {
            let Live { ids, log_prob, .. } = hypothesis.clone();
            let score = config.score(log_prob, ids.len());
            Hypothesis { ids, log_prob, score }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Candidate, LengthPenalty};
    use super::*;

    const MARKS: Marks = Marks { bos: 0, eos: 1 };
    const VOCAB_SIZE: u32 = 4;
    const MAX_LEN: usize = 5;

    /// A language model that is a table: the distribution after a prefix is a fixed function of sentence and prefix.
    struct Table {
        rows: Vec<(u32, Vec<u32>)>,
    }

    impl Table {
        fn new(sentences: &[u32]) -> Self {
            Self { rows: sentences.iter().map(|&sentence| (sentence, Vec::new())).collect() }
        }

        fn log_probs(sentence: u32, prefix: &[u32]) -> Vec<f32> {
            let weight = |id: u32| {
                let mut bits = u64::from(sentence) << 32 | u64::from(id);
                for &token in prefix {
                    bits = (bits ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
                }
                bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                if id == MARKS.bos { 0.0 } else { 0.05 + (bits >> 40) as f32 / (1u64 << 24) as f32 }
            };
            let sum: f32 = (0..VOCAB_SIZE).map(weight).sum();
            (0..VOCAB_SIZE).map(|id| (weight(id) / sum).ln()).collect()
        }
    }

    impl NextToken for Table {
        fn advance(&mut self, newest: &[u32], count: usize) -> Vec<Vec<Candidate>> {
            self.rows.iter_mut().zip(newest).for_each(|((_, prefix), &id)| prefix.push(id));
            let best = |(sentence, prefix): &(u32, Vec<u32>)| {
                let log_probs = Table::log_probs(*sentence, prefix);
                let mut candidates: Vec<Candidate> =
                    (0u32..).zip(log_probs).map(|(id, log_prob)| Candidate { id, log_prob }).collect();
                candidates.sort_by(|left, right| right.log_prob.total_cmp(&left.log_prob));
                candidates.truncate(count);
                candidates
            };
            self.rows.iter().map(best).collect()
        }

        fn select(&mut self, rows: &[usize]) {
            self.rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
        }
    }

    /// Every sequence of up to `MAX_LEN` tokens that ends, best score first.
    fn exhaustive(sentence: u32, config: &SearchConfig) -> Vec<Hypothesis> {
        let mut found = Vec::new();
        let mut open = vec![(Vec::new(), 0.0f32)];
        for _ in 0..MAX_LEN {
            let mut longer = Vec::new();
            for (ids, log_prob) in open {
                let prefix: Vec<u32> = std::iter::once(MARKS.bos).chain(ids.iter().copied()).collect();
                for (id, next) in (0u32..).zip(Table::log_probs(sentence, &prefix)) {
                    let mut ids: Vec<u32> = ids.clone();
                    if id == MARKS.eos {
                        let log_prob = log_prob + next;
                        found.push(Hypothesis { score: config.score(log_prob, ids.len() + 1), ids, log_prob });
                    } else if id != MARKS.bos {
                        ids.push(id);
                        longer.push((ids, log_prob + next));
                    }
                }
            }
            open = longer;
        }
        found.sort_by(|left, right| right.score.total_cmp(&left.score));
        found
    }

    fn config(beam_size: usize, length_penalty: LengthPenalty) -> SearchConfig {
        SearchConfig { beam_size, length_penalty, length_alpha: 0.8, ..SearchConfig::default() }
    }

    #[test]
    fn a_beam_as_wide_as_the_space_finds_what_exhaustive_search_finds() {
        for penalty in [LengthPenalty::None, LengthPenalty::Average, LengthPenalty::Wu] {
            let config = config(200, penalty);
            for sentence in 0..8 {
                let found = beam_search(&mut Table::new(&[sentence]), &[MAX_LEN], &config, MARKS);
                let expected = exhaustive(sentence, &config);
                assert_eq!(found[0].len(), expected.len());
                for (found, expected) in found[0].iter().zip(&expected).take(10) {
                    assert_eq!(found.ids, expected.ids);
                    assert!((found.score - expected.score).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn one_beam_takes_the_most_probable_token_each_time() {
        for sentence in 0..20 {
            let found = beam_search(&mut Table::new(&[sentence]), &[MAX_LEN], &config(1, LengthPenalty::None), MARKS);
            let mut prefix = vec![MARKS.bos];
            while prefix.len() <= MAX_LEN {
                let log_probs = Table::log_probs(sentence, &prefix);
                let best =
                    (0..VOCAB_SIZE).max_by(|&a, &b| log_probs[a as usize].total_cmp(&log_probs[b as usize])).unwrap();
                if best == MARKS.eos {
                    break;
                }
                prefix.push(best);
            }
            assert_eq!(found[0].len(), 1);
            assert_eq!(found[0][0].ids, prefix[1..], "sentence {sentence}");
        }
    }

    #[test]
    fn a_batch_gives_what_each_sentence_gives_alone() {
        let sentences: Vec<u32> = (0..12).collect();
        for beam_size in [1, 2, 3] {
            let config = config(beam_size, LengthPenalty::Wu);
            let together = beam_search(&mut Table::new(&sentences), &[MAX_LEN; 12], &config, MARKS);
            for (&sentence, found) in sentences.iter().zip(&together) {
                let alone = beam_search(&mut Table::new(&[sentence]), &[MAX_LEN], &config, MARKS);
                assert_eq!(&alone[0], found);
            }
        }
    }
}
