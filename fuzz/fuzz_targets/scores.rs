//! Any two texts as hypotheses and references of every metric: scores are numbers within their
//! ranges.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polyglow_fuzz::texts;
use polyglow_metrics::{
    BleuOptions, ChrfOptions, TerOptions, TokenizerName, corpus_score, exact_match, lines,
    sentence_scores,
};

fuzz_target!(|input: &str| {
    let [tokenizer, hypotheses, references] = texts(input);
    let (mut hypotheses, mut references) = (lines(hypotheses), lines(references));
    let count = hypotheses.len().min(references.len());
    hypotheses.truncate(count);
    references.truncate(count);
    let named = tokenizer
        .parse::<TokenizerName>()
        .and_then(|name| name.open(None, None));
    let bleu = BleuOptions {
        tokenizer: named.unwrap_or_default(),
        ..BleuOptions::default()
    };
    let streams = [references.clone()];
    let Ok(score) = corpus_score(&bleu, &hypotheses, &streams) else {
        assert_eq!(count, 0);
        return;
    };
    assert!(
        (0.0..=100.000_001).contains(&score.score),
        "{}",
        score.score
    );
    let chrf =
        corpus_score(&ChrfOptions::plus_plus(), &hypotheses, &streams).expect("there are lines");
    assert!((0.0..=100.000_001).contains(&chrf.score), "{}", chrf.score);
    let ter = corpus_score(&TerOptions::default(), &hypotheses, &streams).expect("there are lines");
    assert!(ter.score >= 0.0 && ter.score.is_finite(), "{}", ter.score);
    sentence_scores(&bleu, &hypotheses, &streams).expect("there are lines");
    exact_match(&hypotheses, &references).expect("there are lines");
});
