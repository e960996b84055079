//! Sentences that are sent as they are translated, as events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::document::{Document, Part};
use crate::engine::{Found, Slices};
use crate::failure::Failure;
use crate::translations::{Told, segment};

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
    /// What comes after the last sentence of each text; `None` once all is said.
    after: Option<Vec<String>>,
    told: Told,
    /// How long the next sentences may take.
    time: Duration,
}

/// Events: `segment` for each sentence, in order, then `end`, or `error` where no more can come.
pub(crate) fn streamed(
    slices: Option<Slices>,
    documents: &[Document],
    told: Told,
    time: Duration,
) -> Response {
    let (awaited, after) = awaited(documents);
    let start = Streaming {
        slices,
        awaited,
        after: Some(after),
        told,
        time,
    };
    let events = stream::unfold(start, |mut streaming| async move {
        let events = streaming.next().await?;
        Some((
            stream::iter(events.into_iter().map(Ok::<_, Infallible>)),
            streaming,
        ))
    });
    Sse::new(events.flatten()).into_response()
}

fn awaited(documents: &[Document]) -> (VecDeque<Awaited>, Vec<String>) {
    let (mut awaited, mut after) = (VecDeque::new(), Vec::new());
    for (text, document) in documents.iter().enumerate() {
        let (mut before, mut segment) = (String::new(), 0);
        for part in document.parts() {
            match part {
                Part::Kept(kept) => before.push_str(kept),
                Part::Sentence(source) => {
                    let (before, source) = (std::mem::take(&mut before), source.clone());
                    awaited.push_back(Awaited {
                        text,
                        segment,
                        before,
                        source,
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
            Some(Ok(found)) => Some(self.segments(found)),
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

    fn segments(&mut self, found: Vec<Vec<Found>>) -> Vec<Event> {
        let told = self.told;
        let awaited = self.awaited.drain(..found.len().min(self.awaited.len()));
        let events = awaited.zip(found).map(|(Awaited { text, segment: number, before, source }, found)| {
            let hypotheses = segment(&source, found, told).hypotheses;
            let data = json!({
                "text": text, "segment": number, "before": before, "source": source, "hypotheses": hypotheses,
            });
            event("segment", &data)
        });
        events.collect()
    }
}

fn error(failure: &Failure) -> Event {
    event("error", &json!({ "error": failure.error }))
}

fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}
