//! Any bytes as the body of a request: an answer that says what is wrong, and never that the server
//! is.
//!
//! The first byte says which path, and what the body is said to be.

#![no_main]

use std::sync::LazyLock;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use libfuzzer_sys::fuzz_target;
use polyglow_serve::{Keys, Limits, Model, Server};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

const PATHS: [&str; 4] = [
    "/translate",
    "/v1/translations",
    "/detect",
    "/translate?source=de&target=en&format=html",
];
const KINDS: [&str; 4] = [
    "application/json",
    "application/x-www-form-urlencoded",
    "text/plain",
    "multipart/form-data; boundary=x",
];

static SERVER: LazyLock<(Runtime, Router)> = LazyLock::new(|| {
    let runner = polyglow_fuzz::runner();
    let model = |source: &str, target: &str| {
        let again = runner.clone();
        let reload = Box::new(move || Ok(again.clone()));
        Model {
            source: source.to_owned(),
            target: target.to_owned(),
            runner: runner.clone(),
            reload,
        }
    };
    let limits = Limits {
        characters: Some(300),
        texts: Some(4),
        ..Limits::default()
    };
    let models = vec![model("en", "de"), model("de", "en"), model("de", "fr")];
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    (
        runtime,
        Server::new(models, limits, Keys::default()).router(),
    )
});

fuzz_target!(|input: &[u8]| {
    let Some((&choice, body)) = input.split_first() else {
        return;
    };
    let choice = usize::from(choice);
    let (path, kind) = (
        PATHS[choice % PATHS.len()],
        KINDS[choice / PATHS.len() % KINDS.len()],
    );
    let (runtime, router) = &*SERVER;
    runtime.block_on(async {
        let request = Request::post(path)
            .header("content-type", kind)
            .body(Body::from(body.to_vec()));
        let answer = router
            .clone()
            .oneshot(request.expect("a request"))
            .await
            .expect("it always answers");
        let (status, kind) = (answer.status(), answer.headers()["content-type"].clone());
        let text = to_bytes(answer.into_body(), usize::MAX)
            .await
            .expect("a whole answer");
        assert!(
            !status.is_server_error(),
            "{status}: {}",
            String::from_utf8_lossy(&text)
        );
        if kind == "application/json" {
            let answer: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
            assert!(
                status.is_success() || answer["error"].is_string(),
                "{status}: {answer}"
            );
        }
    });
});
