//! Words that a model has no token for: no answer contains `<unk>`.

use polyglow_model::search::{SearchConfig, SearchMethod};
use polyglow_serve::{Keys, Limits, Model, Server};
use serde_json::{Value, json};

use crate::setup::{model, post_json, server_with, with_few_words};

const LINES: [&str; 2] = ["0 1 2 3 4", "5 6 7 8 9"];

/// Makes sure that texts have words of their sources where the model wrote unknown ones.
fn check(source: &str, text: &str) {
    assert!(!text.contains("<unk>"), "{text}");
    let copied = text
        .split(' ')
        .filter(|word| source.split(' ').any(|one| one == *word))
        .count();
    assert!(copied > 0, "{text}");
}

#[tokio::test]
async fn unknown_words_are_words_of_the_source_however_they_are_searched_for() {
    let runner = with_few_words();
    let plain = runner.best(&LINES).expect("it translates");
    assert!(plain.iter().all(|text| text.contains("<unk>")), "{plain:?}");
    let router = server_with(runner, Limits::default()).router();
    for options in [
        json!({}),
        json!({ "beam_size": 1 }),
        json!({ "n_best": 4 }),
        json!({ "method": "sample", "n_best": 3 }),
        json!({ "method": "branch", "n_best": 3 }),
        json!({ "prefixes": ["", ""] }),
        json!({ "alignments": true, "attention": true }),
    ] {
        let mut body = json!({ "texts": LINES });
        body.as_object_mut()
            .expect("an object")
            .extend(options.as_object().expect("an object").clone());
        let answer = post_json(&router, "/v1/translations", &body).await.json();
        let translations = answer["translations"].as_array().expect("a list");
        assert_eq!(translations.len(), LINES.len());
        for (line, translation) in LINES.iter().zip(translations) {
            let best = translation["text"].as_str().expect("text");
            assert!(!best.contains("<unk>"), "{options}: {answer}");
            for hypothesis in translation["segments"][0]["hypotheses"]
                .as_array()
                .expect("a list")
            {
                let text = hypothesis["text"].as_str().expect("text");
                assert!(!text.contains("<unk>"), "{options}: {answer}");
                if let Some(links) = hypothesis["alignment"].as_array() {
                    assert_eq!(links.len(), text.split(' ').count());
                }
            }
            if options == json!({}) {
                check(line, best);
            }
        }
    }
    let stream = post_json(
        &router,
        "/v1/translations",
        &json!({ "texts": LINES, "stream": true }),
    )
    .await;
    assert!(
        stream.text.contains("event: end") && !stream.text.contains("<unk>"),
        "{}",
        stream.text
    );
}

#[tokio::test]
async fn unknown_words_are_words_of_the_source_for_clients_of_libretranslate() {
    let router = server_with(with_few_words(), Limits::default()).router();
    let body = json!({ "q": LINES, "source": "en", "target": "de", "alternatives": 3 });
    let answer = post_json(&router, "/translate", &body).await;
    assert!(!answer.text.contains("<unk>"), "{}", answer.text);
    let answer = answer.json();
    let texts = answer["translatedText"].as_array().expect("a list");
    assert_eq!(texts.len(), LINES.len());
    for (line, text) in LINES.iter().zip(texts) {
        check(line, text.as_str().expect("text"));
    }
    let page = json!({ "q": "<p>0 1 2 3 4</p>", "source": "en", "target": "de", "format": "html" });
    let page = post_json(&router, "/translate", &page).await.json();
    let text = page["translatedText"].as_str().expect("text");
    assert!(!text.contains("unk") && text.starts_with("<p>"), "{text}");
    // A run that samples, and two models one after the other.
    let runner = with_few_words();
    let search = SearchConfig {
        method: SearchMethod::Sample,
        ..runner.search().clone()
    };
    let sampling = runner.with_search(search);
    let models = vec![
        Model {
            runner: sampling,
            ..model("de", "en")
        },
        Model {
            runner: with_few_words(),
            ..model("en", "fr")
        },
    ];
    let router = Server::new(models, Limits::default(), Keys::default()).router();
    let via_pivot: Value = json!({ "q": LINES, "source": "de", "target": "fr" });
    let answer = post_json(&router, "/translate", &via_pivot).await;
    assert!(
        answer.status == 200 && !answer.text.contains("<unk>"),
        "{}",
        answer.text
    );
}
