//! Runs of every architecture: trained, stopped and resumed, scored and used by the same commands.

use std::fs;
use std::path::Path;

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData, s};
use polyglow_data::pair::Pair;
use polyglow_model::{Predict, Text};
use polyglow_train::run::{TrainedModel, runner};

use crate::program::Sandbox;

/// The tiny config with another `[model]` table, and no search of a translation's.
fn configure(sandbox: &Sandbox, name: &str, model: &str) {
    let tiny = fs::read_to_string(sandbox.path().join("tiny.toml")).expect("it is there");
    let (before, rest) = tiny.split_once("[model]").expect("it has a model");
    let (_, after) = rest.split_once("[train]").expect("it is trained");
    let text = format!("{before}[model]\n{model}\n[train]\nlabel_smoothing = 0.0\n{after}");
    fs::write(sandbox.path().join(name), text).expect("it can be written");
}

const RNN: &str = "arch = 'rnn'\nd_model = 8\nattention = 'general'\ncell = 'lstm'";
const LM: &str = "arch = 'lm'\nd_model = 8\nd_ff = 12\nnum_heads = 2\nnum_decoder_layers = 1\nposition = 'rotary'";
const RNN_LM: &str = "arch = 'rnn-lm'\nd_model = 8";
const SKIP_GRAM: &str = "arch = 'skipgram'\nd_model = 8";

#[test]
fn a_resumed_run_of_every_architecture_writes_the_bytes_of_a_straight_one() {
    let sandbox = Sandbox::new();
    for (arch, model) in [
        ("rnn", RNN),
        ("lm", LM),
        ("rnn-lm", RNN_LM),
        ("skipgram", SKIP_GRAM),
    ] {
        let config = format!("{arch}.toml");
        configure(&sandbox, &config, model);
        let (straight, resumed) = (format!("{arch}-straight"), format!("{arch}-resumed"));
        sandbox.succeed(&["train", &config, "--run", &straight]);
        sandbox.succeed(&[
            "train",
            &config,
            "--run",
            &resumed,
            "--set",
            "train.max_steps=3",
        ]);
        sandbox.succeed(&["train", &config, "--run", &resumed]);
        let weights = |run: &str| {
            fs::read(
                sandbox
                    .path()
                    .join(run)
                    .join("checkpoints/step-6/model.safetensors"),
            )
            .expect("it is there")
        };
        assert!(weights(&straight) == weights(&resumed), "{arch}");
    }
}

#[test]
fn a_recurrent_model_translates_and_shows_where_it_looks() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "rnn.toml", RNN);
    sandbox.succeed(&["train", "rnn.toml", "--run", "run"]);
    let scores = sandbox.json(&["evaluate", "run", "--json"]);
    assert!(
        scores["bleu"].is_number() && scores["loss"].as_f64().expect("a number").is_finite(),
        "{scores}"
    );
    fs::write(sandbox.path().join("input"), "look aaa now\n\nnow\n").expect("it can be written");
    assert_eq!(
        sandbox
            .succeed(&["translate", "run", "input", "--beam-size", "3"])
            .0
            .lines()
            .count(),
        3
    );
    sandbox.succeed(&[
        "attention",
        "run",
        "look aaa now",
        "--tgt",
        "aaa sieh",
        "--out",
        "map.svg",
        "--pharaoh",
    ]);
    sandbox.succeed(&["attention", "run", "look aaa now", "--out", "map.html"]);
    let message = sandbox.fail(
        2,
        &[
            "attention",
            "run",
            "look",
            "--out",
            "map.svg",
            "--kind",
            "encoder",
        ],
    );
    assert!(
        message.contains("this model has no attention of that kind"),
        "{message}"
    );
    let message = sandbox.fail(2, &["quantize", "run"]);
    assert!(message.contains("`model.arch = \"rnn\"`"), "{message}");
    let message = sandbox.fail(2, &["generate", "run"]);
    assert!(
        message.contains("which translates") && message.contains("`polyglow translate` is for it"),
        "{message}"
    );
}

#[test]
fn word_vectors_are_scored_and_explored_and_predict_no_text() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "words.toml", SKIP_GRAM);
    sandbox.succeed(&[
        "train",
        "words.toml",
        "--run",
        "run",
        "--set",
        "data.words.subsample=0",
        "--set",
        "train.max_steps=40",
    ]);
    let scores = sandbox.json(&["evaluate", "run", "--json"]);
    let number = |key: &str| {
        scores[key]
            .as_f64()
            .unwrap_or_else(|| panic!("no {key} in {scores}"))
    };
    assert!(
        number("loss").is_finite() && (0.0..=1.0).contains(&number("accuracy")),
        "{scores}"
    );
    assert!(
        ["bleu", "token_accuracy", "bits_per_byte", "ngram"]
            .iter()
            .all(|key| scores[key].is_null()),
        "{scores}"
    );
    assert!(
        sandbox
            .succeed(&["evaluate", "run"])
            .0
            .contains("nats per word, real or drawn")
    );
    // `sieh`, `look`, `now` and 26 words, less the one of the request.
    assert_eq!(
        sandbox
            .succeed(&["embeddings", "run", "nearest", "sieh", "-n", "99"])
            .0
            .lines()
            .count(),
        26
    );
    let neighbors = sandbox.json(&[
        "embeddings",
        "run",
        "context",
        "sieh aaa",
        "--word",
        "aaa",
        "--json",
    ]);
    assert_eq!(
        neighbors.as_array().map(Vec::len),
        Some(1),
        "there is no layer: {neighbors}"
    );
    fs::write(sandbox.path().join("lines"), "aaa sieh\nbbb\nsieh aaa\n")
        .expect("it can be written");
    let neighbors = sandbox.json(&[
        "embeddings",
        "run",
        "sentences",
        "lines",
        "--json",
        "-n",
        "1",
    ]);
    assert_eq!(
        neighbors[0]["neighbors"][0]["line"], 3,
        "the order of words does not matter: {neighbors}"
    );
    assert!(
        sandbox
            .succeed(&["info", "run"])
            .0
            .contains("skipgram, d_model 8")
    );

    for command in [
        &["translate", "run"][..],
        &["score", "run", "train.en", "train.de"],
        &["generate", "run"],
    ] {
        let message = sandbox.fail(2, command);
        assert!(message.contains("`polyglow embeddings`"), "{message}");
    }
    for (setting, problem) in [
        (
            "train.label_smoothing=0.1",
            "word vectors are trained without label smoothing",
        ),
        (
            "data.context_len=4",
            "`data.context_len` belongs to language models",
        ),
        (
            "train.precision='bf16'",
            "training word vectors has no matrix products",
        ),
        (
            "data.words.window=0",
            "`data.words.window` must lie in 1..=1000",
        ),
    ] {
        let message = sandbox.fail(
            2,
            &["train", "words.toml", "--run", "new", "--set", setting],
        );
        assert!(message.contains(problem), "{message}");
    }
    fs::write(sandbox.path().join("single.de"), "aaa\nnein aaa\n").expect("it can be written");
    let single = ["--set", "data.valid='single'"];
    let message = sandbox.fail(
        1,
        &[&["train", "words.toml", "--run", "new"][..], &single].concat(),
    );
    assert!(
        message.contains("in the validation set: no line has two words"),
        "{message}"
    );
    let message = sandbox.fail(2, &["bench", "search", "words.toml"]);
    assert!(message.contains("has nothing to search"), "{message}");
    let message = sandbox.fail(
        2,
        &[
            "train",
            "tiny.toml",
            "--run",
            "new",
            "--set",
            "data.words.negatives=5",
        ],
    );
    assert!(
        message.contains("`[data.words]` belongs to word vectors"),
        "{message}"
    );
}

#[test]
fn the_size_of_batches_is_measured_for_rows_of_every_kind() {
    let sandbox = Sandbox::new();
    for (arch, model, keys) in [
        ("rnn", RNN, &[][..]),
        ("lm", LM, &["--set", "data.context_len=8"]),
        ("rnn-lm", RNN_LM, &[]),
        ("skipgram", SKIP_GRAM, &[]),
    ] {
        let config = format!("{arch}.toml");
        configure(&sandbox, &config, model);
        let auto = [
            "train",
            &config,
            "--run",
            arch,
            "--set",
            "train.max_tokens='auto'",
            "--set",
            "train.max_steps=1",
        ];
        let (_, messages) = sandbox.succeed(&[&auto[..], keys].concat());
        assert!(
            messages.contains("train.max_tokens = 4096: "),
            "{arch}: {messages}"
        );
    }
}

#[test]
fn a_language_model_is_scored_with_an_n_gram_baseline_and_writes_the_same_text_for_the_same_seed() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "lm.toml", LM);
    sandbox.succeed(&["train", "lm.toml", "--run", "run"]);
    let scores = sandbox.json(&["evaluate", "run", "--json"]);
    let number = |key: &str| {
        scores[key]
            .as_f64()
            .unwrap_or_else(|| panic!("no {key} in {scores}"))
    };
    assert!(
        scores["bleu"].is_null() && number("perplexity") > 1.0,
        "{scores}"
    );
    // Four lines of `sieh`, a space, a word of three letters and a break; three tokens each with
    // the end mark.
    let bits = number("loss") * 12.0 / std::f64::consts::LN_2 / 36.0;
    assert!((number("bits_per_byte") - bits).abs() < 1e-9, "{scores}");
    assert_eq!(scores["ngram"]["order"], 5);
    assert!(
        scores["ngram"]["perplexity"].as_f64().expect("a number") > 1.0,
        "{scores}"
    );

    let generate = |seed: &str| {
        sandbox
            .succeed(&[
                "generate", "run", "--prompt", "sieh", "-n", "5", "--seed", seed,
            ])
            .0
    };
    let texts = generate("1");
    assert_eq!(texts.lines().count(), 5);
    assert!(
        texts.lines().all(|text| text.starts_with("sieh")),
        "{texts}"
    );
    assert_eq!(texts, generate("1"));
    assert_ne!(texts, generate("2"));

    for command in [
        &["translate", "run"][..],
        &["score", "run", "train.en", "train.de"],
        &["attention", "run", "a", "--pharaoh"],
    ] {
        let message = sandbox.fail(2, command);
        assert!(
            message.contains("has no source") && message.contains("`polyglow generate`"),
            "{message}"
        );
    }
    assert!(
        sandbox
            .fail(1, &["generate", "run", "--prompt", "zebra"])
            .contains("vocabulary lacks")
    );
    assert!(
        sandbox
            .fail(2, &["generate", "run", "--max-len", "99"])
            .contains("reads and writes 20 tokens")
    );
    assert!(
        sandbox
            .fail(2, &["generate", "run", "--top-p", "2"])
            .contains("search.top_p")
    );
    let message = sandbox.fail(
        2,
        &[
            "train",
            "lm.toml",
            "--run",
            "new",
            "--set",
            "tokenizer.shared=false",
        ],
    );
    assert!(message.contains("`tokenizer.shared = false`"), "{message}");
}

/// Windows of five positions begin at 0, 3, 6, ...; each position counts in the first window that
/// has it.
fn scores_of_windows_are_those_of_the_model(run: &Path, text: &Path) {
    let device = Device::flex();
    let trained = TrainedModel::load(run, &device).expect("it is a run");
    let plan = trained.plan.clone();
    let runner = runner(vec![trained], &plan).expect("it is a model");
    let text = fs::read_to_string(text).expect("it is there");
    let pairs: Vec<Pair> = text
        .lines()
        .map(|tgt| Pair {
            src: String::new(),
            tgt: tgt.to_owned(),
        })
        .collect();
    let actual: Vec<f32> = runner
        .task
        .teacher_forced(&runner, &pairs)
        .expect("it can be scored")
        .into_iter()
        .flat_map(|line| line.log_probs)
        .collect();
    let special = runner.tgt.special();
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let ids = runner.tgt.encode(line).expect("it has ids");
        inputs.extend([&[special.bos], &*ids].concat());
        outputs.extend([&*ids, &[special.eos]].concat());
    }
    assert_eq!(actual.len(), outputs.len());
    for (position, (actual, output)) in actual.iter().zip(outputs).enumerate() {
        let start = if position < 5 {
            0
        } else {
            (position - 2) / 3 * 3
        };
        let window: Vec<i32> = inputs[start..=position]
            .iter()
            .map(|&id| id as i32)
            .collect();
        let len = window.len();
        let ids = Tensor::<2, Int>::from_data(TensorData::new(window, [1, len]), &device);
        let log_probs = log_softmax(runner.members[0].model.predict(Text { ids }).logits(), 1);
        let expected: f32 = log_probs
            .slice(s![len - 1..len, output as usize..=output as usize])
            .into_scalar();
        assert!(
            (actual - expected).abs() < 1e-5,
            "position {position}: {actual} and {expected}"
        );
    }
}

#[test]
fn a_language_model_reads_a_text_in_windows() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "lm.toml", LM);
    let windows = ["--set", "data.context_len=5"];
    let train = |run: &str, more: &[&str]| {
        sandbox.succeed(&[&["train", "lm.toml", "--run", run], &windows[..], more].concat());
    };
    train("straight", &[]);
    train("resumed", &["--set", "train.max_steps=3"]);
    train("resumed", &[]);
    let weights = |run: &str| {
        fs::read(
            sandbox
                .path()
                .join(run)
                .join("checkpoints/step-6/model.safetensors"),
        )
        .expect("it is there")
    };
    assert!(weights("straight") == weights("resumed"));
    let scores = sandbox.json(&["evaluate", "straight", "--json"]);
    let number = |key: &str| {
        scores[key]
            .as_f64()
            .unwrap_or_else(|| panic!("no {key} in {scores}"))
    };
    // The twelve tokens of the four lines, as without windows.
    let bits = number("loss") * 12.0 / std::f64::consts::LN_2 / 36.0;
    assert!((number("bits_per_byte") - bits).abs() < 1e-9, "{scores}");
    assert_eq!(
        sandbox
            .succeed(&["generate", "straight", "--prompt", "sieh", "-n", "2"])
            .0
            .lines()
            .count(),
        2
    );

    // A longer window than the model has positions, and models that are not alike.
    sandbox.succeed(&["evaluate", "straight", "--set", "data.context_len=64"]);
    sandbox.succeed(&[
        "train",
        "lm.toml",
        "--run",
        "short",
        "--set",
        "data.context_len=3",
    ]);
    sandbox.succeed(&["evaluate", "straight", "--ensemble", "short"]);
    configure(&sandbox, "skipgram.toml", SKIP_GRAM);
    sandbox.succeed(&["train", "skipgram.toml", "--run", "words"]);
    let message = sandbox.fail(2, &["evaluate", "words", "--ensemble", "straight"]);
    assert!(message.contains("different tasks"), "{message}");
    scores_of_windows_are_those_of_the_model(
        &sandbox.path().join("straight"),
        &sandbox.path().join("test.de"),
    );
    assert!(
        sandbox
            .fail(2, &["generate", "straight", "--max-len", "5"])
            .contains("reads and writes 4 tokens")
    );
    let message = sandbox.fail(
        2,
        &[
            "train",
            "tiny.toml",
            "--run",
            "new",
            "--set",
            "data.context_len=5",
        ],
    );
    assert!(
        message.contains("`data.context_len` belongs to language models"),
        "{message}"
    );
}

#[test]
fn a_language_model_reads_plain_text_files() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "lm.toml", LM);
    let sides: Vec<String> = ["train", "valid", "test"]
        .iter()
        .flat_map(|split| ["--set".to_owned(), format!("data.{split}={split}.de")])
        .collect();
    let text = fs::read_to_string(sandbox.path().join("lm.toml")).expect("it is there");
    let text = text
        .replace("src = \"en\"\n", "")
        .replace("tgt = \"de\"\n", "");
    fs::write(sandbox.path().join("lm.toml"), text).expect("it can be written");
    let mut command = vec!["train", "lm.toml", "--run", "run"];
    command.extend(sides.iter().map(String::as_str));
    sandbox.succeed(&command);
    assert!(sandbox.json(&["evaluate", "run", "--json"])["bits_per_byte"].is_number());
    let info = sandbox.succeed(&["info", "run"]).0;
    assert!(
        info.contains("model        lm, 1 layers, d_model 8")
            && info.contains("data         one side"),
        "{info}"
    );
    let message = sandbox.fail(1, &["train", "lm.toml", "--run", "other"]);
    assert!(
        message.contains("`data.train`") || message.contains("data.train"),
        "{message}"
    );
}

#[test]
fn bf16_is_for_cpus_that_have_instructions_for_it() {
    let sandbox = Sandbox::new();
    let train = [
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--set",
        "train.precision=bf16",
    ];
    let message = sandbox.fail(
        2,
        &[&train[..], &["--set", "train.gradient_checkpointing=true"]].concat(),
    );
    if polyglow_kernels::has_bf16_products() {
        assert!(
            message.contains("`train.gradient_checkpointing` turns them off"),
            "{message}"
        );
        sandbox.succeed(&train);
        assert!(sandbox.succeed(&["evaluate", "run"]).0.contains("BLEU"));
    } else {
        assert!(
            message.contains("neither AMX-BF16 nor AVX512-BF16"),
            "{message}"
        );
        assert!(!sandbox.path().join("run").exists(), "nothing was begun");
    }
}

#[test]
fn f16_is_imitated_on_a_cpu() {
    let sandbox = Sandbox::new();
    let (_, message) = sandbox.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--set",
        "train.precision=f16",
    ]);
    assert!(message.contains("a CPU imitates it"), "{message}");
    assert!(sandbox.succeed(&["evaluate", "run"]).0.contains("BLEU"));
    let sums = [
        "train",
        "tiny.toml",
        "--run",
        "other",
        "--set",
        "train.exchange_precision=f16",
    ];
    let message = sandbox.fail(2, &sums);
    assert!(
        message.contains("sums of gradients may be larger than f16 holds"),
        "{message}"
    );
}
