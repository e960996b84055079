//! Models of CTranslate2, a library for CPUs and GPUs: `model.bin`, `config.json` and vocabularies.
//!
//! Every encoder-decoder Transformer of polyglow can be written. Models of any converter can be read
//! if polyglow's Transformer has all of their layers and options.

mod binary;
mod name;
mod read;
#[cfg(test)]
mod tests;
mod unsupported;
mod variables;
mod write;

use std::path::{Path, PathBuf};

use polyglow_data::pair_tags::PairTags;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_model::registry::Named;
use polyglow_predict::error::{Context, Result, TrainError, ensure, failed, with_hint};
use polyglow_predict::tasks::TaskFacts;
use serde_json::json;

use self::binary::Binary;
use self::read::Content;
pub(super) use self::write::to_int8;
use super::Precision;
use super::array::Arrays;
use super::folder::{self, Keys};
use super::format::{Format, TAGS, Writing};
use super::portable::{Portable, tokenizers_in};
use super::vocabulary::{Foreign, SpecialTokens};

const MODEL: &str = "model.bin";
const CONFIG: &str = "config.json";
/// The largest `model.bin` that is read, in bytes. A single variable has 4 GiB at most.
const MOST_MODEL: u64 = 1 << 36;
/// The largest vocabulary in lines of text that is read, in bytes.
const MOST_VOCABULARY: u64 = 1 << 28;
/// The most tokens of a text, EOS included, for a model without a table of positions.
const MAX_LEN: usize = 512;

/// The format `ctranslate2`.
#[derive(Debug)]
pub(crate) struct Ctranslate2;

impl Named for Ctranslate2 {
    fn name(&self) -> &'static str {
        "ctranslate2"
    }
}

impl Format for Ctranslate2 {
    fn title(&self) -> &'static str {
        "CTranslate2"
    }

    fn usage(&self, _: &TaskFacts, shared: bool) -> &'static str {
        if shared {
            include_str!("usage/ctranslate2.md")
        } else {
            include_str!("usage/ctranslate2-two.md")
        }
    }

    fn tag_usage(&self, tags: &PairTags) -> Option<String> {
        let mut sentences = vec![TAGS.to_owned()];
        if !tags.src.is_empty() {
            let tags = json!(tags.src);
            sentences.push(format!(
                "Put them before those of a source: `tokens = {tags} + tokens`."
            ));
        }
        if let Some(tag) = &tags.tgt {
            let prefix = json!([[tag]]);
            sentences.push(format!("Give the tag of the target for each source: `translate_batch([tokens], target_prefix={prefix})`; \
                 hypotheses begin with it, and decoding leaves it out."
            ));
        }
        Some(sentences.join(" "))
    }

    fn check(&self, model: &Portable) -> Result<()> {
        model.transformer().map(drop)
    }

    fn write(&self, writing: &Writing, dir: &Path) -> Result<()> {
        write(writing.model, writing.precision, dir)
    }

    fn files(&self) -> Option<&'static str> {
        Some("`model.bin` (CTranslate2)")
    }

    fn is_in(&self, dir: &Path) -> bool {
        dir.join(MODEL).is_file()
    }

    fn read(&self, dir: &Path) -> Result<Portable> {
        read(dir)
    }
}

/// Writes the files of a model into a directory.
///
/// # Errors
/// It is no encoder-decoder Transformer (exit code 2); the disk refuses.
fn write(model: &Portable, precision: Precision, dir: &Path) -> Result<()> {
    let shape = model.transformer()?;
    let binary = write::binary(&model.arrays, &shape, precision)?;
    folder::write_file(dir, MODEL, &binary.to_bytes()?)?;
    // It is as large as the model.
    drop(binary);
    let Tokenizers { src, tgt } = &model.tokenizers;
    let special = tgt.special();
    let [bos, eos, unk] =
        [special.bos, special.eos, special.unk].map(|id| tgt.token(id).unwrap_or_default());
    let config = json!({
        "add_source_bos": false,
        "add_source_eos": true,
        "bos_token": bos,
        "decoder_start_token": bos,
        "eos_token": eos,
        "layer_norm_epsilon": null,
        "multi_query_attention": false,
        "unk_token": unk,
    });
    folder::write_json(dir, CONFIG, &config)?;
    if model.tokenizers.is_shared() {
        folder::write_json(dir, "shared_vocabulary.json", &vocabulary(src))?;
    } else {
        folder::write_json(dir, "source_vocabulary.json", &vocabulary(src))?;
        folder::write_json(dir, "target_vocabulary.json", &vocabulary(tgt))?;
    }
    Ok(model.tokenizers.save(dir)?)
}

/// The tokens of a tokenizer by their ids. CTranslate2 requires them to differ, so ids without a
/// token get texts that do.
fn vocabulary(tokenizer: &Tokenizer) -> Vec<String> {
    let mut tokens = Vec::with_capacity(tokenizer.vocab_size());
    for id in 0..tokenizer.vocab_size() as u32 {
        tokens.push(match tokenizer.token(id) {
            Some(token) => token,
            None => format!("<no token has the id {id}>"),
        });
    }
    tokens
}

/// Reads a model.
///
/// # Errors
/// A file is missing, damaged or too large, or the model has layers or options that polyglow's
/// Transformer lacks.
fn read(dir: &Path) -> Result<Portable> {
    let path = dir.join(MODEL);
    let binary = Binary::parse(&folder::read(&path, MOST_MODEL)?, &path)?;
    let Content {
        mut model,
        mut arrays,
        max_len,
        starts_from_zeros,
        has_scale_flag,
    } = read::content(binary, &path)?;
    let path = dir.join(CONFIG);
    let json = folder::read_json(&path)?;
    let config = Keys {
        path: &path,
        json: &json,
    };
    check_config(&config, has_scale_flag)?;
    let vocabularies = vocabularies(dir)?;
    check_vocabularies(&vocabularies, &arrays, dir)?;
    let special = SpecialTokens {
        bos: config.text("decoder_start_token")?.to_owned(),
        eos: config.text("eos_token")?.to_owned(),
        unk: config.text("unk_token")?.to_owned(),
        starts_from_zeros,
    };
    // Tokenizers that polyglow has exported have the model's ids, and need no rows of their own.
    // Those of other programs, or damaged ones, are left to `Foreign`.
    let exported = tokenizers_in(dir).ok().flatten().filter(|own| {
        !starts_from_zeros && have_vocabularies(own, &vocabularies) && special.are_of(&own.tgt)
    });
    let tokenizers = if let Some(tokenizers) = exported {
        tokenizers
    } else {
        let ids = vocabularies.map(|tokens| tokens.into_iter().zip(0..).collect());
        Foreign::new(dir, ids, special)?.adopt(&mut model, &mut arrays)?
    };
    let max_len = max_len.unwrap_or(MAX_LEN) - 1;
    Ok(Portable::new(&model, tokenizers, arrays, max_len))
}

/// Checks that each side has as many tokens as embeddings.
fn check_vocabularies([src, tgt]: &[Vec<String>; 2], arrays: &Arrays, dir: &Path) -> Result<()> {
    let source = arrays.get("src_embedding.weight")?;
    // Where all embeddings are tied, the source's is also the target's.
    let target = arrays.0.get("tgt_embedding.weight").unwrap_or(source);
    for (name, tokens, table) in [("source", src, source), ("target", tgt, target)] {
        let rows = table.height();
        ensure!(
            tokens.len() == rows,
            "`{}` has {} {name} tokens, and the model {rows} embeddings of them",
            dir.display(),
            tokens.len()
        );
    }
    Ok(())
}

/// Checks that a `config.json` has no option that polyglow's Transformer lacks. `has_scale_flag` is
/// that of [`Content`].
fn check_config(config: &Keys<'_>, has_scale_flag: bool) -> Result<()> {
    let path = config.path.display();
    let epsilon = config.json["layer_norm_epsilon"].as_f64().unwrap_or(1e-5);
    let is_ours = (epsilon - 1e-5).abs() < 1e-9;
    ensure!(
        is_ours,
        "`{path}`: `layer_norm_epsilon` is {epsilon}, where polyglow's is 1e-5"
    );
    let quantization = config.json["quantization_type"].as_u64();
    if quantization.is_some_and(|kind| kind > 0) {
        let layer = "matrices in 4 bits (AWQ)";
        return Err(refused(config, "quantization_type", layer));
    }
    if config.flag("multi_query_attention", false)? {
        let layer = "multi-query attention";
        return Err(refused(config, "multi_query_attention", layer));
    }
    if config.flag("add_source_bos", false)? {
        let layer = "a begin token before the source";
        return Err(refused(config, "add_source_bos", layer));
    }
    if config.json["decoder_start_token"].is_null() {
        let layer = "a decoder whose first input the caller gives, as mBART-25's language";
        return Err(refused(config, "decoder_start_token", layer));
    }
    if !config.flag("add_source_eos", false)? {
        // The converters of transformers and fairseq leave the end token to the tokenizer, which
        // adds it; OpenNMT's models are trained without one.
        if has_scale_flag {
            let layer = "sources without an end token, as OpenNMT's";
            return Err(refused(config, "add_source_eos", layer));
        }
        tracing::info!("sources get an end token, which `{path}` leaves to the tokenizer");
    }
    Ok(())
}

/// The error of a config with a key for a layer or option that polyglow's Transformer lacks.
fn refused(config: &Keys<'_>, key: &str, layer: &str) -> TrainError {
    let sign = format!("`{key}` is {}", config.json[key]);
    unsupported::lacking(layer, &sign).context(format!("`{}`", config.path.display()))
}

/// Whether tokenizers have these vocabularies, id for id.
fn have_vocabularies(tokenizers: &Tokenizers, [src, tgt]: &[Vec<String>; 2]) -> bool {
    vocabulary(&tokenizers.src) == *src && vocabulary(&tokenizers.tgt) == *tgt
}

/// The tokens of source and target.
fn vocabularies(dir: &Path) -> Result<[Vec<String>; 2]> {
    if let Some(shared) = vocabulary_path(dir, "shared_vocabulary") {
        let tokens = tokens(&shared)?;
        return Ok([tokens.clone(), tokens]);
    }
    Ok([
        own_tokens(dir, "source_vocabulary")?,
        own_tokens(dir, "target_vocabulary")?,
    ])
}

/// The tokens of one side, in a file of its own.
fn own_tokens(dir: &Path, name: &str) -> Result<Vec<String>> {
    let Some(path) = vocabulary_path(dir, name) else {
        let error = failed!(
            "`{}` has neither `shared_vocabulary.json` nor `{name}.json`",
            dir.display()
        );
        return Err(with_hint(
            error,
            "copy it from where the model was converted, or convert the model again",
        ));
    };
    tokens(&path)
}

/// The path of a vocabulary, if there is one: text until CTranslate2's version 3.14, JSON since.
fn vocabulary_path(dir: &Path, name: &str) -> Option<PathBuf> {
    let paths = ["json", "txt"].map(|extension| dir.join(format!("{name}.{extension}")));
    paths.into_iter().find(|path| path.is_file())
}

/// The tokens in a JSON list, or in lines of text.
fn tokens(path: &Path) -> Result<Vec<String>> {
    if path.extension().is_some_and(|extension| extension == "txt") {
        let bytes = folder::read(path, MOST_VOCABULARY)?;
        let text = String::from_utf8(bytes)
            .with_context(|| format!("`{}` is not UTF-8", path.display()))?;
        return Ok(text.lines().map(str::to_owned).collect());
    }
    let json = folder::read_json(path)?;
    serde_json::from_value(json)
        .ok()
        .with_context(|| format!("`{}` is no list of tokens", path.display()))
}
