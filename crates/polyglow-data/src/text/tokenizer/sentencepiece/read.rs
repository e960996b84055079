//! From a SentencePiece model to a `tokenizer.json` that cuts text in the same way.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use super::protobuf::{Fields, Value};
use super::{SPACE, field, model_type, piece_type};
use crate::special::TOKENS;

/// How a model was trained and how it normalizes, with SentencePiece's defaults.
struct Settings {
    model_type: u64,
    charsmap: Vec<u8>,
    remove_spaces: bool,
    /// What a `tokenizer.json` does not express, if there is something.
    refused: Option<&'static str>,
}

/// The `tokenizer.json` of a model.
///
/// # Errors
/// Says what is wrong with the model, or which of its properties has no counterpart.
pub(in super::super) fn read(model: &[u8]) -> Result<Json, String> {
    let mut pieces: Vec<(String, f32)> = Vec::new();
    let mut settings =
        Settings { model_type: model_type::UNIGRAM, charsmap: Vec::new(), remove_spaces: true, refused: None };
    let mut has_settings = [false; 2];
    for entry in Fields::of(model) {
        match entry? {
            (field::PIECES, value) => pieces.extend(piece(value.bytes()?)?),
            (field::TRAINER, value) => {
                settings.trainer(value.bytes()?)?;
                has_settings[0] = true;
            }
            (field::NORMALIZER, value) => {
                settings.normalizer(value.bytes()?)?;
                has_settings[1] = true;
            }
            _ => {}
        }
    }
    settings.check()?;
    // They follow the pieces: without them, a model that was cut off between two pieces would pass for a smaller one.
    if pieces.is_empty() || has_settings != [true; 2] {
        return Err("it is no SentencePiece model, or cut off: pieces, trainer or normalizer are missing".to_owned());
    }
    Ok(tokenizer(&pieces, &settings))
}

/// A piece and its score; none if it stands for no text.
fn piece(message: &[u8]) -> Result<Option<(String, f32)>, String> {
    let (mut text, mut score, mut kind) = (None, 0.0, piece_type::NORMAL);
    for entry in Fields::of(message) {
        match entry? {
            (field::PIECE, value) => text = Some(value.bytes()?),
            (field::SCORE, value) => score = value.float()?,
            (field::TYPE, value) => kind = value.number()?,
            _ => {}
        }
    }
    if ![piece_type::NORMAL, piece_type::USER_DEFINED].contains(&kind) {
        return Ok(None);
    }
    let text = text.ok_or("a piece of it has no text")?;
    let text = str::from_utf8(text).map_err(|_| "a piece of it is not UTF-8")?;
    if !score.is_finite() {
        return Err(format!("the score of the piece `{text}` is {score}"));
    }
    Ok(Some((text.to_owned(), score)))
}

impl Settings {
    fn trainer(&mut self, message: &[u8]) -> Result<(), String> {
        for entry in Fields::of(message) {
            match entry? {
                (field::MODEL_TYPE, value) => self.model_type = value.number()?,
                (field::BYTE_FALLBACK, value) => self.refuse(value.number()? != 0, "it falls back to bytes"),
                _ => {}
            }
        }
        Ok(())
    }

    fn normalizer(&mut self, message: &[u8]) -> Result<(), String> {
        for entry in Fields::of(message) {
            match entry? {
                (field::CHARSMAP, Value::Bytes(charsmap)) => self.charsmap = charsmap.to_vec(),
                (field::DUMMY_PREFIX, value) => self.refuse(value.number()? == 0, "it puts no space before a text"),
                (field::REMOVE_SPACES, value) => self.remove_spaces = value.number()? != 0,
                (field::ESCAPE_SPACES, value) => self.refuse(value.number()? == 0, "it does not write spaces as `▁`"),
                _ => {}
            }
        }
        Ok(())
    }

    fn refuse(&mut self, is_so: bool, reason: &'static str) {
        if is_so {
            self.refused = Some(reason);
        }
    }

    /// Refuses what a `tokenizer.json` does not express.
    fn check(&self) -> Result<(), String> {
        let kind = match self.model_type {
            model_type::UNIGRAM => None,
            model_type::BPE => Some("byte pair encoding"),
            model_type::WORD => Some("words"),
            model_type::CHAR => Some("characters"),
            _ => Some("an unknown kind"),
        };
        let reason = match (kind, self.refused) {
            (Some(kind), _) => format!("it is a SentencePiece model of {kind}"),
            (None, Some(reason)) => reason.to_owned(),
            (None, None) => return Ok(()),
        };
        Err(format!("{reason}; only unigram models with a space before the text, and without bytes, can be read"))
    }
}

/// The steps that leave one space of several, and none at the end; those at the beginning become the space before the text.
pub(super) fn single_spaces() -> [Json; 2] {
    [
        json!({"type": "Strip", "strip_left": false, "strip_right": true}),
        json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": SPACE}),
    ]
}

/// Pieces behind the four marks.
fn tokenizer(pieces: &[(String, f32)], settings: &Settings) -> Json {
    let mut steps = Vec::new();
    if !settings.charsmap.is_empty() {
        steps.push(json!({"type": "Precompiled", "precompiled_charsmap": STANDARD.encode(&settings.charsmap)}));
    }
    if settings.remove_spaces {
        steps.extend(single_spaces());
    }
    let normalizer = if steps.is_empty() { Json::Null } else { json!({"type": "Sequence", "normalizers": steps}) };
    let space = json!({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": true});
    let mark = |(id, token): (usize, &&str)| {
        json!({
            "id": id, "content": token, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    let marks = TOKENS.iter().map(|mark| json!([mark, 0.0]));
    let vocab: Vec<Json> = marks.chain(pieces.iter().map(|(piece, score)| json!([piece, score]))).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": TOKENS.iter().enumerate().map(mark).collect::<Vec<_>>(),
        "normalizer": normalizer, "pre_tokenizer": space.clone(), "post_processor": null, "decoder": space,
        "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": false, "vocab": vocab},
    })
}
