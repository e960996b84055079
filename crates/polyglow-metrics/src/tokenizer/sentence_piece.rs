//! `flores101` and `flores200`: the most probable pieces of a SentencePiece unigram model (Kudo,
//! 2018), as the library SentencePiece finds them since 0.2.2.
//!
//! It adds in single precision, which decides between ways that are equal but for rounding, such as
//! those to cut a long row of dashes.

mod model;
mod normalizer;

use std::ops::Range;
use std::path::Path;
use std::{fmt, fs};

use crate::error::MetricError;
use model::{Piece, PieceKind};
use normalizer::Normalizer;

/// Nats by which a character that no piece covers is less probable than the least probable piece.
const UNKNOWN_PENALTY: f32 = 10.0;

/// A SentencePiece model of the type `unigram`.
#[derive(Clone, PartialEq)]
pub struct SentencePieceModel {
    /// In the order of their bytes.
    pieces: Vec<Piece>,
    normalizer: Normalizer,
    /// Whether a character that no piece covers becomes the pieces of its bytes.
    byte_fallback: bool,
    least_score: f32,
    greatest_score: f32,
}

// A score is a number, which parsing makes sure of.
impl Eq for SentencePieceModel {}

impl fmt::Debug for SentencePieceModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SentencePieceModel")
            .field("num_pieces", &self.pieces.len())
            .finish_non_exhaustive()
    }
}

/// The best way to the end of a piece.
#[derive(Clone, Copy, Default)]
struct Best {
    score: f32,
    /// Where the piece starts; there is no way yet without it.
    start: Option<usize>,
    is_unknown: bool,
}

impl Best {
    /// Of equal ways the first that is found stays.
    fn improve(&mut self, score: f32, start: usize, is_unknown: bool) {
        if self.start.is_none() || score > self.score {
            *self = Self {
                score,
                start: Some(start),
                is_unknown,
            };
        }
    }
}

impl SentencePieceModel {
    /// Reads a model, as `spm_train --model_type=unigram` writes it.
    ///
    /// # Errors
    /// The file is missing or cannot be read; it is no such model.
    pub fn open(path: &Path) -> Result<Self, MetricError> {
        let bytes = fs::read(path).map_err(|error| MetricError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Self::parse(&bytes).map_err(|problem| MetricError::UnusableFile {
            path: path.to_owned(),
            kind: "SentencePiece model",
            problem,
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let model::Model {
            mut pieces,
            normalizer,
            byte_fallback,
        } = model::Model::parse(bytes)?;
        let marks = pieces
            .iter()
            .filter(|piece| piece.kind == PieceKind::UserDefined);
        let marks = marks.map(|piece| piece.text.clone()).collect();
        let normalizer = Normalizer::new(normalizer, marks)?;
        // SentencePiece starts from the smallest number above 0, below which all logarithms of
        // probabilities are.
        let normal = pieces
            .iter()
            .filter(|piece| piece.kind == PieceKind::Normal)
            .map(|piece| piece.score);
        let (least_score, greatest_score) = normal
            .fold((f32::MAX, f32::MIN_POSITIVE), |(least, greatest), score| {
                (least.min(score), greatest.max(score))
            });
        pieces.retain(|piece| {
            matches!(
                piece.kind,
                PieceKind::Normal | PieceKind::UserDefined | PieceKind::Unused
            )
        });
        pieces.sort_by(|one, other| one.text.cmp(&other.text));
        Ok(Self {
            pieces,
            normalizer,
            byte_fallback,
            least_score,
            greatest_score,
        })
    }

    /// The pieces of a line.
    pub(super) fn pieces(&self, line: &str) -> Vec<String> {
        let text = self.normalizer.normalize(line);
        let mut pieces: Vec<String> = Vec::new();
        let mut after_unknown = false;
        for (range, is_unknown) in self.segment(&text) {
            let piece = &text[range];
            if is_unknown && self.byte_fallback {
                pieces.extend(piece.bytes().map(|byte| format!("<0x{byte:02X}>")));
            } else if let Some(last) = pieces.last_mut().filter(|_| is_unknown && after_unknown) {
                // Unknown characters that stand together are one piece.
                last.push_str(piece);
            } else {
                pieces.push(piece.to_owned());
            }
            after_unknown = is_unknown;
        }
        pieces
    }

    /// The most probable segmentation, each part with whether it is unknown.
    fn segment(&self, text: &str) -> Vec<(Range<usize>, bool)> {
        let mut best = vec![Best::default(); text.len() + 1];
        for (start, character) in text.char_indices() {
            let so_far = best[start].score;
            let single = character.len_utf8();
            let mut has_single = false;
            self.each_prefix(&text.as_bytes()[start..], |len, piece| {
                let score = match piece.kind {
                    PieceKind::UserDefined => {
                        (f64::from(len as f32 * self.greatest_score) - 0.1) as f32
                    }
                    _ => piece.score,
                };
                best[start + len].improve(score + so_far, start, false);
                has_single |= len == single;
            });
            if !has_single {
                best[start + single].improve(
                    self.least_score - UNKNOWN_PENALTY + so_far,
                    start,
                    true,
                );
            }
        }
        let mut parts = Vec::new();
        let mut end = text.len();
        while let Some(start) = best[end].start {
            parts.push((start..end, best[end].is_unknown));
            end = start;
        }
        parts.reverse();
        parts
    }

    /// Gives `found` every piece that a text begins with, the shortest first, but for those that
    /// are not to be used.
    fn each_prefix(&self, text: &[u8], mut found: impl FnMut(usize, &Piece)) {
        let mut candidates = &self.pieces[..];
        for (index, &byte) in text.iter().enumerate() {
            let at = |piece: &Piece| piece.text.as_bytes().get(index).copied();
            let start = candidates.partition_point(|piece| at(piece) < Some(byte));
            let end = start + candidates[start..].partition_point(|piece| at(piece) == Some(byte));
            candidates = &candidates[start..end];
            let Some(first) = candidates.first() else {
                return;
            };
            if first.text.len() == index + 1 && first.kind != PieceKind::Unused {
                found(index + 1, first);
            }
        }
    }
}
