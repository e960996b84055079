//! The layer around all requests: panics become answers, browsers may call from other origins, and
//! each request is logged and counted.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use crate::failure::Failure;
use crate::server::Shared;

/// Answers a request by `next`, or by itself if it is the preflight request of a browser. The
/// request is logged without any of its text, and counted.
pub(crate) async fn observe(
    State(server): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    // The route, not the path in the request: a client chooses the latter, so it could put a text
    // into the log and any number of labels into the metrics.
    let matched = request.extensions().get::<MatchedPath>();
    let path = matched.map_or("other", MatchedPath::as_str).to_owned();
    server.metrics.begin();
    let observed = ObservedRequest {
        server: Arc::clone(&server),
        path,
        started: Instant::now(),
        status: None,
    };
    let mut response = if method == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        catch_panic(next.run(request)).await
    };
    observed.finish(&method, response.status());
    add_headers(&mut response);
    response
}

/// Adds the headers of every answer: pages of any origin may read it, and no browser guesses its
/// content type.
fn add_headers(response: &mut Response) {
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "Authorization, Content-Type",
        ),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (header::ACCESS_CONTROL_MAX_AGE, "1728000"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
}

/// Returns the answer, or one with status 500 if computing it panics.
async fn catch_panic(answer: impl Future<Output = Response>) -> Response {
    AssertUnwindSafe(answer)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Failure::internal().into_response())
}

/// A request that is counted when it is dropped: a client that disconnects drops the future of its
/// answer, and no code after an `.await` in it runs.
struct ObservedRequest {
    server: Arc<Shared>,
    path: String,
    started: Instant,
    /// The status of the answer; `None` until there is one.
    status: Option<StatusCode>,
}

impl ObservedRequest {
    /// Logs the request and counts it with the status of its answer.
    fn finish(mut self, method: &Method, status: StatusCode) {
        self.status = Some(status);
        let milliseconds = self.started.elapsed().as_millis();
        tracing::info!(
            "{method} {} {} in {milliseconds} ms",
            self.path,
            status.as_u16()
        );
    }
}

impl Drop for ObservedRequest {
    fn drop(&mut self) {
        // 499 is what other servers write if a client disconnected before its answer.
        let status = self.status.map_or(499, |status| status.as_u16());
        self.server
            .metrics
            .end(&self.path, status, self.started.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let answer = catch_panic(async { panic!("this is a test") }).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
