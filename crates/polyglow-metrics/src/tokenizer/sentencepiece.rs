//! `flores101` and `flores200`: the most probable segmentation of a line by a SentencePiece unigram
//! model (Kudo, 2018), as the library SentencePiece finds it since 0.2.2.
//!
//! The library adds in single precision, which decides between segmentations that are equal but for
//! rounding, such as those of a long row of dashes.

mod model;
mod normalizer;

use std::ops::Range;
use std::path::Path;
use std::{fmt, fs};

use crate::error::MetricError;
use model::{Piece, PieceKind};
use normalizer::Normalizer;

/// The difference in nats between the least probable piece and a character that no piece covers.
const UNKNOWN_PENALTY: f32 = 10.0;

/// A SentencePiece model of the type `unigram`.
#[derive(Clone, PartialEq)]
pub struct SentencePieceModel {
    /// Sorted by their bytes, so that a prefix is found by binary search.
    pieces: Vec<Piece>,
    normalizer: Normalizer,
    /// Whether a character that no piece covers becomes the pieces of its bytes.
    byte_fallback: bool,
    /// The log-probability of the least probable normal piece.
    least_score: f32,
    /// That of the most probable one, but never below a number just above 0.
    greatest_score: f32,
}

// No score is NaN, which parsing checks.
impl Eq for SentencePieceModel {}

impl fmt::Debug for SentencePieceModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SentencePieceModel")
            .field("num_pieces", &self.pieces.len())
            .finish_non_exhaustive()
    }
}

/// The best segmentation up to a position.
#[derive(Clone, Copy, Default)]
struct Best {
    score: f32,
    /// The start of its last piece; `None` if there is no segmentation yet.
    start: Option<usize>,
    /// Whether the last piece is an unknown character.
    is_unknown: bool,
}

impl Best {
    /// Takes a segmentation if it is better. Among equals the first stays, as in the library.
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
    /// Reads a model from a file, as `spm_train --model_type=unigram` writes it.
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
        let mut user_defined = Vec::new();
        // The library starts the maximum from C++'s `FLT_MIN`, which is the smallest number above 0
        // and not the lowest one. Log-probabilities do not exceed it.
        let mut least_score = f32::MAX;
        let mut greatest_score = f32::MIN_POSITIVE;
        for piece in &pieces {
            match piece.kind {
                PieceKind::UserDefined => user_defined.push(piece.text.clone()),
                PieceKind::Normal => {
                    least_score = least_score.min(piece.score);
                    greatest_score = greatest_score.max(piece.score);
                }
                PieceKind::Unused | PieceKind::Other => {}
            }
        }
        let normalizer = Normalizer::new(normalizer, user_defined)?;
        // Unused pieces stay, because their longer continuations are found through them.
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

    /// Returns the pieces of a line.
    pub(super) fn pieces(&self, line: &str) -> Vec<String> {
        let text = self.normalizer.normalize(line);
        let mut pieces: Vec<String> = Vec::new();
        let mut after_unknown = false;
        for (range, is_unknown) in self.segment(&text) {
            let piece = &text[range];
            if is_unknown && self.byte_fallback {
                pieces.extend(piece.bytes().map(|byte| format!("<0x{byte:02X}>")));
            } else if is_unknown
                && after_unknown
                && let Some(last) = pieces.last_mut()
            {
                // Unknown characters that stand together are one piece.
                last.push_str(piece);
            } else {
                pieces.push(piece.to_owned());
            }
            after_unknown = is_unknown;
        }
        pieces
    }

    /// The most probable segmentation, by the Viterbi algorithm: ranges of the text, each with
    /// whether it is an unknown character.
    fn segment(&self, text: &str) -> Vec<(Range<usize>, bool)> {
        let mut best = vec![Best::default(); text.len() + 1];
        for (start, character) in text.char_indices() {
            let score_before = best[start].score;
            let single = character.len_utf8();
            let mut has_single = false;
            self.each_prefix(&text.as_bytes()[start..], |len, piece| {
                let score = match piece.kind {
                    // More than all other pieces together, so that it is always taken. The library
                    // subtracts in double precision.
                    PieceKind::UserDefined => {
                        (f64::from(len as f32 * self.greatest_score) - 0.1) as f32
                    }
                    _ => piece.score,
                };
                best[start + len].improve(score + score_before, start, false);
                has_single |= len == single;
            });
            if !has_single {
                let score = self.least_score - UNKNOWN_PENALTY + score_before;
                best[start + single].improve(score, start, true);
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

    /// Calls `on_piece` for every usable piece that a text begins with, the shortest first, with its
    /// length in bytes.
    fn each_prefix(&self, text: &[u8], mut on_piece: impl FnMut(usize, &Piece)) {
        let mut candidates = &self.pieces[..];
        for (index, &byte) in text.iter().enumerate() {
            // The pieces that agree with the text up to here, the shortest first: of these those
            // with the next byte.
            let start = candidates.partition_point(|piece| piece.byte(index) < Some(byte));
            candidates = &candidates[start..];
            let end = candidates.partition_point(|piece| piece.byte(index) == Some(byte));
            candidates = &candidates[..end];
            let Some(first) = candidates.first() else {
                return;
            };
            if first.text.len() == index + 1 && first.kind != PieceKind::Unused {
                on_piece(index + 1, first);
            }
        }
    }
}
