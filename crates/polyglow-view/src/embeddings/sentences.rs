//! Sentences as vectors, and which of them are similar.

use polyglow_train::Result;
use serde::Serialize;

use super::{Directions, Embeddings, Reader, mean};

/// How the states of a sentence's tokens become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Their mean.
    Mean,
    /// The state of the first.
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
/// let embeddings = Embeddings::of_file(WordVectors { words, dim: 2, values, repeated: 0 });
///
/// let texts = ["a small dog", "unknown", "a car", "dog a"].map(str::to_owned);
/// let sentences = Sentences::of_words(&embeddings, &texts)?;
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
    /// The vectors of lines by the states of a model after its last layer. Blank lines are left
    /// out.
    ///
    /// # Errors
    /// A line cannot be encoded.
    pub fn of_model(reader: Reader<'_>, texts: &[String], pool: Pool) -> Result<Self> {
        // Whitespace may be a token, but a line of nothing else is blank.
        let texts: Vec<&str> = texts
            .iter()
            .map(|text| if text.trim().is_empty() { "" } else { text })
            .collect();
        let ids = reader.tokenizer.encode_batch(&texts)?;
        let mut vectors = vec![None; texts.len()];
        reader.read(
            &ids.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            &mut |line, states| {
                let last = states.last().copied().unwrap_or_default();
                let dim = last.len() / ids[line].len().min(reader.longest());
                let count = if pool == Pool::First {
                    1
                } else {
                    last.len() / dim
                };
                vectors[line] = Some(mean(last.chunks(dim).take(count), dim));
            },
        );
        Ok(Self::new(vectors))
    }

    /// The vectors of lines as the means of their word vectors. Lines without a known word are left
    /// out.
    ///
    /// # Errors
    /// A line cannot be encoded.
    pub fn of_words(embeddings: &Embeddings, texts: &[String]) -> Result<Self> {
        Ok(Self::new(
            texts
                .iter()
                .map(|text| embeddings.mean(text))
                .collect::<Result<_, _>>()?,
        ))
    }

    fn new(vectors: Vec<Option<Vec<f32>>>) -> Self {
        let found = (1..)
            .zip(vectors)
            .filter_map(|(line, vector)| Some((line, vector?)));
        let (lines, vectors): (Vec<usize>, Vec<Vec<f32>>) = found.unzip();
        let dim = vectors.first().map_or(1, Vec::len);
        Self {
            lines,
            directions: Directions::new(vectors.concat(), dim),
        }
    }

    /// The numbers of the lines that have a vector, from 1, in order.
    pub fn lines(&self) -> &[usize] {
        &self.lines
    }

    /// The `count` lines most similar to the line at `place` in [`Self::lines`], without itself,
    /// most similar first. Only lines with numbers up to `last` are searched, so that queries can
    /// follow the lines in one text.
    ///
    /// # Panics
    /// There is no such place.
    pub fn nearest(&self, place: usize, count: usize, last: usize) -> Vec<NearLine> {
        let keep = |other: usize| other != place && self.lines[other] <= last;
        let found = self
            .directions
            .nearest(self.directions.get(place), count, keep);
        found
            .into_iter()
            .map(|(place, cosine)| NearLine {
                line: self.lines[place],
                cosine,
            })
            .collect()
    }
}
