//! From a `tokenizer.json` to a SentencePiece model, where that says the same.

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

/// How a model normalizes text.
#[derive(Default)]
struct Normalization {
    charsmap: Vec<u8>,
    remove_spaces: bool,
}

/// The model of a tokenizer.
///
/// # Errors
/// Says what has no counterpart in SentencePiece.
pub(super) fn write(
    tokenizer: &Json,
    vocab_size: usize,
    special: SpecialIds,
) -> Result<Vec<u8>, String> {
    let (kind, splitter) = (name(&tokenizer["model"]), name(&tokenizer["pre_tokenizer"]));
    let (kind_of_model, pieces) = match (kind, splitter) {
        ("Unigram", "Metaspace") => (ModelKind::Unigram, scored(&tokenizer["model"]["vocab"])?),
        ("WordLevel", "WhitespaceSplit") => (
            ModelKind::Word,
            listed(&tokenizer["model"]["vocab"], SPACE, special)?,
        ),
        ("WordLevel", "Split") => (
            ModelKind::Char,
            listed(&tokenizer["model"]["vocab"], "", special)?,
        ),
        _ => {
            let splitter = if splitter.is_empty() {
                "nothing"
            } else {
                splitter
            };
            return Err(format!(
                "its model is `{kind}` behind `{splitter}`, which SentencePiece does not have; the kinds \"unigram\", \
                 \"char\", \"word\" and \"whitespace\" can be written"
            ));
        }
    };
    let mut normalization = normalization(&tokenizer["normalizer"])?;
    normalization.remove_spaces |= kind_of_model == ModelKind::Word;
    if pieces.len() != vocab_size {
        return Err(format!(
            "it has {} tokens beside those of its model",
            vocab_size.abs_diff(pieces.len())
        ));
    }
    Ok(model(kind_of_model, &pieces, normalization, special))
}

fn name(part: &Json) -> &str {
    part["type"].as_str().unwrap_or_default()
}

/// What the steps of a normalizer are together. NFC has no counterpart, and is left out:
/// `docs/formats.md` says which text is cut otherwise then.
fn normalization(normalizer: &Json) -> Result<Normalization, String> {
    let steps = match name(normalizer) {
        "" => return Ok(Normalization::default()),
        "Sequence" => normalizer["normalizers"]
            .as_array()
            .map_or(&[][..], Vec::as_slice),
        _ => std::slice::from_ref(normalizer),
    };
    let cleaning = clean_text::steps();
    let mut found = Normalization::default();
    let mut rest = steps;
    while let Some((step, after)) = rest.split_first() {
        if let Some(after_cleaning) = rest.strip_prefix(&cleaning) {
            found.charsmap = charsmap(clean_text::without_context())?;
            found.remove_spaces = true;
            rest = after_cleaning;
            continue;
        }
        rest = after;
        match name(step) {
            "NFC" => {}
            "Precompiled" => {
                let encoded = step["precompiled_charsmap"].as_str().unwrap_or_default();
                found.charsmap = STANDARD
                    .decode(encoded)
                    .map_err(|error| format!("its table of characters: {error}"))?;
            }
            // Both are there where one is, in tokenizers that were SentencePiece models.
            _ if single_spaces().contains(step) => found.remove_spaces = true,
            other => {
                return Err(format!(
                    "it normalizes text by `{other}`, which only SentencePiece itself can put into a model"
                ));
            }
        }
    }
    Ok(found)
}

/// SentencePiece's table of characters that become other text: the length of a double-array trie in
/// bytes, the trie, whose values are places in the rest, and there the new texts, each with a NUL
/// behind it.
///
/// # Errors
/// The trie cannot be built.
fn charsmap(rules: impl Iterator<Item = (char, &'static str)>) -> Result<Vec<u8>, String> {
    let mut keys: Vec<(String, u32)> = Vec::new();
    let mut texts = String::new();
    for (character, text) in rules {
        let known = texts.find(&format!("{text}\0"));
        let place = known.unwrap_or(texts.len());
        if known.is_none() {
            texts.push_str(text);
            texts.push('\0');
        }
        keys.push((character.to_string(), place as u32));
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

/// The pieces of a unigram model.
fn scored(vocab: &Json) -> Result<Vec<(String, f32)>, String> {
    let entry = |entry: &Json| Some((entry[0].as_str()?.to_owned(), entry[1].as_f64()? as f32));
    let entries = vocab.as_array().map_or(&[][..], Vec::as_slice).iter();
    entries
        .map(|found| {
            entry(found).ok_or_else(|| format!("its entry {found} is no piece with a score"))
        })
        .collect()
}

/// The words of a vocabulary in the order of their ids, with `prefix` before each that is no mark.
fn listed(vocab: &Json, prefix: &str, special: SpecialIds) -> Result<Vec<(String, f32)>, String> {
    let vocab = vocab.as_object().ok_or("it has no vocabulary")?;
    let mut words: Vec<(u64, &String)> = vocab
        .iter()
        .map(|(word, id)| (id.as_u64().unwrap_or(u64::MAX), word))
        .collect();
    words.sort_unstable();
    if !words.iter().map(|(id, _)| *id).eq(0..words.len() as u64) {
        return Err("its ids have gaps".to_owned());
    }
    let piece = |(id, word): (u64, &String)| {
        let is_mark = special.is_silent(id as u32) || id == u64::from(special.unk);
        let text = if is_mark {
            word.clone()
        } else {
            format!("{prefix}{}", word.replace(' ', SPACE))
        };
        // Any order of scores will do: no word is cut in two ways.
        (text, -(id as f32))
    };
    Ok(words.into_iter().map(piece).collect())
}

fn model(
    kind: ModelKind,
    pieces: &[(String, f32)],
    normalization: Normalization,
    special: SpecialIds,
) -> Vec<u8> {
    let marks = [special.unk, special.bos, special.eos, special.pad];
    let piece = |(id, (text, score)): (u32, &(String, f32))| {
        let kind = match marks.iter().position(|mark| *mark == id) {
            Some(0) => PieceKind::Unknown,
            Some(_) => PieceKind::Control,
            None => PieceKind::Normal,
        };
        let score = if kind == PieceKind::Normal {
            *score
        } else {
            0.0
        };
        Piece {
            text: Some(text.clone()),
            score: Some(score),
            kind: Some(kind.into()),
        }
    };
    let [unk_id, bos_id, eos_id, pad_id] = marks.map(|mark| Some(mark.cast_signed()));
    let [unk_piece, bos_piece, eos_piece, pad_piece] =
        marks.map(|mark| pieces.get(mark as usize).map(|(text, _)| text.clone()));
    let trainer = Trainer {
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
    };
    let rule = if normalization.charsmap.is_empty() {
        "identity"
    } else {
        "user_defined"
    };
    let normalizer = Normalizer {
        name: Some(rule.to_owned()),
        charsmap: Some(normalization.charsmap),
        // Characters are written as they are, without a space before the first.
        add_dummy_prefix: Some(kind != ModelKind::Char),
        remove_extra_whitespaces: Some(normalization.remove_spaces),
        escape_whitespaces: Some(true),
    };
    let pieces = (0u32..).zip(pieces).map(piece).collect();
    Model {
        pieces,
        trainer: Some(trainer),
        normalizer: Some(normalizer),
    }
    .encode_to_vec()
}
