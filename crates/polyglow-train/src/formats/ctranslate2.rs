//! CTranslate2's models: `model.bin`, `config.json` and vocabularies, which its library runs on CPUs and GPUs.
//!
//! Every encoder-decoder Transformer of ours is written. What is read has our mathematics, whoever wrote it.

mod binary;
mod name;
mod read;
mod write;

use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use serde_json::{Value, json};

use self::binary::Binary;
use self::read::Found;
pub(super) use self::write::to_int8;
use super::Precision;
use super::array::Arrays;
use super::folder::{self, Keys};
use super::portable::{Portable, tokenizers_in};
use super::vocabulary::{Foreign, Marks};
use crate::error::{Context, Result, ensure, failed, with_hint};

const MODEL: &str = "model.bin";
const CONFIG: &str = "config.json";
/// The largest `model.bin` that is read: variables of up to 4 GiB, and room for their names.
const MOST_MODEL: u64 = 1 << 36;
/// The longest text, in tokens with its end mark, of a model that does not say it.
const MAX_LEN: usize = 512;

/// Whether a folder holds such a model.
pub(super) fn is_in(dir: &Path) -> bool {
    dir.join(MODEL).is_file()
}

/// Writes a model.
///
/// # Errors
/// It is no encoder-decoder Transformer (exit code 2); the disk refuses.
pub(super) fn write(model: &Portable, precision: Precision, dir: &Path) -> Result<()> {
    let shape = model.transformer()?;
    let binary = write::binary(&model.arrays, &shape, precision)?;
    folder::write(dir, MODEL, &binary.to_bytes()?)?;
    drop(binary);
    let Tokenizers { src, tgt } = &model.tokenizers;
    let spelling = |tokenizer: &Tokenizer, id: u32| tokenizer.token(id).unwrap_or_default();
    let marks = tgt.special();
    let config = json!({
        "add_source_bos": false,
        "add_source_eos": true,
        "bos_token": spelling(tgt, marks.bos),
        "decoder_start_token": spelling(tgt, marks.bos),
        "eos_token": spelling(tgt, marks.eos),
        "layer_norm_epsilon": null,
        "multi_query_attention": false,
        "unk_token": spelling(tgt, marks.unk),
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

/// The tokens by their ids, each spelled in another way.
fn vocabulary(tokenizer: &Tokenizer) -> Vec<String> {
    let spelling = |id| tokenizer.token(id).unwrap_or_else(|| format!("<no token has the id {id}>"));
    (0..tokenizer.vocab_size() as u32).map(spelling).collect()
}

/// Reads a model.
///
/// # Errors
/// A file is missing, damaged or too large, or the model is none of ours.
pub(super) fn read(dir: &Path) -> Result<Portable> {
    let path = dir.join(MODEL);
    let Found { mut model, mut arrays, max_len, starts_from_zeros } =
        read::found(Binary::parse(&folder::read(&path, MOST_MODEL)?, &path)?, &path)?;
    let path = dir.join(CONFIG);
    let json = folder::read_json(&path)?;
    let config = Keys { path: &path, json: &json };
    let epsilon = config.json["layer_norm_epsilon"].as_f64().unwrap_or(1e-5);
    let is_ours = (epsilon - 1e-5).abs() < 1e-9;
    ensure!(is_ours, "`{}`: `layer_norm_epsilon` is {epsilon}, where ours is 1e-5", path.display());
    ensure!(
        !config.flag("add_source_bos", false)?,
        "`{}`: a begin mark before the source is none of ours",
        path.display()
    );
    if !config.flag("add_source_eos", false)? {
        tracing::info!("sources get an end mark, which `{}` leaves to the tokenizer", path.display());
    }
    let vocabularies = vocabularies(dir)?;
    let [src, tgt] = &vocabularies;
    for (name, tokens, rows) in
        [("source", src, arrays.get("src_embedding.weight")?.height()), ("target", tgt, tgt_rows(&arrays)?)]
    {
        ensure!(
            tokens.len() == rows,
            "`{}` has {} {name} tokens, and the model {rows} embeddings of them",
            dir.display(),
            tokens.len()
        );
    }
    let marks = Marks {
        bos: config.text("decoder_start_token")?.to_owned(),
        eos: config.text("eos_token")?.to_owned(),
        unk: config.text("unk_token")?.to_owned(),
        starts_from_zeros,
    };
    let beside = tokenizers_in(dir)?;
    let has_own = beside.is_some();
    let own = beside.filter(|own| !starts_from_zeros && speak(own, &vocabularies) && marks.are_of(&own.tgt));
    let tokenizers = if let Some(own) = own {
        own
    } else {
        if has_own {
            tracing::warn!(
                "`{}`: its `tokenizer.json` has other tokens or marks than the model: unused",
                dir.display()
            );
        }
        let ids = vocabularies.map(|tokens| tokens.into_iter().zip(0..).collect());
        Foreign::new(dir, ids, marks)?.adopt(&mut model, &mut arrays)?
    };
    Ok(Portable::new(&model, tokenizers, arrays, max_len.unwrap_or(MAX_LEN) - 1))
}

fn tgt_rows(arrays: &Arrays) -> Result<usize> {
    Ok(arrays.0.get("tgt_embedding.weight").map_or(arrays.get("src_embedding.weight"), Ok)?.height())
}

/// Whether tokenizers have these vocabularies, id for id.
fn speak(tokenizers: &Tokenizers, [src, tgt]: &[Vec<String>; 2]) -> bool {
    vocabulary(&tokenizers.src) == *src && vocabulary(&tokenizers.tgt) == *tgt
}

/// The tokens of source and target.
fn vocabularies(dir: &Path) -> Result<[Vec<String>; 2]> {
    let shared = dir.join("shared_vocabulary.json");
    if shared.is_file() {
        let tokens = tokens(&shared)?;
        return Ok([tokens.clone(), tokens]);
    }
    let path = dir.join("source_vocabulary.json");
    if !path.is_file() {
        let error = failed!("`{}` has neither `shared_vocabulary.json` nor `source_vocabulary.json`", dir.display());
        return Err(with_hint(error, "convert the model again with a CTranslate2 since its version 3"));
    }
    Ok([tokens(&path)?, tokens(&dir.join("target_vocabulary.json"))?])
}

fn tokens(path: &Path) -> Result<Vec<String>> {
    let json = folder::read_json(path)?;
    let tokens = json.as_array().map(|tokens| tokens.iter().map(Value::as_str).map(|token| token.map(str::to_owned)));
    let tokens: Option<Option<Vec<String>>> = tokens.map(Iterator::collect);
    tokens.flatten().with_context(|| format!("`{}` is no list of tokens", path.display()))
}
