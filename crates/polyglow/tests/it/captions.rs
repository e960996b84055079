//! Captions: learned, written, scored against several references, and looked into, by the commands
//! that serve all models.

use std::fs;

use crate::program::Sandbox;

const TRAIN: &str = "
[tokenizer]
kind = 'word'
[train]
max_tokens = 64
max_steps = 120
optimizer = 'adamw'
lr = 1e-2
warmup_steps = 2
label_smoothing = 0.0
save_every = 20
validate_every = 40
log_every = 20
keep_last = 10
";
const CAPTIONER: &str = "
[model]
arch = 'captioner'
patch_size = 2
d_model = 12
d_ff = 16
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
norm = 'pre'
";

/// Images of 4 by 4 pixels with a bright half; two captions say which, of which each is right.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (split, count) in [("train", 32), ("test", 8)] {
        let folder = sandbox.path().join("data").join(split);
        fs::create_dir_all(&folder).expect("it can be made");
        let mut captions = String::new();
        for image in 0..count {
            let half = image % 3;
            let pixel = |index: usize| {
                let (row, column) = (index / 4, index % 4);
                let bright = [column < 2, column >= 2, row < 2][half];
                (if bright { 160 } else { 20 })
                    + ((image * 31 + index * 17 + split.len() * 7) % 60) as u8
            };
            let pixels: Vec<u8> = (0..16).map(pixel).collect();
            image::save_buffer(
                folder.join(format!("{image}.png")),
                &pixels,
                4,
                4,
                image::ExtendedColorType::L8,
            )
            .expect("it can be written");
            let half = ["left", "right", "top"][half];
            for caption in [format!("a light at {half}"), format!("at {half} a light")] {
                captions.extend([split, "/", &image.to_string(), ".png\t", &caption, "\n"]);
            }
        }
        fs::write(sandbox.path().join(format!("data/{split}.tsv")), captions)
            .expect("it can be written");
    }
    let data = "[data]\ntrain = 'data/train.tsv'\nvalid = 'data/test.tsv'\ntest = 'data/test.tsv'\nmax_len = 10\n
        [data.images]\nsize = [4, 4]\ngrayscale = true";
    let write = |name: &str, more: &str| {
        fs::write(
            sandbox.path().join(name),
            format!("{data}{CAPTIONER}{more}{TRAIN}"),
        )
        .expect("it can be written");
    };
    write("transformer.toml", "");
    write("rnn.toml", "decoder = 'rnn'\n");
    write("bahdanau.toml", "decoder = 'rnn'\nattend = 'before'\n");
    sandbox
}

#[test]
fn a_captioner_learns_and_says_what_it_sees() {
    let sandbox = sandbox();
    for (decoder, steps) in [("transformer", 120), ("rnn", 400), ("bahdanau", 400)] {
        let steps = format!("train.max_steps={steps}");
        let (stdout, stderr) = sandbox.succeed(&[
            "train",
            &format!("{decoder}.toml"),
            "--run",
            decoder,
            "--set",
            &steps,
        ]);
        assert!(
            stdout.contains("exact match 1.000") && stdout.contains("caption "),
            "{decoder}: {stdout}{stderr}"
        );
        assert!(
            !stderr.contains("warning: test: 100"),
            "names of images are no text: {stderr}"
        );
        let scores = sandbox.json(&["evaluate", decoder, "--json"]);
        assert_eq!(scores["exact_match"].as_f64(), Some(1.0), "{scores}");
        assert!(
            scores["bleu"].as_f64().is_some_and(|bleu| bleu > 99.99),
            "{scores}"
        );
        // Each image has two references.
        assert!(
            scores["signatures"]["bleu"]
                .as_str()
                .is_some_and(|bleu| bleu.starts_with("nrefs:2|")),
            "{scores}"
        );
        let output = sandbox
            .succeed(&[
                "caption",
                decoder,
                "data/test/0.png",
                "data/test/1.png",
                "data/test/2.png",
            ])
            .0;
        for (line, half) in output.lines().zip(["left", "right", "top"]) {
            let (caption, image) = line.split_once('\t').expect("a caption and its image");
            let right = [format!("a light at {half}"), format!("at {half} a light")];
            assert!(
                right.contains(&caption.to_owned()) && image.starts_with("data/test/"),
                "{line}"
            );
        }
        assert_eq!(output.lines().count(), 3);
    }
}

#[test]
fn every_way_to_search_writes_captions() {
    let sandbox = sandbox();
    sandbox.succeed(&["train", "transformer.toml", "--run", "run"]);
    let image = "data/test/1.png";
    let best = sandbox
        .succeed(&["caption", "run", image, "--beam-size", "4", "--n-best", "2"])
        .0;
    let best: Vec<&str> = best
        .lines()
        .map(|line| line.split('\t').next().unwrap_or_default())
        .collect();
    assert!(
        best.len() == 2 && best.contains(&"a light at right") && best.contains(&"at right a light"),
        "{best:?}"
    );
    for (prefix, whole) in [("at", "at right a light"), ("a", "a light at right")] {
        let output = sandbox
            .succeed(&["caption", "run", image, "--prefix", prefix])
            .0;
        assert_eq!(output, format!("{whole}\t{image}\n"));
    }
    let output = sandbox
        .succeed(&[
            "caption",
            "run",
            image,
            "--beam-size",
            "4",
            "--constraint",
            "top",
        ])
        .0;
    assert!(output.contains("top"), "{output}");
    let drawn = sandbox
        .succeed(&[
            "caption",
            "run",
            image,
            "--set",
            "search.method='sample'",
            "--n-best",
            "3",
        ])
        .0;
    assert_eq!(drawn.lines().count(), 3);
    let json = sandbox.json(&["caption", "run", image, "--format", "jsonl"]);
    assert_eq!(json["image"].as_str(), Some(image));
    assert!(
        json["captions"][0]["log_prob"]
            .as_f64()
            .is_some_and(|log_prob| (-5.0..=0.0).contains(&log_prob))
    );

    sandbox.succeed(&["quantize", "run"]);
    let scores = sandbox.json(&["evaluate", "run", "--checkpoint", "int8", "--json"]);
    assert_eq!(scores["exact_match"].as_f64(), Some(1.0), "{scores}");
    sandbox.succeed(&["average", "run", "--last", "2"]);
    sandbox.succeed(&["caption", "run", image, "--checkpoint", "average"]);
    sandbox.succeed(&["report", "run", "--out", "report.html"]);
    let page = fs::read_to_string(sandbox.path().join("report.html")).expect("it was written");
    assert!(page.contains("a light at"), "samples are shown");
}

#[test]
fn a_resumed_run_writes_the_bytes_of_a_straight_one() {
    let sandbox = sandbox();
    for decoder in ["transformer", "bahdanau"] {
        let config = format!("{decoder}.toml");
        let (straight, resumed) = (format!("{decoder}-straight"), format!("{decoder}-resumed"));
        sandbox.succeed(&[
            "train",
            &config,
            "--run",
            &straight,
            "--set",
            "train.max_steps=40",
        ]);
        sandbox.succeed(&[
            "train",
            &config,
            "--run",
            &resumed,
            "--set",
            "train.max_steps=20",
        ]);
        let (_, stderr) = sandbox.succeed(&[
            "train",
            &config,
            "--run",
            &resumed,
            "--set",
            "train.max_steps=40",
        ]);
        assert!(stderr.contains("resuming after step 20"), "{stderr}");
        let weights = |run: &str| {
            fs::read(
                sandbox
                    .path()
                    .join(run)
                    .join("checkpoints/step-40/model.safetensors"),
            )
            .expect("it is there")
        };
        assert!(weights(&straight) == weights(&resumed), "{decoder}");
    }
}

#[test]
fn each_word_shows_where_it_looked() {
    let sandbox = sandbox();
    sandbox.succeed(&[
        "train",
        "transformer.toml",
        "--run",
        "run",
        "--set",
        "train.max_steps=20",
    ]);
    let image = "data/test/1.png";
    let (_, stderr) = sandbox.succeed(&[
        "attention",
        "run",
        image,
        "--out",
        "map.html",
        "--tgt",
        "a light at right",
    ]);
    assert!(
        stderr.contains("data/test/1.png -> a light at right"),
        "{stderr}"
    );
    let page = fs::read_to_string(sandbox.path().join("map.html")).expect("it was written");
    // The image, and the four words and the end for the mean and for each of two heads.
    assert_eq!(
        page.matches("<use href=\"#picture\">").count(),
        1 + 3 * 5,
        "{page}"
    );
    sandbox.succeed(&["attention", "run", image, "--out", "map.png"]);
    let picture = image::open(sandbox.path().join("map.png")).expect("it is a picture");
    assert!(picture.width() > 300);
    let message = sandbox.fail(
        2,
        &[
            "attention",
            "run",
            image,
            "--out",
            "map.svg",
            "--layer",
            "2",
        ],
    );
    assert!(message.contains("there is no layer 2"), "{message}");
    let message = sandbox.fail(2, &["attention", "run", image, "--pharaoh"]);
    assert!(message.contains("describes images"), "{message}");
}

#[test]
fn a_run_is_not_resumed_with_other_images_of_the_same_names_and_sizes() {
    let sandbox = sandbox();
    sandbox.succeed(&[
        "train",
        "transformer.toml",
        "--run",
        "run",
        "--set",
        "train.max_steps=20",
    ]);
    let image = sandbox.path().join("data/train/3.png");
    let old = fs::read(&image).expect("it is there");
    let mut other = old.clone();
    *other.last_mut().expect("it is not empty") ^= 1;
    let longer = [
        "train",
        "transformer.toml",
        "--run",
        "run",
        "--set",
        "train.max_steps=40",
    ];
    fs::write(&image, other).expect("it can be written");
    let message = sandbox.fail(2, &longer);
    assert!(
        message.contains("`run` was trained with other content of the images that have captions"),
        "{message}"
    );
    assert!(
        message.contains("data/train/3.png` has changed (written "),
        "{message}"
    );
    fs::write(&image, old).expect("it can be written");
    sandbox.succeed(&longer);
}

#[test]
fn where_words_look_is_scored_on_generated_pictures() {
    let sandbox = sandbox();
    let config = "[data]\ncorpus = 'captioned-shapes'\nmax_examples = 40\nmax_len = 9\n".to_owned()
        + CAPTIONER
        + TRAIN;
    let config = config
        .replace("patch_size = 2", "patch_size = 8")
        .replace("max_steps = 120", "max_steps = 2");
    fs::write(
        sandbox.path().join("shapes.toml"),
        config.replace("warmup_steps = 2", "warmup_steps = 1"),
    )
    .expect("it can be written");
    for decoder in ["transformer", "rnn"] {
        let kind = format!("model.decoder={decoder}");
        sandbox.succeed(&["train", "shapes.toml", "--run", decoder, "--set", &kind]);
        let scores = sandbox.json(&[
            "evaluate",
            decoder,
            "--split",
            "valid",
            "--alignments",
            "gold",
            "--json",
        ]);
        let pointing = &scores["pointing"];
        let share = |value: &serde_json::Value| value.as_f64().expect("it is a share");
        // A model that has learned nothing points about as well as chance.
        let (chance, share_of_layer) = (share(&pointing["chance"]), share(&pointing["layers"][0]));
        assert!(
            (0.3..0.5).contains(&chance) && (share_of_layer - chance).abs() < 0.1,
            "{pointing}"
        );
    }
    let table = sandbox
        .succeed(&[
            "evaluate",
            "rnn",
            "--split",
            "valid",
            "--alignments",
            "gold",
        ])
        .0;
    assert!(
        table.contains("points right    0.") && table.contains("by chance"),
        "{table}"
    );
    let output = sandbox
        .succeed(&["caption", "rnn", "captioned-shapes:test:17"])
        .0;
    assert!(output.ends_with("\tcaptioned-shapes:test:17\n"), "{output}");
}

#[test]
fn errors_say_what_a_captioner_is_not_for() {
    let sandbox = sandbox();
    sandbox.succeed(&[
        "train",
        "transformer.toml",
        "--run",
        "run",
        "--set",
        "train.max_steps=20",
    ]);
    for command in [
        &["translate", "run", "data/test.tsv"][..],
        &["classify", "run", "data/test/1.png"],
    ] {
        let message = sandbox.fail(2, command);
        assert!(
            message.contains("describes images") && message.contains("`polyglow caption`"),
            "{message}"
        );
    }
    let message = sandbox.fail(1, &["caption", "run", "data/test/none.png"]);
    assert!(message.contains("none.png"), "{message}");
    let message = sandbox.fail(1, &["caption", "run", "data/test.tsv"]);
    assert!(message.contains("neither a PNG nor a JPEG"), "{message}");
    let message = sandbox.fail(2, &["caption", "run", "data/test/1.png", "--n-best", "9"]);
    assert!(message.contains("--beam-size 9"), "{message}");
    let message = sandbox.fail(
        2,
        &[
            "train",
            "transformer.toml",
            "--run",
            "new",
            "--set",
            "tokenizer.shared=false",
        ],
    );
    assert!(message.contains("tokenizer.shared"), "{message}");
    sandbox.succeed(&[
        "train",
        "rnn.toml",
        "--run",
        "rnn",
        "--set",
        "train.max_steps=20",
    ]);
    let message = sandbox.fail(2, &["evaluate", "run", "--alignments", "gold"]);
    assert!(message.contains("generated pictures"), "{message}");
    let message = sandbox.fail(
        2,
        &[
            "attention",
            "run",
            "data/test/1.png",
            "--out",
            "a.png",
            "--kind",
            "encoder",
        ],
    );
    assert!(message.contains("only `cross`"), "{message}");
    let message = sandbox.fail(
        2,
        &["embeddings", "run", "context", "a light", "--word", "light"],
    );
    assert!(message.contains("describes images"), "{message}");
    let nearest = sandbox.succeed(&["embeddings", "run", "nearest", "left"]).0;
    assert!(nearest.contains('\t'), "{nearest}");
    let message = sandbox.fail(1, &["caption", "run", "captioned-shapes:test:1"]);
    assert!(message.contains("in color"), "{message}");
    sandbox.succeed(&[
        "train",
        "transformer.toml",
        "--run",
        "small",
        "--set",
        "data.images.size=[2,2]",
        "--set",
        "train.max_steps=20",
    ]);
    let message = sandbox.fail(
        2,
        &["caption", "run", "data/test/1.png", "--ensemble", "small"],
    );
    assert!(message.contains("different sizes"), "{message}");
    let message = sandbox.fail(
        2,
        &[
            "train",
            "transformer.toml",
            "--run",
            "new",
            "--set",
            "search.min_len_ratio=0.5",
        ],
    );
    assert!(message.contains("search.min_len_ratio"), "{message}");
    let message = sandbox.fail(2, &["bench", "search", "transformer.toml"]);
    assert!(message.contains("reads images"), "{message}");
    let message = sandbox.fail(2, &["quantize", "rnn"]);
    assert!(message.contains("model.decoder"), "{message}");
    fs::write(
        sandbox.path().join("data/train.tsv"),
        "train/0.png\ta\nnone.png\tb\n",
    )
    .expect("it can be written");
    let message = sandbox.fail(1, &["check", "transformer.toml"]);
    assert!(
        message.contains("train.tsv` line 2") && message.contains("none.png"),
        "{message}"
    );
}
