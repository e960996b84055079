//! From a `tokenizer.json` to a SentencePiece model, where that says the same.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::protobuf::Message;
use super::read::single_spaces;
use super::{SPACE, field, model_type, piece_type};
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
pub(super) fn write(tokenizer: &Json, vocab_size: usize, special: SpecialIds) -> Result<Vec<u8>, String> {
    let (kind, splitter) = (name(&tokenizer["model"]), name(&tokenizer["pre_tokenizer"]));
    let (kind_of_model, pieces) = match (kind, splitter) {
        ("Unigram", "Metaspace") => (model_type::UNIGRAM, scored(&tokenizer["model"]["vocab"])?),
        ("WordLevel", "WhitespaceSplit") => (model_type::WORD, listed(&tokenizer["model"]["vocab"], SPACE, special)?),
        ("WordLevel", "Split") => (model_type::CHAR, listed(&tokenizer["model"]["vocab"], "", special)?),
        _ => {
            let splitter = if splitter.is_empty() { "nothing" } else { splitter };
            return Err(format!(
                "its model is `{kind}` behind `{splitter}`, which SentencePiece does not have; the kinds \"unigram\", \
                 \"char\", \"word\" and \"whitespace\" can be written"
            ));
        }
    };
    let mut normalization = normalization(&tokenizer["normalizer"])?;
    normalization.remove_spaces |= kind_of_model == model_type::WORD;
    if pieces.len() != vocab_size {
        return Err(format!("it has {} tokens beside those of its model", vocab_size.abs_diff(pieces.len())));
    }
    Ok(model(kind_of_model, &pieces, &normalization, special))
}

fn name(part: &Json) -> &str {
    part["type"].as_str().unwrap_or_default()
}

/// What the steps of a normalizer are together. NFC is the identity on nearly all text, and is left out.
fn normalization(normalizer: &Json) -> Result<Normalization, String> {
    let steps = match name(normalizer) {
        "" => return Ok(Normalization::default()),
        "Sequence" => normalizer["normalizers"].as_array().map_or(&[][..], Vec::as_slice),
        _ => std::slice::from_ref(normalizer),
    };
    let mut found = Normalization::default();
    for step in steps {
        match name(step) {
            "NFC" => {}
            "Precompiled" => {
                let encoded = step["precompiled_charsmap"].as_str().unwrap_or_default();
                found.charsmap =
                    STANDARD.decode(encoded).map_err(|error| format!("its table of characters: {error}"))?;
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

/// The pieces of a unigram model.
fn scored(vocab: &Json) -> Result<Vec<(String, f32)>, String> {
    let entry = |entry: &Json| Some((entry[0].as_str()?.to_owned(), entry[1].as_f64()? as f32));
    let entries = vocab.as_array().map_or(&[][..], Vec::as_slice).iter();
    entries.map(|found| entry(found).ok_or_else(|| format!("its entry {found} is no piece with a score"))).collect()
}

/// The words of a vocabulary in the order of their ids, with `prefix` before each that is no mark.
fn listed(vocab: &Json, prefix: &str, special: SpecialIds) -> Result<Vec<(String, f32)>, String> {
    let vocab = vocab.as_object().ok_or("it has no vocabulary")?;
    let mut words: Vec<(u64, &String)> =
        vocab.iter().map(|(word, id)| (id.as_u64().unwrap_or(u64::MAX), word)).collect();
    words.sort_unstable();
    if !words.iter().map(|(id, _)| *id).eq(0..words.len() as u64) {
        return Err("its ids have gaps".to_owned());
    }
    let piece = |(id, word): (u64, &String)| {
        let is_mark = special.is_silent(id as u32) || id == u64::from(special.unk);
        let text = if is_mark { word.clone() } else { format!("{prefix}{}", word.replace(' ', SPACE)) };
        // Any order of scores will do: no word is cut in two ways.
        (text, -(id as f32))
    };
    Ok(words.into_iter().map(piece).collect())
}

fn model(kind: u64, pieces: &[(String, f32)], normalization: &Normalization, special: SpecialIds) -> Vec<u8> {
    let marks = [special.unk, special.bos, special.eos, special.pad];
    let mut model = Message::default();
    for (id, (piece, score)) in (0u32..).zip(pieces) {
        let role = match marks.iter().position(|mark| *mark == id) {
            Some(0) => piece_type::UNKNOWN,
            Some(_) => piece_type::CONTROL,
            None => piece_type::NORMAL,
        };
        let score = if role == piece_type::NORMAL { *score } else { 0.0 };
        let entry = Message::default().bytes(field::PIECE, piece.as_bytes()).float(field::SCORE, score);
        model = model.bytes(field::PIECES, &entry.number(field::TYPE, role).finish());
    }
    let mut trainer = Message::default().number(field::MODEL_TYPE, kind).number(field::VOCAB_SIZE, pieces.len() as u64);
    for (number, mark) in (field::MARKS..).zip(marks) {
        trainer = trainer.number(number, u64::from(mark));
    }
    for (number, mark) in (field::MARKS + 5..).zip(marks) {
        let spelling = pieces.get(mark as usize).map_or("", |(piece, _)| piece);
        trainer = trainer.bytes(number, spelling.as_bytes());
    }
    let charsmap = &normalization.charsmap;
    let rule: &[u8] = if charsmap.is_empty() { b"identity" } else { b"user_defined" };
    let normalizer = Message::default()
        .bytes(field::NAME, rule)
        .bytes(field::CHARSMAP, charsmap)
        // Characters are written as they are, without a space before the first.
        .number(field::DUMMY_PREFIX, u64::from(kind != model_type::CHAR))
        .number(field::REMOVE_SPACES, u64::from(normalization.remove_spaces))
        .number(field::ESCAPE_SPACES, 1);
    model.bytes(field::TRAINER, &trainer.finish()).bytes(field::NORMALIZER, &normalizer.finish()).finish()
}
