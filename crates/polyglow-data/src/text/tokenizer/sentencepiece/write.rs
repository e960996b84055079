//! From a `tokenizer.json` to a SentencePiece model, where that cuts text alike.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::Value as Json;
use yada::builder::DoubleArrayBuilder;

use super::super::clean_text;
use super::SPACE;
use super::proto::{Model, ModelKind, Normalizer, Piece, PieceKind, Trainer};
use super::read::single_spaces;
use crate::special::SpecialIds;

/// The normalization of a model.
#[derive(Default)]
struct Normalization {
    charsmap: Vec<u8>,
    remove_spaces: bool,
}

/// A piece and its score.
type Scored = (String, f32);

/// Returns the SentencePiece model of a `tokenizer.json`.
///
/// # Errors
/// Says which part of the tokenizer has no counterpart in SentencePiece.
pub(super) fn write(
    tokenizer: &Json,
    vocab_size: usize,
    special: SpecialIds,
) -> Result<Vec<u8>, String> {
    let kind = model_kind(tokenizer)?;
    let vocab = &tokenizer["model"]["vocab"];
    let pieces = match kind {
        ModelKind::Word => listed(vocab, SPACE, special)?,
        ModelKind::Char => listed(vocab, "", special)?,
        ModelKind::Unigram | ModelKind::Bpe => scored(vocab)?,
    };
    let mut normalization = normalization(&tokenizer["normalizer"])?;
    normalization.remove_spaces |= kind == ModelKind::Word;
    // Tokens that were added to the vocabulary by hand have no piece, and ids must not move.
    if pieces.len() != vocab_size {
        let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
        let names: Vec<String> = added
            .filter(|token| token["id"].as_u64() >= Some(pieces.len() as u64))
            .filter_map(|token| Some(format!("`{}`", token["content"].as_str()?)))
            .collect();
        return Err(format!(
            "it has {} tokens beside those of its model: {}",
            vocab_size.abs_diff(pieces.len()),
            names.join(", ")
        ));
    }
    let model = Model {
        pieces: typed_pieces(&pieces, special),
        trainer: Some(trainer(kind, &pieces, special)),
        normalizer: Some(normalizer(kind, normalization)),
    };
    Ok(model.encode_to_vec())
}

/// Returns the kind of model that cuts text as the tokenizer does.
fn model_kind(tokenizer: &Json) -> Result<ModelKind, String> {
    let kind = name(&tokenizer["model"]);
    let splitter = name(&tokenizer["pre_tokenizer"]);
    match (kind, splitter) {
        ("Unigram", "Metaspace") => Ok(ModelKind::Unigram),
        ("WordLevel", "WhitespaceSplit") => Ok(ModelKind::Word),
        ("WordLevel", "Split") => Ok(ModelKind::Char),
        _ => {
            let splitter = if splitter.is_empty() {
                "nothing"
            } else {
                splitter
            };
            Err(format!(
                "its model is `{kind}` behind `{splitter}`, which SentencePiece does not have; the kinds \"unigram\", \
                 \"char\", \"word\" and \"whitespace\" can be written"
            ))
        }
    }
}

/// The type of a part of a `tokenizer.json`; empty if the part is missing.
fn name(part: &Json) -> &str {
    part["type"].as_str().unwrap_or_default()
}

/// Joins the steps of a normalizer. NFC has no counterpart, and is left out: `docs/formats.md` says
/// which text is cut differently then.
fn normalization(normalizer: &Json) -> Result<Normalization, String> {
    let steps = match name(normalizer) {
        "" => return Ok(Normalization::default()),
        "Sequence" => normalizer["normalizers"]
            .as_array()
            .map_or(&[][..], Vec::as_slice),
        _ => std::slice::from_ref(normalizer),
    };
    let cleaning = clean_text::steps();
    let mut joined = Normalization::default();
    let mut rest = steps;
    while let Some((step, after)) = rest.split_first() {
        if let Some(after_cleaning) = rest.strip_prefix(&cleaning) {
            joined.charsmap = charsmap(clean_text::without_context())?;
            joined.remove_spaces = true;
            rest = after_cleaning;
            continue;
        }
        rest = after;
        match name(step) {
            "NFC" => {}
            "Precompiled" => {
                let encoded = step["precompiled_charsmap"].as_str().unwrap_or_default();
                joined.charsmap = STANDARD
                    .decode(encoded)
                    .map_err(|error| format!("its table of characters: {error}"))?;
            }
            // Both are there where one is, in tokenizers that were SentencePiece models.
            _ if single_spaces().contains(step) => joined.remove_spaces = true,
            other => {
                return Err(format!(
                    "it normalizes text by `{other}`, which only SentencePiece itself can put into a model"
                ));
            }
        }
    }
    Ok(joined)
}

/// Builds SentencePiece's table of characters that are replaced with a text: the length of a
/// double-array trie in bytes; the trie, whose values are offsets into the rest; and there the
/// texts, each with a NUL behind it.
///
/// # Errors
/// The trie cannot be built.
fn charsmap(rules: impl Iterator<Item = (char, &'static str)>) -> Result<Vec<u8>, String> {
    let mut keys: Vec<(String, u32)> = Vec::new();
    let mut texts = String::new();
    for (character, text) in rules {
        // Most characters become a space or nothing, whose text is stored once.
        let known = texts.find(&format!("{text}\0"));
        let offset = known.unwrap_or(texts.len());
        if known.is_none() {
            texts.push_str(text);
            texts.push('\0');
        }
        keys.push((character.to_string(), offset as u32));
    }
    // The builder wants its keys sorted; a NUL would end a key.
    keys.retain(|(key, _)| key != "\0");
    keys.sort_unstable();
    let trie = DoubleArrayBuilder::build(&keys)
        .map_err(|error| format!("its table of characters: {error:?}"))?;
    let len =
        u32::try_from(trie.len()).map_err(|error| format!("its table of characters: {error}"))?;
    Ok([&len.to_le_bytes(), &trie[..], texts.as_bytes()].concat())
}

/// Returns the pieces of a unigram model.
fn scored(vocab: &Json) -> Result<Vec<Scored>, String> {
    let mut pieces = Vec::new();
    for entry in vocab.as_array().into_iter().flatten() {
        let (Some(text), Some(score)) = (entry[0].as_str(), entry[1].as_f64()) else {
            return Err(format!("its entry {entry} is no piece with a score"));
        };
        pieces.push((text.to_owned(), score as f32));
    }
    Ok(pieces)
}

/// Returns the words of a vocabulary in the order of their ids, with `prefix` before each that is
/// no special token.
fn listed(vocab: &Json, prefix: &str, special: SpecialIds) -> Result<Vec<Scored>, String> {
    let vocab = vocab.as_object().ok_or("it has no vocabulary")?;
    let mut words: Vec<(u64, &String)> = vocab
        .iter()
        .map(|(word, id)| (id.as_u64().unwrap_or(u64::MAX), word))
        .collect();
    words.sort_unstable();
    if !words.iter().map(|(id, _)| *id).eq(0..words.len() as u64) {
        return Err("its ids have gaps".to_owned());
    }
    let mut pieces = Vec::with_capacity(words.len());
    for (id, word) in words {
        let is_special = special.is_silent(id as u32) || id == u64::from(special.unk);
        let text = if is_special {
            word.clone()
        } else {
            format!("{prefix}{}", word.replace(' ', SPACE))
        };
        // Any order of scores will do: no word is cut in two ways.
        pieces.push((text, -(id as f32)));
    }
    Ok(pieces)
}

/// Gives each piece its type; special tokens have the score 0.
fn typed_pieces(pieces: &[Scored], special: SpecialIds) -> Vec<Piece> {
    let mut typed = Vec::with_capacity(pieces.len());
    for (id, (text, score)) in (0u32..).zip(pieces) {
        let kind = if id == special.unk {
            PieceKind::Unknown
        } else if special.is_silent(id) {
            PieceKind::Control
        } else {
            PieceKind::Normal
        };
        let score = if kind == PieceKind::Normal {
            *score
        } else {
            0.0
        };
        typed.push(Piece {
            text: Some(text.clone()),
            score: Some(score),
            kind: Some(kind.into()),
        });
    }
    typed
}

/// Names the special tokens, as the trainer of such a model would have.
fn trainer(kind: ModelKind, pieces: &[Scored], special: SpecialIds) -> Trainer {
    let ids = [special.unk, special.bos, special.eos, special.pad];
    let [unk_id, bos_id, eos_id, pad_id] = ids.map(|id| Some(id.cast_signed()));
    let [unk_piece, bos_piece, eos_piece, pad_piece] =
        ids.map(|id| pieces.get(id as usize).map(|(text, _)| text.clone()));
    Trainer {
        kind: Some(kind.into()),
        vocab_size: i32::try_from(pieces.len()).ok(),
        unk_id,
        bos_id,
        eos_id,
        pad_id,
        unk_piece,
        bos_piece,
        eos_piece,
        pad_piece,
        ..Trainer::default()
    }
}

/// Describes the normalization by a table of characters and flags.
fn normalizer(kind: ModelKind, normalization: Normalization) -> Normalizer {
    let rule = if normalization.charsmap.is_empty() {
        "identity"
    } else {
        "user_defined"
    };
    Normalizer {
        name: Some(rule.to_owned()),
        charsmap: Some(normalization.charsmap),
        // Characters are written as they are, without a space before the first.
        add_dummy_prefix: Some(kind != ModelKind::Char),
        remove_extra_whitespaces: Some(normalization.remove_spaces),
        escape_whitespaces: Some(true),
    }
}
