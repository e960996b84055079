//! Sentences as vectors, and which of them are similar.

use polyglow_predict::states::Reader;
use polyglow_train::Result;
use serde::Serialize;

use super::{Directions, Embeddings, mean};

/// The way in which the states of a sentence's tokens become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The mean of all states.
    Mean,
    /// The state of the first token.
    First,
}

/// Lines of text with one vector each.
///
/// ```
/// use polyglow_data::word_vectors::WordVectors;
/// use polyglow_view::embeddings::{Embeddings, Sentences};
///
/// let words = ["a", "small", "dog", "car"].map(str::to_owned).to_vec();
/// let values = vec![0.1, 0.1, 0.0, 1.0, 1.0, 0.5, 1.0, -1.0];
/// let embeddings = Embeddings::from_file(WordVectors { words, dim: 2, values, repeated: 0 });
///
/// let texts = ["a small dog", "unknown", "a car", "dog a"].map(str::to_owned);
/// let sentences = Sentences::from_words(&embeddings, &texts)?;
/// // Line 2 has no known word.
/// assert_eq!(sentences.lines(), [1, 3, 4]);
/// assert_eq!(sentences.nearest(0, 1, 4)[0].line, 4);
/// # Ok::<(), polyglow_train::TrainError>(())
/// ```
pub struct Sentences {
    /// Line numbers, from 1.
    lines: Vec<usize>,
    directions: Directions,
}

/// A line that is similar to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NearLine {
    /// Its number, from 1.
    pub line: usize,
    /// Cosine of the angle between both vectors, -1 to 1.
    pub cosine: f32,
}

impl Sentences {
    /// Makes vectors of lines from the states of a model after its last layer. Blank lines are left
    /// out.
    ///
    /// # Errors
    /// A line cannot be encoded.
    pub fn from_model(reader: Reader<'_>, texts: &[String], pool: Pool) -> Result<Self> {
        // Whitespace may be a token, but a line of nothing else is blank.
        let texts: Vec<&str> = texts
            .iter()
            .map(|text| if text.trim().is_empty() { "" } else { text })
            .collect();
        let ids = reader.tokenizer.encode_batch(&texts)?;
        let lines: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
        let mut vectors = vec![None; texts.len()];
        reader.read(&lines, &mut |line, states| {
            let last = states.last().copied().unwrap_or_default();
            let len = lines[line].len().min(reader.longest());
            let dim = last.len() / len;
            let count = match pool {
                Pool::Mean => len,
                Pool::First => 1,
            };
            vectors[line] = Some(mean(last.chunks(dim).take(count), dim));
        });
        Ok(Self::new(vectors))
    }

    /// Makes vectors of lines as the means of their word vectors. Lines without a known word are
    /// left out.
    ///
    /// # Errors
    /// A line cannot be encoded.
    pub fn from_words(embeddings: &Embeddings, texts: &[String]) -> Result<Self> {
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            vectors.push(embeddings.mean(text)?);
        }
        Ok(Self::new(vectors))
    }

    fn new(vectors: Vec<Option<Vec<f32>>>) -> Self {
        let mut lines = Vec::new();
        let mut values = Vec::new();
        let mut dim = 1;
        for (line, vector) in (1..).zip(vectors) {
            if let Some(vector) = vector {
                lines.push(line);
                dim = vector.len();
                values.extend(vector);
            }
        }
        Self {
            lines,
            directions: Directions::new(values, dim),
        }
    }

    /// Returns the numbers of the lines that have a vector, counted from 1, in order.
    pub fn lines(&self) -> &[usize] {
        &self.lines
    }

    /// Returns the `count` lines most similar to the line with this index in [`Self::lines`],
    /// without itself, most similar first. Only lines with numbers up to `last` are searched, so
    /// that queries can follow the lines in one text.
    ///
    /// # Panics
    /// There is no such index.
    pub fn nearest(&self, index: usize, count: usize, last: usize) -> Vec<NearLine> {
        let query = self.directions.get(index);
        let hits = self.directions.nearest(query, count, |other| {
            other != index && self.lines[other] <= last
        });
        let mut near = Vec::with_capacity(hits.len());
        for (hit, cosine) in hits {
            near.push(NearLine {
                line: self.lines[hit],
                cosine,
            });
        }
        near
    }
}
