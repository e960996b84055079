//! `polyglow attention`.

use std::fs;
use std::sync::LazyLock;

use crate::program::Sandbox;

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(Sandbox::trained);

fn attention(options: &[&str]) -> (String, String) {
    SANDBOX.succeed(
        &[
            &["attention", "run", "look aaa now", "--tgt", "aaa sieh"][..],
            options,
        ]
        .concat(),
    )
}

#[test]
fn a_page_holds_the_weights_of_every_layer_and_head() {
    attention(&["--out", "map.html"]);
    let page = fs::read_to_string(SANDBOX.path().join("map.html")).expect("it was written");
    let data = page
        .split("type=\"application/json\">")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next());
    let data: serde_json::Value =
        serde_json::from_str(data.expect("the page has data")).expect("it is JSON");
    assert_eq!(
        data["cross"]["keys"],
        serde_json::json!(["look", "aaa", "now", "</s>"])
    );
    assert_eq!(
        data["cross"]["queries"],
        serde_json::json!(["aaa", "sieh", "</s>"])
    );
    assert_eq!(
        data["decoder"]["keys"],
        serde_json::json!(["<s>", "aaa", "sieh"])
    );
    for (kind, queries, keys) in [("encoder", 4, 4), ("decoder", 3, 3), ("cross", 3, 4)] {
        let heads = data[kind]["weights"][0].as_array().expect("heads");
        assert_eq!(heads.len(), 2);
        for head in heads {
            let weights: Vec<f64> = head
                .as_array()
                .expect("weights")
                .iter()
                .map(|weight| weight.as_f64().expect("a number"))
                .collect();
            assert_eq!(weights.len(), queries * keys);
            for row in weights.chunks(keys) {
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 0.005, "{row:?}");
            }
        }
    }
    for outside in ["http://", "https://", "<link", "@import", "url("] {
        assert!(
            !page
                .replace("http://www.w3.org/2000/svg", "")
                .contains(outside),
            "{outside}"
        );
    }
}

#[test]
fn pictures_are_written_in_the_format_of_their_ending() {
    attention(&[
        "--out", "map.png", "--kind", "encoder", "--layer", "1", "--head", "2",
    ]);
    let png = fs::read(SANDBOX.path().join("map.png")).expect("it was written");
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 500);
    attention(&["--out", "map.SVG"]);
    let svg = fs::read_to_string(SANDBOX.path().join("map.SVG")).expect("it was written");
    assert!(
        svg.starts_with("<svg") && svg.contains("look") && svg.contains("sieh"),
        "{svg}"
    );
    let fail =
        |options: &[&str]| SANDBOX.fail(2, &[&["attention", "run", "look"][..], options].concat());
    assert!(
        fail(&["--out", "map.gif"])
            .contains("`map.gif` ends neither in `.html` nor in `.png` or `.svg`")
    );
    assert!(
        fail(&["--out", "map.png", "--layer", "7"]).contains("there is no layer 7; the last is 1")
    );
    assert!(fail(&[]).contains("give `--out FILE` or `--pharaoh`"));
}

#[test]
fn links_are_printed_a_word_each() {
    let (links, _) = attention(&["--pharaoh"]);
    let links: Vec<&str> = links.split_whitespace().collect();
    assert_eq!(links.len(), 2);
    assert!(
        links[0].ends_with("-0") && links[1].ends_with("-1"),
        "{links:?}"
    );
    // Without a translation the model's own is looked at.
    let (links, message) = SANDBOX.succeed(&["attention", "run", "look aaa now", "--pharaoh"]);
    let translation = message
        .split("-> ")
        .nth(1)
        .expect("the translation is in the message");
    assert_eq!(
        links.split_whitespace().count(),
        translation.split_whitespace().count()
    );
}
