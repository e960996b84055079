//! Tokenizers as the files that transformers reads.

use std::collections::BTreeMap;
use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_predict::error::{Context, Result, usage, with_hint};
use serde_json::{Value, json};

use super::super::folder;
use crate::portable::Portable;

/// Writes the tokenizers of a model into a folder.
///
/// One tokenizer for both sides is `tokenizer.json`; two need the class of MarianMT, which has
/// SentencePiece models.
///
/// # Errors
/// Two tokenizers are no unigram models (exit code 2); the disk refuses.
pub(super) fn write(model: &Portable, longest: usize, dir: &Path) -> Result<()> {
    let Tokenizers { src, tgt } = &model.tokenizers;
    if model.tokenizers.is_shared() {
        return write_one(src, Mark::End, longest, dir);
    }
    let mut config = config(src, longest);
    for (tokenizer, name) in [(src, "source.spm"), (tgt, "target.spm")] {
        folder::write(dir, name, &unigram(tokenizer)?)?;
    }
    folder::write_json(dir, "vocab.json", &vocabulary(src))?;
    folder::write_json(dir, "target_vocab.json", &vocabulary(tgt))?;
    config["tokenizer_class"] = "MarianTokenizer".into();
    config["separate_vocabs"] = true.into();
    config["source_lang"] = model.config.data.src.clone().into();
    config["target_lang"] = model.config.data.tgt.clone().into();
    folder::write_json(dir, "tokenizer_config.json", &config)
}

/// Makes sure that transformers reads the tokenizers of a model.
///
/// # Errors
/// Two tokenizers are no unigram models (exit code 2).
pub(super) fn check(model: &Portable) -> Result<()> {
    let Tokenizers { src, tgt } = &model.tokenizers;
    if model.tokenizers.is_shared() {
        return Ok(());
    }
    [src, tgt]
        .into_iter()
        .try_for_each(|tokenizer| unigram(tokenizer).map(drop))
}

/// One of two tokenizers as the SentencePiece model that `MarianTokenizer` reads.
fn unigram(tokenizer: &Tokenizer) -> Result<Vec<u8>> {
    tokenizer.to_unigram().map_err(|error| {
        let advice = "with two tokenizers transformers has only MarianTokenizer, which reads SentencePiece's unigram models; \
                      `--to ctranslate2` takes any tokenizers";
        with_hint(usage(error).context("these tokenizers do not go to Hugging Face"), advice)
    })
}

/// A mark that a model reads with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Before it.
    Begin,
    /// Behind it.
    End,
}

/// Writes a tokenizer that adds a mark to texts.
///
/// # Errors
/// The disk refuses.
pub(super) fn write_one(
    tokenizer: &Tokenizer,
    mark: Mark,
    longest: usize,
    dir: &Path,
) -> Result<()> {
    let mut config = config(tokenizer, longest);
    config["tokenizer_class"] = "PreTrainedTokenizerFast".into();
    config["bos_token"] = tokenizer.token(tokenizer.special().bos).into();
    config["model_input_names"] = json!(["input_ids", "attention_mask"]);
    folder::write_json(dir, "tokenizer.json", &with_mark(tokenizer, mark)?)?;
    folder::write_json(dir, "tokenizer_config.json", &config)
}

/// What all classes of tokenizers are told.
fn config(tokenizer: &Tokenizer, longest: usize) -> Value {
    let marks = tokenizer.special();
    let spelling = |id: u32| tokenizer.token(id).unwrap_or_default();
    json!({
        "pad_token": spelling(marks.pad),
        "eos_token": spelling(marks.eos),
        "unk_token": spelling(marks.unk),
        "model_max_length": longest,
        "clean_up_tokenization_spaces": false,
    })
}

/// Ids by token.
fn vocabulary(tokenizer: &Tokenizer) -> BTreeMap<String, u32> {
    (0..tokenizer.vocab_size() as u32)
        .filter_map(|id| Some((tokenizer.token(id)?, id)))
        .collect()
}

/// The `tokenizer.json` with a step that adds a mark, as the model reads it.
fn with_mark(tokenizer: &Tokenizer, mark: Mark) -> Result<Value> {
    let mut json: Value =
        serde_json::from_str(&tokenizer.to_json()?).context("a tokenizer is JSON")?;
    let id = match mark {
        Mark::Begin => tokenizer.special().bos,
        Mark::End => tokenizer.special().eos,
    };
    let spelling = tokenizer.token(id).unwrap_or_default();
    let text = |name: &str, kind: u8| json!({"Sequence": {"id": name, "type_id": kind}});
    let token = json!({"SpecialToken": {"id": spelling, "type_id": 0}});
    let with = |mut texts: Vec<Value>| {
        texts.insert(
            if mark == Mark::Begin { 0 } else { texts.len() },
            token.clone(),
        );
        texts
    };
    let mut special = serde_json::Map::new();
    special.insert(
        spelling.clone(),
        json!({"id": spelling, "ids": [id], "tokens": [spelling]}),
    );
    json["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": with(vec![text("A", 0)]),
        "pair": with(vec![text("A", 0), text("B", 1)]),
        "special_tokens": special,
    });
    Ok(json)
}
