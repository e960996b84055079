//! Foreign vocabularies: tokens with ids, and rules for cutting text, become our tokenizers and the
//! rows that they need.
//!
//! A foreign model has one list of tokens, and often two SentencePiece models whose pieces it knows
//! by other ids. Each side gets a tokenizer of its own here, with our four marks before its tokens,
//! and the rows of its embeddings are picked for it.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_model::{ModelConfig, TieEmbeddings};
use polyglow_predict::error::{Context, Result, ensure, failed};
use serde_json::{Value, json};

use super::array::Arrays;
use super::folder;
use super::portable::{Portable, per_side};

/// The largest SentencePiece model that is read.
const MOST_SENTENCEPIECE: u64 = 1 << 28;
/// The files that a tokenizer of both sides has.
const OF_BOTH_SIDES: [&str; 4] = [
    "tokenizer.json",
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "spiece.model",
];
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
        [
            (marks.bos, &self.bos),
            (marks.eos, &self.eos),
            (marks.unk, &self.unk),
        ]
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
    /// The vocabularies of the model in `dir`, whose tokenizers may lie beside it: as
    /// `tokenizer.json` or one for each side, as `source.spm` and `target.spm`, or as one
    /// SentencePiece model. Without them, text is cut at whitespace.
    ///
    /// # Errors
    /// A file is damaged.
    pub(super) fn new(dir: &Path, ids: [HashMap<String, usize>; 2], marks: Marks) -> Result<Self> {
        let src = tokenizer_beside(dir, ["tokenizer.src.json", "source.spm"], &ids[0])?;
        let tgt = tokenizer_beside(dir, ["tokenizer.tgt.json", "target.spm"], &ids[1])?;
        if src.is_none() || tgt.is_none() {
            report_missing_tokenizer(dir, &ids);
        }
        let or_words =
            |tokenizer: Option<Tokenizer>, ids| tokenizer.map_or_else(|| of_words(ids, &marks), Ok);
        let tokenizers = [or_words(src, &ids[0])?, or_words(tgt, &ids[1])?];
        Ok(Self {
            ids,
            marks,
            tokenizers,
        })
    }

    /// Picks the rows of the embeddings for our ids, and returns the tokenizers that make these
    /// ids. One matrix stays one if both sides have one tokenizer; else the sides' matrices are
    /// then separate.
    ///
    /// # Errors
    /// A mark has no foreign token.
    pub(super) fn adopt(self, model: &mut ModelConfig, arrays: &mut Arrays) -> Result<Tokenizers> {
        let Self {
            ids,
            marks,
            tokenizers: [src, tgt],
        } = self;
        let (src_rows, tgt_rows) = (rows(&src, &ids[0], &marks)?, rows(&tgt, &ids[1], &marks)?);
        ensure!(
            marks.starts_from_zeros || ids[1].contains_key(&marks.bos),
            "the target's vocabulary has no `{}`, which is the decoder's first input",
            marks.bos
        );
        let special = tgt.special();
        let is_never = |id: usize| {
            let id = id as u32;
            let is_known = || {
                tgt.token(id)
                    .is_some_and(|token| ids[1].contains_key(&token))
            };
            id == special.pad
                || id == special.bos
                || id != special.eos && id != special.unk && !is_known()
        };
        let is_tied = model.tie_embeddings == TieEmbeddings::All;
        let is_one = is_tied && src_rows == tgt_rows && src.to_json()? == tgt.to_json()?;
        Portable::choose_rows(arrays, &src_rows, &tgt_rows, is_never)?;
        model.output_bias = true;
        if is_one {
            arrays.0.remove("tgt_embedding.weight");
            return Ok(Tokenizers::shared(src));
        }
        if is_tied {
            model.tie_embeddings = TieEmbeddings::Decoder;
        }
        Ok(per_side(src, tgt))
    }
}

/// The row of the foreign embeddings that each of a tokenizer's ids has; none for padding and for a
/// first input of zeros.
fn rows(
    tokenizer: &Tokenizer,
    ids: &HashMap<String, usize>,
    marks: &Marks,
) -> Result<Vec<Option<usize>>> {
    let row = |token: &str| ids.get(token).copied();
    let needed =
        |token: &str| row(token).with_context(|| format!("the vocabulary has no `{token}`"));
    let (eos, unk) = (needed(&marks.eos)?, needed(&marks.unk)?);
    // The source has no first input, and may lack that mark.
    let bos = if marks.starts_from_zeros {
        None
    } else {
        row(&marks.bos)
    };
    let special = tokenizer.special();
    let row_of = |id: u32| match id {
        id if id == special.pad => None,
        id if id == special.bos => bos,
        id if id == special.eos => Some(eos),
        id if id == special.unk => Some(unk),
        id => Some(
            tokenizer
                .token(id)
                .and_then(|token| row(&token))
                .unwrap_or(unk),
        ),
    };
    Ok((0..tokenizer.vocab_size() as u32).map(row_of).collect())
}

/// The tokenizer of a side that lies in a folder; none if there is none for its vocabulary. `names`
/// are the files of this side alone, which come before those of both: a `tokenizer.json` beside
/// them may be of the other side.
fn tokenizer_beside(
    dir: &Path,
    names: [&str; 2],
    ids: &HashMap<String, usize>,
) -> Result<Option<Tokenizer>> {
    for name in names.into_iter().chain(OF_BOTH_SIDES) {
        let path = dir.join(name);
        if !path.is_file() {
            continue;
        }
        if path.extension().is_none_or(|ending| ending != "json") {
            let bytes = folder::read(&path, MOST_SENTENCEPIECE)?;
            let tokenizer = Tokenizer::parse_sentencepiece(&bytes, &path.display().to_string())?;
            return with_languages(tokenizer, ids, name).map(Some);
        }
        let tokenizer = of_json(&path, ids)?;
        let tokens = (0..tokenizer.vocab_size() as u32).filter_map(|id| tokenizer.token(id));
        let num_known = tokens.filter(|token| ids.contains_key(token)).count();
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

/// A foreign `tokenizer.json`, whose tokens of languages can be written in a text.
fn of_json(path: &Path, ids: &HashMap<String, usize>) -> Result<Tokenizer> {
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

/// Says that a folder has no tokenizer; loudly if its tokens are parts of words, which only a
/// tokenizer makes of text.
fn report_missing_tokenizer(dir: &Path, ids: &[HashMap<String, usize>; 2]) {
    let is_part = |token: &String| {
        token.starts_with(['\u{2581}', '\u{120}', '\u{ffed}'])
            || token.starts_with("##")
            || token.ends_with("@@")
    };
    let dir = dir.display();
    if ids.iter().any(|ids| ids.keys().any(is_part)) {
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

/// A tokenizer of whole words: the tokens of a vocabulary, between spaces.
fn of_words(ids: &HashMap<String, usize>, marks: &Marks) -> Result<Tokenizer> {
    let is_mark = |token: &&String| {
        [&marks.bos, &marks.eos, &marks.unk].contains(token) || OURS.contains(&token.as_str())
    };
    let mut words: Vec<(usize, &String)> = ids
        .iter()
        .filter(|(token, _)| !is_mark(token))
        .map(|(token, id)| (*id, token))
        .collect();
    words.sort_unstable();
    let tokens = OURS
        .into_iter()
        .chain(words.into_iter().map(|(_, token)| token.as_str()));
    let vocab: serde_json::Map<String, Value> = tokens
        .zip(0..)
        .map(|(token, id)| (token.to_owned(), json!(id)))
        .collect();
    let added: Vec<Value> = OURS
        .iter()
        .enumerate()
        .map(|(id, token)| added_token(id, token, true))
        .collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": OURS[3], "vocab": vocab},
    });
    Ok(Tokenizer::parse(json.to_string().as_bytes(), "vocabulary")?)
}

/// The same tokenizer with the tokens that say which language a text is in, or is wanted in: they
/// are no pieces.
fn with_languages(
    tokenizer: Tokenizer,
    ids: &HashMap<String, usize>,
    name: &str,
) -> Result<Tokenizer> {
    let pieces: HashSet<String> = (0..tokenizer.vocab_size() as u32)
        .filter_map(|id| tokenizer.token(id))
        .collect();
    let mut languages: Vec<(usize, &String)> = ids
        .iter()
        .filter(|(token, _)| is_language(token) && !pieces.contains(*token))
        .map(|(token, id)| (*id, token))
        .collect();
    if languages.is_empty() {
        return Ok(tokenizer);
    }
    languages.sort_unstable();
    let mut json: Value = serde_json::from_str(&tokenizer.to_json()?)?;
    let added = json["added_tokens"]
        .as_array_mut()
        .ok_or_else(|| failed!("the tokenizer has no marks"))?;
    let ids = tokenizer.vocab_size()..;
    added.extend(
        ids.zip(languages)
            .map(|(id, (_, token))| added_token(id, token, false)),
    );
    Ok(Tokenizer::parse(json.to_string().as_bytes(), name)?)
}

/// Whether a token names a language: `>>deu<<` (OPUS-MT), `__de__` (M2M100), `deu_Latn` (NLLB),
/// `de_DE` (mBART).
fn is_language(token: &str) -> bool {
    let between = |start, end| {
        token
            .strip_prefix(start)
            .and_then(|rest| rest.strip_suffix(end))
    };
    if let Some(name) = between(">>", "<<").or_else(|| between("__", "__")) {
        return !name.is_empty();
    }
    let Some((language, region)) = token.split_once('_') else {
        return false;
    };
    let is_lower = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_region = region.len() == 2 && region.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_script =
        region.len() == 4 && region.starts_with(|letter: char| letter.is_ascii_uppercase());
    (2..=3).contains(&language.len())
        && is_lower(language)
        && (is_region || is_script && is_lower(&region[1..]))
}

fn added_token(id: usize, token: &str, special: bool) -> Value {
    json!({
        "id": id, "content": token, "special": special, "single_word": false, "lstrip": false, "rstrip": !special,
        "normalized": false,
    })
}
