//! `polyglow embeddings`: what gensim finds in a file (written by `scripts/golden-embeddings.py`),
//! and models.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use polyglow_data::word_vectors::{VectorLimits, WordVectors};
use polyglow_view::embeddings::{Attending, Embeddings, Neighbor, project};
use serde::Deserialize;

use crate::program::Sandbox;

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    let sandbox = Sandbox::trained();
    fs::copy(VECTORS, sandbox.path().join("vectors.txt")).expect("it can be copied");
    sandbox
});

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/vectors.txt");

#[derive(Deserialize)]
struct Golden {
    nearest: std::collections::BTreeMap<String, Vec<(String, f32)>>,
    analogies: Vec<Analogy>,
    attended: Vec<Attended>,
    points: Vec<[f64; 2]>,
    explained: [f64; 2],
}

#[derive(Deserialize)]
struct Analogy {
    words: [String; 3],
    found: Vec<(String, f32)>,
}

/// A word after rounds of attention over its sentence.
#[derive(Deserialize)]
struct Attended {
    text: String,
    word: String,
    scale: Option<f64>,
    rounds: Vec<AttendedRound>,
}

#[derive(Deserialize)]
struct AttendedRound {
    weights: Vec<f64>,
    neighbors: Vec<(String, f32)>,
}

fn golden() -> (Golden, Embeddings) {
    let golden =
        serde_json::from_str(include_str!("../golden/embeddings.json")).expect("it is JSON");
    let vectors =
        WordVectors::read(Path::new(VECTORS), VectorLimits::default()).expect("it can be read");
    (golden, Embeddings::from_file(vectors))
}

fn assert_same(actual: &[Neighbor], expected: &[(String, f32)]) {
    assert_eq!(actual.len(), expected.len());
    for (Neighbor { word, cosine }, (expected, value)) in actual.iter().zip(expected) {
        assert!(
            word == expected && (cosine - value).abs() < 1e-6,
            "{word} {cosine}, not {expected} {value}"
        );
    }
}

#[test]
fn neighbors_and_analogies_are_those_of_gensim() {
    let (golden, embeddings) = golden();
    assert!(golden.nearest.len() == 3 && golden.analogies.len() == 3);
    for (word, expected) in &golden.nearest {
        assert_same(
            &embeddings
                .nearest(word, expected.len())
                .expect("it is known"),
            expected,
        );
    }
    for Analogy {
        words: [a, b, c],
        found,
    } in &golden.analogies
    {
        assert_same(
            &embeddings
                .analogy([a, b, c], found.len())
                .expect("they are known"),
            found,
        );
    }
}

#[test]
fn the_plane_is_that_of_a_singular_value_decomposition() {
    let (golden, embeddings) = golden();
    let vectors: Vec<f32> = embeddings
        .first(usize::MAX)
        .flat_map(|(_, vector)| vector.to_vec())
        .collect();
    let projection = project(&vectors, embeddings.dim());
    assert_eq!(projection.points.len(), golden.points.len());
    let pairs = projection
        .points
        .iter()
        .flatten()
        .zip(golden.points.iter().flatten());
    let shares = projection.explained.iter().zip(&golden.explained);
    for (actual, expected) in pairs.chain(shares) {
        assert!((actual - expected).abs() < 1e-5, "{actual}, not {expected}");
    }
}

#[test]
fn the_command_prints_what_the_library_finds() {
    let (golden, _) = golden();
    let expected = &golden.nearest["w37"];
    let neighbors = SANDBOX.json(&[
        "embeddings",
        "vectors.txt",
        "nearest",
        "w37",
        "-n",
        "7",
        "--json",
    ]);
    let words: Vec<&str> = neighbors
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|near| near["word"].as_str())
        .collect();
    assert_eq!(
        words,
        expected
            .iter()
            .map(|(word, _)| word.as_str())
            .collect::<Vec<_>>()
    );
    let lines = SANDBOX
        .succeed(&["embeddings", "vectors.txt", "nearest", "w37", "-n", "1"])
        .0;
    assert_eq!(lines, format!("{:.4}\t{}\n", expected[0].1, expected[0].0));
    let message = SANDBOX.fail(2, &["embeddings", "vectors.txt", "nearest", "w3"]);
    assert!(
        message.contains("no vector for the word `w3`") && message.contains("hint: there is `w3"),
        "{message}"
    );
}

#[test]
fn exported_vectors_are_read_again_as_they_were() {
    SANDBOX.succeed(&["embeddings", "run", "export", "exported.txt"]);
    let text = fs::read_to_string(SANDBOX.path().join("exported.txt")).expect("it was written");
    // 26 words, `look`, `now` and `sieh`, and the model's width.
    assert_eq!(text.lines().next(), Some("29 8"));
    let from_run = SANDBOX
        .succeed(&["embeddings", "run", "analogy", "aaa", "bbb", "ccc"])
        .0;
    assert_eq!(
        SANDBOX
            .succeed(&["embeddings", "exported.txt", "analogy", "aaa", "bbb", "ccc"])
            .0,
        from_run
    );
    SANDBOX.succeed(&["embeddings", "vectors.txt", "export", "again.txt"]);
    let numbers = |file: &str| -> Vec<f32> {
        let text = fs::read_to_string(SANDBOX.path().join(file)).expect("it is there");
        text.split_whitespace()
            .filter_map(|field| field.parse().ok())
            .collect()
    };
    assert_eq!(numbers("again.txt"), numbers("vectors.txt"));
}

#[test]
fn a_plot_names_every_word() {
    SANDBOX.succeed(&["embeddings", "run", "plot", "--out", "map.html"]);
    let page = fs::read_to_string(SANDBOX.path().join("map.html")).expect("it was written");
    for word in ["look", "now", "sieh", "aaa", "zzz"] {
        assert!(page.contains(&format!("<title>{word}</title>")), "{word}");
    }
    // The sides have one table. The 26 words are on both, and a larger share of the shorter one;
    // special tokens are no words.
    assert!(
        page.contains("more frequent in the source (en): 2 words"),
        "{page}"
    );
    assert!(
        page.contains("more frequent in the target (de): 27 words") && !page.contains("unk"),
        "{page}"
    );
    let message = SANDBOX
        .succeed(&["embeddings", "run", "plot", "-n", "3", "--out", "few.svg"])
        .1;
    assert!(
        message.contains("the 3 most frequent words of the training text"),
        "{message}"
    );
    let picture = fs::read_to_string(SANDBOX.path().join("few.svg")).expect("it was written");
    for word in ["look", "now", "sieh"] {
        assert!(
            picture.contains(&format!("<title>{word}</title>")),
            "{word}"
        );
    }
    assert_eq!(picture.matches("<title>").count(), 3 + 2, "{picture}");
    fs::write(SANDBOX.path().join("words.txt"), "w00\nw01\n\nw52\n").expect("it can be written");
    SANDBOX.succeed(&[
        "embeddings",
        "vectors.txt",
        "plot",
        "--words",
        "words.txt",
        "--out",
        "map.svg",
    ]);
    let picture = fs::read_to_string(SANDBOX.path().join("map.svg")).expect("it was written");
    assert!(
        picture.contains("w52") && !picture.contains("w03"),
        "{picture}"
    );
    SANDBOX.succeed(&[
        "embeddings",
        "vectors.txt",
        "plot",
        "-n",
        "5",
        "--out",
        "map.png",
    ]);
    assert!(
        fs::read(SANDBOX.path().join("map.png"))
            .expect("it was written")
            .starts_with(b"\x89PNG")
    );
    assert!(
        SANDBOX
            .fail(2, &["embeddings", "run", "plot", "--out", "map.gif"])
            .contains("ends neither in `.html`")
    );
    fs::write(SANDBOX.path().join("none.txt"), "\n \n").expect("it can be written");
    let message = SANDBOX.fail(
        2,
        &[
            "embeddings",
            "run",
            "plot",
            "--words",
            "none.txt",
            "--out",
            "none.svg",
        ],
    );
    assert!(
        message.contains("`none.txt` has no words") && !SANDBOX.path().join("none.svg").exists(),
        "{message}"
    );
}

#[test]
fn a_file_of_vectors_has_neither_sides_nor_checkpoints() {
    for (option, value) in [("--side", "src"), ("--checkpoint", "best")] {
        let message = SANDBOX.fail(
            2,
            &["embeddings", "vectors.txt", "nearest", "w37", option, value],
        );
        assert!(
            message.contains(&format!("`{option}` is for runs")),
            "{message}"
        );
        SANDBOX.succeed(&["embeddings", "run", "nearest", "aaa", option, value]);
    }
    assert!(
        SANDBOX
            .fail(
                1,
                &[
                    "embeddings",
                    "run",
                    "nearest",
                    "aaa",
                    "--checkpoint",
                    "nonsense"
                ]
            )
            .contains("nonsense")
    );
}

#[test]
fn a_sentence_is_nearest_to_itself_whatever_surrounds_it() {
    fs::write(
        SANDBOX.path().join("lines.txt"),
        "look aaa now\n\nnow look bbb ccc\nlook aaa now\n",
    )
    .expect("written");
    for pool in ["mean", "first"] {
        let lines = SANDBOX.json(&[
            "embeddings",
            "run",
            "sentences",
            "lines.txt",
            "--pool",
            pool,
            "--json",
            "-n",
            "1",
        ]);
        let first = &lines[0];
        assert_eq!(
            (
                first["line"].as_u64(),
                first["neighbors"][0]["line"].as_u64()
            ),
            (Some(1), Some(4)),
            "{lines}"
        );
        assert!(
            first["neighbors"][0]["cosine"].as_f64().expect("a number") > 0.999_99,
            "{lines}"
        );
        // A blank line has no vector.
        assert_eq!(lines.as_array().map(Vec::len), Some(3));
    }
    let lines = SANDBOX
        .succeed(&[
            "embeddings",
            "run",
            "sentences",
            "lines.txt",
            "--query",
            "look aaa now",
            "-n",
            "2",
        ])
        .0;
    let starts: Vec<&str> = lines
        .lines()
        .map(|line| line.trim_start().get(..5).unwrap_or_default())
        .collect();
    assert_eq!((starts.len(), starts[0]), (3, "query"), "{lines}");
    assert!(
        lines.contains("\t1\tlook aaa now") && lines.contains("\t4\tlook aaa now"),
        "{lines}"
    );

    // Of a file a line is the mean of its words: here the same ones in another order.
    fs::write(
        SANDBOX.path().join("grid.txt"),
        "w00 w13\nw52\nw13 unknown w00\n",
    )
    .expect("it can be written");
    let lines = SANDBOX.json(&[
        "embeddings",
        "vectors.txt",
        "sentences",
        "grid.txt",
        "--json",
        "-n",
        "1",
    ]);
    assert_eq!(lines[0]["neighbors"][0]["line"], 3);
    let message = SANDBOX.fail(
        2,
        &[
            "embeddings",
            "vectors.txt",
            "sentences",
            "grid.txt",
            "--pool",
            "first",
        ],
    );
    assert!(message.contains("`--pool first`"), "{message}");
}

#[test]
fn attention_over_vectors_is_that_of_numpy() {
    let (golden, embeddings) = golden();
    assert_eq!(golden.attended.len(), 2);
    for Attended {
        text,
        word,
        scale,
        rounds,
    } in &golden.attended
    {
        let attending = Attending {
            scale: *scale,
            rounds: rounds.len(),
            count: rounds[0].neighbors.len(),
        };
        let company = embeddings
            .in_company(text, word, attending)
            .expect("all words are known");
        assert_eq!(company.rounds.len(), 1 + rounds.len());
        assert_same(
            &company.rounds[0].neighbors,
            &golden_nearest(&embeddings, word, attending.count),
        );
        for (round, expected) in company.rounds[1..].iter().zip(rounds) {
            assert_eq!(round.weights.len(), expected.weights.len());
            for (weight, expected) in round.weights.iter().zip(&expected.weights) {
                assert!((weight - expected).abs() < 1e-8, "{weight}, not {expected}");
            }
            assert_same(&round.neighbors, &expected.neighbors);
        }
    }
}

fn golden_nearest(embeddings: &Embeddings, word: &str, count: usize) -> Vec<(String, f32)> {
    let nearest = embeddings.nearest(word, count).expect("it is known");
    nearest
        .into_iter()
        .map(|near| (near.word, near.cosine))
        .collect()
}

#[test]
fn a_sentence_of_vectors_is_printed_and_drawn() {
    let context = [
        "embeddings",
        "vectors.txt",
        "context",
        "The W37 (w00), nothing w52!",
        "--word",
        "W37",
        "--rounds",
        "2",
    ];
    let (text, message) = SANDBOX.succeed(&context);
    assert!(message.contains("left out: `The`, `nothing`"), "{message}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(
        lines[0].starts_with("before\t") && lines[1].starts_with("round 1 takes\t"),
        "{text}"
    );
    for format in ["html", "svg", "png"] {
        let out = SANDBOX.path().join(format!("arrows.{format}"));
        SANDBOX.succeed(&[&context[..], &["--out", out.to_str().expect("it is text")]].concat());
        let picture = fs::read(out).expect("it was written");
        let drawn = String::from_utf8_lossy(&picture);
        // A word each for the three that are known.
        assert!(
            format == "png" || drawn.matches("class=\"arrow\"").count() == 3,
            "{drawn}"
        );
    }
    for (options, words) in [
        (
            &["context", "w00 w37", "--word", "w0"][..],
            "did you mean `w00`?",
        ),
        (
            &["context", "w00 w999", "--word", "w999"],
            "there is no vector for the word `w999`",
        ),
        (
            &["context", "w00", "--word", "w00", "--out", "arrows.pdf"],
            "arrows.pdf",
        ),
        (
            &["context", "w00", "--word", "w00", "--scale", "nan"],
            "the scale NaN is not a finite number",
        ),
    ] {
        let message = SANDBOX.fail(2, &[&["embeddings", "vectors.txt"], options].concat());
        assert!(message.contains(words), "{message}");
    }
    let message = SANDBOX.fail(
        2,
        &[
            "embeddings",
            "run",
            "context",
            "now look",
            "--word",
            "look",
            "--scale",
            "1",
        ],
    );
    assert!(
        message.contains("`--scale` is for files of vectors"),
        "{message}"
    );
}

#[test]
fn a_word_in_its_own_sentence_is_where_the_bank_has_it() {
    // The first sentence of the validation text is `now look aaa`; the neighbors of `look` there
    // are from such sentences.
    let output = SANDBOX.json(&[
        "embeddings",
        "run",
        "context",
        "now look aaa",
        "--word",
        "look",
        "--json",
        "-n",
        "9",
    ]);
    let layers = output.as_array().expect("a list");
    assert_eq!(layers.len(), 2, "the embedding and one layer: {output}");
    for (number, layer) in layers.iter().enumerate() {
        assert_eq!(layer["layer"], number);
        let neighbors = layer["neighbors"].as_array().expect("a list");
        let words: Vec<&str> = neighbors
            .iter()
            .filter_map(|near| near["word"].as_str())
            .collect();
        // The bank has `now`, `look`, `aaa`, `bbb`, `ccc` and `ddd`; each but the word itself
        // stands here once.
        let mut sorted = words.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, ["aaa", "bbb", "ccc", "ddd", "now"]);
        assert!(neighbors.iter().all(|near| {
            near["sentence"]
                .as_str()
                .is_some_and(|text| text.starts_with("now look"))
        }));
    }
    let message = SANDBOX.fail(
        2,
        &[
            "embeddings",
            "run",
            "context",
            "now look aaa",
            "--word",
            "loop",
        ],
    );
    assert!(
        message.contains("no word `loop`") && message.contains("did you mean `look`?"),
        "{message}"
    );
}

#[test]
fn a_blank_line_has_no_words_and_no_vector_where_a_space_is_a_token() {
    let sandbox = Sandbox::new();
    let pairs = [(" ", " "), ("now look aaa", "sieh aaa")];
    sandbox.write(
        "valid",
        &pairs.map(|(src, tgt)| (src.to_owned(), tgt.to_owned())),
    );
    let bpe = ["tokenizer.kind=\"bpe\"", "tokenizer.vocab_size=300"];
    sandbox.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "bpe",
        "--set",
        bpe[0],
        "--set",
        bpe[1],
    ]);
    let layers = sandbox.json(&[
        "embeddings",
        "bpe",
        "context",
        "now look aaa",
        "--word",
        "look",
        "--json",
    ]);
    assert_eq!(
        layers[0]["neighbors"].as_array().map(Vec::len),
        Some(2),
        "{layers}"
    );
    let message = sandbox.fail(2, &["embeddings", "bpe", "context", " ", "--word", "x"]);
    assert!(message.contains("no word `x`"), "{message}");

    fs::write(
        sandbox.path().join("lines.txt"),
        "look aaa now\n \t\nnow look\n",
    )
    .expect("it can be written");
    let output = sandbox.json(&["embeddings", "bpe", "sentences", "lines.txt", "--json"]);
    let lines: Vec<_> = output
        .as_array()
        .expect("a list")
        .iter()
        .map(|report| report["line"].as_u64())
        .collect();
    assert_eq!(lines, [Some(1), Some(3)]);
}

/// Words of the German side of mini-en-de by what they are, of each of which there is one form.
const KINDS: [&str; 7] = [
    "Frau Schwester Tochter Katze Maus Tür Blume Lampe Tasche Straße Kirche",
    "Mann Arzt Freund Hund Vogel Brief Apfel Stuhl Garten Baum",
    "Kind Pferd Buch Bild Auto Hemd Haus Dorf",
    "Männer Frauen Kinder Schwestern Ärzte Freunde Töchter Hunde Katzen Pferde Vögel Mäuse Bücher Briefe Türen",
    "großen kleinen alten jungen roten grünen schönen neuen guten schwarzen klugen müden weißen billigen schweren",
    "sieht findet kauft liebt sucht trägt malt hört ruft macht holt lädt hilft dankt antwortet schläft lacht wartet",
    "gesehen gefunden gekauft geliebt gesucht getragen gemalt gehört geholfen gedankt geantwortet gegeben gezeigt",
];

#[test]
fn trained_vectors_are_near_those_of_words_of_the_same_kind() {
    let sandbox = Sandbox::new();
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/skipgram.toml");
    let config = config.to_str().expect("the path is UTF-8");
    sandbox.succeed(&[
        "train",
        config,
        "--run",
        "words",
        "--set",
        "train.max_steps=1000",
    ]);
    sandbox.succeed(&["embeddings", "words", "export", "words.txt"]);
    let path = sandbox.path().join("words.txt");
    let vectors = WordVectors::read(&path, VectorLimits::default()).expect("it can be read");
    let embeddings = Embeddings::from_file(vectors);
    let (mut count, mut alike) = (0, 0);
    for words in KINDS {
        for word in words.split(' ') {
            let nearest = &embeddings.nearest(word, 1).expect("it is known")[0].word;
            count += 1;
            alike += usize::from(words.split(' ').any(|other| other == nearest));
        }
    }
    // By chance it would be one in thirty. For some the result is another plural than those above,
    // and they count against this.
    println!("{alike} of {count} words have a neighbor of their kind");
    assert!(
        alike * 4 > count * 3,
        "{alike} of {count} words have a neighbor of their kind"
    );
}

#[test]
fn messages_name_what_cannot_be_explored_or_is_left_out() {
    let message = SANDBOX.fail(2, &["embeddings", "nothing.txt", "nearest", "aaa"]);
    assert!(
        message.contains("there is no run and no file of vectors `nothing.txt`"),
        "{message}"
    );
    fs::write(SANDBOX.path().join("twice.txt"), "a 1 2\nb 2 1\na 3 3\n")
        .expect("it can be written");
    let message = SANDBOX
        .succeed(&["embeddings", "twice.txt", "nearest", "a"])
        .1;
    assert!(
        message.contains("1 repeated words are ignored"),
        "{message}"
    );
    // A text longer than the model reads, and a request for a word at its end.
    let text = format!("{} bbb", ["aaa"; 25].join(" "));
    let message = SANDBOX.fail(2, &["embeddings", "run", "context", &text, "--word", "bbb"]);
    assert!(
        message.contains("26 tokens, of which the model reads the first 20"),
        "{message}"
    );
}
