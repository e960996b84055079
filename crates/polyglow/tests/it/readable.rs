//! Text in pages, pictures and lists reads as text, whatever the vocabulary spells.

use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use crate::program::Sandbox;

/// A run on Japanese and Hebrew with a vocabulary of bytes.
static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    let sandbox = Sandbox::new();
    let pairs: Vec<_> = ["彼は学生です", "彼女は先生です", "très bien"]
        .map(|src| (src.to_owned(), "שלום עולם".to_owned()))
        .into();
    for split in ["train", "valid", "test"] {
        sandbox.write(split, &pairs);
    }
    let bytes = [
        "tokenizer.kind=\"bpe\"",
        "tokenizer.vocab_size=270",
        "data.max_len=60",
        "train.max_tokens=256",
    ];
    sandbox.train("run", &[&bytes[..], &["data.max_length_ratio=20"]].concat());
    sandbox
});

/// Characters in which GPT-2's alphabet spells the bytes of this text.
const BYTES: [char; 6] = ['Ġ', 'Ã', 'å', '½', '×', 'ł'];

fn assert_readable(text: &str) {
    assert!(!text.contains(BYTES), "{text}");
}

#[test]
fn attention_names_rows_and_columns_by_characters() {
    SANDBOX.succeed(&[
        "attention",
        "run",
        "彼は très",
        "--tgt",
        "שלום",
        "--out",
        "map.html",
    ]);
    let page = fs::read_to_string(SANDBOX.path().join("map.html")).expect("it was written");
    let data = page
        .split("type=\"application/json\">")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next());
    let data: Value = serde_json::from_str(data.expect("the page has data")).expect("it is JSON");
    let names = |side: &Value| -> Vec<String> {
        side.as_array()
            .expect("a list")
            .iter()
            .map(|name| name.as_str().expect("a name").to_owned())
            .collect()
    };
    let keys = names(&data["cross"]["keys"]);
    assert_eq!(keys.concat(), "▁彼は▁très</s>");
    assert_eq!(names(&data["cross"]["queries"]).concat(), "▁שלום</s>");
    assert!(keys.iter().all(|key| !key.contains('⟨')), "{keys:?}");
    for (kind, num_keys) in [("cross", keys.len()), ("encoder", keys.len())] {
        let head = data[kind]["weights"][0][0].as_array().expect("weights");
        for row in head.chunks(num_keys) {
            let sum: f64 = row.iter().filter_map(Value::as_f64).sum();
            assert!((sum - 1.0).abs() < 0.01, "{row:?}");
        }
    }
    assert!(page.contains("<bdi>שלום</bdi>") && page.contains("▁ is a space."));
    assert_readable(&page);
}

#[test]
fn pictures_are_in_reading_order() {
    SANDBOX.succeed(&[
        "attention",
        "run",
        "彼は",
        "--tgt",
        "שלום",
        "--out",
        "map.svg",
    ]);
    let svg = fs::read_to_string(SANDBOX.path().join("map.svg")).expect("it was written");
    assert!(
        svg.contains(">彼</text>") && svg.contains('\u{2068}'),
        "{svg}"
    );
    assert_readable(&svg);
    // On a machine without such fonts it says so, and draws nevertheless.
    let message = SANDBOX
        .succeed(&[
            "attention",
            "run",
            "彼は",
            "--tgt",
            "שלום",
            "--out",
            "map.png",
        ])
        .1;
    assert!(message.contains("wrote `map.png`"), "{message}");
    assert_readable(&message);
}

#[test]
fn lists_and_files_of_vectors_have_words() {
    let near = SANDBOX
        .succeed(&["embeddings", "run", "nearest", "彼", "-n", "400"])
        .0;
    assert!(near.contains("\t⟨FF⟩\n"), "{near}");
    assert_readable(&near);
    SANDBOX.succeed(&["embeddings", "run", "export", "vectors.txt"]);
    let vectors = fs::read_to_string(SANDBOX.path().join("vectors.txt")).expect("it was written");
    assert_readable(&vectors);
    // Every token but the special ones is there, and can be read again.
    let count = vectors
        .lines()
        .next()
        .and_then(|line| line.split(' ').next())
        .expect("a number");
    assert_eq!(
        count.parse::<usize>().expect("a number"),
        vectors.lines().count() - 1
    );
    let again = SANDBOX.succeed(&["embeddings", "vectors.txt", "nearest", "⟨FF⟩", "-n", "400"]);
    assert!(!again.1.contains("repeated"), "{}", again.1);
    let message = SANDBOX.fail(2, &["embeddings", "vectors.txt", "nearest", "FF"]);
    assert!(message.contains("`⟨FF⟩`"), "{message}");
}

#[test]
fn scores_name_each_token() {
    let path = |split: &str, side: &str| {
        SANDBOX
            .path()
            .join(format!("{split}.{side}"))
            .display()
            .to_string()
    };
    let lines = SANDBOX
        .succeed(&[
            "score",
            "run",
            &path("test", "en"),
            &path("test", "de"),
            "--json",
        ])
        .0;
    assert_readable(&lines);
    let record: Value =
        serde_json::from_str(lines.lines().next().expect("a line")).expect("it is JSON");
    let tokens = record["tokens"].as_array().expect("a list");
    // Hebrew letters are two bytes each; each token has its probability.
    assert_eq!(tokens.last().expect("an end mark")["token"], "</s>");
    assert!(tokens.iter().all(|token| token["log_prob"].is_number()) && tokens.len() > 2);
}

#[test]
fn shown_samples_are_different_and_from_all_over_the_set() {
    let sandbox = Sandbox::new();
    let words = [
        "look", "look", "look", "look", "now", "aaa", "bbb", "ccc", "look", "ddd",
    ];
    let pairs: Vec<_> = words
        .map(|word| (word.to_owned(), "sieh".to_owned()))
        .into();
    sandbox.write("valid", &pairs);
    sandbox.write("test", &pairs);
    let (stdout, stderr) = sandbox.train("run", &["train.max_steps=3"]);
    let sources = |text: &str, mark: &str| -> Vec<String> {
        text.lines()
            .filter_map(|line| line.strip_prefix(mark))
            .map(|line| line.trim().to_owned())
            .collect()
    };
    assert_eq!(sources(&stderr, "  source "), ["now", "bbb", "ddd"]);
    let sentences = sources(&stdout, "  ");
    let shown: Vec<&String> = sentences
        .iter()
        .filter(|line| words.contains(&line.as_str()))
        .collect();
    assert_eq!(shown, ["look", "now", "bbb", "ccc", "ddd"]);
    sandbox.succeed(&["report", "run", "--out", "page.html"]);
    let page = fs::read_to_string(sandbox.path().join("page.html")).expect("it was written");
    assert_eq!(
        page.matches("<th scope=\"row\">source</th><td colspan=\"1\" dir=\"auto\">look</td>")
            .count(),
        1
    );
    assert_eq!(page.matches("<th scope=\"row\">source</th>").count(), 5);
    assert!(page.contains("name=\"viewport\" content=\"width=device-width"));
}
