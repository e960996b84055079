//! The plan of an epoch on generated lengths.

use std::collections::HashMap;
use std::ops::Range;

use polyglow_data::batching::{BatchingConfig, EpochPlan, Selection};
use polyglow_data::error::DataError;
use polyglow_data::random::{below, mix};
use polyglow_data::tokenizer::Segmentation;

const CONFIG: BatchingConfig = BatchingConfig {
    max_tokens: 4096,
    pad_multiple: 1,
    seed: 7,
    segmentation: Segmentation::Fixed,
    selection: Selection::V2,
};

/// Lengths like those of image captions: 4 to 40 tokens, the target like the source give or take a
/// third.
fn lengths(example: u32) -> (usize, usize) {
    let draw =
        |purpose: u64, bound: u64| below(mix(&[purpose, u64::from(example)]), bound) as usize;
    let src = 4 + draw(1, 10) + draw(2, 10) + draw(3, 18);
    (src, src * (67 + draw(4, 67)) / 100 + 1)
}

/// Padded positions of sides with these counts of tokens and one special token each.
fn positions(config: &BatchingConfig, (src, tgt): (usize, usize)) -> (usize, usize) {
    (config.padded(src + 1), config.padded(tgt + 1))
}

fn plan(parts: &[(Range<u32>, f64)], config: &BatchingConfig, epoch: u64) -> EpochPlan {
    EpochPlan::new(
        |example| positions(config, lengths(example)),
        parts,
        config,
        epoch,
    )
    .unwrap()
}

fn batches(plan: &EpochPlan) -> Vec<&[u32]> {
    (0..plan.len())
        .map(|position| plan.batch(position))
        .collect()
}

fn counts(plan: &EpochPlan) -> HashMap<u32, usize> {
    let mut counts = HashMap::new();
    for &example in batches(plan).into_iter().flatten() {
        *counts.entry(example).or_insert(0) += 1;
    }
    counts
}

#[test]
fn every_example_is_in_exactly_one_batch() {
    let counts = counts(&plan(&[(0..10_000, 1.0)], &CONFIG, 0));
    assert_eq!(counts.len(), 10_000);
    assert!(counts.values().all(|&count| count == 1));
}

#[test]
fn no_batch_exceeds_its_budget_on_either_side() {
    for pad_multiple in [1, 8] {
        let config = BatchingConfig {
            pad_multiple,
            ..CONFIG
        };
        let plan = plan(&[(0..10_000, 1.0)], &config, 0);
        for batch in batches(&plan) {
            let longest = batch
                .iter()
                .map(|&example| lengths(example))
                .map(|(src, tgt)| src.max(tgt))
                .max()
                .unwrap();
            assert!(batch.len() * (longest + 1).next_multiple_of(pad_multiple) <= 4096);
        }
    }
}

#[test]
fn little_of_a_caption_corpus_is_padding() {
    let plan = plan(&[(0..29_000, 1.0)], &CONFIG, 0);
    let (mut tokens, mut positions) = (0, 0);
    for batch in batches(&plan) {
        let sides: Vec<(usize, usize)> = batch.iter().map(|&example| lengths(example)).collect();
        let longest = sides.iter().fold((0, 0), |longest, side| {
            (longest.0.max(side.0), longest.1.max(side.1))
        });
        positions += batch.len() * (longest.0 + longest.1 + 2);
        tokens += sides.iter().map(|(src, tgt)| src + tgt + 2).sum::<usize>();
    }
    let padding = 1.0 - tokens as f64 / positions as f64;
    assert!(padding <= 0.08, "{padding}");
}

#[test]
fn the_plan_is_a_pure_function_of_seed_and_epoch() {
    let parts = [(0..3_000, 1.0), (3_000..4_000, 0.5)];
    assert_eq!(plan(&parts, &CONFIG, 3), plan(&parts, &CONFIG, 3));
    assert_ne!(plan(&parts, &CONFIG, 3), plan(&parts, &CONFIG, 4));
    assert_ne!(
        plan(&parts, &CONFIG, 3),
        plan(&parts, &BatchingConfig { seed: 8, ..CONFIG }, 3)
    );
}

#[test]
fn batches_come_in_no_order_of_length() {
    let first = plan(&[(0..10_000, 1.0)], &CONFIG, 0);
    let rows = |plan: &EpochPlan| {
        batches(plan)
            .iter()
            .map(|batch| batch.len())
            .collect::<Vec<_>>()
    };
    assert!(!rows(&first).is_sorted() && !rows(&first).is_sorted_by(|left, right| left >= right));
}

/// The share of an example's neighbors in a batch that are its neighbors again in the next epoch.
fn same_mates(examples: u32) -> f64 {
    let batch_numbers = |epoch| {
        let plan = plan(&[(0..examples, 1.0)], &CONFIG, epoch);
        let mut numbers = vec![0; examples as usize];
        for (number, batch) in batches(&plan).iter().enumerate() {
            for &example in *batch {
                numbers[example as usize] = number;
            }
        }
        (numbers, plan)
    };
    let ((_, first), (second, _)) = (batch_numbers(0), batch_numbers(1));
    let (mut again, mut all) = (0, 0);
    for batch in batches(&first) {
        let mut counts: HashMap<usize, usize> = HashMap::new();
        for &example in batch {
            *counts.entry(second[example as usize]).or_insert(0) += 1;
        }
        again += counts
            .values()
            .map(|count| count * (count - 1))
            .sum::<usize>();
        all += batch.len() * (batch.len() - 1);
    }
    again as f64 / all as f64
}

#[test]
fn as_many_neighbors_in_batches_stay_as_the_documentation_says() {
    let (many, few) = (same_mates(30_000), same_mates(3_000));
    assert!(
        (many - 0.72).abs() < 0.01 && (few - 0.96).abs() < 0.01,
        "{many}, {few}"
    );
}

#[test]
fn weights_repeat_and_sample_parts() {
    let parts = [
        (0..1_000, 2.0),
        (1_000..2_000, 0.5),
        (2_000..2_999, 1.25),
        (2_999..3_000, 1.0),
    ];
    let (first, second) = (
        counts(&plan(&parts, &CONFIG, 0)),
        counts(&plan(&parts, &CONFIG, 1)),
    );
    let total = |counts: &HashMap<u32, usize>, range: Range<u32>| {
        range
            .map(|example| counts.get(&example).copied().unwrap_or(0))
            .sum::<usize>()
    };
    assert!((0..1_000).all(|example| first[&example] == 2));
    assert_eq!(
        [total(&first, 1_000..2_000), total(&second, 1_000..2_000)],
        [500, 500]
    );
    assert_eq!(total(&first, 2_000..2_999), 999 + 250);
    assert!((2_000..2_999).all(|example| (1..=2).contains(&first[&example])));
    assert_eq!(first[&2_999], 1);
    let half = |counts: &HashMap<u32, usize>| {
        (1_000..2_000)
            .filter(|id| counts.contains_key(id))
            .collect::<Vec<_>>()
    };
    assert_ne!(half(&first), half(&second));
}

#[test]
fn epochs_together_hold_the_shares_that_the_weights_are() {
    // 5 : 7 of equal parts; and a part of three lines, of which single epochs cannot hold a tenth.
    let parts = [(0..1_000, 1.0), (1_000..2_000, 1.4), (2_000..2_003, 0.1)];
    let mut drawn = [0; 3];
    for epoch in 0..10 {
        let counts = counts(&plan(&parts, &CONFIG, epoch));
        assert_eq!(
            counts,
            self::counts(&plan(&parts, &CONFIG, epoch)),
            "an epoch is a function of its number"
        );
        for (sum, (range, _)) in drawn.iter_mut().zip(&parts) {
            *sum += range
                .clone()
                .map(|example| counts.get(&example).copied().unwrap_or(0))
                .sum::<usize>();
        }
    }
    assert_eq!(drawn, [10_000, 14_000, 3]);
}

#[test]
fn an_example_larger_than_a_batch_is_an_error() {
    let config = BatchingConfig {
        max_tokens: 30,
        ..CONFIG
    };
    let lengths = |example| if example == 5 { (12, 30) } else { (12, 12) };
    let positions = |example| positions(&config, lengths(example));
    let error = EpochPlan::new(positions, &[(0..10, 1.0)], &config, 0).unwrap_err();
    assert!(
        matches!(
            error,
            DataError::LargerThanBatch {
                example: 5,
                tokens: 31,
                max_tokens: 30,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn by_the_rules_of_before_every_epoch_rounds_by_itself() {
    let parts = [
        (0..1_000, 1.0),
        (1_000..2_000, 1.4),
        (2_000..2_003, 0.1),
        (2_003..2_013, 0.25),
    ];
    let config = BatchingConfig {
        selection: Selection::unrecorded(),
        ..CONFIG
    };
    for epoch in 0..4 {
        let counts = counts(&plan(&parts, &config, epoch));
        let drawn = parts.clone().map(|(range, _)| {
            range
                .map(|example| counts.get(&example).copied().unwrap_or(0))
                .sum::<usize>()
        });
        assert_eq!(drawn, [1_000, 1_400, 0, 3]);
    }
    assert_eq!(
        plan(&parts, &config, 0),
        plan(&parts, &CONFIG, 0),
        "the first epoch is the same"
    );
}
