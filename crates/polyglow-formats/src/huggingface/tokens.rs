//! The tokenizers of a folder, and the rows of the embeddings for their ids.

use std::collections::HashMap;
use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_predict::error::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::array::{Array, Arrays};
use crate::folder::{self, Keys};
use crate::portable::NEVER;
use crate::vocabulary::{Foreign, Marks};

/// The begin mark of a model that has none.
const BEGIN: &str = "<s>";

/// The tokenizer of both sides, where there is one.
pub(super) fn tokenizer(dir: &Path) -> Result<Option<Tokenizer>> {
    let path = dir.join("tokenizer.json");
    // OPUS-MT's have SentencePiece models; a `tokenizer.json` beside them would be of one side.
    if dir.join("source.spm").is_file() || !path.is_file() {
        return Ok(None);
    }
    Ok(Some(Tokenizer::adopt(&path)?))
}

/// The same ids as the model's, and one more for a begin mark where padding is the first input of
/// the decoder: ours never looks at padding.
pub(super) fn with_begin_mark(
    tokenizer: Tokenizer,
    config: &Keys<'_>,
    arrays: &mut Arrays,
) -> Result<Tokenizers> {
    let path = config.path.display();
    let (pad, start, eos) = (
        config.size("pad_token_id")?,
        config.size("decoder_start_token_id")?,
        config.size("eos_token_id")?,
    );
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
    let marks = tokenizer.special();
    ensure!(
        marks.pad as usize == pad && marks.eos as usize == eos,
        "`{path}`: padding and end are {pad} and {eos}, and `tokenizer.json` has {} and {}",
        marks.pad,
        marks.eos
    );
    ensure!(
        marks.bos as usize != start || tokenizer.vocab_size() <= rows,
        "`tokenizer.json` has {} tokens, and the model {rows}",
        tokenizer.vocab_size()
    );
    let tokenizer = if marks.bos as usize == start {
        tokenizer
    } else {
        beginning(&tokenizer, rows, start == pad)?
    };
    let size = tokenizer.vocab_size();
    let chosen: Vec<Option<usize>> = (0..size)
        .map(|id| if id < rows { Some(id) } else { Some(start) })
        .collect();
    ensure!(
        tokenizer.special().bos as usize == start || size == rows + 1,
        "`tokenizer.json` has {size} tokens, and the model {rows}"
    );
    if size == rows {
        return Ok(Tokenizers::shared(tokenizer));
    }
    let choose = |array: &Array| array.rows(&chosen);
    for name in ["src_embedding.weight", "tgt_embedding.weight"] {
        if let Some(table) = arrays.0.get(name).map(choose) {
            arrays.put(name, table);
        }
    }
    if let Some(output) = arrays
        .0
        .get("output.weight")
        .map(|output| choose(&output.transposed()).transposed())
    {
        arrays.put("output.weight", output);
    }
    let bias = arrays
        .0
        .get("output_bias")
        .map_or_else(|| vec![0.0; rows], |bias| bias.values.clone());
    let bias = (0..size).map(|id| {
        if id >= rows || id == pad {
            NEVER
        } else {
            bias[id]
        }
    });
    arrays.put("output_bias", Array::vector(bias.collect()));
    Ok(Tokenizers::shared(tokenizer))
}

/// The tokenizer with a begin mark of its own behind all tokens.
fn beginning(tokenizer: &Tokenizer, id: usize, starts_with_padding: bool) -> Result<Tokenizer> {
    ensure!(
        starts_with_padding && tokenizer.special().bos as usize >= id,
        "the first input of the decoder is a mark that is neither padding nor the tokenizer's begin mark"
    );
    let mut json: Value = serde_json::from_str(&tokenizer.to_json()?)?;
    // The marks that were missing have been added behind all tokens, in some order: the model has
    // rows for none of them.
    let added = json["added_tokens"]
        .as_array_mut()
        .context("a tokenizer has marks")?;
    added.retain(|token| token["id"].as_u64().is_none_or(|found| found < id as u64));
    added.push(json!({
        "id": id, "content": BEGIN, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false,
    }));
    Ok(Tokenizer::parse(
        json.to_string().as_bytes(),
        "tokenizer.json",
    )?)
}

/// The vocabularies of a folder with `source.spm`, `target.spm` and `vocab.json`.
pub(super) fn pieces(dir: &Path, config: &Keys<'_>) -> Result<Foreign> {
    let src = ids(&dir.join("vocab.json"))?;
    let path = dir.join("target_vocab.json");
    let tgt = if path.is_file() {
        ids(&path)?
    } else {
        src.clone()
    };
    let spelling = |ids: &HashMap<String, usize>, id: usize| {
        let token = ids
            .iter()
            .find(|(_, found)| **found == id)
            .map(|(token, _)| token.clone());
        token.with_context(|| {
            format!(
                "`{}` has no token of the id {id}",
                dir.join("vocab.json").display()
            )
        })
    };
    for name in ["source.spm", "target.spm"] {
        ensure!(
            dir.join(name).is_file(),
            "`{}` has neither `tokenizer.json` nor `{name}`",
            dir.display()
        );
    }
    let start = config.size("decoder_start_token_id")?;
    let marks = Marks {
        bos: spelling(&tgt, start)?,
        eos: spelling(&tgt, config.size("eos_token_id")?)?,
        unk: "<unk>".to_owned(),
        starts_from_zeros: false,
    };
    Foreign::new(dir, [src, tgt], marks)
}

fn ids(path: &Path) -> Result<HashMap<String, usize>> {
    let json = folder::read_json(path)?;
    let entries = json
        .as_object()
        .with_context(|| format!("`{}` is no list of tokens with ids", path.display()))?;
    let entry =
        |(token, id): (&String, &Value)| Some((token.clone(), usize::try_from(id.as_u64()?).ok()?));
    let found: Option<HashMap<String, usize>> = entries.iter().map(entry).collect();
    found.with_context(|| format!("`{}`: an id is no whole number", path.display()))
}
