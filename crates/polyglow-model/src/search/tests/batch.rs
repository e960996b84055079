//! The hypotheses for a sentence do not depend on the other sentences of the batch.

use super::{
    Hypothesis, LengthPenalty, SPECIAL, SearchConfig, SearchMethod, Sentence, Table, config,
    search, search_all,
};

/// More tokens than a beam requests, so that the number of candidates matters.
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
        let together = search_all(&sentences, &config);
        for (&sentence, hypotheses) in sentences.iter().zip(&together) {
            assert_eq!(&search_all(&[sentence], &config)[0], hypotheses);
        }
    }
}

/// A sentence with all kinds of requirements, some of which leave hardly any room.
fn demanding(number: u32) -> Sentence {
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
    let start = [&[][..], &[7]][pick(2)].to_vec();
    let needed = start.len() + prefix.len() + constraints.iter().map(Vec::len).sum::<usize>() + 1;
    let max_len = needed + slack;
    let min_len = [0, max_len][pick(2)];
    Sentence {
        min_len,
        max_len,
        start,
        prefix,
        constraints,
        number: u64::from(number),
        part: [0, 0],
    }
}

fn search_demanding(numbers: &[u32], config: &SearchConfig) -> Vec<Vec<Hypothesis>> {
    let requirements: Vec<Sentence> = numbers.iter().map(|&number| demanding(number)).collect();
    search(
        &mut Table::with_vocab(VOCAB_SIZE, numbers),
        &requirements,
        config,
        SPECIAL,
    )
}

#[test]
fn requirements_are_met_alike_alone_and_in_a_batch() {
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
            for (&number, together) in numbers.iter().zip(search_demanding(&numbers, &config)) {
                assert_eq!(
                    search_demanding(&[number], &config)[0],
                    together,
                    "sentence {number}, {config:?}"
                );
            }
        }
    }
}
