use super::*;
use crate::alignment::GoldLinks;
use crate::toy::{AlignedPair, Toy};

/// Pairs whose words have one partner each, in another order.
fn pairs() -> Vec<(String, String)> {
    let nouns = [
        ("dog", "Hund"),
        ("cat", "Katze"),
        ("bear", "Bär"),
        ("cow", "Kuh"),
    ];
    let verbs = [
        ("sleeps", "schläft"),
        ("eats", "frisst"),
        ("comes", "kommt"),
    ];
    let times = [("now", "jetzt"), ("again", "wieder")];
    let mut pairs = Vec::new();
    for noun in nouns {
        for verb in verbs {
            for time in times {
                let src = format!("{} {} {}", noun.0, verb.0, time.0);
                pairs.push((src, format!("{} {} {}", time.1, verb.1, noun.1)));
            }
        }
    }
    pairs
}

/// Some pairs of a corpus with more of a grammar, with their gold links.
fn corpus() -> Vec<AlignedPair> {
    let toy = Toy::from_name("mini-en-de").expect("it is embedded");
    let mut pairs = toy.split("valid").expect("it has one");
    pairs.truncate(200);
    pairs
}

fn corpus_text(pairs: &[AlignedPair]) -> Bitext {
    Bitext::new(pairs.iter().map(|pair| (&*pair.src, &*pair.tgt)))
}

fn text(pairs: &[(String, String)]) -> Bitext {
    Bitext::new(pairs.iter().map(|(src, tgt)| (&**src, &**tgt)))
}

fn all_links(marginals: &Marginals<'_>, pairs: usize) -> Vec<Vec<ScoredLink>> {
    (0..pairs)
        .map(|pair| marginals.links(pair, Symmetrization::Posterior { threshold: 0.0 }))
        .collect()
}

#[test]
fn words_are_linked_to_their_partners_by_each_symmetrization() {
    let pairs = pairs();
    let text = text(&pairs);
    let aligner = Aligner::new(&text, AlignOptions::default());
    let marginals = aligner.align(1);
    for symmetrization in [
        Symmetrization::default(),
        Symmetrization::GrowDiagFinalAnd,
        Symmetrization::Intersection,
    ] {
        for pair in 0..pairs.len() {
            let links = marginals.links(pair, symmetrization);
            let links: Vec<_> = links.iter().map(|link| link.link).collect();
            assert_eq!(links, [(0, 2), (1, 1), (2, 0)], "{symmetrization:?} {pair}");
        }
    }
}

#[test]
fn the_result_is_the_same_with_any_number_of_threads_and_differs_by_seed() {
    let pairs = corpus();
    let text = corpus_text(&pairs);
    let with = |threads: usize, seed: u64| {
        let options = AlignOptions {
            seed,
            chains: 2,
            ..AlignOptions::default()
        };
        let aligner = Aligner::new(&text, options);
        all_links(&aligner.align(threads), pairs.len())
    };
    let one = with(1, 1);
    assert!(one == with(2, 1));
    assert!(one == with(7, 1));
    assert!(one != with(1, 2));
}

#[test]
fn links_agree_with_gold_links() {
    let pairs = corpus();
    let text = corpus_text(&pairs);
    let aligner = Aligner::new(&text, AlignOptions::default());
    let marginals = aligner.align(2);
    let mut counts = LinkCounts::default();
    for (index, pair) in pairs.iter().enumerate() {
        let links = marginals.links(index, Symmetrization::default());
        let links: Vec<_> = links.iter().map(|link| link.link).collect();
        let sure = pair.alignment.clone();
        let possible = Vec::new();
        counts.add(&links, &GoldLinks { sure, possible });
    }
    let score = counts.score();
    assert!(score.error_rate < 0.1, "{score:?}");
}

#[test]
fn empty_sides_get_no_links_and_change_nothing() {
    let mut pairs = vec![("", ""), ("a", ""), ("", "x")];
    pairs.extend([("a", "x"), ("b", "y")].repeat(10));
    let text = Bitext::new(pairs);
    let aligner = Aligner::new(&text, AlignOptions::default());
    let marginals = aligner.align(2);
    for pair in 0..3 {
        assert_eq!(marginals.links(pair, Symmetrization::GrowDiagFinalAnd), []);
    }
    assert_eq!(marginals.links(3, Symmetrization::Intersection).len(), 1);
    let nothing = Bitext::default();
    Aligner::new(&nothing, AlignOptions::default()).align(2);
}

#[test]
fn probabilities_are_at_most_one_for_a_link_and_for_a_word_in_one_direction() {
    let pairs = corpus();
    let text = corpus_text(&pairs);
    let aligner = Aligner::new(&text, AlignOptions::default());
    for links in all_links(&aligner.align(1), pairs.len()) {
        // Half of it from the direction in which each source word has one target word.
        let all: f32 = links.iter().map(|link| link.probability).sum();
        let src_len = 1 + links.iter().map(|link| link.link.0).max().unwrap();
        let tgt_len = 1 + links.iter().map(|link| link.link.1).max().unwrap();
        assert!(all <= (src_len + tgt_len) as f32 / 2.0 * 1.01, "{all}");
        assert!(links.iter().all(|link| link.probability <= 1.0));
    }
}

#[cfg(feature = "training")]
mod saved {
    use std::fs;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::error::DataError;

    #[test]
    fn an_alignment_that_was_stopped_at_any_iteration_is_continued_to_the_same_result() {
        let pairs = pairs();
        let text = text(&pairs);
        let options = AlignOptions {
            chains: 1,
            ..AlignOptions::default()
        };
        let aligner = Aligner::new(&text, options);
        let expected = all_links(&aligner.align(1), pairs.len());
        let dir = tempfile::tempdir().unwrap();
        let mut runs = 0;
        let marginals = loop {
            let saved = SavedChains::open(dir.path(), &aligner).unwrap();
            let stop = AtomicBool::new(false);
            let mut steps = 0;
            let on_progress = |_| {
                steps += 1;
                stop.store(steps >= 150, Ordering::Relaxed);
            };
            let result = saved.align(&aligner, 1, &stop, on_progress).unwrap();
            runs += 1;
            if let Some(marginals) = result {
                saved.remove().unwrap();
                break marginals;
            }
        };
        assert!(runs > 5, "{runs}");
        assert_eq!(all_links(&marginals, pairs.len()), expected);
        assert!(!dir.path().exists());
    }

    #[test]
    fn a_state_of_other_settings_is_refused_and_a_damaged_one_begins_anew() {
        let pairs = pairs();
        let text = text(&pairs);
        let aligner = Aligner::new(&text, AlignOptions::default());
        let dir = tempfile::tempdir().unwrap();
        let saved = SavedChains::open(dir.path(), &aligner).unwrap();
        let stop = AtomicBool::new(true);
        assert!(saved.align(&aligner, 1, &stop, |_| {}).unwrap().is_none());
        let other = AlignOptions {
            null: 0.2,
            ..AlignOptions::default()
        };
        let other = Aligner::new(&text, other);
        let refused = SavedChains::open(dir.path(), &other);
        assert!(matches!(refused, Err(DataError::OtherAlignment { .. })));
        let path = dir.path().join("forwards-1");
        let mut bytes = fs::read(&path).unwrap();
        bytes[60] ^= 1;
        fs::write(&path, bytes).unwrap();
        let saved = SavedChains::open(dir.path(), &aligner).unwrap();
        let stop = AtomicBool::new(false);
        let marginals = saved.align(&aligner, 2, &stop, |_| {}).unwrap().unwrap();
        let expected = all_links(&aligner.align(1), pairs.len());
        assert_eq!(all_links(&marginals, pairs.len()), expected);
    }
}
