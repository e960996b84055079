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
        Self { status, error: error.into() }
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

    /// Too many requests wait.
    pub(crate) fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Too many requests are waiting, try again later")
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
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}
