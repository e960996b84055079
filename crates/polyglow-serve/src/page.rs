//! The page for people, and the description of the interface for programs.

use axum::http::header;
use axum::response::{Html, IntoResponse};

/// `GET /`
pub(crate) async fn page() -> Html<&'static str> {
    Html(include_str!("page.html"))
}

/// `GET /spec`: the description of both interfaces, in the format of `OpenAPI`.
pub(crate) async fn spec() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        include_str!("spec.json"),
    )
}
