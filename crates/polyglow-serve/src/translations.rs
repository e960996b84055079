//! Our own interface: n-best lists, scores, beginnings, phrases, alignments, and long texts
//! sentence by sentence.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use polyglow_data::alignment::Link;
use polyglow_model::search::{SearchMethod, SearchRequest};
use polyglow_predict::attention::{WordAttention, strongest};
use polyglow_predict::translate::{Request, Scores};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{Document, run_aside};
use crate::engine::{Asked, LinkedTranslation};
use crate::failure::Failure;
use crate::fields::{Body, whole_number};
use crate::html::Translation as Text;
use crate::libre::{check_size, check_translations};
use crate::server::Shared;
use crate::stream::streamed;
use crate::{detect, numbering};

/// The widest beam that may be asked for.
const WIDEST: usize = 32;
/// Weights of attention of an answer, at most, if translations have as many words as their sources.
/// A weight takes 4 bytes, and about 20 more in the answer: together no more than some hundred
/// megabytes. A sentence of 10,000 letters has fewer.
const WEIGHTS: usize = 4_000_000;

/// What `POST /v1/translations` reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    texts: Vec<String>,
    /// Languages; may be left out where there is only one model.
    source: Option<String>,
    target: Option<String>,
    /// Width of the beam, if not the run's, or number of samples, if not `n_best`.
    beam_size: Option<Value>,
    /// Translations of each sentence, at most; 1 if it is left out.
    n_best: Option<Value>,
    /// `beam`, `sample` or `branch`, if not as the run does.
    method: Option<SearchMethod>,
    /// What the translation of each text begins with. A text is then one sentence.
    #[serde(default)]
    prefixes: Vec<String>,
    /// Phrases that the translation of each text contains. A text is then one sentence.
    #[serde(default)]
    constraints: Vec<Vec<String>>,
    /// Whether the words of translations are linked with those of the source.
    #[serde(default)]
    alignments: bool,
    /// Whether the answer has how much each word of a translation looks at each of the source.
    #[serde(default)]
    attention: bool,
    /// Whether sentences are sent as they are translated.
    #[serde(default)]
    stream: bool,
    api_key: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    translations: Vec<Translation>,
}

#[derive(Serialize)]
struct Translation {
    text: String,
    segments: Vec<Segment>,
}

/// A sentence and its translations, the best first.
#[derive(Serialize)]
pub(crate) struct Segment {
    source: String,
    pub(crate) hypotheses: Vec<Hypothesis>,
}

#[derive(Serialize)]
pub(crate) struct Hypothesis {
    text: String,
    #[serde(flatten)]
    scores: Option<Scores>,
    /// For each word of the text the source word with the most attention, both counted from 0:
    /// `[source, target]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<Vec<Link>>,
    /// For each word of the text the attention to each word of the source, in the last layer, heads
    /// averaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    attention: Option<WordAttention>,
}

/// What an answer has of each translation besides its text.
#[derive(Clone, Copy)]
pub(crate) struct Details {
    alignment: bool,
    attention: bool,
}

/// `POST /v1/translations`
pub(crate) async fn translate(
    State(server): State<Arc<Shared>>,
    body: Body<Wanted>,
) -> Result<Response, Failure> {
    let Body { asked: wanted, key } = body;
    server
        .keys
        .check(key.as_deref().or(wanted.api_key.as_deref()))?;
    if wanted.texts.is_empty() {
        return Err(Failure::missing("texts"));
    }
    check_size(&server, &wanted.texts)?;
    let asked = asked(&server, &wanted)?;
    let language = server.routes.source(asked.model).to_owned();
    let wanted = Arc::new(wanted);
    let read = Arc::clone(&wanted);
    let num_bytes = wanted.texts.iter().map(String::len).sum();
    let (documents, requests) = run_aside(num_bytes, move || requests(&read, &language)).await??;
    check_translations(requests.len(), asked.search.n_best)?;
    if asked.attention {
        check_attention(&requests, asked.search.n_best)?;
    }
    server
        .metrics
        .text(wanted.texts.iter().map(|text| text.chars().count()).sum());
    let details = Details {
        alignment: wanted.alignments,
        attention: wanted.attention,
    };
    if requests.is_empty() && wanted.stream {
        return Ok(streamed(None, &documents, details, server.limits.time));
    }
    let place = server.engine.place()?;
    if wanted.stream {
        let slices = server.engine.translate(&place, asked, requests)?;
        return Ok(streamed(
            Some(slices),
            &documents,
            details,
            server.limits.time,
        ));
    }
    let all = server.engine.translate_all(&place, asked, requests);
    let all = tokio::time::timeout(server.limits.time, all).await;
    let mut sentences = all.unwrap_or_else(|_| Err(Failure::timeout()))?.into_iter();
    let translations = documents.iter().map(|document| {
        let segments: Vec<Segment> = document
            .sentences()
            .into_iter()
            .zip(sentences.by_ref())
            .map(|(source, best)| segment(source, best, details))
            .collect();
        let best: Vec<Text> = segments.iter().map(best).collect();
        let text = document.with(&best);
        Translation { text, segments }
    });
    Ok(Json(Answer {
        translations: translations.collect(),
    })
    .into_response())
}

impl Segment {
    /// The text of the best translation; empty if there is none.
    pub(crate) fn best_text(&self) -> &str {
        self.hypotheses
            .first()
            .map_or("", |hypothesis| &hypothesis.text)
    }
}

fn best(segment: &Segment) -> Text {
    Text {
        text: segment.best_text().to_owned(),
        links: Vec::new(),
    }
}

/// A sentence with its translations, of which the best comes first.
pub(crate) fn segment(source: &str, best: Vec<LinkedTranslation>, details: Details) -> Segment {
    let hypothesis = |LinkedTranslation {
                          translation,
                          attention,
                          ..
                      }| Hypothesis {
        text: translation.text,
        scores: translation.scores,
        alignment: details.alignment.then(|| strongest(&attention)),
        attention: details.attention.then_some(attention),
    };
    Segment {
        source: source.to_owned(),
        hypotheses: best.into_iter().map(hypothesis).collect(),
    }
}

/// The model and how it searches.
fn asked(server: &Shared, wanted: &Wanted) -> Result<Asked, Failure> {
    let only = server.routes.only();
    let language = |name: &str, given: &Option<String>, only: Option<String>| match given {
        Some(code) => server
            .routes
            .language(code)
            .ok_or_else(|| Failure::bad(format!("{code} is not supported"))),
        None => only.ok_or_else(|| Failure::missing(name)),
    };
    let (from, to) = only.map_or((None, None), |(source, target)| {
        (Some(source), Some(target))
    });
    let source = language("source", &wanted.source, from)?;
    let target = language("target", &wanted.target, to)?;
    let model = server.routes.direct(&source, &target).ok_or_else(|| {
        let [from, to] = [&source, &target].map(|code| format!("{} ({code})", detect::name(code)));
        let others = server
            .routes
            .find(&source, &target)
            .map(|_| "; `/translate` does over a third language");
        Failure::bad(format!(
            "no model translates from {from} to {to}{}",
            others.unwrap_or_default()
        ))
    })?;
    let n_best = width("n_best", wanted.n_best.as_ref())?.unwrap_or(1);
    let beam_size = width("beam_size", wanted.beam_size.as_ref())?;
    let search = SearchRequest {
        method: wanted.method,
        beam_size,
        n_best,
        scores: true,
        ..SearchRequest::default()
    };
    // Both numbers are in range.
    search
        .validate()
        .map_err(|_| Failure::bad("Invalid request: n_best must be <= beam_size"))?;
    Ok(Asked {
        model,
        search,
        attention: wanted.alignments || wanted.attention,
        links: false,
    })
}

/// A number of hypotheses, if it is given.
///
/// # Errors
/// It is no number, or out of range.
fn width(name: &str, value: Option<&Value>) -> Result<Option<usize>, Failure> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = whole_number(value).filter(|_| value.is_number());
    let number = number
        .ok_or_else(|| Failure::bad(format!("Invalid request: {name} is not a whole number")))?;
    match usize::try_from(number) {
        Ok(number) if (1..=WIDEST).contains(&number) => Ok(Some(number)),
        _ => Err(Failure::bad(format!(
            "Invalid request: {name} must be from 1 to {WIDEST}"
        ))),
    }
}

/// Makes sure that there is memory for the attention of all translations.
///
/// # Errors
/// There may not be.
fn check_attention(requests: &[Request], n_best: usize) -> Result<(), Failure> {
    let words = requests
        .iter()
        .map(|request| request.text.split_whitespace().count());
    let weights = words
        .map(|words| words.saturating_mul(words))
        .fold(0, usize::saturating_add)
        .saturating_mul(n_best);
    if weights > WEIGHTS {
        let error =
            format!("Invalid request: {weights} weights of attention exceed the limit ({WEIGHTS})");
        return Err(Failure::bad(error));
    }
    Ok(())
}

/// The texts in parts, and the sentences in them with what is wished for their translations.
/// `language` is that of the texts.
fn requests(wanted: &Wanted, language: &str) -> Result<(Vec<Document>, Vec<Request>), Failure> {
    let Wanted {
        texts,
        prefixes,
        constraints,
        ..
    } = wanted;
    for (name, count) in [
        ("prefixes", prefixes.len()),
        ("constraints", constraints.len()),
    ] {
        if count != 0 && count != texts.len() {
            return Err(Failure::bad(format!(
                "Invalid request: {} texts and {count} {name}",
                texts.len()
            )));
        }
    }
    if prefixes.is_empty() && constraints.is_empty() {
        let documents: Vec<Document> = texts
            .iter()
            .map(|text| Document::from_text(text, language))
            .collect();
        let requests = numbering::requests(&documents);
        return Ok((documents, requests));
    }
    let request = |(index, text): (usize, &String)| Request {
        text: text.replace(['\n', '\r'], " "),
        prefix: prefixes.get(index).cloned().unwrap_or_default(),
        constraints: constraints.get(index).cloned().unwrap_or_default(),
        number: Some(numbering::number(index)),
        ..Request::default()
    };
    let documents = texts
        .iter()
        .map(|text| Document::from_sentence(text))
        .collect();
    Ok((documents, texts.iter().enumerate().map(request).collect()))
}
