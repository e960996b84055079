//! Vectors of words, to explore: of a trained model, or of a file.

mod context;
mod direction;
mod picture;
mod projection;
mod reader;
mod sentence;

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_data::word_vectors::WordVectors;
use polyglow_model::{Model, Side};
use serde::Serialize;

use polyglow_train::error::{usage, with_hint};
use polyglow_train::suggestion::alike;
use polyglow_train::{Result, TrainError};

pub use context::{Bank, ContextNeighbor, LayerNeighbors};
pub use direction::Directions;
pub use picture::{Plot, PlotFormat};
pub use projection::{Projection, project};
pub use reader::Reader;
pub use sentence::{Pool, Sentences};

/// Spellings that an error offers in place of an unknown word.
const SPELLINGS: usize = 3;

/// Words and their vectors.
pub struct Embeddings {
    words: Vec<String>,
    dim: usize,
    /// `[words, dim]`.
    values: Vec<f32>,
    directions: Directions,
    lookup: Lookup,
}

/// How a word is found.
enum Lookup {
    /// As it is spelled.
    Spelling(HashMap<String, usize>),
    /// As the tokens that it is cut into, whose places stand by their ids; the special ones have none.
    Tokens(Arc<Tokenizer>, Vec<Option<usize>>),
}

/// A word that was found.
struct Found {
    /// The mean of the vectors of its tokens.
    vector: Vec<f32>,
    /// The places of its tokens.
    places: Vec<usize>,
}

/// A word near another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbor {
    /// The word; of a model, a token as its vocabulary spells it.
    pub word: String,
    /// Cosine of the angle between both, -1 to 1.
    pub cosine: f32,
}

impl Embeddings {
    /// Those of a file.
    pub fn of_file(WordVectors { words, dim, values, .. }: WordVectors) -> Self {
        let places = words.iter().enumerate().map(|(place, word)| (word.clone(), place)).collect();
        Self::new(words, dim, values, Lookup::Spelling(places))
    }

    /// Those of a model's tokens on one side. The special tokens, which stand for no text, are left out.
    pub fn of_model(model: &Model, tokenizer: &Arc<Tokenizer>, side: Side, device: &Device) -> Self {
        let table = model.vectors(side, device);
        let [_, dim] = table.dims();
        let table: Vec<f32> = table.into_data().iter().collect();
        let special = tokenizer.special();
        let (mut words, mut values, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (id, vector) in (0..).zip(table.chunks(dim)) {
            let token = tokenizer.token(id).filter(|_| !special.is_silent(id) && id != special.unk);
            places.push(token.is_some().then_some(words.len()));
            if let Some(token) = token {
                words.push(token);
                values.extend(vector);
            }
        }
        Self::new(words, dim, values, Lookup::Tokens(Arc::clone(tokenizer), places))
    }

    fn new(words: Vec<String>, dim: usize, values: Vec<f32>, lookup: Lookup) -> Self {
        let directions = Directions::new(values.clone(), dim);
        Self { words, dim, values, directions, lookup }
    }

    /// Up to `count` words in the order of the file or the vocabulary, with their vectors scaled to length 1.
    pub fn first(&self, count: usize) -> impl Iterator<Item = (&str, &[f32])> {
        self.words.iter().enumerate().take(count).map(|(place, word)| (word.as_str(), self.directions.get(place)))
    }

    /// Numbers of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The vector of a word, scaled to length 1: if the vocabulary cuts it into several tokens, the mean of theirs.
    ///
    /// # Errors
    /// The word is unknown (exit code 2); the hint names words that are spelled alike.
    pub fn direction(&self, word: &str) -> Result<Vec<f32>> {
        let Found { vector, .. } = self.find(word)?;
        Ok(Directions::new(vector, self.dim).get(0).to_vec())
    }

    /// The mean of the vectors of the words of a text that are known; none if no word is.
    ///
    /// # Errors
    /// The text cannot be encoded.
    pub fn mean(&self, text: &str) -> Result<Option<Vec<f32>>> {
        let places = match &self.lookup {
            Lookup::Spelling(places) => text.split_whitespace().filter_map(|word| places.get(word).copied()).collect(),
            Lookup::Tokens(tokenizer, places) => known(places, &tokenizer.encode(text)?),
        };
        Ok((!places.is_empty()).then(|| self.mean_of(&places)))
    }

    /// The words whose vectors point most nearly where that of `word` points, the word and its tokens left out.
    ///
    /// # Errors
    /// As [`Self::direction`].
    pub fn nearest(&self, word: &str, count: usize) -> Result<Vec<Neighbor>> {
        let Found { vector, places } = self.find(word)?;
        Ok(self.near(&vector, &places, count))
    }

    /// The words nearest to `b - a + c`, all three scaled to length 1 and left out: what is to `c` as `b` is to `a`
    /// (3CosAdd: Mikolov et al., 2013, "Linguistic regularities in continuous space word representations").
    ///
    /// # Errors
    /// As [`Self::direction`].
    pub fn analogy(&self, [a, b, c]: [&str; 3], count: usize) -> Result<Vec<Neighbor>> {
        let mut sum = vec![0.0; self.dim];
        let mut left_out = Vec::new();
        for (word, sign) in [(a, -1.0), (b, 1.0), (c, 1.0)] {
            let Found { vector, places } = self.find(word)?;
            let unit = Directions::new(vector, self.dim);
            sum.iter_mut().zip(unit.get(0)).for_each(|(sum, part)| *sum += sign * part);
            left_out.extend(places);
        }
        Ok(self.near(&sum, &left_out, count))
    }

    /// Writes all vectors in word2vec's text format: the counts of words and of numbers, then a word and its numbers on
    /// each line. Tokens that hold whitespace have no place in it; their number comes back.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<usize> {
        let fits = |word: &&String| !word.contains(char::is_whitespace);
        let count = self.words.iter().filter(fits).count();
        writeln!(out, "{count} {}", self.dim)?;
        for (word, vector) in self.words.iter().zip(self.values.chunks(self.dim)).filter(|(word, _)| fits(word)) {
            write!(out, "{word}")?;
            for value in vector {
                write!(out, " {value}")?;
            }
            writeln!(out)?;
        }
        Ok(self.words.len() - count)
    }

    fn near(&self, vector: &[f32], left_out: &[usize], count: usize) -> Vec<Neighbor> {
        let found = self.directions.nearest(vector, count, |place| !left_out.contains(&place));
        found.into_iter().map(|(place, cosine)| Neighbor { word: self.words[place].clone(), cosine }).collect()
    }

    fn find(&self, word: &str) -> Result<Found> {
        let places = match &self.lookup {
            Lookup::Spelling(places) => places.get(word).copied().into_iter().collect(),
            Lookup::Tokens(tokenizer, places) => {
                let ids = tokenizer.encode(word)?;
                if ids.contains(&tokenizer.special().unk) { Vec::new() } else { known(places, &ids) }
            }
        };
        if places.is_empty() {
            return Err(self.unknown(word));
        }
        Ok(Found { vector: self.mean_of(&places), places })
    }

    fn unknown(&self, word: &str) -> TrainError {
        let error = usage(TrainError::new(format!("there is no vector for the word `{word}`")));
        let spellings = alike(word, self.words.iter().map(String::as_str), SPELLINGS);
        if spellings.is_empty() { error } else { with_hint(error, format!("there is `{}`", spellings.join("`, `"))) }
    }

    fn mean_of(&self, places: &[usize]) -> Vec<f32> {
        mean(places.iter().map(|place| &self.values[place * self.dim..][..self.dim]), self.dim)
    }
}

/// The places of the tokens that stand for text.
fn known(places: &[Option<usize>], ids: &[u32]) -> Vec<usize> {
    ids.iter().filter_map(|&id| places[id as usize]).collect()
}

/// The mean of some vectors; zeros if there is none.
fn mean<'a>(vectors: impl IntoIterator<Item = &'a [f32]>, dim: usize) -> Vec<f32> {
    let (mut sum, mut count) = (vec![0.0; dim], 0_usize);
    for vector in vectors {
        sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
        count += 1;
    }
    sum.into_iter().map(|sum: f32| sum / count.max(1) as f32).collect()
}
