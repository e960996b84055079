//! Precision, recall and F1 of spans, such as names, that tags mark: number for number as
//! [seqeval](https://github.com/chakki-works/seqeval)'s default mode, which reads tags as the
//! script `conlleval` of the shared tasks on names does.

use rustc_hash::FxHashSet;

use crate::error::MetricError;
use crate::metric::check_streams;

/// The kind of a tag that has none, such as `B` or `O`.
const NO_KIND: &str = "_";

/// The agreement of the spans of some hypotheses with those of their references.
///
/// A span counts as right if the reference has one of the same kind over the same tokens. Counts
/// are summed over all sentences and kinds (the "micro" average).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanScores {
    /// Fraction, 0 to 1, of the hypotheses' spans that are right; 0 if they have none.
    pub precision: f64,
    /// Fraction, 0 to 1, of the references' spans that the hypotheses have; 0 if there are none.
    pub recall: f64,
    /// Harmonic mean of precision and recall; 0 if both are 0.
    pub f1: f64,
}

/// Consecutive tokens that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span<'a> {
    /// The part of the tags after their prefix: `PER` of `B-PER`.
    pub kind: &'a str,
    /// Index of the first token.
    pub start: usize,
    /// Index after the last token.
    pub end: usize,
}

/// Scores the spans of tagged sentences; `hypotheses` and `references` have one list of tags per
/// sentence, and one tag per token.
///
/// ```
/// use polyglow_metrics::span_scores;
///
/// let references = [vec!["B-PER", "I-PER", "O", "B-LOC"], vec!["O", "B-LOC"]];
/// let hypotheses = [vec!["B-PER", "I-PER", "O", "B-ORG"], vec!["O", "O"]];
/// let scores = span_scores(&hypotheses, &references)?;
/// assert_eq!(scores.precision, 1.0 / 2.0);
/// assert_eq!(scores.recall, 1.0 / 3.0);
/// assert_eq!(scores.f1, 0.4);
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
///
/// # Errors
/// There are no hypotheses, or not as many references; a sentence does not have as many tags in
/// both; a tag is empty.
pub fn span_scores<S: AsRef<str>>(
    hypotheses: &[Vec<S>],
    references: &[Vec<S>],
) -> Result<SpanScores, MetricError> {
    check_streams(hypotheses.len(), &[references.len()])?;
    for (index, (hypothesis, reference)) in hypotheses.iter().zip(references).enumerate() {
        if hypothesis.len() != reference.len() {
            return Err(MetricError::UnpairedTags {
                sentence: index + 1,
                hypothesis: hypothesis.len(),
                reference: reference.len(),
            });
        }
    }
    let predicted = corpus_spans(hypotheses)?;
    let gold: FxHashSet<Span> = corpus_spans(references)?.into_iter().collect();
    let correct = predicted.iter().filter(|span| gold.contains(span)).count();
    let precision = fraction(correct, predicted.len());
    let recall = fraction(correct, gold.len());
    let f1 = if correct == 0 {
        0.0
    } else {
        2.0 * precision * recall / (precision + recall)
    };
    Ok(SpanScores {
        precision,
        recall,
        f1,
    })
}

/// Returns the spans that the tags of one sentence mark, in order.
///
/// A tag is a prefix, a dash and a kind: `B-` begins a span, `I-` continues it, `E-` ends it, `S-`
/// is a span of one token, and `O` is in no span. Tags that do not fit together are read as
/// `conlleval` reads them: a tag of another kind than the last begins a span, whatever its prefix.
/// Of any other tag the first character counts as the prefix and the rest as the kind, so that
/// equal tags without prefixes, one after the other, are one span. [`has_spans`] tells whether
/// spans are meant.
///
/// ```
/// use polyglow_metrics::{Span, spans};
///
/// let person = Span { kind: "PER", start: 0, end: 2 };
/// let location = Span { kind: "LOC", start: 3, end: 4 };
/// assert_eq!(spans(&["B-PER", "I-PER", "O", "I-LOC"])?, [person, location]);
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
///
/// # Errors
/// A tag is empty.
pub fn spans(tags: &[impl AsRef<str>]) -> Result<Vec<Span<'_>>, MetricError> {
    let mut reader = SpanReader::new();
    reader.read_sentence(1, tags)?;
    Ok(reader.spans)
}

/// Whether any of the tags has a prefix of spans: `B-`, `I-`, `E-` or `S-`.
pub fn has_spans(mut tags: impl Iterator<Item = impl AsRef<str>>) -> bool {
    tags.any(|tag| has_prefix(tag.as_ref()))
}

fn has_prefix(tag: &str) -> bool {
    ["B-", "I-", "E-", "S-"]
        .iter()
        .any(|prefix| tag.starts_with(prefix))
}

fn fraction(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The spans of all sentences, as if they were one with an `O` after each.
///
/// As in seqeval, they are not read one by one, which matters for tags without prefixes: before the
/// first token of the first sentence there is no kind, and before that of another the kind of `O`.
fn corpus_spans<S: AsRef<str>>(sentences: &[Vec<S>]) -> Result<Vec<Span<'_>>, MetricError> {
    let mut reader = SpanReader::new();
    for (index, tags) in sentences.iter().enumerate() {
        reader.read_sentence(index + 1, tags)?;
    }
    Ok(reader.spans)
}

/// A tag in its two parts.
#[derive(Clone, Copy)]
struct Tag<'a> {
    prefix: char,
    kind: &'a str,
}

impl<'a> Tag<'a> {
    /// Splits a tag; `None` if it is empty.
    ///
    /// Whether the prefix has a dash after it does not matter, as in seqeval: the kind of `B-PER`
    /// is `PER`, that of `BPER` too, and that of `NP-SBJ` is `SBJ`.
    fn parse(tag: &'a str) -> Option<Self> {
        let prefix = tag.chars().next()?;
        let rest = &tag[prefix.len_utf8()..];
        let kind = rest.split_once('-').map_or(rest, |(_, kind)| kind);
        Some(Self {
            prefix,
            kind: if kind.is_empty() { NO_KIND } else { kind },
        })
    }
}

/// Reads tags one after the other, and keeps the spans that have ended.
struct SpanReader<'a> {
    last: Tag<'a>,
    /// Index of the tag that is read next.
    position: usize,
    /// The index at which the last span began. With tags such as `X` it may have ended already.
    start: usize,
    spans: Vec<Span<'a>>,
}

impl<'a> SpanReader<'a> {
    const fn new() -> Self {
        Self {
            last: Tag {
                prefix: 'O',
                kind: "",
            },
            position: 0,
            start: 0,
            spans: Vec::new(),
        }
    }

    /// Reads the tags of a sentence, whose number counts from one, and an `O` that ends its last
    /// span.
    fn read_sentence(
        &mut self,
        sentence: usize,
        tags: &'a [impl AsRef<str>],
    ) -> Result<(), MetricError> {
        for (index, tag) in tags.iter().enumerate() {
            let tag = Tag::parse(tag.as_ref()).ok_or(MetricError::EmptyTag {
                sentence,
                token: index + 1,
            })?;
            self.read(tag);
        }
        self.read(Tag {
            prefix: 'O',
            kind: NO_KIND,
        });
        Ok(())
    }

    fn read(&mut self, tag: Tag<'a>) {
        if ends(self.last, tag) {
            self.spans.push(Span {
                kind: self.last.kind,
                start: self.start,
                end: self.position,
            });
        }
        if starts(self.last, tag) {
            self.start = self.position;
        }
        self.last = tag;
        self.position += 1;
    }
}

/// Whether a span ends between two tags.
fn ends(last: Tag, next: Tag) -> bool {
    match (last.prefix, next.prefix) {
        ('E' | 'S', _) | ('B' | 'I', 'B' | 'S' | 'O') => true,
        // `conlleval` takes `.` for another sign of a token outside.
        ('O' | '.', _) => false,
        _ => last.kind != next.kind,
    }
}

/// Whether a span starts with the second of two tags.
fn starts(last: Tag, next: Tag) -> bool {
    match (last.prefix, next.prefix) {
        (_, 'B' | 'S') | ('E' | 'S' | 'O', 'E' | 'I') => true,
        (_, 'O' | '.') => false,
        _ => last.kind != next.kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans_as_text(tags: &str) -> Vec<String> {
        let tags: Vec<&str> = tags.split(' ').collect();
        let spans = spans(&tags).unwrap();
        let as_text = |span: &Span| format!("{} {}..{}", span.kind, span.start, span.end);
        spans.iter().map(as_text).collect()
    }

    #[test]
    fn every_scheme_marks_the_same_spans() {
        let expected = ["PER 0..2", "PER 2..3", "LOC 4..5"];
        for tags in [
            "B-PER I-PER B-PER O B-LOC",
            "I-PER I-PER B-PER O I-LOC",
            "I-PER E-PER I-PER O I-LOC",
            "B-PER E-PER S-PER O S-LOC",
        ] {
            assert_eq!(spans_as_text(tags), expected, "{tags}");
        }
    }

    #[test]
    fn another_kind_begins_a_span_whatever_the_prefix() {
        assert_eq!(
            spans_as_text("B-PER I-LOC E-ORG"),
            ["PER 0..1", "LOC 1..2", "ORG 2..3"]
        );
    }

    #[test]
    fn tags_without_spans_have_no_prefix() {
        assert!(!has_spans(["NOUN", "SCONJ", "B", "O", "BI-X"].iter()));
        assert!(has_spans(["O", "O", "S-PER"].iter()));
    }

    #[test]
    fn without_spans_all_scores_are_zero() {
        let outside = [vec!["O", "O"]];
        let zero = SpanScores {
            precision: 0.0,
            recall: 0.0,
            f1: 0.0,
        };
        assert_eq!(span_scores(&outside, &outside), Ok(zero));
        assert_eq!(span_scores(&outside, &[vec!["O", "B-PER"]]), Ok(zero));
        assert_eq!(span_scores(&[vec!["O", "B-PER"]], &outside), Ok(zero));
        assert_eq!(span_scores(&[vec![""; 0]], &[vec![]]), Ok(zero));
    }

    #[test]
    fn sentences_that_cannot_be_compared_are_errors() {
        let missing = span_scores(&[vec!["O"], vec!["O"]], &[vec!["O"]]).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "reference 1 has 1 lines, but there are 2 hypotheses"
        );
        let shorter = span_scores(&[vec!["O"], vec!["O"]], &[vec!["O"], vec!["O"; 2]]);
        assert_eq!(
            shorter.unwrap_err().to_string(),
            "sentence 2 has 1 tags in the hypothesis, but 2 in the reference"
        );
        let empty = span_scores(&[vec!["O"], vec!["O", ""]], &[vec!["O"], vec!["O"; 2]]);
        assert_eq!(
            empty.unwrap_err().to_string(),
            "the tag of token 2 in sentence 2 is empty"
        );
        let none = span_scores::<&str>(&[], &[]);
        assert_eq!(none, Err(MetricError::NoHypotheses));
    }
}
