mod batch;
mod groups;

use super::{
    Candidate, Hypothesis, LengthPenalty, Scorer, SearchConfig, SearchMethod, Sentence,
    SpecialTokens, search,
};

const SPECIAL: SpecialTokens = SpecialTokens { bos: 0, eos: 1 };
const VOCAB_SIZE: u32 = 5;
const MAX_LEN: usize = 5;
/// As wide as there are sequences.
const EVERYTHING: usize = 500;

/// A language model that is a table: the distribution after a prefix is a fixed function of
/// sentence and prefix.
struct Table {
    vocab_size: u32,
    rows: Vec<(u32, Vec<u32>)>,
}

impl Table {
    fn new(sentences: &[u32]) -> Self {
        Self::with_vocab(VOCAB_SIZE, sentences)
    }

    fn with_vocab(vocab_size: u32, sentences: &[u32]) -> Self {
        Self {
            vocab_size,
            rows: sentences
                .iter()
                .map(|&sentence| (sentence, Vec::new()))
                .collect(),
        }
    }

    fn log_probs(vocab_size: u32, sentence: u32, prefix: &[u32]) -> Vec<f32> {
        let weight = |id: u32| {
            let mut bits = u64::from(sentence) << 32 | u64::from(id);
            for &token in prefix {
                bits = (bits ^ u64::from(token))
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(23);
            }
            bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            if id == SPECIAL.bos {
                0.0
            } else {
                0.05 + (bits >> 40) as f32 / (1u64 << 24) as f32
            }
        };
        let sum: f32 = (0..vocab_size).map(weight).sum();
        (0..vocab_size).map(|id| (weight(id) / sum).ln()).collect()
    }
}

impl Scorer for Table {
    fn advance(
        &mut self,
        newest: &[u32],
        count: usize,
        requested: &[Vec<u32>],
    ) -> Vec<Vec<Candidate>> {
        self.rows
            .iter_mut()
            .zip(newest)
            .for_each(|((_, prefix), &id)| prefix.push(id));
        let mut rows = Vec::new();
        for (row, (sentence, prefix)) in self.rows.iter().enumerate() {
            let log_probs = Self::log_probs(self.vocab_size, *sentence, prefix);
            let mut candidates: Vec<Candidate> = (0u32..)
                .zip(log_probs)
                .map(|(id, log_prob)| Candidate { id, log_prob })
                .collect();
            candidates.sort_by(|left, right| right.log_prob.total_cmp(&left.log_prob));
            let mut rest = candidates.split_off(count.min(candidates.len()));
            rest.retain(|candidate| {
                requested
                    .get(row)
                    .is_some_and(|requested| requested.contains(&candidate.id))
            });
            candidates.extend(rest);
            rows.push(candidates);
        }
        rows
    }

    fn select(&mut self, rows: &[usize]) {
        self.rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
    }
}

/// A sentence without requirements.
fn plain(number: u32) -> Sentence {
    Sentence {
        max_len: MAX_LEN,
        number: u64::from(number),
        ..Sentence::default()
    }
}

fn search_all(sentences: &[u32], config: &SearchConfig) -> Vec<Vec<Hypothesis>> {
    let requirements: Vec<Sentence> = sentences.iter().map(|&number| plain(number)).collect();
    search(&mut Table::new(sentences), &requirements, config, SPECIAL)
}

/// Every sequence of up to `MAX_LEN` tokens that ends, best score first.
fn exhaustive(sentence: u32, config: &SearchConfig) -> Vec<Hypothesis> {
    let mut ended = Vec::new();
    let mut open = vec![(Vec::new(), 0.0f32)];
    for _ in 0..MAX_LEN {
        let mut longer = Vec::new();
        for (ids, log_prob) in open {
            let prefix: Vec<u32> = std::iter::once(SPECIAL.bos)
                .chain(ids.iter().copied())
                .collect();
            for (id, next) in (0u32..).zip(Table::log_probs(VOCAB_SIZE, sentence, &prefix)) {
                let mut ids: Vec<u32> = ids.clone();
                if id == SPECIAL.eos {
                    let log_prob = log_prob + next;
                    ended.push(Hypothesis {
                        score: config.score(log_prob, ids.len() + 1),
                        ids,
                        log_prob,
                    });
                } else if id != SPECIAL.bos {
                    ids.push(id);
                    longer.push((ids, log_prob + next));
                }
            }
        }
        open = longer;
    }
    ended.sort_by(|left, right| right.score.total_cmp(&left.score));
    ended
}

fn config(beam_size: usize, length_penalty: LengthPenalty) -> SearchConfig {
    SearchConfig {
        beam_size,
        length_penalty,
        length_alpha: 0.8,
        ..SearchConfig::default()
    }
}

/// Compares a search as wide as the space with all sequences that meet the requirements of a
/// sentence.
fn assert_exhaustive(config: &SearchConfig, sentence: &Sentence, fits: impl Fn(&[u32]) -> bool) {
    for number in 0..8 {
        let sentence = Sentence {
            number: u64::from(number),
            max_len: MAX_LEN,
            ..sentence.clone()
        };
        let hypotheses = &search(&mut Table::new(&[number]), &[sentence], config, SPECIAL)[0];
        let expected: Vec<Hypothesis> = exhaustive(number, config)
            .into_iter()
            .filter(|hypothesis| fits(&hypothesis.ids))
            .collect();
        assert!(expected.len() > 1);
        assert_eq!(hypotheses.len(), expected.len());
        for (hypothesis, expected) in hypotheses.iter().zip(&expected).take(10) {
            assert_eq!(hypothesis.ids, expected.ids);
            assert!((hypothesis.score - expected.score).abs() < 1e-6);
        }
    }
}

#[test]
fn a_beam_as_wide_as_the_space_finds_what_exhaustive_search_finds() {
    for penalty in [
        LengthPenalty::None,
        LengthPenalty::Average,
        LengthPenalty::Wu,
    ] {
        assert_exhaustive(&config(EVERYTHING, penalty), &plain(0), |_| true);
    }
}

#[test]
fn requirements_leave_exactly_the_sequences_that_meet_them() {
    let config = config(EVERYTHING, LengthPenalty::Average);
    let prefix = Sentence {
        prefix: vec![3, 2],
        ..Sentence::default()
    };
    assert_exhaustive(&config, &prefix, |ids| ids.starts_with(&[3, 2]));
    let longer = Sentence {
        min_len: 4,
        ..Sentence::default()
    };
    assert_exhaustive(&config, &longer, |ids| ids.len() >= 3);
    let no_repeats = SearchConfig {
        no_repeat_ngram: 2,
        ..config.clone()
    };
    assert_exhaustive(&no_repeats, &plain(0), |ids| {
        let mut bigrams: Vec<&[u32]> = ids.windows(2).collect();
        bigrams.sort_unstable();
        bigrams.windows(2).all(|pair| pair[0] != pair[1])
    });
}

#[test]
fn a_start_is_read_and_costs_nothing_and_counts_in_the_length() {
    let config = config(EVERYTHING, LengthPenalty::Average);
    for number in 0..8 {
        // What a prefix gives, without its token and without what it costs.
        let cost = Table::log_probs(VOCAB_SIZE, number, &[SPECIAL.bos])[3];
        let mut expected = exhaustive(number, &config);
        expected.retain(|hypothesis| hypothesis.ids.starts_with(&[3]));
        for hypothesis in &mut expected {
            let len = hypothesis.ids.len() + 1;
            hypothesis.ids.remove(0);
            hypothesis.log_prob -= cost;
            hypothesis.score = config.score(hypothesis.log_prob, len);
        }
        expected.sort_by(|left, right| right.score.total_cmp(&left.score));
        let sentence = Sentence {
            start: vec![3],
            ..plain(number)
        };
        let hypotheses = &search(&mut Table::new(&[number]), &[sentence], &config, SPECIAL)[0];
        assert_eq!(hypotheses.len(), expected.len());
        for (hypothesis, expected) in hypotheses.iter().zip(&expected).take(10) {
            assert_eq!(hypothesis.ids, expected.ids);
            assert!((hypothesis.log_prob - expected.log_prob).abs() < 1e-5);
            assert!((hypothesis.score - expected.score).abs() < 1e-5);
        }
    }
}

#[test]
fn constraints_leave_exactly_the_sequences_that_contain_them() {
    let config = config(EVERYTHING, LengthPenalty::Average);
    let contains =
        |ids: &[u32], phrase: &[u32]| ids.windows(phrase.len()).any(|window| window == phrase);
    let sentence = |constraints: &[&[u32]]| Sentence {
        constraints: constraints.iter().map(|phrase| phrase.to_vec()).collect(),
        ..Sentence::default()
    };
    assert_exhaustive(&config, &sentence(&[&[4]]), |ids| contains(ids, &[4]));
    assert_exhaustive(&config, &sentence(&[&[2, 3]]), |ids| contains(ids, &[2, 3]));
    assert_exhaustive(&config, &sentence(&[&[2, 3], &[4]]), |ids| {
        contains(ids, &[2, 3]) && contains(ids, &[4])
    });
    assert_exhaustive(&config, &sentence(&[&[2, 2, 3]]), |ids| {
        contains(ids, &[2, 2, 3])
    });
    assert_exhaustive(&config, &sentence(&[&[2, 3], &[2, 4]]), |ids| {
        contains(ids, &[2, 3]) && contains(ids, &[2, 4])
    });
}

#[test]
fn constraints_are_met_by_narrow_beams_and_samples_even_at_the_last_position() {
    let beams = [1, 2, 4].map(|beam_size| config(beam_size, LengthPenalty::Wu));
    let samples = SearchConfig {
        method: SearchMethod::Sample,
        ..config(8, LengthPenalty::None)
    };
    for config in beams.iter().chain([&samples]) {
        for (number, max_len) in
            (0..20).flat_map(|number| [(number, 5), (number, 6), (number, 9), (number, 20)])
        {
            let constraints = vec![vec![2, 2], vec![4], vec![3]];
            let sentence = Sentence {
                max_len,
                constraints,
                ..plain(number)
            };
            let hypotheses = search(&mut Table::new(&[number]), &[sentence], config, SPECIAL);
            assert!(!hypotheses[0].is_empty());
            for Hypothesis { ids, .. } in &hypotheses[0] {
                assert!(ids.windows(2).any(|pair| pair == [2, 2]), "{ids:?}");
                assert!(ids.contains(&3) && ids.contains(&4), "{ids:?}");
            }
        }
    }
}

#[test]
fn branches_begin_with_the_most_probable_tokens_and_continue_greedily() {
    let branches = SearchConfig {
        method: SearchMethod::Branch,
        ..config(3, LengthPenalty::None)
    };
    for number in 0..20 {
        for prefix in [vec![], vec![2], vec![4, 3]] {
            let sentence = |prefix: &[u32]| Sentence {
                prefix: prefix.to_vec(),
                ..plain(number)
            };
            let hypotheses = &search(
                &mut Table::new(&[number]),
                &[sentence(&prefix)],
                &branches,
                SPECIAL,
            )[0];
            let read: Vec<u32> = std::iter::once(SPECIAL.bos)
                .chain(prefix.iter().copied())
                .collect();
            let log_probs = Table::log_probs(VOCAB_SIZE, number, &read);
            let mut likely: Vec<u32> = (1..VOCAB_SIZE).collect();
            likely.sort_by(|&left, &right| {
                log_probs[right as usize].total_cmp(&log_probs[left as usize])
            });
            let mut expected: Vec<Hypothesis> = likely[..3]
                .iter()
                .map(|&id| {
                    if id == SPECIAL.eos {
                        let before = &read[1..];
                        let log_prob: f32 = (0..=before.len())
                            .map(|len| {
                                let next = before.get(len).copied().unwrap_or(SPECIAL.eos);
                                Table::log_probs(VOCAB_SIZE, number, &read[..=len])[next as usize]
                            })
                            .sum();
                        return Hypothesis {
                            ids: before.to_vec(),
                            log_prob,
                            score: log_prob,
                        };
                    }
                    let longer = [&prefix[..], &[id]].concat();
                    let greedy = config(1, LengthPenalty::None);
                    search(
                        &mut Table::new(&[number]),
                        &[sentence(&longer)],
                        &greedy,
                        SPECIAL,
                    )
                    .remove(0)
                    .remove(0)
                })
                .collect();
            expected.sort_by(|left, right| right.score.total_cmp(&left.score));
            assert_eq!(hypotheses.len(), 3);
            for (hypothesis, expected) in hypotheses.iter().zip(&expected) {
                assert_eq!(
                    hypothesis.ids, expected.ids,
                    "sentence {number} after {prefix:?}"
                );
                assert!((hypothesis.score - expected.score).abs() < 1e-4);
            }
        }
    }
}

#[test]
fn one_beam_takes_the_most_probable_token_each_time() {
    for sentence in 0..20 {
        // With a penalty, tokens that are there already count as less probable.
        for penalty in [1.0, 3.0] {
            let config = SearchConfig {
                repetition_penalty: penalty,
                ..config(1, LengthPenalty::None)
            };
            let hypotheses = search_all(&[sentence], &config);
            let mut prefix = vec![SPECIAL.bos];
            while prefix.len() <= MAX_LEN {
                let log_probs = Table::log_probs(VOCAB_SIZE, sentence, &prefix);
                let score = |id: u32| {
                    let seen = prefix[1..].contains(&id);
                    log_probs[id as usize] * if seen { penalty as f32 } else { 1.0 }
                };
                let best = (1..VOCAB_SIZE)
                    .max_by(|&a, &b| score(a).total_cmp(&score(b)))
                    .unwrap();
                if best == SPECIAL.eos {
                    break;
                }
                prefix.push(best);
            }
            assert_eq!(hypotheses[0].len(), 1);
            assert_eq!(hypotheses[0][0].ids, prefix[1..], "sentence {sentence}");
        }
    }
}

#[test]
fn samples_are_sequences_as_often_as_they_are_probable() {
    let config = SearchConfig {
        method: SearchMethod::Sample,
        ..config(1000, LengthPenalty::None)
    };
    let sentence = Sentence {
        max_len: 40,
        ..plain(3)
    };
    let hypotheses = &search(&mut Table::new(&[3]), &[sentence], &config, SPECIAL)[0];
    assert_eq!(hypotheses.len(), 1000);
    for expected in exhaustive(3, &config).iter().take(3) {
        let probability = f64::from(expected.log_prob.exp());
        let share = hypotheses
            .iter()
            .filter(|hypothesis| hypothesis.ids == expected.ids)
            .count() as f64
            / 1000.0;
        // Four standard deviations.
        let tolerance = 4.0 * (probability * (1.0 - probability) / 1000.0).sqrt();
        assert!(
            (share - probability).abs() < tolerance,
            "{share} is not {probability}"
        );
    }
}

#[test]
fn no_two_parts_share_the_key_of_their_draws() {
    let mut draws = std::collections::HashSet::new();
    let mut num_parts = 0;
    // More parts than bits of a number would hold beside others.
    for number in 0..3 {
        for part in (0..5_000).chain([1 << 20, 1 << 40, 1 << 52, u64::MAX]) {
            for piece in [0, 1, 4_095, 4_096, 1 << 40] {
                let sentence = Sentence {
                    number,
                    part: [part, piece],
                    ..Sentence::default()
                };
                draws.insert(crate::random::Random::new(&sentence.draw_key(1, 0, 7)).bits());
                num_parts += 1;
            }
        }
    }
    assert_eq!(draws.len(), num_parts);
    // A sentence that is no part draws by seed, number, group and position.
    assert_eq!(plain(3).draw_key(1, 2, 7), [1, 3, 2, 7]);
}
