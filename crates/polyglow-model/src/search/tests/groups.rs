//! Diverse beam search, compared with a plain implementation of its definition.

use std::cmp::Ordering;

use super::{
    Hypothesis, LengthPenalty, SPECIAL, SearchConfig, Sentence, Table, config, search, search_all,
};

const VOCAB_SIZE: u32 = 12;
const MAX_LEN: usize = 6;

#[test]
fn groups_avoid_the_tokens_of_earlier_groups() {
    let groups = |diversity_penalty| SearchConfig {
        diversity_groups: 2,
        diversity_penalty,
        ..config(4, LengthPenalty::Average)
    };
    for sentence in 0..10 {
        let alone = search_all(&[sentence], &config(2, LengthPenalty::Average));
        // Without a penalty each group is a search of its own.
        let equal = search_all(&[sentence], &groups(0.0));
        assert_eq!(
            equal[0].iter().step_by(2).collect::<Vec<_>>(),
            alone[0].iter().collect::<Vec<_>>()
        );
        let apart = search_all(&[sentence], &groups(100.0));
        let mut firsts: Vec<Option<&u32>> = apart[0]
            .iter()
            .map(|hypothesis| hypothesis.ids.first())
            .collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert!(firsts.len() > 1, "{apart:?}");
    }
}

/// The ids of an unfinished hypothesis, and its log-probability.
type Open = (Vec<u32>, f32);

/// One position of one group: returns the hypotheses that continue, and those that end. A token ranks
/// by the log-probability of the whole, less the penalty for each hypothesis of earlier groups that
/// continues with it here; only the log-probability is kept.
fn position(
    sentence: u32,
    open: &[Open],
    before: &[u32],
    width: usize,
    penalty: f32,
) -> (Vec<Open>, Vec<Open>) {
    let mut choices = Vec::new();
    for (row, (ids, log_prob)) in open.iter().enumerate() {
        let prefix: Vec<u32> = std::iter::once(SPECIAL.bos)
            .chain(ids.iter().copied())
            .collect();
        for (id, next) in (0u32..).zip(Table::log_probs(VOCAB_SIZE, sentence, &prefix)) {
            let times = before.iter().filter(|&&taken| taken == id).count();
            choices.push((
                log_prob + next - penalty * times as f32,
                row,
                id,
                log_prob + next,
            ));
        }
    }
    let order = |left: &(f32, usize, u32, f32), right: &(f32, usize, u32, f32)| -> Ordering {
        right
            .0
            .total_cmp(&left.0)
            .then((left.1, left.2).cmp(&(right.1, right.2)))
    };
    choices.sort_by(order);
    let mut grown = Vec::new();
    let mut ended = Vec::new();
    for (rank, (_, row, id, log_prob)) in choices.into_iter().take(2 * width).enumerate() {
        let ids = &open[row].0;
        if id != SPECIAL.eos && grown.len() < width {
            grown.push(([&ids[..], &[id]].concat(), log_prob));
        } else if id == SPECIAL.eos && rank < width {
            ended.push((ids.clone(), log_prob));
        }
    }
    (grown, ended)
}

/// Diverse beam search by the definition of Vijayakumar et al. (2018), with Hamming diversity.
fn diverse(sentence: u32, config: &SearchConfig) -> Vec<Hypothesis> {
    let groups = config.diversity_groups;
    let width = config.beam_size / groups;
    let mut open: Vec<Vec<Open>> = vec![vec![(Vec::new(), 0.0)]; groups];
    let mut ended: Vec<Vec<Open>> = vec![Vec::new(); groups];
    for len in 1..=MAX_LEN {
        let mut before = Vec::new();
        for group in 0..groups {
            if open[group].is_empty() {
                continue;
            }
            let (grown, ends) = position(
                sentence,
                &open[group],
                &before,
                width,
                config.diversity_penalty as f32,
            );
            before.extend(grown.iter().filter_map(|(ids, _)| ids.last()));
            ended[group].extend(ends);
            open[group] = grown;
            if len == MAX_LEN && ended[group].is_empty() {
                ended[group] = std::mem::take(&mut open[group]);
            }
            if ended[group].len() >= width {
                open[group].clear();
            }
        }
    }
    let mut hypotheses: Vec<Hypothesis> = Vec::new();
    for (ids, log_prob) in ended.concat() {
        let num_tokens = if ids.len() == MAX_LEN {
            MAX_LEN
        } else {
            ids.len() + 1
        };
        hypotheses.push(Hypothesis {
            score: config.score(log_prob, num_tokens),
            ids,
            log_prob,
        });
    }
    hypotheses.sort_by(|left, right| right.score.total_cmp(&left.score));
    hypotheses.truncate(config.beam_size);
    hypotheses
}

#[test]
fn each_hypothesis_that_continues_with_a_token_costs_later_groups_the_penalty() {
    let mut differ = 0;
    for penalty in [0.1, 0.5, 1.0, 2.5] {
        let config = SearchConfig {
            diversity_groups: 3,
            diversity_penalty: penalty,
            ..config(6, LengthPenalty::Average)
        };
        for number in 0..40 {
            let sentence = Sentence {
                max_len: MAX_LEN,
                number: u64::from(number),
                ..Sentence::default()
            };
            let hypotheses = &search(
                &mut Table::with_vocab(VOCAB_SIZE, &[number]),
                std::slice::from_ref(&sentence),
                &config,
                SPECIAL,
            )[0];
            let expected = diverse(number, &config);
            let ids = |hypotheses: &[Hypothesis]| {
                hypotheses
                    .iter()
                    .map(|hypothesis| hypothesis.ids.clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                ids(hypotheses),
                ids(&expected),
                "sentence {number}, penalty {penalty}"
            );
            assert!(
                hypotheses
                    .iter()
                    .zip(&expected)
                    .all(|(left, right)| (left.score - right.score).abs() < 1e-6)
            );
            let plain = SearchConfig {
                diversity_penalty: 0.0,
                ..config.clone()
            };
            let plain = &search(
                &mut Table::with_vocab(VOCAB_SIZE, &[number]),
                &[sentence],
                &plain,
                SPECIAL,
            )[0];
            differ += usize::from(ids(hypotheses) != ids(plain));
        }
    }
    assert!(differ > 80, "the penalty decides something: {differ}");
}
