//! LibreTranslate's interface: its fields, its answers, its errors.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::detect::{self, Detected};
use crate::document::{Document, run_aside};
use crate::failure::Failure;
use crate::fields::{Fields, whole_number};
use crate::html::{Options, Page};
use crate::limits::check_translations;
use crate::server::Shared;

/// The source that asks the server to detect the language.
const AUTO: &str = "auto";

type Answer = Result<Json<Value>, Failure>;

/// The texts of a request.
struct Texts {
    texts: Vec<String>,
    /// Whether they came as an array, so that the answer is one.
    is_array: bool,
}

impl Texts {
    /// Reads the field `q`, a text or an array of texts.
    ///
    /// # Errors
    /// It is missing, empty, or something else.
    fn read(fields: &Fields) -> Result<Self, Failure> {
        let q = fields.value("q");
        let texts = match q {
            Some(Value::Array(values)) => texts_of_array(values),
            // LibreTranslate takes an empty text in an array, but not by itself.
            Some(Value::String(text)) if !text.is_empty() => Some(vec![text.clone()]),
            _ => None,
        };
        match texts {
            Some(texts) if !texts.is_empty() => Ok(Self {
                texts,
                is_array: matches!(q, Some(Value::Array(_))),
            }),
            _ => Err(Failure::missing("q")),
        }
    }

    /// Returns values, one for each text, in the form of the request: as an array, or as the only
    /// one.
    fn answer<T: Into<Value>>(&self, values: Vec<T>) -> Value {
        let mut values: Vec<Value> = values.into_iter().map(Into::into).collect();
        if self.is_array {
            Value::Array(values)
        } else {
            values.swap_remove(0)
        }
    }
}

/// Returns the texts of an array; `None` if one of its values is something else.
fn texts_of_array(values: &[Value]) -> Option<Vec<String>> {
    values
        .iter()
        .map(|value| value.as_str().map(str::to_owned))
        .collect()
}

/// `POST /translate`
pub(crate) async fn translate(State(server): State<Arc<Shared>>, fields: Fields) -> Answer {
    server.keys.check(fields.text("api_key")?.as_deref())?;
    let texts = Texts::read(&fields)?;
    let source = fields.required("source")?;
    let target = fields.required("target")?;
    let n_best = 1 + alternatives(&fields, server.limits.alternatives)?;
    server.limits.check_texts(&texts.texts)?;
    let is_html = is_html(&fields)?;
    let attributes = is_html && translates_attributes(&fields)?;
    let detected = if source != AUTO {
        None
    } else if is_html {
        let sentences = sentences_of_pages(texts.texts.clone(), attributes).await?;
        Some(detect_language(&server, &sentences, &target)?)
    } else {
        Some(detect_language(&server, &texts.texts, &target)?)
    };
    let source = detected.as_ref().map_or(&source, |detected| &detected.code);
    let source = known_language(&server, source)?;
    let target = known_language(&server, &target)?;
    let route = server
        .routes
        .find(&source, &target)
        .ok_or_else(|| unavailable(&source, &target))?;
    server.metrics.texts(&texts.texts);
    let read = texts.texts.clone();
    let num_bytes = read.iter().map(String::len).sum();
    let documents = run_aside(num_bytes, move || {
        let read = read.iter();
        read.map(|text| document(text, &source, is_html, attributes))
            .collect::<Vec<Document>>()
    })
    .await?;
    let num_sentences = documents
        .iter()
        .map(|document| document.sentences().len())
        .sum();
    check_translations(num_sentences, n_best)?;
    let versions = server
        .translate_documents(&route, documents, n_best)
        .await?;
    Ok(Json(answer(&texts, versions, is_html, n_best, detected)))
}

/// Splits a text or page in a language.
fn document(text: &str, language: &str, is_html: bool, attributes: bool) -> Document {
    if is_html {
        let options = Options {
            language,
            attributes,
        };
        Document::from_html(text, options)
    } else {
        // Browsers send the lines of a form with CRLF.
        Document::from_text(&text.replace("\r\n", "\n"), language)
    }
}

/// Returns the answer with the versions of each text, of which the first is the best.
fn answer(
    texts: &Texts,
    versions: Vec<Vec<String>>,
    is_html: bool,
    n_best: usize,
    detected: Option<Detected>,
) -> Value {
    let mut best = Vec::with_capacity(versions.len());
    let mut alternatives = Vec::with_capacity(versions.len());
    for mut versions in versions {
        best.push(versions.remove(0));
        alternatives.push(distinct_alternatives(versions, best.last(), is_html));
    }
    let mut answer = json!({ "translatedText": texts.answer(best) });
    if n_best > 1 {
        answer["alternatives"] = texts.answer(alternatives);
    }
    if let Some(Detected { code, confidence }) = detected {
        let detected = json!({ "language": code, "confidence": confidence });
        answer["detectedLanguage"] = texts.answer(vec![detected; texts.texts.len()]);
    }
    answer
}

/// Returns translations without repetitions and without the best. Pages have no alternatives, as in
/// LibreTranslate.
fn distinct_alternatives(
    versions: Vec<String>,
    best: Option<&String>,
    is_html: bool,
) -> Vec<String> {
    let mut alternatives: Vec<String> = Vec::new();
    for version in versions {
        if !is_html && best != Some(&version) && !alternatives.contains(&version) {
            alternatives.push(version);
        }
    }
    alternatives
}

/// Returns whether the texts of a request are pages.
fn is_html(fields: &Fields) -> Result<bool, Failure> {
    match fields.text("format")?.as_deref() {
        None | Some("text") => Ok(false),
        Some("html") => Ok(true),
        Some(other) => Err(Failure::bad_request(format!(
            "{other} format is not supported"
        ))),
    }
}

/// Returns whether the attributes of HTML that people read are translated, too.
fn translates_attributes(fields: &Fields) -> Result<bool, Failure> {
    match fields.value("translate_attributes") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        // Forms have no other values than texts.
        Some(Value::String(text)) if matches!(&**text, "" | "0" | "false") => Ok(false),
        Some(Value::String(text)) if matches!(&**text, "1" | "true") => Ok(true),
        Some(_) => Err(Failure::bad_request(
            "Invalid request: translate_attributes parameter is not true or false",
        )),
    }
}

/// Returns the number of alternatives that a request asks for.
fn alternatives(fields: &Fields, limit: usize) -> Result<usize, Failure> {
    let value = match fields.value("alternatives") {
        None | Some(Value::Null) => return Ok(0),
        Some(Value::String(text)) if text.is_empty() => return Ok(0),
        Some(value) => value,
    };
    let number = whole_number(value).ok_or_else(|| wrong_alternatives("is not a number"))?;
    match usize::try_from(number) {
        Err(_) if number < 0 => Err(wrong_alternatives("must be >= 0")),
        Ok(number) if number <= limit => Ok(number),
        _ => Err(wrong_alternatives(&format!("must be <= {limit}"))),
    }
}

fn wrong_alternatives(reason: &str) -> Failure {
    Failure::bad_request(format!("Invalid request: alternatives parameter {reason}"))
}

/// Returns the code that models have for a language.
fn known_language(server: &Shared, code: &str) -> Result<String, Failure> {
    let known = server.routes.language(code);
    known.ok_or_else(|| unsupported(code))
}

/// Returns the error for a language that no model has.
pub(crate) fn unsupported(code: &str) -> Failure {
    Failure::bad_request(format!("{code} is not supported"))
}

/// Returns the error for languages that no models lead from and to.
fn unavailable(source: &str, target: &str) -> Failure {
    let from = detect::name_with_code(source);
    let to = detect::name_with_code(target);
    Failure::bad_request(format!(
        "{to} is not available as a target language from {from}"
    ))
}

/// Returns the sentences of pages. Their language is detected from these alone, since the scripts
/// and addresses of a page are in another.
///
/// # Errors
/// Reading a page panics.
async fn sentences_of_pages(pages: Vec<String>, attributes: bool) -> Result<Vec<String>, Failure> {
    let num_bytes = pages.iter().map(String::len).sum();
    run_aside(num_bytes, move || {
        let options = Options {
            language: "",
            attributes,
        };
        let mut sentences = Vec::new();
        for page in &pages {
            sentences.extend(Page::read(page, options).sentences().map(str::to_owned));
        }
        sentences
    })
    .await
}

/// Returns the language of texts, which are all in one. Texts without letters are the same in all
/// languages, so any that leads to the target will do.
///
/// # Errors
/// The language cannot be detected, and there are several.
fn detect_language(server: &Shared, texts: &[String], target: &str) -> Result<Detected, Failure> {
    let text = texts.join("\n");
    let sources = server.routes.sources();
    if let Some(detected) = detect::detect(&text, &sources) {
        return Ok(detected);
    }
    if text.contains(char::is_alphabetic) {
        let known = sources.join(", ");
        return Err(Failure::bad_request(format!(
            "Invalid request: the language of the text is unknown; set source to one of {known}"
        )));
    }
    let routes = &server.routes;
    let leading = match routes.language(target) {
        Some(target) => sources
            .iter()
            .find(|source| routes.find(source, &target).is_some()),
        None => None,
    };
    Ok(Detected {
        code: leading.unwrap_or(&sources[0]).clone(),
        confidence: 0.0,
    })
}

/// `POST /detect`
pub(crate) async fn detect(State(server): State<Arc<Shared>>, fields: Fields) -> Answer {
    server.keys.check(fields.text("api_key")?.as_deref())?;
    let texts = Texts::read(&fields)?.texts;
    server.limits.check_texts(&texts)?;
    let detected = detect::detect(&texts.join("\n"), &server.routes.sources());
    // English if the language is unknown, as LibreTranslate answers.
    let Detected { code, confidence } = detected.unwrap_or_else(|| Detected {
        code: "en".to_owned(),
        confidence: 0.0,
    });
    Ok(Json(
        json!([{ "language": code, "confidence": confidence }]),
    ))
}

/// `GET /languages`
pub(crate) async fn languages(State(server): State<Arc<Shared>>) -> Json<Value> {
    let mut languages = Vec::new();
    for code in server.routes.languages() {
        languages.push(json!({
            "code": code,
            "name": detect::name(&code),
            "targets": server.routes.targets(&code),
        }));
    }
    Json(languages.into())
}

/// `GET /health`
pub(crate) async fn health(State(server): State<Arc<Shared>>) -> Answer {
    if server.engine.has_failed() {
        Err(Failure::internal())
    } else {
        Ok(Json(json!({ "status": "ok" })))
    }
}

/// `GET /frontend/settings`
pub(crate) async fn settings(State(server): State<Arc<Shared>>) -> Json<Value> {
    let sources = server.routes.sources();
    let first = &sources[0];
    let source: &str = if sources.len() == 1 { first } else { AUTO };
    // A language other than the source, to which it is translated without a model.
    let targets = server.routes.targets(first);
    let target = targets.iter().find(|target| *target != first);
    // Clients expect -1 for no limit.
    let char_limit = match server.limits.characters {
        Some(limit) => i64::try_from(limit).unwrap_or(i64::MAX),
        None => -1,
    };
    Json(json!({
        "charLimit": char_limit,
        "frontendTimeout": 500,
        "apiKeys": !server.keys.is_empty(),
        "keyRequired": server.keys.required,
        "suggestions": false,
        "filesTranslation": false,
        "supportedFilesFormat": [],
        "language": {
            "source": language_entry(source),
            "target": language_entry(target.unwrap_or(first)),
        },
    }))
}

/// Returns a language as the settings list it.
fn language_entry(code: &str) -> Value {
    let name = if code == AUTO {
        "Auto Detect"
    } else {
        detect::name(code)
    };
    json!({ "code": code, "name": name })
}

/// `POST /translate_file`
pub(crate) async fn no_files() -> Failure {
    Failure::forbidden("Files translation are disabled on this server.")
}

/// `POST /suggest`
pub(crate) async fn no_suggestions() -> Failure {
    Failure::forbidden("Suggestions are disabled on this server.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_page_has_the_language_of_what_is_translated_of_it() {
        let pages = [
            "<script>function theDog() { return this.house }</script><p>Der Hund <b>schläft</b>.</p>",
            "<!-- the words of the language --><a href=\"https://a.org/the/house\" title=\"the page\">Katze</a>",
            "<p translate=no>the dog sleeps</p>",
        ];
        let pages = pages.map(str::to_owned).to_vec();
        let sentences = sentences_of_pages(pages.clone(), false).await;
        assert_eq!(
            sentences.expect("they are read"),
            ["Der Hund schläft.", "Katze"]
        );
        let sentences = sentences_of_pages(pages, true).await;
        assert_eq!(sentences.expect("they are read")[1], "the page");
    }
}
