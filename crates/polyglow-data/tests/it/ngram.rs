//! N-gram models against hand calculations, against KenLM, and against what a distribution must be.

use std::collections::HashMap;

use polyglow_data::ngram::NgramModel;
use polyglow_data::random::{below, mix};
use polyglow_data::special::SpecialIds;
use polyglow_data::toy::Toy;
use serde::Deserialize;

const SPECIAL: SpecialIds = SpecialIds::LEARNED;
const BOS: u32 = SPECIAL.bos;
const EOS: u32 = SPECIAL.eos;
const UNK: u32 = SPECIAL.unk;
const A: u32 = 4;
const B: u32 = 5;
const C: u32 = 6;

fn train(sequences: &[&[u32]], order: usize, vocab_size: usize) -> NgramModel {
    NgramModel::train(sequences, order, vocab_size, SPECIAL).unwrap()
}

fn assert_near(actual: f64, expected: f64) {
    assert!(
        (actual - expected).abs() < 1e-12,
        "{actual} instead of {expected}"
    );
}

#[test]
fn three_short_sequences_have_the_probabilities_of_a_hand_calculation() {
    let model = train(&[&[A, B], &[A, B], &[A, C]], 2, 7);
    let prob = |context: &[u32], next| model.log_prob(context, next).exp();
    // `a`, `b` and `c` follow one id each, and the end two. No three: the discounts are 0.5 and 1,
    // and one half is left over for the five ids that can be predicted.
    assert_near(prob(&[], A), 0.5 / 5.0 + 0.5 / 5.0);
    assert_near(prob(&[], EOS), 1.0 / 5.0 + 0.5 / 5.0);
    assert_near(prob(&[], UNK), 0.5 / 5.0);
    // Of the pairs two occur once, two twice, one three times and none four times: Y = 1/3, so that
    // the discounts are 1 - 2/3 = 1/3, 2 - 1/2 = 3/2 and 3.
    assert_near(prob(&[BOS], A), 0.2);
    assert_near(
        prob(&[BOS, A], B),
        0.5 / 3.0 + (1.5 + 1.0 / 3.0) / 3.0 * 0.2,
    );
    assert_near(
        prob(&[BOS, A], C),
        2.0 / 3.0 / 3.0 + (1.5 + 1.0 / 3.0) / 3.0 * 0.2,
    );
    assert_near(prob(&[BOS, A, B], EOS), 0.5 / 2.0 + 1.5 / 2.0 * 0.3);
    // Nothing ever follows the unknown word or the end, so only the shortest context is left.
    assert_near(prob(&[UNK], A), 0.2);
    assert_near(prob(&[EOS], A), 0.2);
    let (nats, tokens) = model.score(&[A, B]);
    assert_near((-nats).exp(), 0.2 * prob(&[A], B) * 0.475);
    assert_eq!((tokens, model.num_ngrams()), (3, vec![5, 5]));
}

#[test]
fn the_probabilities_of_all_ids_add_up_to_one_in_every_context() {
    // A skewed random text, in which counts of 1 to 4 and more occur at every length.
    let draw =
        |counter: u64| 4 + (below(mix(&[1, counter]), 6) * below(mix(&[2, counter]), 6)) as u32;
    let text: Vec<u32> = (0..6_000).map(draw).collect();
    let sequences: Vec<&[u32]> = text.chunks(7).collect();
    for order in 1..=5 {
        let model = train(&sequences, order, 40);
        let mut contexts: Vec<Vec<u32>> = vec![
            vec![],
            vec![BOS],
            vec![EOS],
            vec![UNK, UNK],
            vec![BOS, 39, 4, 5],
        ];
        contexts.extend((0..60).map(|start| text[start..start + start % 5].to_vec()));
        // A seen end behind an unseen beginning, and the other way round.
        contexts.extend((0..20).map(|start| [&[UNK], &text[start..start + 3]].concat()));
        contexts.extend((0..20).map(|start| [&text[start..start + 3], &[UNK]].concat()));
        contexts.extend(
            sequences[..20]
                .iter()
                .map(|sequence| [&[BOS], &sequence[..2]].concat()),
        );
        for context in contexts {
            let probs: Vec<f64> = (0..40)
                .map(|next| model.log_prob(&context, next).exp())
                .collect();
            let sum = probs.iter().sum::<f64>();
            assert!(
                (sum - 1.0).abs() < 1e-9,
                "order {order}, {context:?}: {sum}"
            );
            assert!(
                probs
                    .iter()
                    .enumerate()
                    .all(|(id, &prob)| (prob > 0.0) == (id > 1)),
                "{context:?}"
            );
        }
    }
}

#[test]
fn sequences_shorter_than_the_order_can_be_learned_from() {
    let model = train(&[&[A], &[]], 5, 5);
    for context in [
        &[BOS, A][..],
        &[BOS],
        &[BOS, A, EOS],
        &[BOS, A, EOS, BOS, A],
    ] {
        let sum: f64 = (0..5).map(|next| model.log_prob(context, next).exp()).sum();
        assert_near(sum, 1.0);
    }
    assert!(model.log_prob(&[BOS, A], EOS) > model.log_prob(&[BOS, A], A));
}

#[test]
fn padding_begin_of_sentence_and_strange_ids_are_never_next() {
    let model = train(&[&[A, B]], 3, 7);
    for id in [SPECIAL.pad, BOS, 7, u32::MAX] {
        assert!(model.log_prob(&[BOS, A], id) < f64::MIN);
        assert!(model.log_prob(&[id, id, id], B).is_finite());
    }
}

#[test]
fn what_cannot_be_learned_from_is_an_error_that_says_why() {
    let error = |sequences: &[&[u32]], order, vocab_size| {
        NgramModel::train(sequences, order, vocab_size, SPECIAL)
            .unwrap_err()
            .to_string()
    };
    assert!(error(&[&[A]], 0, 7).contains("order must lie in 1..=32"));
    assert!(
        error(&[&[A]], 5, 600_000).contains("order must lie in 1..=4 for 600000 ids, and is 5")
    );
    assert!(error(&[&[A, 7]], 2, 7).contains("id 7 lies outside the vocabulary of 7"));
    assert!(error(&[&[BOS, A]], 2, 7).contains("id 1, which stands for begin of sentence"));
    assert!(error(&[], 2, 7).contains("not from 0"));
    assert!(error(&[&[A]], 2, 0).contains("must be one of 0 ids"));
}

/// The output of `scripts/golden-ngram.py`: the model of a training text, and what it says about
/// another text.
#[derive(Deserialize)]
struct Golden {
    corpus: String,
    split: String,
    order: usize,
    num_ngrams: Vec<usize>,
    /// Common logarithms of the probabilities of each word and of end of sentence.
    log10: Vec<Vec<f64>>,
}

#[test]
fn probabilities_equal_those_of_kenlm() {
    let golden: Vec<Golden> = serde_json::from_str(include_str!("../golden/ngram.json")).unwrap();
    for Golden {
        corpus,
        split,
        order,
        num_ngrams,
        log10,
    } in golden
    {
        let splits = Toy::from_name(&corpus).unwrap().generate();
        let texts = |name: &str| {
            let (_, pairs) = splits.iter().find(|(split, _)| *split == name).unwrap();
            pairs
                .iter()
                .map(|pair| pair.tgt.split(' ').collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        let mut ids = HashMap::new();
        let mut sequences: Vec<Vec<u32>> = Vec::new();
        for words in texts("train") {
            let sequence = words.into_iter().map(|word| {
                let next = ids.len() as u32 + 4;
                *ids.entry(word).or_insert(next)
            });
            sequences.push(sequence.collect());
        }
        let model = NgramModel::train(&sequences, order, ids.len() + 4, SPECIAL).unwrap();
        assert_eq!(model.num_ngrams(), num_ngrams, "{corpus}, order {order}");
        assert!(log10.len() > 20);
        for (words, expected) in texts(&split).into_iter().zip(log10) {
            // One word of each sentence is unknown, so that contexts are, too.
            let word = |(index, word)| if index == 4 { UNK } else { ids[word] };
            let sequence: Vec<u32> = words.into_iter().enumerate().map(word).collect();
            let framed = [&[BOS], &*sequence, &[EOS]].concat();
            let actual: Vec<f64> = (1..framed.len())
                .map(|end| model.log_prob(&framed[..end], framed[end]) / std::f64::consts::LN_10)
                .collect();
            assert_eq!(actual.len(), expected.len());
            // KenLM computes in single precision.
            let differs = |(actual, expected): (&f64, &f64)| {
                (actual - expected).abs() > 2e-6 * (1.0 + expected.abs())
            };
            assert!(
                !actual.iter().zip(&expected).any(differs),
                "{corpus}, order {order}: {actual:?}, {expected:?}"
            );
        }
    }
}
