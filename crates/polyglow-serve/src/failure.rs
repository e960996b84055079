//! Answers to requests that fail.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An answer with a status and a sentence for the client.
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

    /// Status 400: the request is wrong.
    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// Status 400: a field is missing or empty.
    pub(crate) fn missing(field: &str) -> Self {
        Self::bad_request(format!("Invalid request: missing {field} parameter"))
    }

    /// Status 403: the client may not do this.
    pub(crate) fn forbidden(error: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, error)
    }

    /// Status 401: the request has no valid key.
    pub(crate) fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "This needs the header `Authorization: Bearer KEY`",
        )
    }

    /// Status 404: the path is no route.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is nothing here")
    }

    /// Status 405: the route has other methods only.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "This path does not answer this method",
        )
    }

    /// Status 503: too many requests wait.
    pub(crate) fn busy() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many requests are waiting, try again later",
        )
    }

    /// Status 504: the translation took too long.
    pub(crate) fn timeout() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "The translation took too long")
    }

    /// Status 500: the translation or the models have failed. Clients are not told why, since the
    /// reason may contain the text of another client.
    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "The translation failed")
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({ "error": self.error }))).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
