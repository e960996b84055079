//! Answers that are streamed: an event for each sentence as soon as it is translated.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use polyglow_predict::sentences::gap;
use serde_json::{Value, json};

use crate::document::{Document, Part};
use crate::engine::{LinkedTranslation, Slice, Slices};
use crate::failure::Failure;
use crate::translations::{Details, segment};

/// A sentence that has not been sent.
struct PendingSentence {
    /// The index of its text in the request.
    text: usize,
    /// Its index in the text.
    segment: usize,
    /// The text between it and the sentence before.
    before: String,
    source: String,
}

/// The state of an answer between two slices.
struct Streaming {
    /// `None` when no more translations will come.
    slices: Option<Slices>,
    pending: VecDeque<PendingSentence>,
    /// The best translation of the sentence before, in the same text.
    last: String,
    /// The text after the last sentence of each text; `None` once the last event is sent.
    after: Option<Vec<String>>,
    details: Details,
    /// The time that the next slice may take.
    time: Duration,
}

/// Returns an answer of events: `segment` for each sentence, in order, then `end`, or `error` if
/// the translation fails.
pub(crate) fn stream_answer(
    slices: Option<Slices>,
    documents: &[Document],
    details: Details,
    time: Duration,
) -> Response {
    let (pending, after) = pending_sentences(documents);
    let start = Streaming {
        slices,
        pending,
        last: String::new(),
        after: Some(after),
        details,
        time,
    };
    let events = stream::unfold(start, |mut streaming| async move {
        let events = streaming.next().await?;
        let events = events.into_iter().map(Ok::<_, Infallible>);
        Some((stream::iter(events), streaming))
    });
    let mut response = Sse::new(events.flatten()).into_response();
    // Events are always in UTF-8, but some clients take text without a character set for Latin-1.
    let content_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Returns the sentences of documents, and for each document the text after its last sentence.
fn pending_sentences(documents: &[Document]) -> (VecDeque<PendingSentence>, Vec<String>) {
    let mut pending = VecDeque::new();
    let mut after = Vec::new();
    for (text, document) in documents.iter().enumerate() {
        let mut before = String::new();
        let mut segment = 0;
        for part in document.parts() {
            match part {
                Part::Kept(kept) => before.push_str(kept),
                Part::Sentence(source) => {
                    pending.push_back(PendingSentence {
                        text,
                        segment,
                        before: std::mem::take(&mut before),
                        source: source.clone(),
                    });
                    segment += 1;
                }
            }
        }
        after.push(before);
    }
    (pending, after)
}

impl Streaming {
    /// Returns the next events; `None` after the last.
    async fn next(&mut self) -> Option<Vec<Event>> {
        match self.next_slice().await {
            Some(Ok(translations)) => Some(self.segments(translations)),
            Some(Err(failure)) => {
                // Dropping the slices cancels the rest of the request.
                self.slices = None;
                self.after = None;
                Some(vec![error(&failure)])
            }
            None => {
                let after = self.after.take()?;
                // The slices also end if the worker does, in the middle of a request.
                let last = if self.pending.is_empty() {
                    event("end", &json!({ "after": after }))
                } else {
                    error(&Failure::internal())
                };
                Some(vec![last])
            }
        }
    }

    /// Returns the next translations, or an error if they take too long.
    async fn next_slice(&mut self) -> Option<Slice> {
        let slices = self.slices.as_mut()?;
        match tokio::time::timeout(self.time, slices.next()).await {
            Ok(slice) => slice,
            Err(_) => Some(Err(Failure::timeout())),
        }
    }

    /// Returns the events of the next sentences, whose translations are given.
    fn segments(&mut self, translations: Vec<Vec<LinkedTranslation>>) -> Vec<Event> {
        let mut events = Vec::with_capacity(translations.len());
        for best in translations {
            let Some(sentence) = self.pending.pop_front() else {
                break;
            };
            let segment = segment(&sentence.source, best, self.details);
            let before = before(&sentence, segment.best_text(), &mut self.last);
            let data = json!({
                "text": sentence.text,
                "segment": sentence.segment,
                "before": before,
                "source": sentence.source,
                "hypotheses": segment.hypotheses,
            });
            events.push(event("segment", &data));
        }
        events
    }
}

/// Returns the text before the best translation of a sentence. `last` is the translation before in
/// the same text, and becomes this one.
fn before(sentence: &PendingSentence, best: &str, last: &mut String) -> String {
    if sentence.segment == 0 {
        last.clear();
    }
    let before = if sentence.before.is_empty() {
        // Where the source has no space, as in Chinese, the target may need one.
        gap(last, best).to_owned()
    } else {
        sentence.before.clone()
    };
    // An empty translation leaves no trace, so the gap is between those around it.
    if !best.is_empty() {
        best.clone_into(last);
    }
    before
}

fn error(failure: &Failure) -> Event {
    event("error", &json!({ "error": failure.error }))
}

fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_without_a_space_between_have_one_where_the_target_has() {
        let texts =
            ["你好。我来了。再见。 好。", "你好。"].map(|text| Document::from_text(text, "zh"));
        let (pending, _) = pending_sentences(&texts);
        let mut last = String::new();
        let translations = ["Hello.", "", "Bye.", "Good.", "Hello."];
        let gaps: Vec<String> = pending
            .iter()
            .zip(translations)
            .map(|(sentence, best)| before(sentence, best, &mut last))
            .collect();
        assert_eq!(gaps, ["", "", " ", " ", ""]);
    }
}
