//! Spans and their scores, compared with what `scripts/golden-spans.py` has written.

use std::fs;
use std::path::Path;

use polyglow_metrics::{Span, SpanScores, span_scores, spans};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    sentences: Vec<Sentence>,
    ranges: Vec<Range>,
}

/// Tags of the hypothesis and of the reference; the reference's spans; precision, recall and F1.
#[derive(Deserialize)]
struct Sentence(String, String, Vec<(String, usize, usize)>, f64, f64, f64);

/// First sentence, sentence after the last; precision, recall and F1.
#[derive(Deserialize)]
struct Range(usize, usize, f64, f64, f64);

fn golden() -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/spans/scores.json");
    let json = fs::read(path).expect("it is committed");
    serde_json::from_slice(&json).expect("the script writes JSON")
}

fn tags(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn spans_of_a_sentence_are_those_of_seqeval() {
    for Sentence(_, reference, expected, ..) in golden().sentences {
        let expected: Vec<Span> = expected
            .iter()
            .map(|(kind, first, last)| Span {
                kind,
                start: *first,
                end: last + 1,
            })
            .collect();
        assert_eq!(spans(&tags(&reference)), Ok(expected), "{reference}");
    }
}

/// Scores are equal to the last bit, as each is a few divisions of counts.
#[test]
fn scores_are_those_of_seqeval() {
    let Golden { sentences, ranges } = golden();
    assert_eq!(sentences.len(), 1000);
    let hypotheses: Vec<Vec<&str>> = sentences.iter().map(|row| tags(&row.0)).collect();
    let references: Vec<Vec<&str>> = sentences.iter().map(|row| tags(&row.1)).collect();
    let check = |start: usize, end: usize, (precision, recall, f1): (f64, f64, f64)| {
        let expected = SpanScores {
            precision,
            recall,
            f1,
        };
        let scores = span_scores(&hypotheses[start..end], &references[start..end]);
        assert_eq!(scores, Ok(expected), "sentences {start} to {end}");
    };
    for (index, &Sentence(_, _, _, precision, recall, f1)) in sentences.iter().enumerate() {
        check(index, index + 1, (precision, recall, f1));
    }
    for &Range(start, end, precision, recall, f1) in &ranges {
        check(start, end, (precision, recall, f1));
    }
}
