//! Our own interface: n-best lists, scores, prefixes, constraints, alignments, and long texts
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
use crate::engine::{LinkedTranslation, TranslateOptions};
use crate::failure::Failure;
use crate::fields::{Body, whole_number};
use crate::html::Translation as Text;
use crate::libre::unsupported;
use crate::limits::check_translations;
use crate::server::Shared;
use crate::stream::stream_answer;
use crate::{detect, numbering};

/// The largest beam and the longest n-best list that a request may have.
const MAX_HYPOTHESES: usize = 32;
/// Attention weights of an answer, at most, if translations have as many words as their sources. A
/// weight takes 4 bytes, and about 20 more in the answer: together no more than some hundred
/// megabytes. A sentence of 10,000 letters has fewer.
const MAX_WEIGHTS: usize = 4_000_000;

/// The body of a request to `POST /v1/translations`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TranslateRequest {
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
    /// The beginning of the translation of each text. A text is then one sentence.
    #[serde(default)]
    prefixes: Vec<String>,
    /// Phrases that the translation of each text contains. A text is then one sentence.
    #[serde(default)]
    constraints: Vec<Vec<String>>,
    /// Whether the words of translations are linked with those of the source.
    #[serde(default)]
    alignments: bool,
    /// Whether the answer has the attention of each word of a translation to each of the source.
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

/// A translation of a sentence.
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

/// The parts of an answer that a request may choose.
#[derive(Clone, Copy)]
pub(crate) struct Details {
    alignment: bool,
    attention: bool,
}

/// `POST /v1/translations`
pub(crate) async fn translate(
    State(server): State<Arc<Shared>>,
    body: Body<TranslateRequest>,
) -> Result<Response, Failure> {
    let Body { request, key } = body;
    let key = key.as_deref().or(request.api_key.as_deref());
    server.keys.check(key)?;
    if request.texts.is_empty() {
        return Err(Failure::missing("texts"));
    }
    server.limits.check_texts(&request.texts)?;
    let options = options(&server, &request)?;
    let language = server.routes.source(options.model).to_owned();
    let request = Arc::new(request);
    let num_bytes = request.texts.iter().map(String::len).sum();
    let read = Arc::clone(&request);
    let (documents, sentences) =
        run_aside(num_bytes, move || split_texts(&read, &language)).await??;
    check_translations(sentences.len(), options.search.n_best)?;
    if options.attention {
        check_attention(&sentences, options.search.n_best)?;
    }
    server.metrics.texts(&request.texts);
    let details = Details {
        alignment: request.alignments,
        attention: request.attention,
    };
    let time = server.limits.time;
    if request.stream {
        let slices = if sentences.is_empty() {
            None
        } else {
            // The slices keep the permit until the answer ends.
            let permit = server.engine.permit()?;
            Some(server.engine.translate(&permit, options, sentences)?)
        };
        return Ok(stream_answer(slices, &documents, details, time));
    }
    let permit = server.engine.permit()?;
    let translations = server.engine.translate_all(&permit, options, sentences);
    let translations = tokio::time::timeout(time, translations)
        .await
        .unwrap_or_else(|_| Err(Failure::timeout()))?;
    Ok(Json(answer(&documents, translations, details)).into_response())
}

/// Returns the answer with the documents, and the translations of all their sentences in order.
fn answer(
    documents: &[Document],
    translations: Vec<Vec<LinkedTranslation>>,
    details: Details,
) -> Answer {
    let mut translations = translations.into_iter();
    let mut translated = Vec::with_capacity(documents.len());
    for document in documents {
        let mut segments = Vec::new();
        for (source, best) in document.sentences().into_iter().zip(&mut translations) {
            segments.push(segment(source, best, details));
        }
        let best: Vec<Text> = segments.iter().map(best_translation).collect();
        translated.push(Translation {
            text: document.with(&best),
            segments,
        });
    }
    Answer {
        translations: translated,
    }
}

impl Segment {
    /// Returns the text of the best translation; empty if there is none.
    pub(crate) fn best_text(&self) -> &str {
        self.hypotheses
            .first()
            .map_or("", |hypothesis| &hypothesis.text)
    }
}

fn best_translation(segment: &Segment) -> Text {
    Text {
        text: segment.best_text().to_owned(),
        links: Vec::new(),
    }
}

/// Returns a sentence with its translations, of which the best comes first.
pub(crate) fn segment(source: &str, best: Vec<LinkedTranslation>, details: Details) -> Segment {
    Segment {
        source: source.to_owned(),
        hypotheses: best
            .into_iter()
            .map(|translation| hypothesis(translation, details))
            .collect(),
    }
}

fn hypothesis(linked: LinkedTranslation, details: Details) -> Hypothesis {
    let attention = linked.attention;
    Hypothesis {
        text: linked.translation.text,
        scores: linked.translation.scores,
        alignment: details.alignment.then(|| strongest(&attention)),
        attention: details.attention.then_some(attention),
    }
}

/// Returns the model and the search that a request asks for.
///
/// # Errors
/// There is no such model; a number is wrong.
fn options(server: &Shared, request: &TranslateRequest) -> Result<TranslateOptions, Failure> {
    let model = model(server, request)?;
    let n_best = hypotheses("n_best", request.n_best.as_ref())?.unwrap_or(1);
    let beam_size = hypotheses("beam_size", request.beam_size.as_ref())?;
    let search = SearchRequest {
        method: request.method,
        beam_size,
        n_best,
        scores: true,
        ..SearchRequest::default()
    };
    // Each number is in its range, so only their order can be wrong.
    search
        .validate()
        .map_err(|_| Failure::bad_request("Invalid request: n_best must be <= beam_size"))?;
    Ok(TranslateOptions {
        model,
        search,
        // Alignments are read from it.
        attention: request.alignments || request.attention,
        links: false,
    })
}

/// Returns the index of the model between the languages of a request.
///
/// # Errors
/// A language is missing or not supported, or no model translates between them.
fn model(server: &Shared, request: &TranslateRequest) -> Result<usize, Failure> {
    let routes = &server.routes;
    let (only_source, only_target) = routes.only().unzip();
    let source = language(server, "source", request.source.as_deref(), only_source)?;
    let target = language(server, "target", request.target.as_deref(), only_target)?;
    if let Some(model) = routes.direct(&source, &target) {
        return Ok(model);
    }
    // Scores, alignments and prefixes are those of one model, so two are not chained here.
    let hint = match routes.find(&source, &target) {
        Some(_) => "; `/translate` does over a third language",
        None => "",
    };
    let from = detect::name_with_code(&source);
    let to = detect::name_with_code(&target);
    Err(Failure::bad_request(format!(
        "no model translates from {from} to {to}{hint}"
    )))
}

/// Returns the code that models have for the language in a field, or else `default`.
fn language(
    server: &Shared,
    field: &str,
    code: Option<&str>,
    default: Option<String>,
) -> Result<String, Failure> {
    match code {
        Some(code) => server
            .routes
            .language(code)
            .ok_or_else(|| unsupported(code)),
        None => default.ok_or_else(|| Failure::missing(field)),
    }
}

/// Reads a number of hypotheses; `None` if it is missing or null.
///
/// # Errors
/// It is not a number, or out of range.
fn hypotheses(field: &str, value: Option<&Value>) -> Result<Option<usize>, Failure> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    // A number in quotation marks is an error here, other than in forms.
    let number = whole_number(value)
        .filter(|_| value.is_number())
        .ok_or_else(|| {
            Failure::bad_request(format!("Invalid request: {field} is not a whole number"))
        })?;
    match usize::try_from(number) {
        Ok(number) if (1..=MAX_HYPOTHESES).contains(&number) => Ok(Some(number)),
        _ => Err(Failure::bad_request(format!(
            "Invalid request: {field} must be from 1 to {MAX_HYPOTHESES}"
        ))),
    }
}

/// Checks that there is memory for the attention of all translations.
///
/// # Errors
/// There may not be enough.
fn check_attention(sentences: &[Request], n_best: usize) -> Result<(), Failure> {
    let mut weights: usize = 0;
    for sentence in sentences {
        let num_words = sentence.text.split_whitespace().count();
        weights = weights.saturating_add(num_words.saturating_mul(num_words));
    }
    let weights = weights.saturating_mul(n_best);
    if weights > MAX_WEIGHTS {
        return Err(Failure::bad_request(format!(
            "Invalid request: {weights} weights of attention exceed the limit ({MAX_WEIGHTS})"
        )));
    }
    Ok(())
}

/// Splits the texts of a request, which are in `language`, and returns them together with their
/// sentences, each with its prefix and its constraints.
///
/// # Errors
/// There are not as many prefixes or constraints as texts.
fn split_texts(
    request: &TranslateRequest,
    language: &str,
) -> Result<(Vec<Document>, Vec<Request>), Failure> {
    let num_texts = request.texts.len();
    check_count("prefixes", request.prefixes.len(), num_texts)?;
    check_count("constraints", request.constraints.len(), num_texts)?;
    let mut documents = Vec::with_capacity(num_texts);
    if request.prefixes.is_empty() && request.constraints.is_empty() {
        for text in &request.texts {
            documents.push(Document::from_text(text, language));
        }
        let sentences = numbering::requests(&documents);
        return Ok((documents, sentences));
    }
    // A prefix or a constraint belongs to a text: which of its sentences has it is unknown, so the
    // text stays whole.
    let mut sentences = Vec::with_capacity(num_texts);
    for (index, text) in request.texts.iter().enumerate() {
        documents.push(Document::from_sentence(text));
        sentences.push(Request {
            // Models read lines.
            text: text.replace(['\n', '\r'], " "),
            prefix: request.prefixes.get(index).cloned().unwrap_or_default(),
            constraints: request.constraints.get(index).cloned().unwrap_or_default(),
            number: Some(numbering::number(index)),
            ..Request::default()
        });
    }
    Ok((documents, sentences))
}

/// Checks that a list that may be left out has an item for each text.
fn check_count(field: &str, count: usize, num_texts: usize) -> Result<(), Failure> {
    if count != 0 && count != num_texts {
        return Err(Failure::bad_request(format!(
            "Invalid request: {num_texts} texts and {count} {field}"
        )));
    }
    Ok(())
}
