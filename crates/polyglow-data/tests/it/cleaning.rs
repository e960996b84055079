//! Text that is cleaned: what is computed of it.

use std::collections::BTreeSet;

use polyglow_data::clean::cleaning::{Cleaning, Reading};
use polyglow_data::config::{Content, DataConfig, FilterGroup, Split};
use polyglow_data::corpus::Corpus;
use polyglow_data::pair::Pair;

/// Text of which one pair is foreign, one is in the wrong order, and one has the target of another.
fn text() -> Corpus {
    let config = DataConfig {
        max_examples: 3000.try_into().ok(),
        ..DataConfig::embedded("mini-en-de")
    };
    let corpus = Corpus::open(&config, Content::PAIRS, Split::Train).unwrap();
    let mut pairs: Vec<Pair> = corpus.pairs().collect::<Result<_, _>>().unwrap();
    pairs[10].tgt = String::from("Le petit garçon regarde la grande maison avec sa mère .");
    let Pair { src, tgt } = &mut pairs[20];
    std::mem::swap(src, tgt);
    let [misaligned, other] = pairs.get_disjoint_mut([30, 1500]).unwrap();
    misaligned.tgt.clone_from(&other.tgt);
    Corpus::from_pairs("text", pairs)
}

#[test]
fn groups_that_are_left_out_are_not_computed() {
    let corpus = text();
    let look = |without: &[FilterGroup]| {
        let without: BTreeSet<FilterGroup> = without.iter().copied().collect();
        let mut readings: Vec<Reading> = Vec::new();
        let mut progress = |reading, _| {
            if readings.last() != Some(&reading) {
                readings.push(reading);
            }
        };
        let cleaning = Cleaning::of(&corpus, &[], &without, &mut progress).unwrap();
        (cleaning, readings)
    };
    let (all, readings) = look(&[]);
    assert_eq!(
        readings,
        [Reading::Rules, Reading::Languages, Reading::Meanings]
    );
    for (without, expected) in [
        (
            &[FilterGroup::Meaning][..],
            &[Reading::Rules, Reading::Languages][..],
        ),
        (
            &[FilterGroup::Language, FilterGroup::Meaning],
            &[Reading::Rules],
        ),
        // Misaligned pairs are learned from what is in the right languages.
        (
            &[FilterGroup::Language],
            &[Reading::Rules, Reading::Languages, Reading::Meanings],
        ),
    ] {
        let (partial, readings) = look(without);
        assert_eq!(readings, expected);
        // All that is not left out is as it was.
        let left_out = || without.iter().copied();
        let (whole, partial) = (all.without(left_out()), partial.without(left_out()));
        for (index, pair) in (0..).zip(corpus.pairs()) {
            let pair = pair.unwrap();
            let (expected, cleaned) = (whole.cleaned(index, &pair), partial.cleaned(index, &pair));
            assert_eq!(
                (cleaned.pair, cleaned.removed, cleaned.is_swapped),
                (expected.pair, expected.removed, expected.is_swapped),
                "{index}"
            );
        }
        assert!(partial.report().gaps.is_empty());
    }
    // The text has something for each group.
    let filtered = all.by_all_filters();
    let fate = |index: usize| {
        let pair = corpus.pairs().nth(index).unwrap().unwrap();
        filtered.cleaned(index as u64, &pair)
    };
    assert_eq!(fate(10).removed.map(|reason| reason.key), Some("language"));
    assert!(fate(20).is_swapped);
    assert_eq!(
        fate(30).removed.map(|reason| reason.key),
        Some("misaligned")
    );
}
