//! What a request says: as JSON, as a form, or in its address.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::server::Shared;

/// The fields of a request, whichever way they came.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// A field with text; `None` if it is missing, null or empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl FromRequest<Arc<Shared>> for Fields {
    type Rejection = Failure;

    async fn from_request(request: Request, server: &Arc<Shared>) -> Result<Self, Failure> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let is_json = has_type(request.headers(), "application/json");
        if has_type(request.headers(), "multipart/form-data") {
            return Err(Failure::bad("Invalid request: send JSON, or a form as application/x-www-form-urlencoded"));
        }
        let body = body(request, server).await?;
        if is_json {
            return match serde_json::from_slice(&body) {
                Ok(Value::Object(fields)) => Ok(Self(fields)),
                _ => Err(Failure::bad("Invalid JSON format")),
            };
        }
        let mut fields = Map::new();
        for text in [query.as_bytes(), &body] {
            fields.extend(form_urlencoded::parse(text).map(|(name, value)| (name.into_owned(), value.into())));
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
        let asked = serde_json::from_slice(&body).map_err(|error| Failure::bad(format!("Invalid request: {error}")))?;
        Ok(Self { asked, key })
    }
}

fn has_type(headers: &HeaderMap, name: &str) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else { return false };
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(name))
}

/// The key in the header `Authorization: Bearer KEY`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<String> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::to_owned)
}

/// The body, which may be neither too large nor too slow.
async fn body(request: Request, server: &Shared) -> Result<Bytes, Failure> {
    let body = tokio::time::timeout(server.limits.time, Bytes::from_request(request, &())).await;
    match body {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) => Err(Failure { status: error.status(), error: error.body_text() }),
        Err(_) => {
            Err(Failure { status: StatusCode::REQUEST_TIMEOUT, error: "The request took too long to arrive".into() })
        }
    }
}
