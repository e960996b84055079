//! Clients that are slow, silent, or many.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use polyglow_serve::{Ended, Limits, Server};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::setup::{get, post_json, runner, server_with};

const REQUEST: &str = "GET /health HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";

struct Serving {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Ended>,
}

async fn serving(server: Server) -> Serving {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(server.serve(listener, async {
        let _ = stopped.await;
    }));
    Serving {
        address,
        stop,
        ended,
    }
}

/// Sends `text`, and reads until the server closes the connection.
async fn exchange(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(text.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    // A connection that is reset is closed, too.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn an_incomplete_request_times_out() {
    let limits = Limits {
        time: Duration::from_millis(200),
        ..Limits::default()
    };
    let serving = serving(server_with(runner(), limits)).await;
    let started = Instant::now();
    let head = "POST /translate HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n";
    assert!(
        !exchange(serving.address, head).await.contains("200 OK"),
        "an incomplete head is no request"
    );
    assert_eq!(
        exchange(serving.address, "").await,
        "",
        "nor is an empty text"
    );
    let body = exchange(
        serving.address,
        &format!("{head}Content-Length: 100\r\n\r\n{{"),
    )
    .await;
    assert!(body.starts_with("HTTP/1.1 408"), "{body}");
    assert!(
        body.contains("The request took too long to arrive"),
        "{body}"
    );
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    serving.stop.send(()).expect("it serves");
    assert_eq!(serving.ended.await.expect("no panic"), Ended::Stopped);
}

#[tokio::test]
async fn clients_beyond_the_limit_of_connections_wait() {
    let limits = Limits {
        connections: 1,
        time: Duration::from_millis(500),
        ..Limits::default()
    };
    let serving = serving(server_with(runner(), limits)).await;
    let silent = TcpStream::connect(serving.address)
        .await
        .expect("it listens");
    let mut second = TcpStream::connect(serving.address)
        .await
        .expect("the system takes it");
    second
        .write_all(REQUEST.as_bytes())
        .await
        .expect("the system takes it");
    let mut answer = String::new();
    let early = tokio::time::timeout(
        Duration::from_millis(100),
        second.read_to_string(&mut answer),
    )
    .await;
    assert!(early.is_err(), "the only connection is in use: {answer}");
    // A silent client loses its connection.
    second
        .read_to_string(&mut answer)
        .await
        .expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(silent);
    serving.stop.send(()).expect("it serves");
    assert_eq!(serving.ended.await.expect("no panic"), Ended::Stopped);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut_off() {
    let time = Duration::from_secs(2);
    let limits = Limits {
        time,
        characters: None,
        body: 1 << 26,
        ..Limits::default()
    };
    let serving = serving(server_with(runner(), limits)).await;
    // A script is returned unchanged, and the system buffers less than that for a client.
    let script = "a".repeat(1 << 25);
    let page = json!({ "q": format!("<script>{script}</script>1"), "source": "en", "target": "de", "format": "html" });
    let body = page.to_string();
    let head = "POST /translate HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n";
    let mut client = TcpStream::connect(serving.address)
        .await
        .expect("it listens");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    client
        .write_all(request.as_bytes())
        .await
        .expect("it reads");
    let mut begin = [0; 12];
    client.read_exact(&mut begin).await.expect("it answers");
    assert_eq!(&begin, b"HTTP/1.1 200");
    let started = Instant::now();
    serving.stop.send(()).expect("it serves");
    assert_eq!(serving.ended.await.expect("no panic"), Ended::Stopped);
    assert!(started.elapsed() < 3 * time, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_translation_that_takes_too_long_is_given_up() {
    let limits = Limits {
        time: Duration::from_millis(1),
        ..Limits::default()
    };
    let router = server_with(runner(), limits).router();
    let texts = vec!["1 2 3 4 5 6 7 8 9"; 200];
    let answer = post_json(&router, "/v1/translations", &json!({ "texts": texts })).await;
    assert_eq!(answer.error(504), "The translation took too long");
    let answer = post_json(
        &router,
        "/v1/translations",
        &json!({ "texts": texts, "stream": true }),
    )
    .await;
    assert!(
        answer
            .text
            .ends_with("event: error\ndata: {\"error\":\"The translation took too long\"}\n\n"),
        "{answer:?}"
    );
    // A body that never ends.
    let body = Body::from_stream(futures_util::stream::pending::<
        Result<Vec<u8>, std::io::Error>,
    >());
    let request = Request::post("/translate").body(body).expect("a request");
    assert_eq!(
        router.oneshot(request).await.expect("it answers").status(),
        408
    );
}

#[tokio::test]
async fn an_answer_that_is_not_read_does_not_pile_up() {
    let router = server_with(runner(), Limits::default()).router();
    let lines = 1000;
    let body = json!({ "texts": ["1 2 3\n".repeat(lines)], "stream": true }).to_string();
    let request = Request::post("/v1/translations")
        .body(Body::from(body))
        .expect("a request");
    let unread = router.clone().oneshot(request).await.expect("it answers");
    let translated = async || {
        let counts = get(&router, "/metrics").await.text;
        let sum = counts
            .lines()
            .find_map(|line| line.strip_prefix("polyglow_batch_lines_sum "));
        sum.expect("batches are counted")
            .parse::<f64>()
            .expect("a number") as usize
    };
    // Requests with the same search options share the batches of the first.
    for _ in 0..10 {
        let answer = post_json(&router, "/v1/translations", &json!({ "texts": ["1"] })).await;
        assert_eq!(answer.status, 200);
    }
    assert!(translated().await <= 4 * 32 + 10, "{}", translated().await);
    let whole = axum::body::to_bytes(unread.into_body(), usize::MAX)
        .await
        .expect("it continues when it is read");
    let whole = String::from_utf8(whole.to_vec()).expect("text");
    assert_eq!(whole.matches("event: segment").count(), lines);
    assert!(whole.contains("event: end"), "{whole}");
}
