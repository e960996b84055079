//! What a request says: as JSON, as a form, or in its address.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::form;
use crate::server::Shared;

/// The fields of a request, whichever way they came.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// A field with text; `None` if it is missing, null or empty.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(Failure::bad(format!(
                "Invalid request: {name} parameter is not a text"
            ))),
        }
    }

    /// As [`Self::text`], of a field that must be there.
    ///
    /// # Errors
    /// As [`Self::text`]; it is missing.
    pub(crate) fn required(&self, name: &str) -> Result<String, Failure> {
        self.text(name)?.ok_or_else(|| Failure::missing(name))
    }

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
                Ok(_) => Err(Failure::bad("Invalid JSON format: it is not an object")),
                Err(error) => Err(Failure::bad(format!("Invalid JSON format: {error}"))),
            };
        }
        let is_multipart = is_type(&content_type, "multipart/form-data");
        // What curl's `--data` sends says that it is a form, whatever it is.
        if !is_multipart && body.trim_ascii_start().starts_with(b"{") {
            return Err(Failure::bad(
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

/// A request in JSON of a known form.
pub(crate) struct Body<T> {
    pub(crate) asked: T,
    /// The key in the header `Authorization: Bearer KEY`.
    pub(crate) key: Option<String>,
}

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, server: &Arc<Shared>) -> Result<Self, Failure> {
        let key = bearer(request.headers());
        let body = body(request, server).await?;
        Ok(Self {
            asked: parse(&body)?,
            key,
        })
    }
}

/// Reads JSON; an error names the field that is wrong.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let asked = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.inner());
        // Of what is wrong as a whole the path is a dot.
        let field = if path == "." {
            String::new()
        } else {
            format!("`{path}`: ")
        };
        Failure::bad(format!("Invalid request: {field}{error}"))
    })?;
    json.end()
        .map_err(|error| Failure::bad(format!("Invalid request: {error}")))?;
    Ok(asked)
}

/// A whole number, as JSON has it or written out in a form; what is beyond 64 bits is the largest
/// or the smallest that they hold.
pub(crate) fn whole_number(value: &Value) -> Option<i64> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        // `2.0` is a whole number, too.
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
    let beyond = if text.starts_with('-') {
        i64::MIN
    } else {
        i64::MAX
    };
    Some(text.parse().unwrap_or(beyond))
}

/// The content type of a request, with its parameters; empty if it has none.
fn content_type(headers: &HeaderMap) -> String {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().to_owned()
}

fn is_type(content_type: &str, name: &str) -> bool {
    content_type
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case(name))
}

/// The key in the header `Authorization: Bearer KEY`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<String> {
    headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
        .map(str::to_owned)
}

/// The body, which may be neither too large nor too slow.
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
    fn whole_numbers_are_told_from_others() {
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
