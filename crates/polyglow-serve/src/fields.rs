//! The fields of a request: in JSON, in a form, or in its address.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::form;
use crate::server::Shared;

/// The fields of a request to LibreTranslate's interface, which takes JSON as well as forms.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Returns the text of a field, or its number as text; `None` if it is missing, null or empty.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(Failure::bad_request(format!(
                "Invalid request: {name} parameter is not a text"
            ))),
        }
    }

    /// Returns the text of a field, as [`Self::text`] does.
    ///
    /// # Errors
    /// It is missing or empty; it is something else.
    pub(crate) fn required(&self, name: &str) -> Result<String, Failure> {
        self.text(name)?.ok_or_else(|| Failure::missing(name))
    }

    /// Returns the value of a field; one of a form is a text.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl FromRequest<Arc<Shared>> for Fields {
    type Rejection = Failure;

    async fn from_request(request: Request, server: &Arc<Shared>) -> Result<Self, Failure> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let content_type = content_type(request.headers());
        let body = body(request, server).await?;
        if is_type(&content_type, "application/json") {
            return match serde_json::from_slice(&body) {
                Ok(Value::Object(fields)) => Ok(Self(fields)),
                Ok(_) => Err(Failure::bad_request(
                    "Invalid JSON format: it is not an object",
                )),
                Err(error) => Err(Failure::bad_request(format!(
                    "Invalid JSON format: {error}"
                ))),
            };
        }
        let is_multipart = is_type(&content_type, "multipart/form-data");
        // The usual mistake: `curl --data` sends the content type of a form with whatever it is
        // given, so that JSON would be read as one field with a strange name.
        if !is_multipart && body.trim_ascii_start().starts_with(b"{") {
            return Err(Failure::bad_request(
                "Invalid request: JSON needs the header `Content-Type: application/json`",
            ));
        }
        let mut fields = Map::new();
        form::add_urlencoded(&mut fields, query.as_bytes())?;
        if is_multipart {
            form::add_multipart(&mut fields, &content_type, body).await?;
        } else {
            form::add_urlencoded(&mut fields, &body)?;
        }
        Ok(Self(fields))
    }
}

/// A request in JSON that is read as a `T`.
pub(crate) struct Body<T> {
    pub(crate) request: T,
    /// The key in the header `Authorization: Bearer KEY`.
    pub(crate) key: Option<String>,
}

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, server: &Arc<Shared>) -> Result<Self, Failure> {
        let key = bearer(request.headers());
        let body = body(request, server).await?;
        Ok(Self {
            request: parse(&body)?,
            key,
        })
    }
}

/// Reads JSON.
///
/// # Errors
/// It is not the JSON of a `T`; the message names the field that is wrong.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.inner();
        // The path of an error that concerns the whole request is a dot.
        if path == "." {
            Failure::bad_request(format!("Invalid request: {error}"))
        } else {
            Failure::bad_request(format!("Invalid request: `{path}`: {error}"))
        }
    })?;
    json.end()
        .map_err(|error| Failure::bad_request(format!("Invalid request: {error}")))?;
    Ok(value)
}

/// Returns a whole number of JSON, or one that a form has as text; `None` if the value is something
/// else. Numbers beyond 64 bits become the largest or the smallest that these hold, so that the
/// error says that they are out of range, and not that they are no numbers.
pub(crate) fn whole_number(value: &Value) -> Option<i64> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        // `2.0` is a whole number, too: some clients write all numbers as floats.
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) if float.fract() == 0.0 => format!("{float:.0}"),
            Some(_) => return None,
            None => number.to_string(),
        },
        _ => return None,
    };
    let digits = text.strip_prefix(['-', '+']).unwrap_or(&text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let limit = if text.starts_with('-') {
        i64::MIN
    } else {
        i64::MAX
    };
    Some(text.parse().unwrap_or(limit))
}

/// Returns the content type of a request, with its parameters; empty if it has none.
fn content_type(headers: &HeaderMap) -> String {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().to_owned()
}

/// Returns whether a content type has this name, with whichever parameters.
fn is_type(content_type: &str, name: &str) -> bool {
    content_type
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case(name))
}

/// Returns the key in the header `Authorization: Bearer KEY`; `None` if there is none.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(str::to_owned)
}

/// Reads the body of a request.
///
/// # Errors
/// It is too large or arrives too slowly.
async fn body(request: Request, server: &Shared) -> Result<Bytes, Failure> {
    let body = tokio::time::timeout(server.limits.time, Bytes::from_request(request, &())).await;
    match body {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(Failure {
            status: error.status(),
            error: format!(
                "The request is larger than {} bytes: send the text in several requests",
                server.limits.body
            ),
        }),
        Ok(Err(error)) => Err(Failure {
            status: error.status(),
            error: error.body_text(),
        }),
        Err(_) => Err(Failure {
            status: StatusCode::REQUEST_TIMEOUT,
            error: "The request took too long to arrive".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_distinguished_from_others() {
        for (value, expected) in [
            (json!(3), Some(3)),
            (json!(-1), Some(-1)),
            (json!(2.0), Some(2)),
            (json!("4"), Some(4)),
            (json!(" +4 "), Some(4)),
            (json!("-0"), Some(0)),
            (json!(u64::MAX), Some(i64::MAX)),
            (json!(1e300), Some(i64::MAX)),
            (json!(-1e300), Some(i64::MIN)),
            (json!("99999999999999999999"), Some(i64::MAX)),
            (json!(1.5), None),
            (json!("1.5"), None),
            (json!("1e2"), None),
            (json!("١"), None),
            (json!(""), None),
            (json!("-"), None),
            (json!("NaN"), None),
            (json!(true), None),
            (json!(null), None),
            (json!([1]), None),
        ] {
            assert_eq!(whole_number(&value), expected, "{value}");
        }
    }
}
