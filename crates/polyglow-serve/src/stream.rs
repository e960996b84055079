//! Sentences that are sent as they are translated, as events.

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
use crate::engine::{LinkedTranslation, Slices};
use crate::failure::Failure;
use crate::translations::{Details, segment};

/// A sentence that has not been sent.
struct Awaited {
    text: usize,
    segment: usize,
    before: String,
    source: String,
}

struct Streaming {
    /// `None` when no more will come.
    slices: Option<Slices>,
    awaited: VecDeque<Awaited>,
    /// The best translation of the sentence before, in the same text.
    last: String,
    /// What comes after the last sentence of each text; `None` once all is said.
    after: Option<Vec<String>>,
    details: Details,
    /// How long the next sentences may take.
    time: Duration,
}

/// Events: `segment` for each sentence, in order, then `end`, or `error` where no more can come.
pub(crate) fn streamed(
    slices: Option<Slices>,
    documents: &[Document],
    details: Details,
    time: Duration,
) -> Response {
    let (awaited, after) = awaited(documents);
    let start = Streaming {
        slices,
        awaited,
        last: String::new(),
        after: Some(after),
        details,
        time,
    };
    let events = stream::unfold(start, |mut streaming| async move {
        let events = streaming.next().await?;
        Some((
            stream::iter(events.into_iter().map(Ok::<_, Infallible>)),
            streaming,
        ))
    });
    let mut response = Sse::new(events.flatten()).into_response();
    // Events are always in UTF-8, but some clients take text without a character set for Latin-1.
    let content_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

fn awaited(documents: &[Document]) -> (VecDeque<Awaited>, Vec<String>) {
    let mut awaited = VecDeque::new();
    let mut after = Vec::new();
    for (text, document) in documents.iter().enumerate() {
        let mut before = String::new();
        let mut segment = 0;
        for part in document.parts() {
            match part {
                Part::Kept(kept) => before.push_str(kept),
                Part::Sentence(source) => {
                    let before = std::mem::take(&mut before);
                    awaited.push_back(Awaited {
                        text,
                        segment,
                        before,
                        source: source.clone(),
                    });
                    segment += 1;
                }
            }
        }
        after.push(before);
    }
    (awaited, after)
}

impl Streaming {
    /// The next events; `None` after the last.
    async fn next(&mut self) -> Option<Vec<Event>> {
        let slice = match &mut self.slices {
            Some(slices) => {
                let slice = tokio::time::timeout(self.time, slices.next()).await;
                slice.unwrap_or_else(|_| Some(Err(Failure::timeout())))
            }
            None => None,
        };
        match slice {
            Some(Ok(translations)) => Some(self.segments(translations)),
            Some(Err(failure)) => {
                (self.slices, self.after) = (None, None);
                Some(vec![error(&failure)])
            }
            None => {
                let after = self.after.take()?;
                let is_whole = self.awaited.is_empty();
                Some(vec![if is_whole {
                    event("end", &json!({ "after": after }))
                } else {
                    error(&Failure::broken())
                }])
            }
        }
    }

    /// The events of the next sentences, by the translations of each.
    fn segments(&mut self, translations: Vec<Vec<LinkedTranslation>>) -> Vec<Event> {
        let mut events = Vec::with_capacity(translations.len());
        for best in translations {
            let Some(sentence) = self.awaited.pop_front() else {
                break;
            };
            let segment = segment(&sentence.source, best, self.details);
            let before = before(&sentence, segment.best_text(), &mut self.last);
            let Awaited {
                text,
                segment: number,
                source,
                ..
            } = sentence;
            let data = json!({
                "text": text, "segment": number, "before": before, "source": source, "hypotheses": segment.hypotheses,
            });
            events.push(event("segment", &data));
        }
        events
    }
}

/// What stands before the best translation of a sentence. `last` is the translation before in the
/// same text, and becomes this one.
fn before(sentence: &Awaited, best: &str, last: &mut String) -> String {
    if sentence.segment == 0 {
        last.clear();
    }
    let before = if sentence.before.is_empty() {
        gap(last, best)
    } else {
        &sentence.before
    }
    .to_owned();
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
        let (awaited, _) = awaited(&texts);
        let mut last = String::new();
        let translations = ["Hello.", "", "Bye.", "Good.", "Hello."];
        let gaps: Vec<String> = awaited
            .iter()
            .zip(translations)
            .map(|(sentence, best)| before(sentence, best, &mut last))
            .collect();
        assert_eq!(gaps, ["", "", " ", " ", ""]);
    }
}
