//! Many clients at once, clients that disconnect, and the end of a server.

use std::pin::pin;
use std::time::Duration;

use polyglow_serve::{Ended, Keys, Limits, Model, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::setup::{fragile, get, model, post_json, runner, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_gets_the_answer_to_its_own_request() {
    let texts: Vec<String> = (0..200_usize)
        .map(|n| format!("{} {} {}", n % 10, n / 10 % 10, n / 100))
        .collect();
    let expected = runner().best(&texts).expect("it translates");
    let router = server().router();
    let mut clients = JoinSet::new();
    for (text, expected) in texts.into_iter().zip(expected) {
        let router = router.clone();
        clients.spawn(async move {
            let answer = post_json(
                &router,
                "/translate",
                &json!({ "q": text, "source": "en", "target": "de" }),
            )
            .await;
            assert_eq!(answer.json()["translatedText"], expected, "{text}");
        });
    }
    while let Some(client) = clients.join_next().await {
        client.expect("no panic");
    }
    let counts = get(&router, "/metrics").await.text;
    assert!(
        counts.contains("polyglow_requests_total{path=\"/translate\",status=\"200\"} 200"),
        "{counts}"
    );
    // An alert needs the counts of errors from the start, when they are 0.
    assert!(
        counts.contains("polyglow_requests_total{path=\"/v1/translations\",status=\"503\"} 0"),
        "{counts}"
    );
    assert!(
        counts.contains("polyglow_request_seconds_count{path=\"/translate\"} 200"),
        "{counts}"
    );
    let batches: f64 = counts
        .lines()
        .find_map(|line| line.strip_prefix("polyglow_batch_lines_count "))
        .and_then(|number| number.parse().ok())
        .expect("batches are counted");
    assert!(
        batches < 200.0,
        "waiting lines share batches, of which there were {batches}"
    );
}

#[tokio::test]
async fn requests_beyond_the_queue_are_refused() {
    let limits = Limits {
        queue: 1,
        ..Limits::default()
    };
    let router = Server::new(vec![model("en", "de")], limits, Keys::default()).router();
    let body = json!({ "texts": vec!["1 2 3"; 150] });
    let ask = || post_json(&router, "/v1/translations", &body);
    let (first, second) = tokio::join!(ask(), ask());
    assert_eq!(first.status, 200);
    assert_eq!(
        second.error(503),
        "Too many requests are waiting, try again later"
    );
    assert_eq!(second.headers["retry-after"], "1");
    // The queue has room again.
    assert_eq!(ask().await.status, 200);
}

#[tokio::test]
async fn requests_that_are_too_large_are_refused() {
    let limits = Limits {
        body: 100,
        ..Limits::default()
    };
    let router = Server::new(vec![model("en", "de")], limits, Keys::default()).router();
    let q = json!({ "q": "1 ".repeat(100), "source": "en", "target": "de" });
    assert_eq!(
        post_json(&router, "/translate", &q).await.error(413),
        "The request is larger than 100 bytes: send the text in several requests"
    );
}

#[tokio::test]
async fn a_model_is_replaced_while_requests_arrive() {
    let reload = Box::new(|| Ok(fragile()));
    let server = Server::new(
        vec![Model {
            reload,
            ..model("en", "de")
        }],
        Limits::default(),
        Keys::default(),
    );
    let router = server.router();
    let q = json!({ "q": "1 2", "source": "en", "target": "de" });
    let [before, after] =
        [runner(), fragile()].map(|model| model.best(&["1 2"]).expect("it translates").remove(0));
    assert_ne!(before, after);
    assert_eq!(
        post_json(&router, "/translate", &q).await.json()["translatedText"],
        before
    );
    let ((), between) = tokio::join!(server.reload(), post_json(&router, "/translate", &q));
    let between = between.json()["translatedText"].clone();
    assert!(between == before || between == after, "{between}");
    assert_eq!(
        post_json(&router, "/translate", &q).await.json()["translatedText"],
        after
    );
}

#[tokio::test]
async fn a_model_that_cannot_be_loaded_leaves_the_old_one_in_use() {
    let reload = Box::new(|| Err("there is none".into()));
    let server = Server::new(
        vec![Model {
            reload,
            ..model("en", "de")
        }],
        Limits::default(),
        Keys::default(),
    );
    server.reload().await;
    let q = json!({ "q": "1 2", "source": "en", "target": "de" });
    assert_eq!(
        post_json(&server.router(), "/translate", &q).await.status,
        200
    );
}

#[tokio::test]
async fn a_request_through_a_pivot_language_keeps_its_slot_in_the_queue_to_the_end() {
    let limits = Limits {
        queue: 1,
        ..Limits::default()
    };
    let router = Server::new(
        vec![model("de", "en"), model("en", "fr")],
        limits,
        Keys::default(),
    )
    .router();
    let [via_pivot, other] =
        ["fr", "en"].map(|target| json!({ "q": "1 2 3", "source": "de", "target": target }));
    for _ in 0..50 {
        let mut first = pin!(post_json(&router, "/translate", &via_pivot));
        let answer = loop {
            tokio::select! {
                // The first request is polled before the other, so that it is complete once its
                // slot is free.
                biased;
                answer = &mut first => break answer,
                other = post_json(&router, "/translate", &other) => assert_eq!(other.status, 503, "{other:?}"),
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Sends a request and reads the answer to the end.
async fn exchange(address: std::net::SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(text.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .await
        .expect("it answers");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_answers_the_requests_that_it_has() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server().serve(listener, async {
        let _ = stopped.await;
    }));
    let body = json!({ "texts": vec!["1 2 3 4 5 6"; 200] }).to_string();
    let request = |length: usize| {
        format!(
            "POST /v1/translations HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    // One client disconnects at once, one within its request, and one sends what is no request.
    let mut gone = TcpStream::connect(address).await.expect("it listens");
    gone.write_all(format!("{}{body}", request(body.len())).as_bytes())
        .await
        .expect("it reads");
    drop(gone);
    let mut half = TcpStream::connect(address).await.expect("it listens");
    half.write_all(request(1000).as_bytes())
        .await
        .expect("it reads");
    drop(half);
    assert!(
        exchange(address, "no request\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 400")
    );
    let pending =
        tokio::spawn(
            async move { exchange(address, &format!("{}{body}", request(body.len()))).await },
        );
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop.send(()).expect("it serves");
    let answer = pending.await.expect("no panic");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let body: Value = serde_json::from_str(body).expect("the whole answer");
    assert_eq!(body["translations"].as_array().map(Vec::len), Some(200));
    assert_eq!(serving.await.expect("no panic"), Ended::Stopped);
    assert!(
        TcpStream::connect(address).await.is_err(),
        "the port is closed"
    );
}
