//! Folders that CTranslate2's own converters wrote, against what CTranslate2 translates with them
//! (`scripts/golden-converters.py`).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_formats::import;
use polyglow_model::search::{SearchConfig, SearchRequest};
use polyglow_model::{Norm, Position, TieEmbeddings};
use polyglow_predict::translate::Request;
use polyglow_train::Runner;
use serde::Deserialize;
use serde_json::Value;

/// The largest number of tokens that CTranslate2 was to write.
const LONGEST: usize = 24;

/// The translations of a text by CTranslate2.
#[derive(Clone, Deserialize)]
struct Answer {
    source: String,
    #[serde(default)]
    prefix: Vec<String>,
    greedy_tokens: Vec<String>,
    greedy_score: f32,
    beam_tokens: Vec<String>,
    beam_score: f32,
}

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/converters")
        .join(folder)
}

fn answers() -> BTreeMap<String, Vec<Answer>> {
    serde_json::from_slice(&fs::read(golden("answers.json")).expect("it is there"))
        .expect("it is as above")
}

/// A copy of a folder, whose files can be changed.
fn copy(folder: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for entry in fs::read_dir(golden(folder)).expect("it is there") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, dir.path().join(path.file_name().expect("a name")))
            .expect("it can be copied");
    }
    dir
}

fn error_of(dir: &Path) -> polyglow_train::TrainError {
    import(dir).map(drop).expect_err("it cannot be read")
}

/// The text of foreign tokens; none if the target's tokenizer lacks one, as pieces that only the
/// source has.
fn text_of(tokens: &[String], tokenizer: &Tokenizer) -> Option<String> {
    let known =
        (0..tokenizer.vocab_size() as u32).filter_map(|id| Some((tokenizer.token(id)?, id)));
    let ids: HashMap<String, u32> = known.collect();
    let ids: Option<Vec<u32>> = tokens.iter().map(|token| ids.get(token).copied()).collect();
    Some(tokenizer.decode(&ids?).expect("they are tokens"))
}

/// Checks that an imported folder translates as CTranslate2 does; returns the number of answers
/// that were compared.
fn check(dir: &Path, answers: &[Answer]) -> usize {
    let name = dir.display();
    let model = import(dir).unwrap_or_else(|error| panic!("{name}: {error}"));
    let runner = model
        .runner(&Device::flex())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let search = SearchConfig {
        max_len_ratio: 4.0,
        ..runner.search().clone()
    };
    let runner = runner.with_search(search);
    // What CTranslate2 cut off at its limit says nothing about where a translation ends.
    let ended = answers
        .iter()
        .filter(|answer| answer.greedy_tokens.len().max(answer.beam_tokens.len()) < LONGEST);
    let ended: Vec<Answer> = ended.cloned().collect();
    for (beam_size, expected) in [(1, greedy as fn(&Answer) -> (&[String], f32)), (4, beam)] {
        let search = SearchRequest {
            beam_size: Some(beam_size),
            scores: true,
            ..SearchRequest::default()
        };
        compare(
            &runner,
            &search,
            &ended,
            expected,
            &format!("{name}, beam size {beam_size}"),
        );
    }
    ended.len()
}

fn greedy(answer: &Answer) -> (&[String], f32) {
    (&answer.greedy_tokens, answer.greedy_score)
}

fn beam(answer: &Answer) -> (&[String], f32) {
    (&answer.beam_tokens, answer.beam_score)
}

fn compare(
    runner: &Runner,
    search: &SearchRequest,
    answers: &[Answer],
    expected: fn(&Answer) -> (&[String], f32),
    name: &str,
) {
    let request = |answer: &Answer| Request {
        text: answer.source.clone(),
        prefix: answer.prefix.join(" "),
        ..Request::default()
    };
    let requests: Vec<Request> = answers.iter().map(request).collect();
    let hypotheses = runner.translate(&requests, search).expect("it translates");
    for (hypotheses, answer) in hypotheses.iter().zip(answers) {
        let (tokens, score) = expected(answer);
        // A begin token is no part of our hypotheses.
        let text = text_of(tokens, &runner.tgt).unwrap_or_else(|| panic!("{name}: {tokens:?}"));
        assert_eq!(hypotheses[0].text, text, "{name}: {}", answer.source);
        // Of a prefix, CTranslate2 does not count the probabilities; and it shares those of a token
        // among more tokens.
        if answer.prefix.is_empty() {
            let ours = hypotheses[0].scores.expect("they were requested").score;
            assert!(
                ours > score - 1e-3 && ours < score + 0.05,
                "{name}: {}: {ours} for {score}",
                answer.source
            );
        }
    }
}

#[test]
fn folders_of_the_converters_translate_as_ctranslate2_does() {
    let answers = answers();
    assert_eq!(answers.len(), 10);
    for (folder, answers) in &answers {
        let compared = check(&golden(folder), answers);
        assert!(compared >= 4, "{folder}: {compared}");
    }
}

#[test]
fn tokenizers_that_are_copied_into_a_folder_are_used() {
    let dir = copy("opus-mt");
    for name in ["source.spm", "target.spm"] {
        fs::copy(golden("marian-float16").join(name), dir.path().join(name))
            .expect("it can be copied");
    }
    // The weights are those of the model from transformers.
    assert!(check(dir.path(), &answers()["marian-float16"]) >= 4);
    let model = import(&golden("pegasus")).expect("it can be read");
    assert!(
        model.tokenizers.is_shared(),
        "one `tokenizer.json` is for both sides"
    );
    assert_eq!(model.config.model.tie_embeddings, TieEmbeddings::All);
}

#[test]
fn positions_and_norms_are_those_of_the_original_model() {
    for (folder, norm, position) in [
        ("marian-float32", Norm::Post, Position::Sinusoidal),
        ("marian-bfloat16", Norm::Post, Position::Sinusoidal),
        ("opus-mt", Norm::Post, Position::Sinusoidal),
        ("pegasus", Norm::Pre, Position::Sinusoidal),
        // Sinusoids of other wavelengths are tables here.
        ("m2m100", Norm::Pre, Position::Learned),
    ] {
        let model = import(&golden(folder))
            .expect("it can be read")
            .config
            .model;
        assert_eq!((model.norm, model.position), (norm, position), "{folder}");
    }
}

#[test]
fn vocabularies_in_lines_of_text_are_read_and_missing_ones_named() {
    let dir = copy("marian-int8");
    let json = dir.path().join("shared_vocabulary.json");
    let tokens: Vec<String> =
        serde_json::from_slice(&fs::read(&json).expect("it is there")).expect("a list");
    fs::remove_file(json).expect("it is there");
    let error = error_of(dir.path());
    assert!(
        error
            .to_string()
            .contains("neither `shared_vocabulary.json` nor `source_vocabulary.json`"),
        "{error}"
    );
    fs::write(
        dir.path().join("source_vocabulary.txt"),
        tokens.join("\n") + "\n",
    )
    .expect("it can be written");
    let error = error_of(dir.path()).to_string();
    assert!(error.contains("nor `target_vocabulary.json`"), "{error}");
    fs::write(
        dir.path().join("target_vocabulary.txt"),
        tokens.join("\r\n"),
    )
    .expect("it can be written");
    assert!(check(dir.path(), &answers()["marian-int8"]) >= 4);
}

#[test]
fn models_with_other_layers_are_refused_by_their_names() {
    let of_t5 = "a bias of attention by relative position, as T5 has";
    for (folder, layer) in [
        ("bart", "a layer norm behind the embeddings"),
        ("t5", "RMS norms"),
        ("t5", of_t5),
    ] {
        let error = error_of(&golden(folder));
        let message = error.to_string();
        assert!(
            message.contains(layer) && message.contains("model.bin"),
            "{folder}: {message}"
        );
        assert!(
            error
                .hint()
                .is_some_and(|hint| hint.contains("what can be read")),
            "{folder}"
        );
    }
}

#[test]
fn configs_that_ask_for_something_else_are_refused_by_their_keys() {
    let dir = copy("opus-mt");
    let path = dir.path().join("config.json");
    let config: Value =
        serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("JSON");
    for (key, value, reason) in [
        ("layer_norm_epsilon", 1e-6.into(), "polyglow's is 1e-5"),
        (
            "add_source_bos",
            true.into(),
            "a begin token before the source",
        ),
        (
            "add_source_eos",
            false.into(),
            "sources without an end token",
        ),
        (
            "decoder_start_token",
            Value::Null,
            "whose first input the caller gives",
        ),
        (
            "multi_query_attention",
            true.into(),
            "multi-query attention",
        ),
        ("quantization_type", 1.into(), "AWQ"),
        ("eos_token", 3.into(), "a text is wanted"),
    ] {
        let mut changed = config.clone();
        changed[key] = value;
        fs::write(&path, changed.to_string()).expect("it can be written");
        let error = error_of(dir.path()).to_string();
        assert!(
            error.contains(key) && error.contains(reason) && error.contains("config.json"),
            "{key}: {error}"
        );
    }
}
