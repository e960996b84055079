//! Segmentations that are drawn from a unigram language model (Kudo, 2018).
//!
//! A segmentation x of a word has a probability in proportion to
//!
//! ```text
//! P(x)^alpha = exp(alpha (s_1 + ... + s_n))       s: what the model says of each piece, a log-probability
//! ```
//!
//! With a small alpha all segmentations are about as probable, with a large one the tokenizer's own is
//! nearly always drawn. Words have too many segmentations to count, so pieces are drawn from left to
//! right, with B(i) = log of the sum of P^alpha over all segmentations of what begins at i:
//!
//! ```text
//! B(n) = 0,   B(i) = log sum_j exp(alpha s(i, j) + B(j)),   p(j | i) = exp(alpha s(i, j) + B(j) - B(i))
//! ```

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::{Draws, impossible, read_model};
use crate::error::DataError;
use crate::tokenizer::Tokenizer;

/// A log-probability times alpha beyond which sums of them lose what tells them apart.
const LARGEST_SCORE: f64 = 1e9;

/// The pieces of a unigram model.
pub(super) struct PieceTable {
    /// The characters of each piece; none of a token that stands for itself: special tokens, bytes.
    characters: Vec<Vec<char>>,
    /// The nodes of a trie of pieces: the one that follows a node by a character. The root is 0.
    nodes: HashMap<(u32, char), u32>,
    /// The piece that ends at a node, and its log-probability times alpha.
    pieces: Vec<Option<(u32, f64)>>,
}

/// The unigram model in a `tokenizer.json`.
#[derive(Deserialize)]
struct TokenizerJson {
    model: ModelJson,
    #[serde(default)]
    added_tokens: Vec<AddedTokenJson>,
}

#[derive(Deserialize)]
struct ModelJson {
    #[serde(rename = "type")]
    kind: String,
    /// Pieces with their log-probabilities.
    vocab: Vec<(String, f64)>,
    unk_id: Option<u32>,
    #[serde(default)]
    byte_fallback: bool,
}

#[derive(Deserialize)]
struct AddedTokenJson {
    id: u32,
}

impl PieceTable {
    /// Reads the pieces of `tokenizer`.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if it has no unigram model.
    pub(super) fn new(tokenizer: &Tokenizer, alpha: f64) -> Result<Self, DataError> {
        let problem = "the tokenizer has no unigram model";
        let json: TokenizerJson = read_model(tokenizer, problem)?;
        let model = json.model;
        if model.kind != "Unigram" {
            return Err(impossible(problem));
        }
        let mut whole: HashSet<u32> = json.added_tokens.iter().map(|token| token.id).collect();
        whole.extend(model.unk_id);
        let mut table = Self {
            characters: vec![Vec::new(); tokenizer.vocab_size()],
            nodes: HashMap::new(),
            pieces: vec![None],
        };
        for (id, (piece, score)) in (0..).zip(model.vocab) {
            let is_byte = model.byte_fallback && piece.len() == 6 && piece.starts_with("<0x");
            if !whole.contains(&id) && !tokenizer.is_silent(id) && !is_byte {
                let score = alpha * score;
                if !(-LARGEST_SCORE..=LARGEST_SCORE).contains(&score) {
                    return Err(impossible(
                        "the log-probability of a piece, times alpha, is too large to be added to others",
                    ));
                }
                table.add(id, piece.chars().collect(), score);
            }
        }
        Ok(table)
    }

    fn add(&mut self, id: u32, characters: Vec<char>, score: f64) {
        let mut node = 0;
        for &character in &characters {
            let next = self.pieces.len() as u32;
            node = *self.nodes.entry((node, character)).or_insert(next);
            if node == next {
                self.pieces.push(None);
            }
        }
        if node != 0 {
            self.pieces[node as usize] = Some((id, score));
            self.characters[id as usize] = characters;
        }
    }

    /// Segments a word again, and appends its ids to `sampled`.
    pub(super) fn sample(
        &self,
        word: impl Iterator<Item = u32>,
        draws: &mut Draws,
        sampled: &mut Vec<u32>,
    ) {
        let mut characters = Vec::new();
        for id in word {
            let piece = &self.characters[id as usize];
            if piece.is_empty() {
                self.sample_characters(&characters, draws, sampled);
                characters.clear();
                sampled.push(id);
            } else {
                characters.extend(piece);
            }
        }
        self.sample_characters(&characters, draws, sampled);
    }

    /// Draws a segmentation of a text that is a sequence of pieces.
    fn sample_characters(&self, text: &[char], draws: &mut Draws, sampled: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let mut edges: Vec<Edge> = Vec::new();
        let mut first_edges = vec![0; text.len() + 1];
        for start in 0..text.len() {
            self.add_edges(text, start, &mut edges);
            first_edges[start + 1] = edges.len();
        }
        let mut sums = vec![f64::NEG_INFINITY; text.len() + 1];
        sums[text.len()] = 0.0;
        for start in (0..text.len()).rev() {
            let edges_from_start = &edges[first_edges[start]..first_edges[start + 1]];
            let scores = edges_from_start
                .iter()
                .map(|edge| edge.score + sums[edge.end]);
            sums[start] = log_sum_exp(scores);
        }
        let mut start = 0;
        while start < text.len() {
            let mut rest = draws.next();
            // Rounding may leave a little: then it is the last one that leads to the end.
            let mut chosen = None;
            for edge in &edges[first_edges[start]..first_edges[start + 1]] {
                let probability = (edge.score + sums[edge.end] - sums[start]).exp();
                if probability > 0.0 {
                    chosen = Some(edge);
                    rest -= probability;
                }
                if rest < 0.0 {
                    break;
                }
            }
            let Some(edge) = chosen else {
                unreachable!("the pieces that the text was made of are one of its segmentations");
            };
            sampled.push(edge.id);
            start = edge.end;
        }
    }

    /// Adds the pieces with which a text may continue at `start`.
    fn add_edges(&self, text: &[char], start: usize, edges: &mut Vec<Edge>) {
        let mut node = 0;
        for (end, &character) in (start + 1..).zip(&text[start..]) {
            let Some(&next) = self.nodes.get(&(node, character)) else {
                return;
            };
            node = next;
            if let Some((id, score)) = self.pieces[node as usize] {
                edges.push(Edge { end, id, score });
            }
        }
    }
}

/// A piece with which a text may continue.
struct Edge {
    /// The position of its end.
    end: usize,
    id: u32,
    /// Its log-probability, times alpha.
    score: f64,
}

fn log_sum_exp(scores: impl Iterator<Item = f64> + Clone) -> f64 {
    let max = scores.clone().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return max;
    }
    max + scores.map(|score| (score - max).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of "abab", 1 to 5, with log-probabilities; 6 is no piece.
    fn table(alpha: f64) -> PieceTable {
        let mut table = PieceTable {
            characters: vec![Vec::new(); 7],
            nodes: HashMap::new(),
            pieces: vec![None],
        };
        for (id, (piece, score)) in (1..).zip([
            ("a", -1.0),
            ("ab", -2.5),
            ("ba", -1.5),
            ("b", -3.0),
            ("bab", -2.0),
        ]) {
            table.add(id, piece.chars().collect(), alpha * score);
        }
        table
    }

    #[test]
    fn segmentations_are_drawn_with_their_probabilities() {
        // All segmentations of "abab", as ids, with the sums of their log-probabilities.
        let all: [(&[u32], f64); 6] = [
            (&[1, 4, 1, 4], -8.0),
            (&[1, 4, 2], -6.5),
            (&[1, 3, 4], -5.5),
            (&[1, 5], -3.0),
            (&[2, 1, 4], -6.5),
            (&[2, 2], -5.0),
        ];
        for alpha in [0.1, 1.0] {
            let table = table(alpha);
            let mut draws = Draws { key: 7, count: 0 };
            let mut counts: HashMap<Vec<u32>, usize> = HashMap::new();
            let total = 40_000;
            for _ in 0..total {
                let mut sampled = Vec::new();
                table.sample([2, 2].into_iter(), &mut draws, &mut sampled);
                *counts.entry(sampled).or_default() += 1;
            }
            assert_eq!(counts.len(), all.len(), "{counts:?}");
            let sum: f64 = all.iter().map(|(_, score)| (alpha * score).exp()).sum();
            for (ids, score) in all {
                let expected = (alpha * score).exp() / sum;
                let share = counts[ids] as f64 / f64::from(total);
                let deviation = (expected * (1.0 - expected) / f64::from(total)).sqrt();
                assert!(
                    (share - expected).abs() < 4.0 * deviation,
                    "{ids:?}: {share} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_piece_stays_where_it_is() {
        let mut sampled = Vec::new();
        let mut draws = Draws { key: 1, count: 0 };
        // With a large alpha the best segmentation is drawn: "abab" as `a`, `bab`.
        table(1e4).sample([6, 2, 2, 6, 6].into_iter(), &mut draws, &mut sampled);
        assert_eq!(sampled, [6, 1, 5, 6, 6]);
    }
}
