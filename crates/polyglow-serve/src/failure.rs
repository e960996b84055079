//! What is answered when a request cannot be fulfilled.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A status, and a sentence for the one who asked.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) error: String,
}

impl Failure {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
        }
    }

    /// The request is wrong.
    pub(crate) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// A field is missing, or empty.
    pub(crate) fn missing(field: &str) -> Self {
        Self::bad(format!("Invalid request: missing {field} parameter"))
    }

    /// Whoever asks may not.
    pub(crate) fn forbidden(error: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, error)
    }

    /// Whoever asks has not said who it is.
    pub(crate) fn unknown() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "This needs the header `Authorization: Bearer KEY`",
        )
    }

    /// There is nothing at this path.
    pub(crate) fn nothing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is nothing here")
    }

    /// The path knows other methods only.
    pub(crate) fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "This path does not answer this method",
        )
    }

    /// Too many requests wait.
    pub(crate) fn busy() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many requests are waiting, try again later",
        )
    }

    /// It took too long.
    pub(crate) fn timeout() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "The translation took too long")
    }

    /// The models have failed.
    pub(crate) fn broken() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "The translation failed")
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({ "error": self.error }))).into_response();
        let (name, value) = match self.status {
            StatusCode::SERVICE_UNAVAILABLE => (header::RETRY_AFTER, "1"),
            StatusCode::UNAUTHORIZED => (header::WWW_AUTHENTICATE, "Bearer"),
            _ => return response,
        };
        response
            .headers_mut()
            .insert(name, header::HeaderValue::from_static(value));
        response
    }
}
