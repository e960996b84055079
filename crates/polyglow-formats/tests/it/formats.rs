//! Foreign formats, against what the libraries write and say whose formats they are
//! (`scripts/golden-formats.py`).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Int, Tensor, TensorData};
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_formats::{Array, Arrays, Export, Portable, Precision, format_named, import};
use polyglow_model::search::SearchRequest;
use polyglow_model::{
    Activation, Inputs, ModelConfig, Norm, Pair, Position, Predict, TieEmbeddings,
};
use polyglow_predict::translate::Request;
use polyglow_train::run::RunDirectory;
use polyglow_train::run::read_weights;
use polyglow_train::{Config, Runner};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(path)
}

fn parse<T: for<'a> Deserialize<'a>>(path: &Path) -> T {
    serde_json::from_slice(&fs::read(path).expect("it is there")).expect("it is as above")
}

fn export(
    run: &RunDirectory,
    format: &str,
    precision: Precision,
    out: &Path,
) -> polyglow_train::Result<usize> {
    let (precision, out) = (Some(precision), out.to_owned());
    let export = Export {
        format: format_named(format).expect("a format"),
        checkpoint: "last".to_owned(),
        precision,
        verify: 20,
        out,
        package: None,
    };
    export
        .write(run, run.config()?)
        .map(|exported| exported.verified)
}

// CTranslate2.

#[derive(Deserialize)]
struct Converted {
    sizes: ModelConfig,
    max_len: usize,
    vocabularies: [usize; 2],
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    norm: Norm,
    activation: Activation,
    position: Position,
    tie_embeddings: TieEmbeddings,
    sha256: HashMap<String, String>,
}

/// Numbers between -1 and 1 that any program computes alike: they are exact.
fn weight(tensor: i64, shape: &[usize]) -> Vec<f32> {
    let count: usize = shape.iter().product();
    (0..count as i64)
        .map(|index| ((index * 7919 + tensor * 104_729 + 13) % 2048 - 1024) as f32 / 1024.0)
        .collect()
}

/// A tokenizer of `size` words.
fn words(size: usize) -> Tokenizer {
    let special = ["<pad>", "<s>", "</s>", "<unk>"];
    let tokens = special
        .map(str::to_owned)
        .into_iter()
        .chain((4..size).map(|id| format!("w{id}")));
    let vocab: serde_json::Map<String, Value> = tokens
        .zip(0..)
        .map(|(token, id)| (token, json!(id)))
        .collect();
    let added: Vec<Value> = (0..4)
        .map(|id| {
            json!({"id": id, "content": special[id], "special": true, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false})
        })
        .collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": vocab},
    });
    Tokenizer::parse(json.to_string().as_bytes(), "words").expect("it is a tokenizer")
}

/// A run of a model of this kind, whose weights are those of [`weight`].
fn run_of(
    sizes: &ModelConfig,
    max_len: usize,
    vocabularies: [usize; 2],
    model: &ModelConfig,
    path: &Path,
) -> RunDirectory {
    let shared = model.tie_embeddings == TieEmbeddings::All;
    let [src, tgt] = vocabularies;
    let tokenizers = if shared {
        Tokenizers::shared(words(src))
    } else {
        Tokenizers {
            src: words(src).into(),
            tgt: words(tgt).into(),
        }
    };
    let mut config = Config {
        model: ModelConfig { ..sizes.clone() },
        ..Config::default()
    };
    config.model = ModelConfig {
        norm: model.norm,
        activation: model.activation,
        position: model.position,
        tie_embeddings: model.tie_embeddings,
        output_bias: model.output_bias,
        ..config.model
    };
    config.tokenizer.shared = shared;
    config.data.max_len = max_len - 1;
    config.train.max_steps = Some(1);
    let vocabulary = polyglow_model::Vocabulary {
        src_size: src,
        tgt_size: if shared { src } else { tgt },
        shared,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len,
        image: None,
    };
    let blank = config
        .model
        .shape(vocabulary)
        .expect("it is valid")
        .blank(&Device::flex());
    let mut names: Vec<(String, Vec<usize>)> = polyglow_model::parameter::read(&blank)
        .into_iter()
        .map(|(name, data)| (name, data.shape().to_vec()))
        .collect();
    names.sort();
    let arrays = (0..).zip(names).map(|(number, (name, shape))| {
        let values = weight(number, &shape);
        (name, Array { shape, values })
    });
    let arrays = Arrays(arrays.collect());
    Portable {
        config,
        tokenizers,
        arrays,
    }
    .create_run(path)
    .expect("it can be made")
}

// A page.

#[test]
fn a_page_has_the_model_in_8_bits_next_to_the_package_and_fetches_it_again_only_if_it_changed() {
    let Converted {
        sizes,
        max_len,
        vocabularies,
        ..
    } = parse(&golden("ctranslate2.json"));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = run_of(
        &sizes,
        max_len,
        vocabularies,
        &sizes,
        &dir.path().join("run"),
    );
    let mut config = run.config().expect("it is there");
    (config.data.src, config.data.tgt) = (Some("en".to_owned()), Some("de".to_owned()));
    let package = dir.path().join("package");
    fs::create_dir(&package).expect("a directory");
    let write = |out: &str, precision, package: Option<&Path>| {
        let (out, package) = (dir.path().join(out), package.map(Path::to_owned));
        let checkpoint = "last".to_owned();
        let export = Export {
            format: format_named("web").expect("a format"),
            checkpoint,
            precision,
            verify: 20,
            out: out.clone(),
            package,
        };
        export
            .write(&run, config.clone())
            .map(|exported| (exported, out))
    };
    let refused = |precision, package| {
        write("refused", precision, package)
            .expect_err("it cannot be")
            .to_string()
    };
    assert!(refused(None, None).contains("no package"));
    assert!(refused(None, Some(&*package)).contains("it has no `LICENSE-APACHE`"));
    let texts = [
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "index.d.ts",
        "package.json",
    ];
    let needed = [
        "index.html",
        "index.js",
        "local.js",
        "polyglow_web.js",
        "polyglow_web_bg.wasm",
        "worker.js",
    ];
    for name in texts.iter().chain(&needed) {
        fs::write(package.join(name), name).expect("it can be written");
    }
    fs::write(package.join("service-worker.js"), "@VERSION@ @FILES@").expect("it can be written");
    assert!(refused(Some(Precision::Float16), Some(&*package)).contains("float16"));

    let (exported, page) = write("page", None, Some(&package)).expect("it can be written");
    assert_eq!(
        (exported.precision, exported.verified),
        (Precision::Int8, 20)
    );
    assert_eq!(
        fs::read_to_string(page.join("worker.js")).expect("it is there"),
        "worker.js"
    );
    let model: Value = parse(&page.join("model.json"));
    assert_eq!(
        (&model["source"], &model["target"]),
        (&json!("en"), &json!("de"))
    );
    let named = |key: &str| {
        fs::read(page.join(model[key].as_str().expect(key))).expect("what is named is there")
    };
    assert_eq!(model["bytes"], json!(named("weights").len()));
    let (config, tokenizer) = (
        String::from_utf8(named("config")).expect("it is text"),
        named("tokenizer"),
    );
    let target = (!model["targetTokenizer"].is_null()).then(|| named("targetTokenizer"));
    let tokenizers = Tokenizers::parse(&tokenizer, target.as_deref()).expect("it is a tokenizer");
    let runner = Runner::from_bytes(&config, &tokenizers, &named("weights"), Device::flex())
        .expect("it belongs together");
    assert_eq!(runner.best(&["w5 w6", ""]).expect("it translates").len(), 2);

    let service_worker =
        |page: &Path| fs::read_to_string(page.join("service-worker.js")).expect("it is there");
    let (version, files) = service_worker(&page)
        .split_once(' ')
        .map(|(v, f)| (v.to_owned(), f.to_owned()))
        .expect("both");
    let files: Vec<String> = serde_json::from_str(&files).expect("a list");
    assert!(
        files
            .iter()
            .all(|name| name == "./" || page.join(name).is_file()),
        "{files:?}"
    );
    let keeps = |name: &str| files.iter().any(|file| file == name);
    assert!(
        needed.into_iter().chain(["model.safetensors"]).all(keeps),
        "{files:?}"
    );
    assert!(
        !texts.into_iter().chain(["README.md"]).any(keeps),
        "{files:?}"
    );
    let (_, same) = write("same", None, Some(&package)).expect("it can be written");
    assert_eq!(service_worker(&same), service_worker(&page));
    let (_, other) =
        write("other", Some(Precision::Float32), Some(&package)).expect("it can be written");
    assert!(!service_worker(&other).starts_with(&version));
}

#[test]
fn ctranslate2_gets_the_bytes_that_its_own_converter_writes() {
    let Converted {
        sizes,
        max_len,
        vocabularies,
        cases,
    } = parse(&golden("ctranslate2.json"));
    assert_eq!(cases.len(), 4);
    for case in cases {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let model = ModelConfig {
            norm: case.norm,
            activation: case.activation,
            position: case.position,
            tie_embeddings: case.tie_embeddings,
            output_bias: case.activation == Activation::Swish,
            ..ModelConfig::default()
        };
        let run = run_of(
            &sizes,
            max_len,
            vocabularies,
            &model,
            &dir.path().join("run"),
        );
        for precision in Precision::ALL {
            let out = dir.path().join(precision.name());
            assert_eq!(
                export(&run, "ctranslate2", precision, &out).expect("it can be written"),
                20
            );
            let bytes = fs::read(out.join("model.bin")).expect("it is there");
            let hash = Sha256::digest(&bytes)
                .iter()
                .fold(String::new(), |hash, byte| format!("{hash}{byte:02x}"));
            assert_eq!(
                hash,
                case.sha256[precision.name()],
                "{:?} {:?} {}",
                case.norm,
                case.activation,
                precision.name()
            );
        }
    }
}

#[test]
fn every_kind_of_transformer_comes_back_from_ctranslate2_as_it_went() {
    let Converted {
        sizes,
        max_len,
        vocabularies,
        ..
    } = parse(&golden("ctranslate2.json"));
    for position in [
        Position::Sinusoidal,
        Position::Learned,
        Position::Rotary,
        Position::None,
    ] {
        for activation in [
            Activation::Relu,
            Activation::Gelu,
            Activation::Swish,
            Activation::Swiglu,
        ] {
            for tie_embeddings in [
                TieEmbeddings::All,
                TieEmbeddings::Decoder,
                TieEmbeddings::None,
            ] {
                let dir = tempfile::tempdir().expect("a temporary directory");
                let norm = if activation == Activation::Gelu {
                    Norm::Post
                } else {
                    Norm::Pre
                };
                let model = ModelConfig {
                    norm,
                    activation,
                    position,
                    tie_embeddings,
                    output_bias: true,
                    ..ModelConfig::default()
                };
                let run = run_of(
                    &sizes,
                    max_len,
                    vocabularies,
                    &model,
                    &dir.path().join("run"),
                );
                let out = dir.path().join("out");
                export(&run, "ctranslate2", Precision::Float32, &out).expect("it can be written");
                let again = import(&out).expect("it can be read");
                let (_, weights) = run.weights("last").expect("it is there");
                for (name, data) in weights.rest() {
                    let array = &again.arrays.0[name];
                    assert_eq!(
                        array.values,
                        data.iter::<f32>().collect::<Vec<_>>(),
                        "{name}"
                    );
                }
                assert_eq!(weights.rest().count(), again.arrays.0.len());
            }
        }
    }
}

// MarianMT.

#[derive(Deserialize)]
struct Reference {
    examples: Vec<Example>,
}

#[derive(Deserialize)]
struct Example {
    source: String,
    decoder_input_ids: Vec<usize>,
    #[serde(default)]
    logits: Vec<Vec<f32>>,
    pieces: Vec<String>,
    greedy_text: String,
    beam_texts: Vec<String>,
    beam_scores: Vec<f32>,
}

/// The output of an imported model for a source and a decoder input, by the ids of the original.
fn logits(
    runner: &Runner,
    vocab: &HashMap<String, usize>,
    example: &Example,
) -> Vec<HashMap<usize, f32>> {
    let (src, tgt) = (&runner.members[0].src, &runner.tgt);
    let id_of_theirs: HashMap<usize, u32> = (4..tgt.vocab_size() as u32)
        .filter_map(|id| Some((*vocab.get(&tgt.token(id)?)?, id)))
        .chain([(0, 2), (1, 3)])
        .collect();
    let mut source = src.encode(&example.source).expect("it is text");
    source.push(src.special().eos);
    let mut target = vec![tgt.special().bos];
    target.extend(
        example.decoder_input_ids[1..]
            .iter()
            .map(|id| id_of_theirs[id]),
    );
    let tensor = |ids: &[u32]| {
        let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        let shape = [1, ids.len()];
        Tensor::<2, Int>::from_data(TensorData::new(ids, shape), &Device::flex())
    };
    let inputs = Pair {
        src: tensor(&source).into(),
        tgt_in: tensor(&target),
    };
    let logits = runner.members[0]
        .model
        .predict(Inputs::from(inputs))
        .logits();
    let width = tgt.vocab_size();
    let values: Vec<f32> = logits.into_data().iter::<f32>().collect();
    let row = |row: &[f32]| {
        id_of_theirs
            .iter()
            .map(|(theirs, ours)| (*theirs, row[*ours as usize]))
            .collect()
    };
    values.chunks_exact(width).map(row).collect()
}

/// Checks that a model gives the logits and the text that transformers gave.
fn with_beam(beam_size: usize) -> SearchRequest {
    SearchRequest {
        beam_size: Some(beam_size),
        scores: true,
        ..SearchRequest::default()
    }
}

fn check_marian(model: &Portable) {
    let runner = model.runner(&Device::flex()).expect("it is whole");
    let vocab: HashMap<String, usize> = parse(&golden("marian/vocab.json"));
    let Reference { mut examples } = parse(&golden("marian/reference.json"));
    // A piece that only the target's model has, but both vocabularies, is an unknown word here:
    // docs/formats.md.
    let src = &runner.members[0].src;
    let pieces: Vec<String> = (0..src.vocab_size() as u32)
        .filter_map(|id| src.token(id))
        .collect();
    let count = examples.len();
    examples.retain(|example| {
        example
            .pieces
            .iter()
            .all(|piece| pieces.contains(piece) || !vocab.contains_key(piece))
    });
    assert_eq!(examples.len(), count - 1);
    let mut compared = 0;
    for example in &examples {
        if example.logits.is_empty() {
            continue;
        }
        for (ours, theirs) in logits(&runner, &vocab, example).iter().zip(&example.logits) {
            for (id, ours) in ours {
                let difference = (ours - theirs[*id]).abs();
                assert!(
                    difference < 1e-4,
                    "{}: {ours} for {}",
                    example.source,
                    theirs[*id]
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared}");
    let requests: Vec<Request> = examples
        .iter()
        .map(|example| Request {
            text: example.source.clone(),
            ..Request::default()
        })
        .collect();
    for (hypotheses, example) in runner
        .translate(&requests, &with_beam(1))
        .expect("it translates")
        .iter()
        .zip(&examples)
    {
        assert_eq!(
            hypotheses[0].text, example.greedy_text,
            "greedy, {}",
            example.source
        );
    }
    for (hypotheses, example) in runner
        .translate(&requests, &with_beam(4))
        .expect("it translates")
        .iter()
        .zip(&examples)
    {
        assert_eq!(
            hypotheses[0].text, example.beam_texts[0],
            "beam of 4, {}",
            example.source
        );
        // Theirs shares its probabilities with tokens that only the source has, which ours cannot
        // choose.
        let ours = hypotheses[0].scores.expect("they were requested").score;
        let theirs = example.beam_scores[0];
        assert!(
            ours > theirs - 1e-3 && ours < theirs + 0.05,
            "{}: {ours} for {theirs}",
            example.source
        );
    }
}

#[test]
fn a_model_of_marian_says_what_transformers_says() {
    let model = import(&golden("marian")).expect("it can be read");
    assert_eq!(
        (
            model.config.data.src.as_deref(),
            model.config.data.tgt.as_deref()
        ),
        (Some("en"), Some("de"))
    );
    check_marian(&model);
}

#[test]
fn a_model_of_marian_goes_out_and_comes_back_with_the_same_logits() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = import(&golden("marian"))
        .expect("it can be read")
        .create_run(&dir.path().join("run"))
        .expect("there is room");
    for format in ["huggingface", "ctranslate2"] {
        let out = dir.path().join(format);
        export(&run, format, Precision::Float32, &out).expect("it can be written");
        check_marian(&import(&out).expect("it can be read"));
    }
}

#[test]
fn weights_that_pytorch_saved_are_those_of_the_safetensors_file() {
    let expected = import(&golden("marian")).expect("it can be read").arrays;
    for file in ["pytorch_model.bin", "pytorch_model.old.bin"] {
        let dir = marian_without("model.safetensors");
        fs::copy(
            golden("marian").join(file),
            dir.path().join("pytorch_model.bin"),
        )
        .expect("it can be copied");
        assert_eq!(
            import(dir.path()).expect("it can be read").arrays,
            expected,
            "{file}"
        );
    }
}

#[test]
fn weights_of_16_bits_become_what_they_stand_for() {
    let read = |file: &str| read_weights(&golden("marian").join(file)).expect("it can be read");
    let exact = read("model.safetensors")
        .take("model.encoder.layers.0.final_layer_norm.weight", &[24])
        .expect("it is there");
    for (file, steps) in [("f16.safetensors", 2048.0), ("bf16.safetensors", 256.0)] {
        let rounded = read(file).take("norm", &[24]).expect("it is there");
        for (rounded, exact) in rounded.iter::<f32>().zip(exact.iter::<f32>()) {
            assert!(
                (rounded - exact).abs() <= exact.abs() / steps,
                "{file}: {rounded} for {exact}"
            );
        }
    }
}

/// The golden model without one of its files.
fn marian_without(file: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "source.spm",
        "target.spm",
        "vocab.json",
    ] {
        if name != file {
            fs::copy(golden("marian").join(name), dir.path().join(name)).expect("it can be copied");
        }
    }
    dir
}

#[test]
fn a_file_that_is_missing_cut_off_or_of_another_model_is_an_error_that_names_it() {
    for name in [
        "config.json",
        "model.safetensors",
        "source.spm",
        "target.spm",
        "vocab.json",
    ] {
        let dir = marian_without(name);
        let error = import(dir.path())
            .map(drop)
            .expect_err("a file is missing")
            .to_string();
        assert!(
            error.contains("config.json") || error.contains(name),
            "{name}: {error}"
        );
        let bytes = fs::read(golden("marian").join(name)).expect("it is there");
        for end in [0, 1, bytes.len() / 2, bytes.len() - 2] {
            fs::write(dir.path().join(name), &bytes[..end]).expect("it can be written");
            let error = import(dir.path())
                .map(drop)
                .expect_err("it is cut off")
                .to_string();
            assert!(error.contains(name), "{name} at {end}: {error}");
        }
    }
    let dir = marian_without("");
    let config = fs::read_to_string(dir.path().join("config.json")).expect("it is there");
    for (old, new, expected) in [
        ("\"marian\"", "\"bart\"", "`model_type` is \"bart\""),
        (
            "\"swish\"",
            "\"gelu_new\"",
            "`activation_function` is \"gelu_new\"",
        ),
        (
            "\"scale_embedding\": true",
            "\"scale_embedding\": false",
            "`scale_embedding` is false",
        ),
        (
            "\"encoder_ffn_dim\": 36",
            "\"encoder_ffn_dim\": 64",
            "`encoder_ffn_dim` is 64",
        ),
        ("\"d_model\": 24", "\"d_model\": 20", "not [20, 20]"),
        (
            "\"encoder_layers\": 2",
            "\"encoder_layers\": 3",
            "model.encoder.layers.2",
        ),
        ("\"encoder_layers\": 2", "\"encoder_layers\": 1", "no place"),
        (
            "\"decoder_layers\": 2",
            "\"decoder_layers\": -2",
            "a whole number",
        ),
    ] {
        assert!(config.contains(old), "{old}");
        fs::write(dir.path().join("config.json"), config.replace(old, new))
            .expect("it can be written");
        let error = import(dir.path()).map(drop).expect_err(new).to_string();
        assert!(error.contains(expected), "{new}: {error}");
    }
}

#[test]
fn a_program_in_a_pickle_is_not_run() {
    let dir = marian_without("model.safetensors");
    // What `pickle` makes of an object whose `__reduce__` calls `os.system`, as a file of PyTorch
    // before its version 1.6.
    let mut bytes = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec();
    bytes.extend(b"\x80\x02}X\x0d\x00\x00\x00little_endian\x88s.");
    bytes.extend(b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.\x80\x02].");
    fs::write(dir.path().join("pytorch_model.bin"), bytes).expect("it can be written");
    let error = import(dir.path())
        .map(drop)
        .expect_err("it is a program")
        .to_string();
    assert!(
        error.contains("pytorch_model.bin") && error.contains("posix.system"),
        "{error}"
    );
}

#[test]
fn ctranslate2_files_that_are_damaged_are_errors_that_name_them() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = import(&golden("marian"))
        .expect("it can be read")
        .create_run(&dir.path().join("run"))
        .expect("there is room");
    let out = dir.path().join("ct2");
    export(&run, "ctranslate2", Precision::Int8, &out).expect("it can be written");
    for name in ["model.bin", "config.json", "source_vocabulary.json"] {
        let bytes = fs::read(out.join(name)).expect("it is there");
        for end in [0, 3, bytes.len() / 2, bytes.len() - 3] {
            fs::write(out.join(name), &bytes[..end]).expect("it can be written");
            let error = import(&out)
                .map(drop)
                .expect_err("it is cut off")
                .to_string();
            assert!(error.contains(name), "{name} at {end}: {error}");
        }
        fs::write(out.join(name), &bytes).expect("it can be written");
    }
    fs::write(out.join("source_vocabulary.json"), "[\"<s>\"]").expect("it can be written");
    let error = import(&out)
        .map(drop)
        .expect_err("there are more embeddings")
        .to_string();
    assert!(error.contains("1 source tokens"), "{error}");
}

#[test]
fn what_hugging_face_has_no_class_for_is_refused_with_the_reason() {
    let Converted {
        sizes,
        max_len,
        vocabularies,
        ..
    } = parse(&golden("ctranslate2.json"));
    let base = ModelConfig::default();
    let cases = [
        (
            ModelConfig {
                position: Position::Learned,
                ..base.clone()
            },
            "positions are not sinusoidal",
        ),
        (
            ModelConfig {
                activation: Activation::Swiglu,
                ..base.clone()
            },
            "gated",
        ),
        (
            ModelConfig {
                norm: Norm::Pre,
                tie_embeddings: TieEmbeddings::Decoder,
                ..base.clone()
            },
            "shares all embeddings",
        ),
        (
            ModelConfig {
                tie_embeddings: TieEmbeddings::Decoder,
                ..base
            },
            "these tokenizers do not go to Hugging Face",
        ),
    ];
    for (number, (model, reason)) in cases.into_iter().enumerate() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let run = run_of(
            &sizes,
            max_len,
            vocabularies,
            &model,
            &dir.path().join("run"),
        );
        let out = dir.path().join("out");
        let error = export(&run, "huggingface", Precision::Float32, &out).expect_err("it has none");
        assert!(error.to_string().contains(reason), "{number}: {error}");
        assert!(
            error
                .hint()
                .is_some_and(|hint| hint.contains("ctranslate2")),
            "{number}"
        );
        assert!(!out.exists() && fs::read_dir(dir.path()).expect("it is there").count() == 1);
    }
}
