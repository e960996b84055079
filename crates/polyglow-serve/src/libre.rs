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
use crate::server::Shared;

/// Translations of an answer, at most: sentences, times the translations of each. One takes some
/// hundred bytes besides its text.
const TRANSLATIONS: usize = 100_000;
/// The language that is found out from the text.
const AUTO: &str = "auto";

type Answer = Result<Json<Value>, Failure>;

/// What is to be translated.
struct Texts {
    texts: Vec<String>,
    /// Whether it was an array, so that the answer is one.
    is_array: bool,
}

impl Texts {
    fn of(fields: &Fields) -> Result<Self, Failure> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let missing = || Failure::missing("q");
        let found = match fields.value("q").ok_or_else(missing)? {
            Value::Array(values) => {
                let texts: Option<Vec<String>> = values.iter().map(text).collect();
                Self {
                    texts: texts.ok_or_else(missing)?,
                    is_array: true,
                }
            }
            value => Self {
                texts: vec![text(value).ok_or_else(missing)?],
                is_array: false,
            },
        };
        let is_empty = if found.is_array {
            found.texts.is_empty()
        } else {
            found.texts[0].is_empty()
        };
        if is_empty { Err(missing()) } else { Ok(found) }
    }

    /// One value for each text: as an array, or by itself.
    fn answer<T: Into<Value>>(&self, values: Vec<T>) -> Value {
        let mut values: Vec<Value> = values.into_iter().map(Into::into).collect();
        if self.is_array {
            Value::Array(values)
        } else {
            values.swap_remove(0)
        }
    }
}

/// `POST /translate`
pub(crate) async fn translate(State(server): State<Arc<Shared>>, fields: Fields) -> Answer {
    server.keys.check(fields.text("api_key")?.as_deref())?;
    let texts = Texts::of(&fields)?;
    let source = fields.required("source")?;
    let target = fields.required("target")?;
    let alternatives = alternatives(&fields, server.limits.alternatives)?;
    check_size(&server, &texts.texts)?;
    let format = fields.text("format")?.unwrap_or_else(|| "text".to_owned());
    let is_html = match &*format {
        "text" => false,
        "html" => true,
        other => return Err(Failure::bad(format!("{other} format is not supported"))),
    };
    let attributes = is_html && translates_attributes(&fields)?;
    let detected = if source != AUTO {
        None
    } else if is_html {
        let sentences = sentences_of_pages(texts.texts.clone(), attributes).await?;
        Some(find_language(&server, &sentences, &target)?)
    } else {
        Some(find_language(&server, &texts.texts, &target)?)
    };
    let source = detected.as_ref().map_or(&source, |detected| &detected.code);
    let known = |code: &str| {
        server
            .routes
            .language(code)
            .ok_or_else(|| Failure::bad(format!("{code} is not supported")))
    };
    let source = known(source)?;
    let target = known(&target)?;
    let route = server.routes.find(&source, &target).ok_or_else(|| {
        let [from, to] = [&source, &target].map(|code| format!("{} ({code})", detect::name(code)));
        Failure::bad(format!(
            "{to} is not available as a target language from {from}"
        ))
    })?;
    server
        .metrics
        .text(texts.texts.iter().map(|text| text.chars().count()).sum());
    let read_texts = texts.texts.clone();
    let num_bytes = read_texts.iter().map(String::len).sum();
    let documents = run_aside(num_bytes, move || {
        let mut documents = Vec::with_capacity(read_texts.len());
        for text in &read_texts {
            documents.push(if is_html {
                Document::from_html(
                    text,
                    Options {
                        language: &source,
                        attributes,
                    },
                )
            } else {
                Document::from_text(&text.replace("\r\n", "\n"), &source)
            });
        }
        documents
    });
    let documents = documents.await?;
    check_translations(
        documents
            .iter()
            .map(|document| document.sentences().len())
            .sum(),
        1 + alternatives,
    )?;
    let versions = server
        .translate_documents(&route, documents, 1 + alternatives)
        .await?;
    let apart = versions
        .into_iter()
        .map(|versions| best_and_others(versions, is_html));
    let (best, others): (Vec<String>, Vec<Vec<String>>) = apart.unzip();
    let mut answer = json!({ "translatedText": texts.answer(best) });
    if alternatives > 0 {
        answer["alternatives"] = texts.answer(others);
    }
    if let Some(Detected { code, confidence }) = detected {
        let detected = json!({ "language": code, "confidence": confidence });
        answer["detectedLanguage"] = texts.answer(vec![detected; texts.texts.len()]);
    }
    Ok(Json(answer))
}

/// The best of some translations, and the others without doubles; of pages there are none.
fn best_and_others(mut versions: Vec<String>, is_html: bool) -> (String, Vec<String>) {
    let best = versions.remove(0);
    let mut others: Vec<String> = Vec::new();
    for other in versions {
        if !is_html && other != best && !others.contains(&other) {
            others.push(other);
        }
    }
    (best, others)
}

/// Whether the attributes of HTML that people read are translated, too.
fn translates_attributes(fields: &Fields) -> Result<bool, Failure> {
    match fields.value("translate_attributes") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(is_asked)) => Ok(*is_asked),
        Some(Value::String(text)) if matches!(&**text, "" | "0" | "false") => Ok(false),
        Some(Value::String(text)) if matches!(&**text, "1" | "true") => Ok(true),
        Some(_) => Err(Failure::bad(
            "Invalid request: translate_attributes parameter is not true or false",
        )),
    }
}

/// How many other translations are asked for.
fn alternatives(fields: &Fields, most: usize) -> Result<usize, Failure> {
    let value = match fields.value("alternatives") {
        None | Some(Value::Null) => return Ok(0),
        Some(Value::String(text)) if text.is_empty() => return Ok(0),
        Some(value) => value,
    };
    let wrong =
        |what: &str| Failure::bad(format!("Invalid request: alternatives parameter {what}"));
    let number = whole_number(value).ok_or_else(|| wrong("is not a number"))?;
    match usize::try_from(number) {
        Err(_) if number < 0 => Err(wrong("must be >= 0")),
        Ok(number) if number <= most => Ok(number),
        _ => Err(wrong(&format!("must be <= {most}"))),
    }
}

/// Makes sure that there are not too many texts, and that none is too long.
///
/// # Errors
/// There are, or one is.
pub(crate) fn check_size(server: &Shared, texts: &[String]) -> Result<(), Failure> {
    let check = |size: usize, limit: Option<usize>| match limit {
        Some(limit) if size > limit => Err(Failure::bad(format!(
            "Invalid request: request ({size}) exceeds text limit ({limit})"
        ))),
        _ => Ok(()),
    };
    check(texts.len(), server.limits.texts)?;
    texts
        .iter()
        .try_for_each(|text| check(text.chars().count(), server.limits.characters))
}

/// Makes sure that there is memory for so many translations of each of so many sentences.
///
/// # Errors
/// There may not be.
pub(crate) fn check_translations(sentences: usize, n_best: usize) -> Result<(), Failure> {
    let translations = sentences.saturating_mul(n_best);
    if translations > TRANSLATIONS {
        let error = format!(
            "Invalid request: {translations} translations exceed the limit ({TRANSLATIONS})"
        );
        return Err(Failure::bad(error));
    }
    Ok(())
}

/// What is translated of pages: the language of a page is not that of its scripts and addresses.
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

/// The language of texts that are in one. What has no letter is the same in all languages, so that
/// any will do.
///
/// # Errors
/// It cannot be told, and there are several.
fn find_language(server: &Shared, texts: &[String], target: &str) -> Result<Detected, Failure> {
    let (text, sources) = (texts.join("\n"), server.routes.sources());
    if let Some(detected) = detect::detect(&text, &sources) {
        return Ok(detected);
    }
    if text.contains(char::is_alphabetic) {
        let known = sources.join(", ");
        let error = format!(
            "Invalid request: the language of the text is unknown; set source to one of {known}"
        );
        return Err(Failure::bad(error));
    }
    let leads = |source: &&String| {
        let target = server.routes.language(target);
        target.is_some_and(|target| server.routes.find(source, &target).is_some())
    };
    let code = sources.iter().find(leads).unwrap_or(&sources[0]).clone();
    Ok(Detected {
        code,
        confidence: 0.0,
    })
}

/// `POST /detect`
pub(crate) async fn detect(State(server): State<Arc<Shared>>, fields: Fields) -> Answer {
    server.keys.check(fields.text("api_key")?.as_deref())?;
    let texts = Texts::of(&fields)?.texts;
    check_size(&server, &texts)?;
    // As LibreTranslate has it.
    let unknown = || Detected {
        code: "en".to_owned(),
        confidence: 0.0,
    };
    let Detected { code, confidence } =
        detect::detect(&texts.join("\n"), &server.routes.sources()).unwrap_or_else(unknown);
    Ok(Json(
        json!([{ "language": code, "confidence": confidence }]),
    ))
}

/// `GET /languages`
pub(crate) async fn languages(State(server): State<Arc<Shared>>) -> Json<Value> {
    let entry = |code: String| json!({ "code": code, "name": detect::name(&code), "targets": server.routes.targets(&code) });
    Json(server.routes.languages().into_iter().map(entry).collect())
}

/// `GET /health`
pub(crate) async fn health(State(server): State<Arc<Shared>>) -> Answer {
    if server.engine.has_failed() {
        Err(Failure::broken())
    } else {
        Ok(Json(json!({ "status": "ok" })))
    }
}

/// `GET /frontend/settings`
pub(crate) async fn settings(State(server): State<Arc<Shared>>) -> Json<Value> {
    let sources = server.routes.sources();
    let source = if sources.len() == 1 {
        sources[0].clone()
    } else {
        AUTO.to_owned()
    };
    let target = server
        .routes
        .targets(&sources[0])
        .into_iter()
        .find(|target| *target != sources[0]);
    let language = |code: &str| json!({ "code": code, "name": if code == AUTO { "Auto Detect" } else { detect::name(code) } });
    Json(json!({
        "charLimit": server.limits.characters.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX)),
        "frontendTimeout": 500,
        "apiKeys": !server.keys.is_empty(),
        "keyRequired": server.keys.required,
        "suggestions": false,
        "filesTranslation": false,
        "supportedFilesFormat": [],
        "language": { "source": language(&source), "target": language(target.as_deref().unwrap_or(&sources[0])) },
    }))
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
