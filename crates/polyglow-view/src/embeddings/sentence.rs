//! Sentences as vectors, and which are near each other.

use serde::Serialize;

use super::{Directions, Embeddings, Reader, mean};
use polyglow_train::Result;

/// How the states of a sentence's tokens become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Their mean.
    Mean,
    /// The state of the first.
    First,
}

/// Lines with a vector each.
pub struct Sentences {
    /// Line numbers, from 1.
    lines: Vec<usize>,
    directions: Directions,
}

/// A line near another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NearLine {
    /// Its number, from 1.
    pub line: usize,
    /// Cosine between both, -1 to 1.
    pub cosine: f32,
}

impl Sentences {
    /// The vectors of lines by the states of a model after its last layer. Blank lines have none.
    ///
    /// # Errors
    /// A line cannot be encoded.
    pub fn of_model(reader: Reader<'_>, texts: &[String], pool: Pool) -> Result<Self> {
        // Whitespace may be a token, but a line of nothing else is blank.
        let texts: Vec<&str> = texts.iter().map(|text| if text.trim().is_empty() { "" } else { text }).collect();
        let ids = reader.tokenizer.encode_batch(&texts)?;
        let mut vectors = vec![None; texts.len()];
        reader.read(&ids.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut |line, states| {
            let last = states.last().copied().unwrap_or_default();
            let dim = last.len() / ids[line].len().min(reader.longest());
            let count = if pool == Pool::First { 1 } else { last.len() / dim };
            vectors[line] = Some(mean(last.chunks(dim).take(count), dim));
        });
        Ok(Self::new(vectors))
    }

    /// The vectors of lines as means of those of their words. Lines without a known word have none.
    ///
    /// # Errors
    /// A line cannot be encoded.
    pub fn of_words(embeddings: &Embeddings, texts: &[String]) -> Result<Self> {
        Ok(Self::new(texts.iter().map(|text| embeddings.mean(text)).collect::<Result<_, _>>()?))
    }

    fn new(vectors: Vec<Option<Vec<f32>>>) -> Self {
        let found = (1..).zip(vectors).filter_map(|(line, vector)| Some((line, vector?)));
        let (lines, vectors): (Vec<usize>, Vec<Vec<f32>>) = found.unzip();
        let dim = vectors.first().map_or(1, Vec::len);
        Self { lines, directions: Directions::new(vectors.concat(), dim) }
    }

    /// Numbers of the lines that have a vector.
    pub fn lines(&self) -> &[usize] {
        &self.lines
    }

    /// The nearest lines of the line at `place` in [`Self::lines`], itself left out; only those with numbers up to `last`.
    pub fn nearest(&self, place: usize, count: usize, last: usize) -> Vec<NearLine> {
        let keep = |other: usize| other != place && self.lines[other] <= last;
        let found = self.directions.nearest(self.directions.get(place), count, keep);
        found.into_iter().map(|(place, cosine)| NearLine { line: self.lines[place], cosine }).collect()
    }
}
