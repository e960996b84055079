//! `polyglow report`.

use std::fs;

use crate::program::Sandbox;

#[test]
fn a_page_holds_all_runs_and_needs_nothing_else() {
    let sandbox = Sandbox::trained();
    // Markup in the text is text.
    sandbox.write(
        "valid",
        &[
            ("look <b>now</b>".to_owned(), "sieh & staune".to_owned()),
            ("now".to_owned(), "jetzt".to_owned()),
        ],
    );
    sandbox.succeed(&["train", "tiny.toml", "--run", "other", "--set", "seed=2"]);
    sandbox.succeed(&["train", "tiny.toml", "--run", "third", "--set", "seed=3"]);
    sandbox.succeed(&["report", "other", "third", "--out", "page.html"]);
    let page = fs::read_to_string(sandbox.path().join("page.html")).expect("it was written");
    assert!(page.starts_with("<!DOCTYPE html>"));
    for words in [
        "other",
        "third",
        "Curves",
        "Best validations, resampled",
        "</svg>",
    ] {
        assert!(page.contains(words), "no {words}");
    }
    assert!(
        page.contains("look &lt;b&gt;now&lt;/b&gt;")
            && page.contains("sieh &amp; staune")
            && !page.contains("<b>")
    );
    // All findings of `check` are there, with their examples.
    let inspection =
        fs::read_to_string(sandbox.path().join("other/inspection.json")).expect("it was written");
    let inspection: serde_json::Value = serde_json::from_str(&inspection).expect("it is JSON");
    let escaped = |text: &serde_json::Value| {
        let text = text
            .as_str()
            .expect("it is text")
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        text.replace('"', "&quot;")
    };
    let (findings, warnings) = (
        inspection["findings"].as_array().unwrap(),
        inspection["warnings"].as_array().unwrap(),
    );
    assert!(!findings.is_empty() && !warnings.is_empty());
    for finding in findings {
        assert!(
            page.contains(&escaped(&finding["what"]))
                && page.contains(&escaped(&finding["advice"])),
            "{finding}"
        );
        for example in finding["examples"].as_array().unwrap() {
            assert!(
                page.contains(&format!(
                    "{}:{}",
                    escaped(&example["file"]),
                    example["line"]
                )),
                "{example}"
            );
        }
    }
    for warning in warnings {
        assert!(
            page.contains(&escaped(&warning["message"]))
                && page.contains(&escaped(&warning["hint"])),
            "{warning}"
        );
    }
    // Both runs' translations are in one table, and axes have names.
    assert!(
        page.contains("<h2>other, third: translations over time</h2>"),
        "{page}"
    );
    assert!(
        page.contains(">step</text>") && page.contains(">nats per target token</text>"),
        "{page}"
    );
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Every tag that is opened is closed.
    for tag in ["table", "tr", "td", "svg", "figure", "div", "html"] {
        let count = |pattern: &str| page.matches(pattern).count();
        assert_eq!(
            count(&format!("<{tag}>")) + count(&format!("<{tag} ")),
            count(&format!("</{tag}>")),
            "{tag}"
        );
    }
    let config = fs::read_to_string(sandbox.path().join("tiny.toml")).expect("it is there");
    let config = config.replace("valid = \"valid\"\n", "");
    fs::write(sandbox.path().join("no-valid.toml"), config).expect("it can be written");
    sandbox.succeed(&["train", "no-valid.toml", "--run", "no-valid"]);
    sandbox.succeed(&["report", "no-valid", "--out", "page.html"]);
    let page = fs::read_to_string(sandbox.path().join("page.html")).expect("it was written");
    assert!(page.contains("Curves") && !page.contains("Best validations, resampled"));
    let message = sandbox.fail(1, &["report", "nowhere"]);
    assert!(message.contains("no run in `nowhere`"), "{message}");
}

#[test]
fn tensorboard_gets_every_record_once_from_a_run_that_was_resumed() {
    let sandbox = Sandbox::new();
    let events = "events.out.tfevents.0000000000.polyglow";
    let read = |dir: &str| fs::read(sandbox.path().join(dir).join(events)).expect("it was written");
    sandbox.train("run", &["train.tensorboard=true", "train.max_steps=3"]);
    let half = read("run");
    sandbox.train("run", &["train.tensorboard=true"]);
    let whole = read("run");
    assert!(whole.len() > half.len());
    // Made of the records, each of which is there once, it is the same file.
    sandbox.succeed(&["report", "run", "--tensorboard", "events"]);
    assert_eq!(read("events"), whole);
    sandbox.train("other", &[]);
    assert!(!sandbox.path().join("other").join(events).exists());
    sandbox.succeed(&["report", "run", "other", "--tensorboard", "both"]);
    assert_eq!(read("both/run"), whole);
    assert!(!read("both/other").is_empty());
}
