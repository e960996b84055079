//! From a SentencePiece model to a `tokenizer.json` that cuts text in the same way.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::{Value as Json, json};

use super::SPACE;
use super::proto::{Model, ModelKind, Normalizer, Piece, PieceKind, Trainer};
use crate::special::TOKENS;

/// Returns the `tokenizer.json` of a model.
///
/// # Errors
/// Says what is wrong with the model, or which of its properties has no counterpart.
pub(in super::super) fn read(model: &[u8]) -> Result<Json, String> {
    let model = Model::decode(model)
        .map_err(|error| format!("it is no SentencePiece model, or damaged or cut off: {error}"))?;
    // They follow the pieces: without them, a model that was cut off between two pieces would pass
    // for a smaller one.
    let cut_off = "it is no SentencePiece model, or cut off: trainer or normalizer are missing";
    let trainer = model.trainer.as_ref().ok_or(cut_off)?;
    let normalizer = model.normalizer.as_ref().ok_or(cut_off)?;
    let kind = check(trainer, normalizer)?;
    let mut pieces = Vec::with_capacity(model.pieces.len());
    for piece in model.pieces {
        pieces.extend(scored(piece)?);
    }
    if pieces.is_empty() {
        return Err("it is no SentencePiece model: it has no pieces".to_owned());
    }
    let model = if kind == ModelKind::Bpe {
        byte_pairs(&pieces)
    } else {
        unigram(&pieces)
    };
    Ok(tokenizer(&model, normalizer))
}

/// Returns the kind of the model; refuses a model that a `tokenizer.json` cannot express.
fn check(trainer: &Trainer, normalizer: &Normalizer) -> Result<ModelKind, String> {
    let kind = trainer
        .kind
        .map_or(Ok(ModelKind::Unigram), ModelKind::try_from);
    let kind = kind.map_err(|_| "it is a SentencePiece model of an unknown kind")?;
    // A `tokenizer.json` of such a model could be made, but would cut text differently, without any
    // error.
    let reason = match kind {
        ModelKind::Word => "it is a SentencePiece model of words",
        ModelKind::Char => "it is a SentencePiece model of characters",
        ModelKind::Unigram | ModelKind::Bpe if trainer.byte_fallback() => "it falls back to bytes",
        ModelKind::Unigram | ModelKind::Bpe if trainer.treat_whitespace_as_suffix() => {
            "it puts spaces behind words"
        }
        ModelKind::Unigram | ModelKind::Bpe if !normalizer.add_dummy_prefix() => {
            "it puts no space before a text"
        }
        ModelKind::Unigram | ModelKind::Bpe if !normalizer.escape_whitespaces() => {
            "it does not write spaces as `▁`"
        }
        ModelKind::Unigram | ModelKind::Bpe => return Ok(kind),
    };
    let readable = "unigram and BPE models with a space before the text, and without bytes";
    Err(format!("{reason}; only {readable}, can be read"))
}

/// Returns the text of a piece and its score; `None` if it stands for no text.
fn scored(piece: Piece) -> Result<Option<(String, f32)>, String> {
    match piece.kind.map(PieceKind::try_from) {
        None | Some(Ok(PieceKind::Normal)) => {}
        Some(Ok(PieceKind::UserDefined)) => {
            return Err(
                "it has pieces that are defined by hand, which are never cut; they cannot be read"
                    .to_owned(),
            );
        }
        Some(Err(_)) => return Err("a piece of it is of an unknown kind".to_owned()),
        Some(Ok(_)) => return Ok(None),
    }
    let score = piece.score();
    let text = piece.text.ok_or("a piece of it has no text")?;
    if !score.is_finite() {
        return Err(format!("the score of the piece `{text}` is {score}"));
    }
    Ok(Some((text, score)))
}

/// The normalization steps that leave one space of several, and none at the end; those at the
/// beginning become the space before the text.
pub(super) fn single_spaces() -> [Json; 2] {
    [
        json!({"type": "Strip", "strip_left": false, "strip_right": true}),
        json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": SPACE}),
    ]
}

/// The unigram model of these pieces, behind the special tokens.
fn unigram(pieces: &[(String, f32)]) -> Json {
    let special = TOKENS.iter().map(|token| json!([token, 0.0]));
    let vocab: Vec<Json> = special
        .chain(pieces.iter().map(|(piece, score)| json!([piece, score])))
        .collect();
    json!({"type": "Unigram", "unk_id": 3, "byte_fallback": false, "vocab": vocab})
}

/// The byte pair encoding of these pieces, behind the special tokens.
fn byte_pairs(pieces: &[(String, f32)]) -> Json {
    let tokens = TOKENS
        .into_iter()
        .chain(pieces.iter().map(|(piece, _)| piece.as_str()));
    let vocab: serde_json::Map<String, Json> = tokens
        .zip(0..)
        .map(|(token, id)| (token.to_owned(), json!(id)))
        .collect();
    json!({
        "type": "BPE", "dropout": null, "unk_token": TOKENS[3], "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
        "vocab": vocab, "merges": merges(pieces),
    })
}

/// Returns all pairs of pieces that make a piece, the best piece's first. SentencePiece has no list
/// of merges: it merges the neighbors that make the piece of the highest score.
fn merges(pieces: &[(String, f32)]) -> Vec<[&str; 2]> {
    let ids: HashMap<&str, usize> = pieces
        .iter()
        .zip(0..)
        .map(|((piece, _), id)| (piece.as_str(), id))
        .collect();
    // A piece may be made of several pairs; which of them is applied depends on the text.
    let mut merges = Vec::new();
    for (piece, score) in pieces {
        for (split, _) in piece.char_indices().skip(1) {
            let (left, right) = piece.split_at(split);
            if let (Some(left_id), Some(right_id)) = (ids.get(left), ids.get(right)) {
                merges.push((score, left_id, right_id, [left, right]));
            }
        }
    }
    // The rank of a merge is its index, and the lowest rank is merged first.
    merges.sort_by(|a, b| b.0.total_cmp(a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
    merges.into_iter().map(|(.., pair)| pair).collect()
}

/// The special tokens, which a `tokenizer.json` lists apart from its model.
fn added_tokens() -> Vec<Json> {
    let mut tokens = Vec::new();
    for (id, token) in TOKENS.iter().enumerate() {
        tokens.push(json!({
            "id": id, "content": token, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        }));
    }
    tokens
}

/// The `tokenizer.json` of a model, whose first tokens are the special ones.
fn tokenizer(model: &Json, normalizer: &Normalizer) -> Json {
    let mut steps = Vec::new();
    if !normalizer.charsmap().is_empty() {
        steps.push(json!({"type": "Precompiled", "precompiled_charsmap": STANDARD.encode(normalizer.charsmap())}));
    }
    if normalizer.remove_extra_whitespaces() {
        steps.extend(single_spaces());
    }
    let normalizer = if steps.is_empty() {
        Json::Null
    } else {
        json!({"type": "Sequence", "normalizers": steps})
    };
    let space = json!({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added_tokens(),
        "normalizer": normalizer, "pre_tokenizer": space.clone(), "post_processor": null, "decoder": space,
        "model": model,
    })
}
