//! Foreign vocabularies: lists of tokens with ids, and the rules for cutting text, become polyglow's
//! tokenizers and the rows of embeddings that they need.
//!
//! A foreign model has one list of tokens, and often two SentencePiece models whose pieces have
//! other ids in that list. Each side gets a tokenizer of its own here, with polyglow's four special
//! tokens before its tokens, and the rows of its embeddings are chosen to match.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_model::{ModelConfig, TieEmbeddings};
use polyglow_predict::error::{Context, Result, ensure, failed};
use serde_json::{Value, json};

use super::array::Arrays;
use super::folder;
use super::portable::{Portable, per_side};

/// The largest SentencePiece model that is read, in bytes.
const MOST_SENTENCEPIECE: u64 = 1 << 28;
/// The files that may hold a tokenizer for both sides.
const SHARED_FILES: [&str; 4] = [
    "tokenizer.json",
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "spiece.model",
];
/// The spellings of polyglow's special tokens, by their ids.
const SPECIAL: [&str; 4] = ["<pad>", "<s>", "</s>", "<unk>"];

/// The tokens of a foreign vocabulary that have the roles of polyglow's special tokens.
#[derive(Clone, Debug)]
pub(super) struct SpecialTokens {
    /// The first input of the decoder.
    pub(super) bos: String,
    /// The end of source and target.
    pub(super) eos: String,
    /// The stand-in for unknown text.
    pub(super) unk: String,
    /// Whether the first input is zeros, whatever the embedding of `bos` is.
    pub(super) starts_from_zeros: bool,
}

impl SpecialTokens {
    /// Whether a tokenizer has the same special tokens.
    pub(super) fn are_of(&self, tokenizer: &Tokenizer) -> bool {
        let special = tokenizer.special();
        let roles = [
            (special.bos, &self.bos),
            (special.eos, &self.eos),
            (special.unk, &self.unk),
        ];
        roles
            .into_iter()
            .all(|(id, spelling)| tokenizer.token(id).as_ref() == Some(spelling))
    }
}

/// The ids of a vocabulary by token.
pub(super) type Ids = HashMap<String, usize>;

/// The vocabularies of a foreign model, and the tokenizers for them.
pub(super) struct Foreign {
    /// Source and target.
    ids: [Ids; 2],
    special: SpecialTokens,
    /// Source and target.
    tokenizers: [Tokenizer; 2],
}

impl Foreign {
    /// Takes the vocabularies `ids`, of source and target, of the model in `dir`, and looks for
    /// tokenizers there: `tokenizer.json` or one for each side, `source.spm` and `target.spm`, or
    /// one SentencePiece model. Without them, text is cut at whitespace.
    ///
    /// # Errors
    /// A file is damaged.
    pub(super) fn new(dir: &Path, ids: [Ids; 2], special: SpecialTokens) -> Result<Self> {
        let src = tokenizer_in(dir, ["tokenizer.src.json", "source.spm"], &ids[0])?;
        let tgt = tokenizer_in(dir, ["tokenizer.tgt.json", "target.spm"], &ids[1])?;
        if src.is_none() || tgt.is_none() {
            report_missing_tokenizer(dir, &ids);
        }
        let src = match src {
            Some(tokenizer) => tokenizer,
            None => word_tokenizer(&ids[0], &special)?,
        };
        let tgt = match tgt {
            Some(tokenizer) => tokenizer,
            None => word_tokenizer(&ids[1], &special)?,
        };
        Ok(Self {
            ids,
            special,
            tokenizers: [src, tgt],
        })
    }

    /// Chooses the rows of the embeddings for the ids of our tokenizers, and returns these. Tied
    /// embeddings remain one matrix if both sides have the same tokenizer; else each side gets a
    /// matrix of its own.
    ///
    /// # Errors
    /// A special token is not in the vocabulary.
    pub(super) fn adopt(self, model: &mut ModelConfig, arrays: &mut Arrays) -> Result<Tokenizers> {
        let Self {
            ids: [src_ids, tgt_ids],
            special,
            tokenizers: [src, tgt],
        } = self;
        let src_rows = rows(&src, &src_ids, &special)?;
        let tgt_rows = rows(&tgt, &tgt_ids, &special)?;
        ensure!(
            special.starts_from_zeros || tgt_ids.contains_key(&special.bos),
            "the target's vocabulary has no `{}`, which is the decoder's first input",
            special.bos
        );
        let is_tied = model.tie_embeddings == TieEmbeddings::All;
        let is_shared = is_tied && src_rows == tgt_rows && src.to_json()? == tgt.to_json()?;
        Portable::choose_rows(arrays, &src_rows, &tgt_rows, |id| {
            is_never_written(&tgt, id as u32, &tgt_ids)
        })?;
        // It keeps tokens out that the foreign model has no output for.
        model.output_bias = true;
        if is_shared {
            arrays.0.remove("tgt_embedding.weight");
            return Ok(Tokenizers::shared(src));
        }
        if is_tied {
            model.tie_embeddings = TieEmbeddings::Decoder;
        }
        Ok(per_side(src, tgt))
    }
}

/// Whether the model must never write a token: it is padding or the first input, or the foreign
/// model does not have it and shares the row of another token.
fn is_never_written(tokenizer: &Tokenizer, id: u32, ids: &Ids) -> bool {
    let special = tokenizer.special();
    if id == special.pad || id == special.bos {
        return true;
    }
    if id == special.eos || id == special.unk {
        return false;
    }
    match tokenizer.token(id) {
        Some(token) => !ids.contains_key(&token),
        None => true,
    }
}

/// The row of the foreign embeddings for each of a tokenizer's ids; `None` for padding and for a
/// first input of zeros. Tokens that the foreign vocabulary lacks have the row of unknown text.
fn rows(tokenizer: &Tokenizer, ids: &Ids, foreign: &SpecialTokens) -> Result<Vec<Option<usize>>> {
    let eos = row(ids, &foreign.eos)?;
    let unk = row(ids, &foreign.unk)?;
    // The source has no first input, and may lack that token.
    let bos = if foreign.starts_from_zeros {
        None
    } else {
        ids.get(&foreign.bos).copied()
    };
    let special = tokenizer.special();
    let mut rows = Vec::with_capacity(tokenizer.vocab_size());
    for id in 0..tokenizer.vocab_size() as u32 {
        rows.push(if id == special.pad {
            None
        } else if id == special.bos {
            bos
        } else if id == special.eos {
            Some(eos)
        } else if id == special.unk {
            Some(unk)
        } else {
            let known = tokenizer.token(id).and_then(|token| ids.get(&token));
            Some(known.copied().unwrap_or(unk))
        });
    }
    Ok(rows)
}

/// The row of a token that a vocabulary must have.
fn row(ids: &Ids, token: &str) -> Result<usize> {
    let row = ids.get(token).copied();
    row.with_context(|| format!("the vocabulary has no `{token}`"))
}

/// The tokenizer of a side in a folder; `None` if no file fits its vocabulary. `names` are the files
/// of this side alone, which come before those of both: a `tokenizer.json` next to them may be of
/// the other side.
fn tokenizer_in(dir: &Path, names: [&str; 2], ids: &Ids) -> Result<Option<Tokenizer>> {
    for name in names.into_iter().chain(SHARED_FILES) {
        let path = dir.join(name);
        if !path.is_file() {
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "json") {
            let bytes = folder::read(&path, MOST_SENTENCEPIECE)?;
            let tokenizer = Tokenizer::parse_sentencepiece(&bytes, &path.display().to_string())?;
            return with_languages(tokenizer, ids, name).map(Some);
        }
        let tokenizer = json_tokenizer(&path, ids)?;
        let num_known = tokens(&tokenizer)
            .filter(|token| ids.contains_key(token))
            .count();
        if num_known * 2 > tokenizer.vocab_size() {
            return Ok(Some(tokenizer));
        }
        tracing::warn!(
            "`{}` has other tokens than the model: it is not used",
            path.display()
        );
    }
    Ok(None)
}

/// All tokens of a tokenizer.
fn tokens(tokenizer: &Tokenizer) -> impl Iterator<Item = String> {
    (0..tokenizer.vocab_size() as u32).filter_map(|id| tokenizer.token(id))
}

/// Reads a foreign `tokenizer.json`. Its language tokens become plain added tokens, so that they can
/// be written in a text.
fn json_tokenizer(path: &Path, ids: &Ids) -> Result<Tokenizer> {
    let mut json = folder::read_json(path)?;
    for token in json["added_tokens"].as_array_mut().into_iter().flatten() {
        let content = token["content"].as_str().unwrap_or_default();
        if is_language(content) && ids.contains_key(content) {
            *token = added_token(token["id"].as_u64().unwrap_or(0) as usize, content, false);
        }
    }
    Ok(Tokenizer::adopt_json(
        json.to_string().as_bytes(),
        &path.display().to_string(),
    )?)
}

/// Logs that a folder has no tokenizer: as a warning if its tokens are parts of words, because only a
/// tokenizer can cut text into these.
fn report_missing_tokenizer(dir: &Path, ids: &[Ids; 2]) {
    let dir = dir.display();
    if ids
        .iter()
        .flat_map(HashMap::keys)
        .any(|token| is_part(token))
    {
        tracing::warn!(
            "`{dir}` has no tokenizer, and its tokens are parts of words: until one is there, text must be given as tokens \
             with spaces between them. Copy `tokenizer.json`, `source.spm` and `target.spm`, or `sentencepiece.model` from \
             the original model into the folder, and import it again"
        );
    } else {
        tracing::info!(
            "`{dir}` has no tokenizer: text is cut at spaces into the tokens of its vocabulary"
        );
    }
}

/// Whether a token has a sign of SentencePiece, of byte-level BPE, of `OpenNMT`'s tokenizer,
/// of `WordPiece` or of subword-nmt, and so may be a part of a word.
fn is_part(token: &str) -> bool {
    token.starts_with(['\u{2581}', '\u{120}', '\u{ffed}'])
        || token.starts_with("##")
        || token.ends_with("@@")
}

/// Makes a tokenizer that cuts text at spaces into the tokens of a vocabulary.
fn word_tokenizer(ids: &Ids, foreign: &SpecialTokens) -> Result<Tokenizer> {
    let mut words: Vec<(usize, &str)> = Vec::new();
    for (token, &id) in ids {
        let is_special = [&foreign.bos, &foreign.eos, &foreign.unk].contains(&token)
            || SPECIAL.contains(&token.as_str());
        if !is_special {
            words.push((id, token));
        }
    }
    words.sort_unstable();
    let mut vocab = serde_json::Map::new();
    let words = words.into_iter().map(|(_, token)| token);
    for (id, token) in SPECIAL.into_iter().chain(words).enumerate() {
        vocab.insert(token.to_owned(), json!(id));
    }
    let added: Vec<Value> = SPECIAL
        .iter()
        .enumerate()
        .map(|(id, token)| added_token(id, token, true))
        .collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": SPECIAL[3], "vocab": vocab},
    });
    Ok(Tokenizer::parse(json.to_string().as_bytes(), "vocabulary")?)
}

/// Adds the language tokens of a vocabulary to a tokenizer. They tell which language a text is in,
/// or is to be translated into; SentencePiece models lack them.
fn with_languages(tokenizer: Tokenizer, ids: &Ids, name: &str) -> Result<Tokenizer> {
    let pieces: HashSet<String> = tokens(&tokenizer).collect();
    let mut languages: Vec<(usize, &String)> = Vec::new();
    for (token, &id) in ids {
        if is_language(token) && !pieces.contains(token) {
            languages.push((id, token));
        }
    }
    if languages.is_empty() {
        return Ok(tokenizer);
    }
    languages.sort_unstable();
    let mut json: Value = serde_json::from_str(&tokenizer.to_json()?)?;
    let added = json["added_tokens"]
        .as_array_mut()
        .ok_or_else(|| failed!("the tokenizer has no marks"))?;
    for (id, (_, token)) in (tokenizer.vocab_size()..).zip(languages) {
        added.push(added_token(id, token, false));
    }
    Ok(Tokenizer::parse(json.to_string().as_bytes(), name)?)
}

/// Whether a token names a language: `>>deu<<` (OPUS-MT), `__de__` (M2M100), `deu_Latn` (NLLB),
/// `de_DE` (mBART).
fn is_language(token: &str) -> bool {
    if let Some(name) = between(token, ">>", "<<").or_else(|| between(token, "__", "__")) {
        return !name.is_empty();
    }
    let Some((language, region)) = token.split_once('_') else {
        return false;
    };
    (2..=3).contains(&language.len())
        && is_lower(language)
        && (is_country(region) || is_script(region))
}

/// The text between a start and an end, if a token has both.
fn between<'a>(token: &'a str, start: &str, end: &str) -> Option<&'a str> {
    token.strip_prefix(start)?.strip_suffix(end)
}

fn is_lower(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Whether a text is spelled as the code of a country, such as `DE`.
fn is_country(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Whether a text is spelled as the code of a script, such as `Latn`.
fn is_script(text: &str) -> bool {
    text.len() == 4
        && text.starts_with(|letter: char| letter.is_ascii_uppercase())
        && is_lower(&text[1..])
}

/// An entry of `added_tokens` in a `tokenizer.json`. Tokens that are not special take the spaces
/// after them along.
fn added_token(id: usize, token: &str, special: bool) -> Value {
    json!({
        "id": id, "content": token, "special": special, "single_word": false, "lstrip": false, "rstrip": !special,
        "normalized": false,
    })
}
