//! `/v1/translations`

use std::collections::HashSet;

use polyglow_model::search::SearchRequest;
use polyglow_predict::translate::Request;
use polyglow_serve::{Keys, Limits, Server};
use serde_json::{Value, json};

use crate::setup::{Answer, model, post_json, runner, server};

async fn ask(body: &Value) -> Answer {
    post_json(&server().router(), "/v1/translations", body).await
}

#[tokio::test]
async fn n_best_lists_have_the_scores_of_the_library() {
    let search = SearchRequest {
        beam_size: Some(4),
        n_best: 2,
        scores: true,
        ..SearchRequest::default()
    };
    let request = Request {
        text: "1 2 3".to_owned(),
        ..Request::default()
    };
    let expected = runner()
        .translate(&[request], &search)
        .expect("it translates")
        .remove(0);
    let answer =
        ask(&json!({ "texts": ["1 2 3"], "beam_size": 4, "n_best": 2, "alignments": true }))
            .await
            .json();
    let segment = &answer["translations"][0]["segments"][0];
    assert_eq!(segment["source"], "1 2 3");
    let hypotheses = segment["hypotheses"].as_array().expect("several");
    assert_eq!(hypotheses.len(), 2);
    for (hypothesis, expected) in hypotheses.iter().zip(&expected) {
        assert_eq!(hypothesis["text"], expected.text);
        let log_prob = hypothesis["log_prob"].as_f64().expect("a number");
        let expected_log_prob = expected.scores.expect("they were requested").log_prob;
        assert!(
            (log_prob - f64::from(expected_log_prob)).abs() < 1e-5,
            "{log_prob} and {expected_log_prob}"
        );
        assert_eq!(
            hypothesis["alignment"].as_array().expect("links").len(),
            expected.text.split(' ').count()
        );
    }
}

#[tokio::test]
async fn prefixes_and_constraints_are_in_the_translations() {
    let prefixes = json!({ "texts": ["1 2 3", "4"], "prefixes": [known_word(), ""] });
    let answer = ask(&prefixes).await.json();
    let text = answer["translations"][0]["text"].as_str().expect("text");
    assert!(text.starts_with(&known_word()), "{answer}");
    // Spaces around a prefix change nothing.
    for spaced in [
        format!("{} ", known_word()),
        format!(" {}\t\n", known_word()),
    ] {
        let spaced = ask(&json!({ "texts": ["1 2 3", "4"], "prefixes": [spaced, " "] }))
            .await
            .json();
        assert_eq!(spaced, answer);
    }
    let branches = json!({ "texts": ["1 2 3"], "n_best": 3, "method": "branch" });
    let answer = ask(&branches).await.json();
    let hypotheses = answer["translations"][0]["segments"][0]["hypotheses"]
        .as_array()
        .expect("a list")
        .clone();
    let first_words: HashSet<&str> = hypotheses
        .iter()
        .map(|hypothesis| {
            hypothesis["text"]
                .as_str()
                .expect("text")
                .split(' ')
                .next()
                .expect("a word")
        })
        .collect();
    assert_eq!(first_words.len(), 3, "{answer}");
    let phrases = json!({ "texts": ["1 2 3"], "constraints": [[known_word()]] });
    let answer = ask(&phrases).await.json();
    let text = answer["translations"][0]["text"].as_str().expect("text");
    assert!(text.contains(&known_word()), "{answer}");
    // A prefix that the model cannot write fails its own request alone.
    let router = server().router();
    let impossible = json!({ "texts": ["1"], "prefixes": ["Donaudampfschiff"] });
    let plain = json!({ "texts": ["1"] });
    let (bad, good) = tokio::join!(
        post_json(&router, "/v1/translations", &impossible),
        post_json(&router, "/v1/translations", &plain)
    );
    assert!(bad.error(400).contains("Donaudampfschiff"), "{bad:?}");
    assert_eq!(good.status, 200, "{good:?}");
}

/// A word that the model can write.
fn known_word() -> String {
    let best = runner().best(&["9"]).expect("it translates").remove(0);
    best.split(' ').next().expect("a word").to_owned()
}

#[tokio::test]
async fn long_texts_are_sent_sentence_by_sentence() {
    let text = "0.\n1.\n2.\n3.\n4.\n5.\n6.\n".repeat(10);
    let answer = ask(&json!({ "texts": [text, "7"], "stream": true })).await;
    assert!(
        answer.headers["content-type"]
            .as_bytes()
            .starts_with(b"text/event-stream"),
        "{answer:?}"
    );
    let events: Vec<(&str, Value)> = answer
        .text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("event: ")?.split_once("\ndata: "))
        .map(|(name, data)| (name, serde_json::from_str(data).expect("JSON")))
        .collect();
    assert_eq!(events.len(), 72, "{}", answer.text);
    let (last, sentences) = events.split_last().expect("there are some");
    assert_eq!((last.0, &last.1), ("end", &json!({ "after": ["\n", ""] })));
    let mut received = [String::new(), String::new()];
    for (name, data) in sentences {
        assert_eq!(*name, "segment");
        let index = usize::from(data["text"] == 1);
        received[index].push_str(data["before"].as_str().expect("text"));
        received[index].push_str(data["hypotheses"][0]["text"].as_str().expect("text"));
    }
    let whole = ask(&json!({ "texts": [text, "7"] })).await.json();
    assert_eq!(
        whole["translations"][0]["text"],
        format!("{}\n", received[0])
    );
    assert_eq!(whole["translations"][1]["text"], received[1]);
}

#[tokio::test]
async fn errors_say_what_is_wrong() {
    for (body, expected) in [
        (json!({ "texts": [] }), "missing texts"),
        (json!({ "text": ["1"] }), "unknown field `text`"),
        (
            json!({ "texts": ["1"], "n_best": 0 }),
            "n_best must be from 1 to 32",
        ),
        (
            json!({ "texts": ["1"], "n_best": -1 }),
            "n_best must be from 1 to 32",
        ),
        (
            json!({ "texts": ["1"], "n_best": 1e30 }),
            "n_best must be from 1 to 32",
        ),
        (
            json!({ "texts": ["1"], "n_best": 1.5 }),
            "n_best is not a whole number",
        ),
        (
            json!({ "texts": ["1"], "n_best": "2" }),
            "n_best is not a whole number",
        ),
        (
            json!({ "texts": ["1"], "beam_size": true }),
            "beam_size is not a whole number",
        ),
        (
            json!({ "texts": ["1"], "beam_size": -3 }),
            "beam_size must be from 1 to 32",
        ),
        (
            json!({ "texts": ["1"], "beam_size": 99 }),
            "beam_size must be from 1 to 32",
        ),
        (
            json!({ "texts": ["1", 2] }),
            "`texts[1]`: invalid type: integer `2`, expected a string",
        ),
        (
            json!({ "texts": ["1"], "stream": 1 }),
            "`stream`: invalid type",
        ),
        (
            json!({ "texts": ["1"], "method": "greedy" }),
            "`method`: unknown variant `greedy`",
        ),
        (
            json!({ "texts": ["1"], "beam_size": 2, "n_best": 3 }),
            "n_best must be <= beam_size",
        ),
        (
            json!({ "texts": ["1"], "prefixes": [] , "constraints": [["a"], ["b"]] }),
            "1 texts and 2 constraints",
        ),
        (
            json!({ "texts": ["1\n".repeat(4000)], "n_best": 32 }),
            "128000 translations exceed the limit (100000)",
        ),
        (
            json!({ "texts": ["1 ".repeat(3000)], "attention": true }),
            "9000000 weights of attention exceed the limit",
        ),
        (
            json!({ "texts": ["1 ".repeat(1500)], "alignments": true, "n_best": 2 }),
            "4500000 weights of attention",
        ),
        (
            json!({ "texts": ["1"], "target": "fr" }),
            "fr is not supported",
        ),
        (
            json!({ "texts": ["1"], "source": "de", "target": "en" }),
            "no model translates from German (de)",
        ),
    ] {
        let error = ask(&body).await.error(400);
        assert!(error.contains(expected), "{error}");
    }
    let two = Server::new(
        vec![model("en", "de"), model("de", "en")],
        Limits::default(),
        Keys::default(),
    );
    let error = post_json(
        &two.router(),
        "/v1/translations",
        &json!({ "texts": ["1"] }),
    )
    .await
    .error(400);
    assert!(error.contains("missing source"), "{error}");
    let two = Server::new(
        vec![model("de", "en"), model("en", "fr")],
        Limits::default(),
        Keys::default(),
    );
    let via_pivot = json!({ "texts": ["1"], "source": "de", "target": "fr" });
    let error = post_json(&two.router(), "/v1/translations", &via_pivot)
        .await
        .error(400);
    assert!(
        error.ends_with("; `/translate` does over a third language"),
        "{error}"
    );
}
