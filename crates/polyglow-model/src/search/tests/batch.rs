//! What is found for a sentence does not depend on the sentences beside it.

use super::{
    Hypothesis, LengthPenalty, MARKS, SearchConfig, SearchMethod, Sentence, Table, config, find,
    search,
};

/// More tokens than a beam asks for, so that it matters how many it asks for.
const VOCAB_SIZE: u32 = 16;

#[test]
fn a_batch_gives_what_each_sentence_gives_alone() {
    let sentences: Vec<u32> = (0..12).collect();
    let beams = [1, 2, 3].map(|beam_size| config(beam_size, LengthPenalty::Wu));
    let diverse = SearchConfig {
        diversity_groups: 2,
        ..config(4, LengthPenalty::None)
    };
    let samples = SearchConfig {
        method: SearchMethod::Sample,
        top_p: 0.9,
        ..config(3, LengthPenalty::None)
    };
    let careful = SearchConfig {
        repetition_penalty: 1.5,
        no_repeat_ngram: 2,
        ..config(2, LengthPenalty::Wu)
    };
    for config in beams.into_iter().chain([diverse, samples, careful]) {
        let together = find(&sentences, &config);
        for (&sentence, found) in sentences.iter().zip(&together) {
            assert_eq!(&find(&[sentence], &config)[0], found);
        }
    }
}

/// A sentence with all kinds of wishes, some of which leave hardly any room.
fn wishful(number: u32) -> Sentence {
    let mut left = number as usize;
    let mut pick = |count: usize| {
        let picked = left % count;
        left /= count;
        picked
    };
    let phrases: [&[&[u32]]; 5] = [
        &[],
        &[&[2, 3], &[4, 5]],
        &[&[4, 5, 4, 6]],
        &[&[7, 7, 8], &[8, 9]],
        &[&[5]],
    ];
    let constraints: Vec<Vec<u32>> = phrases[pick(5)]
        .iter()
        .map(|phrase| phrase.to_vec())
        .collect();
    let slack = pick(4);
    let prefix = [&[][..], &[9], &[4, 5]][pick(3)].to_vec();
    let needed = prefix.len() + constraints.iter().map(Vec::len).sum::<usize>() + 1;
    let max_len = needed + slack;
    let min_len = [0, max_len][pick(2)];
    Sentence {
        min_len,
        max_len,
        prefix,
        constraints,
        number: u64::from(number),
        part: [0, 0],
    }
}

fn found(numbers: &[u32], config: &SearchConfig) -> Vec<Vec<Hypothesis>> {
    let wishes: Vec<Sentence> = numbers.iter().map(|&number| wishful(number)).collect();
    search(
        &mut Table::with_vocab(VOCAB_SIZE, numbers),
        &wishes,
        config,
        MARKS,
    )
}

#[test]
fn wishes_are_granted_alike_alone_and_in_a_batch() {
    let beam = |beam_size| config(beam_size, LengthPenalty::Wu);
    let sample = SearchConfig {
        method: SearchMethod::Sample,
        ..beam(3)
    };
    let kinds = [
        beam(1),
        beam(2),
        beam(4),
        SearchConfig {
            diversity_groups: 2,
            ..beam(4)
        },
        SearchConfig {
            top_k: 3,
            ..sample.clone()
        },
        SearchConfig {
            top_p: 0.5,
            ..sample
        },
    ];
    let numbers: Vec<u32> = (0..120).collect();
    for kind in kinds {
        for (no_repeat_ngram, repetition_penalty) in [(0, 1.0), (1, 1.0), (2, 1.0), (2, 1.3)] {
            let config = SearchConfig {
                no_repeat_ngram,
                repetition_penalty,
                ..kind.clone()
            };
            for (&number, together) in numbers.iter().zip(found(&numbers, &config)) {
                assert_eq!(
                    found(&[number], &config)[0],
                    together,
                    "sentence {number}, {config:?}"
                );
            }
        }
    }
}
