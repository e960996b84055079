//! Samples over HTTP: a draw depends on the index of its text in the request, not on other requests
//! at the same time.

use std::collections::HashSet;

use axum::Router;
use polyglow_model::search::{SearchConfig, SearchMethod, SearchRequest};
use polyglow_predict::translate::Request;
use polyglow_serve::Limits;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::setup::{post_json, runner, server, server_with};

async fn ask(router: &Router, body: &Value) -> Value {
    let answer = post_json(router, "/v1/translations", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

/// The best hypothesis of each sentence.
fn best<'a>(answer: &'a Value, field: &'a str) -> impl Iterator<Item = &'a Value> {
    let translations = answer["translations"].as_array().expect("a list").iter();
    translations
        .flat_map(|one| one["segments"].as_array().expect("a list"))
        .map(move |one| &one["hypotheses"][0][field])
}

fn texts(answer: &Value) -> Vec<&str> {
    best(answer, "text")
        .map(|text| text.as_str().expect("text"))
        .collect()
}

/// Lines of ten digits, the same each time.
fn lines(count: usize) -> Vec<String> {
    let digit = |line: usize, position: usize| {
        (line * 7919 + position * 104_729 + line * position * 31) % 10
    };
    let line = |line| {
        (0..10)
            .map(|position| digit(line, position).to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    (0..count).map(line).collect()
}

#[tokio::test]
async fn a_sample_is_one_draw_also_of_a_run_with_a_wide_beam() {
    let runner = runner();
    let search = SearchConfig {
        beam_size: 4,
        ..runner.search().clone()
    };
    let router = server_with(runner.with_search(search), Limits::default()).router();
    let means = async |body: Value| {
        let answer = ask(&router, &body).await;
        ["log_prob", "score"].map(|field| {
            let values: Vec<f64> = best(&answer, field).filter_map(Value::as_f64).collect();
            assert_eq!(values.len(), 100);
            values.iter().sum::<f64>() / 100.0
        })
    };
    let lines = lines(100);
    let plain = means(json!({ "texts": lines, "method": "sample" })).await;
    let one = means(json!({ "texts": lines, "method": "sample", "beam_size": 1 })).await;
    let four = means(json!({ "texts": lines, "method": "sample", "beam_size": 4 })).await;
    assert!((plain[0] - one[0]).abs() < 1e-9, "{plain:?} and {one:?}");
    // The best of four draws has a higher score, by which they are ranked.
    assert!(four[1] > plain[1] + 0.1, "{plain:?} and {four:?}");
    let several = ask(
        &router,
        &json!({ "texts": ["1 2 3 4 5"], "method": "sample", "n_best": 3 }),
    )
    .await;
    assert_eq!(
        several["translations"][0]["segments"][0]["hypotheses"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
}

#[tokio::test]
async fn a_run_that_samples_draws_once_on_every_path() {
    let runner = runner();
    let search = SearchConfig {
        method: SearchMethod::Sample,
        beam_size: 4,
        ..runner.search().clone()
    };
    let sampling = runner.with_search(search);
    let one = SearchRequest {
        beam_size: Some(1),
        ..SearchRequest::default()
    };
    let lines = lines(20);
    let line = |text: &String| Request {
        text: text.clone(),
        ..Request::default()
    };
    let requests: Vec<Request> = lines.iter().map(line).collect();
    let mut expected = sampling.translate(&requests, &one).expect("it translates");
    let sources: Vec<&str> = lines.iter().map(String::as_str).collect();
    sampling
        .replace_unknown(&sources, &mut expected)
        .expect("it can be encoded");
    let expected: Vec<&str> = expected.iter().map(|best| &*best[0].text).collect();
    let router = server_with(sampling, Limits::default()).router();
    let answer = post_json(
        &router,
        "/translate",
        &json!({ "q": lines, "source": "en", "target": "de" }),
    )
    .await
    .json();
    assert_eq!(answer["translatedText"], json!(expected));
    assert_eq!(
        texts(&ask(&router, &json!({ "texts": lines })).await),
        expected
    );
}

#[tokio::test]
async fn a_repeated_text_has_a_draw_for_each_of_its_positions() {
    let router = server().router();
    let answer = ask(
        &router,
        &json!({ "texts": vec!["1 2 3 4 5 6 7 8 9 0"; 64], "method": "sample" }),
    )
    .await;
    let texts = texts(&answer);
    let different: HashSet<&str> = texts.iter().copied().collect();
    let equal = (0..32)
        .filter(|&position| texts[position] == texts[position + 32])
        .count();
    assert!(
        different.len() > 16 && equal < 16,
        "{} different, {equal} as 32 positions before",
        different.len()
    );
    // So has a sentence that is repeated within a text.
    let answer = ask(
        &router,
        &json!({ "texts": ["1 2 3 4 5 6 7 8 9 0\n".repeat(64)], "method": "sample" }),
    )
    .await;
    let sentences = self::texts(&answer);
    let different: HashSet<&str> = sentences.iter().copied().collect();
    let equal = (0..32)
        .filter(|&position| sentences[position] == sentences[position + 32])
        .count();
    assert!(
        sentences.len() == 64 && different.len() > 16 && equal < 16,
        "{different:?}"
    );
    // The draw of a text does not depend on the texts before it.
    let [short, long] =
        ["1", "1\n2\n3"].map(|first| json!({ "texts": [first, "4 5 6 7"], "method": "sample" }));
    let (short, long) = (ask(&router, &short).await, ask(&router, &long).await);
    assert_eq!(
        short["translations"][1]["text"],
        long["translations"][1]["text"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_has_the_same_samples_alone_and_among_others() {
    let router = server().router();
    let lines = lines(40);
    let request = json!({ "texts": lines[..5], "method": "sample", "n_best": 2 });
    let alone = ask(&router, &request).await;
    let streamed = json!({ "texts": lines[..5], "method": "sample", "n_best": 2, "stream": true });
    let mut clients = JoinSet::new();
    for client in 0..8 {
        let (router, request, streamed, alone) = (
            router.clone(),
            request.clone(),
            streamed.clone(),
            alone.clone(),
        );
        let other_request =
            json!({ "texts": lines[client * 3..], "method": "sample", "n_best": 2 });
        clients.spawn(async move {
            for _ in 0..5 {
                assert_eq!(ask(&router, &request).await, alone);
                ask(&router, &other_request).await;
                let stream = post_json(&router, "/v1/translations", &streamed).await.text;
                let events = stream
                    .lines()
                    .filter_map(|line| line.strip_prefix("data: "))
                    .map(serde_json::from_str::<Value>);
                let events: Vec<Value> = events.map(|event| event.expect("JSON")).collect();
                let translations = alone["translations"].as_array().expect("a list");
                // The last event is the end.
                assert_eq!(events.len(), translations.len() + 1);
                for (event, expected) in events.iter().zip(translations) {
                    let expected = &expected["segments"][0]["hypotheses"];
                    let texts = [0, 1]
                        .map(|rank| (&event["hypotheses"][rank]["text"], &expected[rank]["text"]));
                    assert!(
                        texts.iter().all(|(streamed, alone)| streamed == alone),
                        "{event} {expected}"
                    );
                }
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.expect("no panic");
    }
}
