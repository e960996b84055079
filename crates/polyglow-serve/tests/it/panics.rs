//! Panics of a model: which requests fail, and when the server ends.

use polyglow_serve::{Ended, Limits};
use serde_json::json;
use tokio::net::TcpListener;

use crate::setup::{fragile, get, post_json, runner, server_with};

#[tokio::test]
async fn a_request_that_panics_fails_alone() {
    let router = server_with(fragile(), Limits::default()).router();
    let (long, short) = (
        json!({ "texts": ["1 ".repeat(100)] }),
        json!({ "texts": ["1 2"] }),
    );
    // More panics than would end a server whose device is lost.
    for _ in 0..10 {
        let (bad, good) = tokio::join!(
            post_json(&router, "/v1/translations", &long),
            post_json(&router, "/v1/translations", &short),
        );
        assert_eq!(bad.error(500), "The translation failed");
        assert_eq!(good.status, 200, "{good:?}");
    }
    for _ in 0..10 {
        post_json(&router, "/v1/translations", &long)
            .await
            .error(500);
    }
    assert_eq!(get(&router, "/health").await.status, 200);
    assert_eq!(
        post_json(&router, "/v1/translations", &short).await.status,
        200
    );
}

#[tokio::test]
async fn a_server_whose_model_always_panics_ends() {
    // A runner without models panics at every request, as if its device were lost.
    let mut lost = runner();
    lost.members = [].into();
    let server = server_with(lost, Limits::default());
    let router = server.router();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let serving = tokio::spawn(server.serve(listener, std::future::pending()));
    for _ in 0..10 {
        post_json(&router, "/v1/translations", &json!({ "texts": ["1"] }))
            .await
            .error(500);
    }
    assert_eq!(serving.await.expect("no panic"), Ended::Failed);
    get(&router, "/health").await.error(500);
}
