//! Tokenizers in the files that transformers reads.

use std::collections::BTreeMap;
use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_predict::error::{Context, Result, failed, usage, with_hint};
use serde_json::{Value, json};

use super::super::folder;
use crate::portable::Portable;

/// Writes the tokenizers of a model into a folder.
///
/// One tokenizer for both sides is `tokenizer.json`; two need the class of MarianMT, which has
/// SentencePiece models.
///
/// # Errors
/// As [`check`]; the disk refuses.
pub(super) fn write(model: &Portable, longest: usize, dir: &Path) -> Result<()> {
    check_tags(model)?;
    let Tokenizers { src, tgt } = &model.tokenizers;
    if model.tokenizers.is_shared() {
        let tags = model.config.data.tags();
        return write_one(src, Added::Eos, &tags.src, longest, dir);
    }
    let mut config = config(src, longest);
    for (tokenizer, name) in [(src, "source.spm"), (tgt, "target.spm")] {
        folder::write_file(dir, name, &unigram(tokenizer)?)?;
    }
    folder::write_json(dir, "vocab.json", &vocabulary(src))?;
    folder::write_json(dir, "target_vocab.json", &vocabulary(tgt))?;
    config["tokenizer_class"] = "MarianTokenizer".into();
    config["separate_vocabs"] = true.into();
    let [source, target] = model.config.data.named_languages();
    config["source_lang"] = source.into();
    config["target_lang"] = target.into();
    folder::write_json(dir, "tokenizer_config.json", &config)
}

/// Checks that transformers can read the tokenizers of a model.
///
/// # Errors
/// Two tokenizers are no unigram models, or sources begin with tags (exit code 2).
pub(super) fn check(model: &Portable) -> Result<()> {
    let Tokenizers { src, tgt } = &model.tokenizers;
    if model.tokenizers.is_shared() {
        return Ok(());
    }
    check_tags(model)?;
    unigram(src)?;
    unigram(tgt)?;
    Ok(())
}

/// Checks that a tokenizer can put the tags before a source: `MarianTokenizer` cannot.
///
/// # Errors
/// There are two tokenizers, and tags (exit code 2).
fn check_tags(model: &Portable) -> Result<()> {
    if model.tokenizers.is_shared() || model.config.data.tags().src.is_empty() {
        return Ok(());
    }
    let error = failed!("with two tokenizers, transformers cannot put a tag before a source");
    let advice = "`--to ctranslate2` can; or train with `tokenizer.shared = true`";
    Err(with_hint(usage(error), advice))
}

/// One of two tokenizers as the SentencePiece model that `MarianTokenizer` reads.
fn unigram(tokenizer: &Tokenizer) -> Result<Vec<u8>> {
    tokenizer.to_unigram().map_err(|error| {
        let advice = "with two tokenizers transformers has only MarianTokenizer, which reads SentencePiece's unigram models; \
                      `--to ctranslate2` takes any tokenizers";
        with_hint(usage(error).context("these tokenizers do not go to Hugging Face"), advice)
    })
}

/// The special token that a tokenizer adds to a text, as the model reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The begin-of-sentence token, before the text: for decoders.
    Bos,
    /// The end-of-sentence token, after the text: for encoders.
    Eos,
}

/// Writes a tokenizer that adds a special token to texts, and tags before them, and that cuts them at
/// `longest` tokens.
///
/// # Errors
/// The disk refuses.
pub(super) fn write_one(
    tokenizer: &Tokenizer,
    added: Added,
    tags: &[String],
    longest: usize,
    dir: &Path,
) -> Result<()> {
    let mut config = config(tokenizer, longest);
    config["tokenizer_class"] = "PreTrainedTokenizerFast".into();
    config["bos_token"] = tokenizer.token(tokenizer.special().bos).into();
    config["model_input_names"] = json!(["input_ids", "attention_mask"]);
    folder::write_json(dir, "tokenizer.json", &with_added(tokenizer, added, tags)?)?;
    folder::write_json(dir, "tokenizer_config.json", &config)
}

/// The keys of `tokenizer_config.json` that all classes have.
fn config(tokenizer: &Tokenizer, longest: usize) -> Value {
    let special = tokenizer.special();
    let [pad, eos, unk] =
        [special.pad, special.eos, special.unk].map(|id| tokenizer.token(id).unwrap_or_default());
    json!({
        "pad_token": pad,
        "eos_token": eos,
        "unk_token": unk,
        "model_max_length": longest,
        "clean_up_tokenization_spaces": false,
    })
}

/// The ids of a vocabulary by token.
fn vocabulary(tokenizer: &Tokenizer) -> BTreeMap<String, u32> {
    (0..tokenizer.vocab_size() as u32)
        .filter_map(|id| Some((tokenizer.token(id)?, id)))
        .collect()
}

/// The `tokenizer.json` of a tokenizer, with a last step that adds a special token, and tags before a text.
fn with_added(tokenizer: &Tokenizer, added: Added, tags: &[String]) -> Result<Value> {
    let mut json: Value =
        serde_json::from_str(&tokenizer.to_json()?).context("a tokenizer is JSON")?;
    let id = match added {
        Added::Bos => tokenizer.special().bos,
        Added::Eos => tokenizer.special().eos,
    };
    let mut special = serde_json::Map::new();
    let mut template = |spelling: &str, id: u32| {
        let token = json!({"id": spelling, "ids": [id], "tokens": [spelling]});
        special.insert(spelling.to_owned(), token);
        json!({"SpecialToken": {"id": spelling, "type_id": 0}})
    };
    let token = template(&tokenizer.token(id).unwrap_or_default(), id);
    let mut before = Vec::new();
    for tag in tags {
        before.push(template(tag, tokenizer.tag_id(tag)?));
    }
    let first = json!({"Sequence": {"id": "A", "type_id": 0}});
    let second = json!({"Sequence": {"id": "B", "type_id": 1}});
    let mut single = vec![first.clone()];
    let mut pair = vec![first, second];
    for texts in [&mut single, &mut pair] {
        match added {
            Added::Bos => texts.insert(0, token.clone()),
            Added::Eos => texts.push(token.clone()),
        }
        texts.splice(..0, before.iter().cloned());
    }
    json["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": special,
    });
    Ok(json)
}
