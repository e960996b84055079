//! The tokenizers of a folder, and the rows of the embeddings for their ids.

use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_predict::error::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::array::{Array, Arrays};
use crate::folder::{self, Keys};
use crate::portable::NEVER;
use crate::vocabulary::{Foreign, Ids, SpecialTokens};

/// The spelling of the BOS token that a model without one gets.
const BOS: &str = "<s>";

/// The tokenizer of both sides, where there is one.
pub(super) fn tokenizer(dir: &Path) -> Result<Option<Tokenizer>> {
    let path = dir.join("tokenizer.json");
    // OPUS-MT's folders have SentencePiece models; a `tokenizer.json` next to them is of one side.
    if dir.join("source.spm").is_file() || !path.is_file() {
        return Ok(None);
    }
    Ok(Some(Tokenizer::adopt(&path)?))
}

/// Adopts a tokenizer of both sides, whose ids are those of the model.
///
/// If the first input of the decoder is padding, the tokenizer gets one more id for it, and all
/// arrays with a row for each id get one more row: polyglow's attention never looks at padding, so
/// the first input must be another id.
pub(super) fn with_bos(
    tokenizer: Tokenizer,
    config: &Keys<'_>,
    arrays: &mut Arrays,
) -> Result<Tokenizers> {
    let path = config.path.display();
    let pad = config.size("pad_token_id")?;
    let start = config.size("decoder_start_token_id")?;
    let eos = config.size("eos_token_id")?;
    let rows = config.size("vocab_size")?;
    let tgt_rows = if config.json["decoder_vocab_size"].is_null() {
        rows
    } else {
        config.size("decoder_vocab_size")?
    };
    ensure!(
        tgt_rows == rows && start < rows,
        "`{path}`: one tokenizer has one vocabulary, in which the first input of the decoder is, and the sizes are {rows} and \
         {tgt_rows}, and that input is {start}"
    );
    let special = tokenizer.special();
    ensure!(
        special.pad as usize == pad && special.eos as usize == eos,
        "`{path}`: padding and end are {pad} and {eos}, and `tokenizer.json` has {} and {}",
        special.pad,
        special.eos
    );
    let has_bos = special.bos as usize == start;
    let tokenizer = if has_bos {
        tokenizer
    } else {
        add_bos(&tokenizer, rows, start == pad)?
    };
    let size = tokenizer.vocab_size();
    let fits = if has_bos {
        size <= rows
    } else {
        size == rows + 1
    };
    ensure!(
        fits,
        "`tokenizer.json` has {size} tokens, and the model {rows}"
    );
    if size != rows {
        resize_vocabulary(arrays, size, rows, pad, start);
    }
    Ok(Tokenizers::shared(tokenizer))
}

/// Adds a BOS token to a tokenizer, with an id behind all rows of the model.
fn add_bos(tokenizer: &Tokenizer, id: usize, starts_with_padding: bool) -> Result<Tokenizer> {
    ensure!(
        starts_with_padding && tokenizer.special().bos as usize >= id,
        "the first input of the decoder is a mark that is neither padding nor the tokenizer's begin mark"
    );
    let mut json: Value = serde_json::from_str(&tokenizer.to_json()?)?;
    // Adopting a tokenizer has added the special tokens that it lacked, behind all tokens and in
    // some order: the model has rows for none of them.
    let added = json["added_tokens"]
        .as_array_mut()
        .context("a tokenizer has marks")?;
    added.retain(|token| token["id"].as_u64().is_none_or(|known| known < id as u64));
    added.push(json!({
        "id": id, "content": BOS, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false,
    }));
    Ok(Tokenizer::parse(
        json.to_string().as_bytes(),
        "tokenizer.json",
    )?)
}

/// Changes the number of ids of a model from `rows` to `size`. A new id gets the row of `start`, and
/// is never written, as is padding.
fn resize_vocabulary(arrays: &mut Arrays, size: usize, rows: usize, pad: usize, start: usize) {
    let chosen: Vec<Option<usize>> = (0..size)
        .map(|id| Some(if id < rows { id } else { start }))
        .collect();
    for name in ["src_embedding.weight", "tgt_embedding.weight"] {
        if let Some(table) = arrays.0.get_mut(name) {
            *table = table.rows(&chosen);
        }
    }
    if let Some(output) = arrays.0.get_mut("output.weight") {
        *output = output.transposed().rows(&chosen).transposed();
    }
    let mut bias = match arrays.0.get("output_bias") {
        Some(bias) => bias.values.clone(),
        None => vec![0.0; rows],
    };
    bias.resize(size, NEVER);
    if let Some(bias) = bias.get_mut(pad) {
        *bias = NEVER;
    }
    arrays.put("output_bias", Array::vector(bias));
}

/// The vocabularies of a folder with `source.spm`, `target.spm` and `vocab.json`.
pub(super) fn pieces(dir: &Path, config: &Keys<'_>) -> Result<Foreign> {
    let src = ids(&dir.join("vocab.json"))?;
    let tgt_path = dir.join("target_vocab.json");
    let tgt = if tgt_path.is_file() {
        ids(&tgt_path)?
    } else {
        src.clone()
    };
    for name in ["source.spm", "target.spm"] {
        ensure!(
            dir.join(name).is_file(),
            "`{}` has neither `tokenizer.json` nor `{name}`",
            dir.display()
        );
    }
    let start = config.size("decoder_start_token_id")?;
    let special = SpecialTokens {
        bos: spelling(&tgt, start, dir)?,
        eos: spelling(&tgt, config.size("eos_token_id")?, dir)?,
        // MarianMT's tokenizers always spell it so.
        unk: "<unk>".to_owned(),
        starts_from_zeros: false,
    };
    Foreign::new(dir, [src, tgt], special)
}

/// The token with an id.
fn spelling(ids: &Ids, id: usize, dir: &Path) -> Result<String> {
    let token = ids.iter().find(|(_, known)| **known == id);
    let (token, _) = token.with_context(|| {
        let path = dir.join("vocab.json");
        format!("`{}` has no token of the id {id}", path.display())
    })?;
    Ok(token.clone())
}

/// Reads a JSON object of tokens with their ids.
fn ids(path: &Path) -> Result<Ids> {
    let json = folder::read_json(path)?;
    let entries = json
        .as_object()
        .with_context(|| format!("`{}` is no list of tokens with ids", path.display()))?;
    let mut ids = Ids::new();
    for (token, id) in entries {
        let id = id.as_u64().and_then(|id| usize::try_from(id).ok());
        let id = id.with_context(|| format!("`{}`: an id is no whole number", path.display()))?;
        ids.insert(token.clone(), id);
    }
    Ok(ids)
}
