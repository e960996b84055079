//! The log, which has no texts of requests.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use polyglow_serve::Limits;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::setup::{fragile, get, post, post_json, server, server_with};

/// Collects what all threads log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_text_of_a_request_is_logged() {
    const SECRET: &str = "Donaudampfschiff";
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG);
    subscriber
        .with_writer(log.clone())
        .try_init()
        .expect("no other test has one");
    let router = server().router();
    let q = json!({ "q": SECRET, "source": "en", "target": "de" });
    assert_eq!(post_json(&router, "/translate", &q).await.status, 200);
    let q = json!({ "texts": [SECRET], "prefixes": [SECRET], "api_key": SECRET });
    post_json(&router, "/v1/translations", &q).await.error(400);
    post(
        &router,
        &format!("/translate?q={SECRET}&source={SECRET}"),
        "text/plain",
        SECRET,
    )
    .await
    .error(400);
    get(&router, &format!("/{SECRET}")).await.error(404);
    let many = json!({ "texts": [format!("{SECRET} ").repeat(100)] });
    assert_eq!(
        post_json(&router, "/v1/translations", &many).await.status,
        200
    );
    let fragile = server_with(fragile(), Limits::default()).router();
    post_json(&fragile, "/v1/translations", &many)
        .await
        .error(500);
    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
    assert!(log.contains("POST /translate 200"), "{log}");
    assert!(!log.contains(SECRET), "{log}");
}
