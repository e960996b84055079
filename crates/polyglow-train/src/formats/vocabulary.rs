//! Foreign vocabularies: tokens with ids, and rules for cutting text, become our tokenizers and the rows that they need.
//!
//! A foreign model has one list of tokens, and often two SentencePiece models whose pieces it knows by other ids. Each side
//! gets a tokenizer of its own here, with our four marks before its tokens, and the rows of its embeddings are picked for it.

use std::collections::HashMap;
use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_model::{ModelConfig, TieEmbeddings};
use serde_json::{Value, json};

use super::array::Arrays;
use super::folder;
use super::portable::{Portable, per_side};
use crate::error::{Context, Result, ensure, failed};

/// The largest SentencePiece model that is read.
const MOST_SENTENCEPIECE: u64 = 1 << 28;
/// What our marks are, by their ids.
const OURS: [&str; 4] = ["<pad>", "<s>", "</s>", "<unk>"];

/// Which foreign tokens our marks stand for.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    /// The first input of the decoder.
    pub(super) bos: String,
    /// The end of source and target.
    pub(super) eos: String,
    /// What stands for unknown text.
    pub(super) unk: String,
    /// Whether the first input is zeros, whatever the embedding of `bos` is.
    pub(super) starts_from_zeros: bool,
}

impl Marks {
    /// Whether a tokenizer has the same marks.
    pub(super) fn are_of(&self, tokenizer: &Tokenizer) -> bool {
        let marks = tokenizer.special();
        [(marks.bos, &self.bos), (marks.eos, &self.eos), (marks.unk, &self.unk)]
            .into_iter()
            .all(|(id, spelling)| tokenizer.token(id).as_ref() == Some(spelling))
    }
}

/// The vocabularies of a foreign model.
pub(super) struct Foreign {
    /// Ids by token, of both sides.
    ids: [HashMap<String, usize>; 2],
    marks: Marks,
    tokenizers: [Tokenizer; 2],
}

impl Foreign {
    /// The vocabularies of the model in `dir`, which may have SentencePiece models beside it: `source.spm` and
    /// `target.spm`, or `sentencepiece.model`. Without them, text is cut at whitespace.
    ///
    /// # Errors
    /// A file is damaged.
    pub(super) fn new(dir: &Path, ids: [HashMap<String, usize>; 2], marks: Marks) -> Result<Self> {
        let side = |name: &str, ids: &HashMap<String, usize>| -> Result<Tokenizer> {
            for name in [name, "sentencepiece.model"] {
                let path = dir.join(name);
                if path.is_file() {
                    let tokenizer = Tokenizer::parse_sentencepiece(
                        &folder::read(&path, MOST_SENTENCEPIECE)?,
                        &path.display().to_string(),
                    )?;
                    return with_languages(tokenizer, ids, name);
                }
            }
            of_words(ids, &marks)
        };
        let tokenizers = [side("source.spm", &ids[0])?, side("target.spm", &ids[1])?];
        Ok(Self { ids, marks, tokenizers })
    }

    /// Picks the rows of the embeddings for our ids, and gives back the tokenizers that make these ids. The model's matrices
    /// are then separate for both sides.
    ///
    /// # Errors
    /// A mark has no foreign token.
    pub(super) fn adopt(self, model: &mut ModelConfig, arrays: &mut Arrays) -> Result<Tokenizers> {
        let Self { ids, marks, tokenizers: [src, tgt] } = self;
        let rows = |tokenizer: &Tokenizer, ids: &HashMap<String, usize>| -> Result<Vec<Option<usize>>> {
            let id = |token: &str| ids.get(token).copied();
            let wanted = |token: &str| id(token).with_context(|| format!("the vocabulary has no `{token}`"));
            let unk = wanted(&marks.unk)?;
            // The source has no first input, and may lack that mark.
            let bos = if marks.starts_from_zeros { None } else { id(&marks.bos) };
            let mut rows = vec![None, bos, Some(wanted(&marks.eos)?), Some(unk)];
            let token = |id| tokenizer.token(id).and_then(|token| ids.get(&token).copied());
            rows.extend((4..tokenizer.vocab_size() as u32).map(|id| Some(token(id).unwrap_or(unk))));
            Ok(rows)
        };
        let (src_rows, tgt_rows) = (rows(&src, &ids[0])?, rows(&tgt, &ids[1])?);
        ensure!(
            marks.starts_from_zeros || ids[1].contains_key(&marks.bos),
            "the target's vocabulary has no `{}`, which is the decoder's first input",
            marks.bos
        );
        let unknown = |id: usize| {
            let is_known = |id: u32| tgt.token(id).is_some_and(|token| ids[1].contains_key(&token));
            id < 2 || id > 3 && !is_known(id as u32)
        };
        Portable::choose_rows(arrays, &src_rows, &tgt_rows, unknown)?;
        if model.tie_embeddings == TieEmbeddings::All {
            model.tie_embeddings = TieEmbeddings::Decoder;
        }
        model.output_bias = true;
        Ok(per_side(src, tgt))
    }
}

/// A tokenizer of whole words: the tokens of a vocabulary, between spaces.
fn of_words(ids: &HashMap<String, usize>, marks: &Marks) -> Result<Tokenizer> {
    let is_mark =
        |token: &&String| [&marks.bos, &marks.eos, &marks.unk].contains(token) || OURS.contains(&token.as_str());
    let mut words: Vec<(usize, &String)> =
        ids.iter().filter(|(token, _)| !is_mark(token)).map(|(token, id)| (*id, token)).collect();
    words.sort_unstable();
    let tokens = OURS.into_iter().chain(words.into_iter().map(|(_, token)| token.as_str()));
    let vocab: serde_json::Map<String, Value> =
        tokens.zip(0..).map(|(token, id)| (token.to_owned(), json!(id))).collect();
    let added: Vec<Value> = OURS.iter().enumerate().map(|(id, token)| added_token(id, token, true)).collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": OURS[3], "vocab": vocab},
    });
    Ok(Tokenizer::parse(json.to_string().as_bytes(), "vocabulary")?)
}

/// The same tokenizer with the tokens that say which language is wanted, such as `>>deu<<`: they are no pieces.
fn with_languages(tokenizer: Tokenizer, ids: &HashMap<String, usize>, name: &str) -> Result<Tokenizer> {
    let mut languages: Vec<(usize, &String)> = ids
        .iter()
        .filter(|(token, _)| token.starts_with(">>") && token.ends_with("<<"))
        .map(|(token, id)| (*id, token))
        .collect();
    if languages.is_empty() {
        return Ok(tokenizer);
    }
    languages.sort_unstable();
    let mut json: Value = serde_json::from_str(&tokenizer.to_json()?)?;
    let added = json["added_tokens"].as_array_mut().ok_or_else(|| failed!("the tokenizer has no marks"))?;
    let ids = tokenizer.vocab_size()..;
    added.extend(ids.zip(languages).map(|(id, (_, token))| added_token(id, token, false)));
    Ok(Tokenizer::parse(json.to_string().as_bytes(), name)?)
}

fn added_token(id: usize, token: &str, special: bool) -> Value {
    json!({
        "id": id, "content": token, "special": special, "single_word": false, "lstrip": false, "rstrip": !special,
        "normalized": false,
    })
}
