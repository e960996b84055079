//! CTranslate2's models: `model.bin`, `config.json` and vocabularies, which its library runs on
//! CPUs and GPUs.
//!
//! Every encoder-decoder Transformer of ours is written. What is read has our mathematics, whoever
//! wrote it.

mod binary;
mod name;
mod read;
#[cfg(test)]
mod tests;
mod unsupported;
mod variables;
mod write;

use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use serde_json::{Value, json};

use self::binary::Binary;
use self::read::Content;
pub(super) use self::write::to_int8;
use super::Precision;
use super::array::Arrays;
use super::folder::{self, Keys};
use super::portable::{Portable, tokenizers_in};
use super::vocabulary::{Foreign, Marks};
use polyglow_predict::error::{Context, Result, ensure, failed, with_hint};

const MODEL: &str = "model.bin";
const CONFIG: &str = "config.json";
/// The largest `model.bin` that is read: variables of up to 4 GiB, and room for their names.
const MOST_MODEL: u64 = 1 << 36;
/// The largest vocabulary in lines of text that is read.
const MOST_VOCABULARY: u64 = 1 << 28;
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
    let spelling = |id| {
        tokenizer
            .token(id)
            .unwrap_or_else(|| format!("<no token has the id {id}>"))
    };
    (0..tokenizer.vocab_size() as u32).map(spelling).collect()
}

/// Reads a model.
///
/// # Errors
/// A file is missing, damaged or too large, or the model has layers or options that polyglow's
/// Transformer lacks.
pub(super) fn read(dir: &Path) -> Result<Portable> {
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
    let [src, tgt] = &vocabularies;
    for (name, tokens, rows) in [
        ("source", src, arrays.get("src_embedding.weight")?.height()),
        ("target", tgt, tgt_rows(&arrays)?),
    ] {
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
    // As `export` writes them: with the model's ids.
    let written_here = tokenizers_in(dir).ok().flatten();
    let own = written_here
        .filter(|own| !starts_from_zeros && speak(own, &vocabularies) && marks.are_of(&own.tgt));
    let tokenizers = if let Some(own) = own {
        own
    } else {
        let ids = vocabularies.map(|tokens| tokens.into_iter().zip(0..).collect());
        Foreign::new(dir, ids, marks)?.adopt(&mut model, &mut arrays)?
    };
    Ok(Portable::new(
        &model,
        tokenizers,
        arrays,
        max_len.unwrap_or(MAX_LEN) - 1,
    ))
}

/// Makes sure that a `config.json` asks for nothing that ours does otherwise.
fn check_config(config: &Keys<'_>, has_scale_flag: bool) -> Result<()> {
    let path = config.path.display();
    let epsilon = config.json["layer_norm_epsilon"].as_f64().unwrap_or(1e-5);
    let is_ours = (epsilon - 1e-5).abs() < 1e-9;
    ensure!(
        is_ours,
        "`{path}`: `layer_norm_epsilon` is {epsilon}, where polyglow's is 1e-5"
    );
    let refuse = |layer: &str, key: &str| {
        let sign = format!("`{key}` is {}", config.json[key]);
        Err(unsupported::lacking(layer, &sign).context(format!("`{path}`")))
    };
    if config.json["quantization_type"]
        .as_u64()
        .is_some_and(|kind| kind > 0)
    {
        return refuse("matrices in 4 bits (AWQ)", "quantization_type");
    }
    if config.flag("multi_query_attention", false)? {
        return refuse("multi-query attention", "multi_query_attention");
    }
    if config.flag("add_source_bos", false)? {
        return refuse("a begin token before the source", "add_source_bos");
    }
    if config.json["decoder_start_token"].is_null() {
        return refuse(
            "a decoder whose first input the caller gives, as mBART-25's language",
            "decoder_start_token",
        );
    }
    if !config.flag("add_source_eos", false)? {
        // The converters of transformers and fairseq leave the end token to the tokenizer, which
        // adds it; OpenNMT's models are trained without one.
        if has_scale_flag {
            return refuse(
                "sources without an end token, as OpenNMT's",
                "add_source_eos",
            );
        }
        tracing::info!("sources get an end token, which `{path}` leaves to the tokenizer");
    }
    Ok(())
}

fn tgt_rows(arrays: &Arrays) -> Result<usize> {
    Ok(arrays
        .0
        .get("tgt_embedding.weight")
        .map_or(arrays.get("src_embedding.weight"), Ok)?
        .height())
}

/// Whether tokenizers have these vocabularies, id for id.
fn speak(tokenizers: &Tokenizers, [src, tgt]: &[Vec<String>; 2]) -> bool {
    vocabulary(&tokenizers.src) == *src && vocabulary(&tokenizers.tgt) == *tgt
}

/// The tokens of source and target.
fn vocabularies(dir: &Path) -> Result<[Vec<String>; 2]> {
    // Text until CTranslate2's version 3.14, JSON since.
    let find = |name: &str| {
        let paths = ["json", "txt"].map(|ending| dir.join(format!("{name}.{ending}")));
        paths.into_iter().find(|path| path.is_file())
    };
    if let Some(shared) = find("shared_vocabulary") {
        let tokens = tokens(&shared)?;
        return Ok([tokens.clone(), tokens]);
    }
    let needed = |name: &str| {
        find(name).ok_or_else(|| {
            let error = failed!(
                "`{}` has neither `shared_vocabulary.json` nor `{name}.json`",
                dir.display()
            );
            with_hint(
                error,
                "copy it from where the model was converted, or convert the model again",
            )
        })
    };
    Ok([
        tokens(&needed("source_vocabulary")?)?,
        tokens(&needed("target_vocabulary")?)?,
    ])
}

/// The tokens in a JSON list, or in lines of text.
fn tokens(path: &Path) -> Result<Vec<String>> {
    if path.extension().is_some_and(|ending| ending == "txt") {
        let bytes = folder::read(path, MOST_VOCABULARY)?;
        let text = String::from_utf8(bytes)
            .with_context(|| format!("`{}` is not UTF-8", path.display()))?;
        return Ok(text.lines().map(str::to_owned).collect());
    }
    let json = folder::read_json(path)?;
    let tokens = json.as_array().map(|tokens| {
        tokens
            .iter()
            .map(Value::as_str)
            .map(|token| token.map(str::to_owned))
    });
    let tokens: Option<Option<Vec<String>>> = tokens.map(Iterator::collect);
    tokens
        .flatten()
        .with_context(|| format!("`{}` is no list of tokens", path.display()))
}
