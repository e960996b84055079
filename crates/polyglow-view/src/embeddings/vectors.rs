//! Words and their vectors, from a trained model or from a file.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_data::word_vectors::WordVectors;
use polyglow_model::{Model, Side};
use polyglow_predict::error::{usage, with_hint};
use polyglow_predict::suggestion::alike;
use polyglow_train::{Result, TrainError};

use super::{Directions, mean};

/// The most spellings that an error suggests for an unknown word.
const SPELLINGS: usize = 3;

/// Words and their vectors.
///
/// ```
/// use polyglow_data::word_vectors::WordVectors;
/// use polyglow_view::embeddings::Embeddings;
///
/// let words = ["man", "woman", "king", "queen", "apple"].map(str::to_owned).to_vec();
/// let values = vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, -1.0, -1.0, 0.0];
/// let embeddings = Embeddings::from_file(WordVectors { words, dim: 3, values, repeated: 0 });
///
/// assert_eq!(embeddings.nearest("king", 1)?[0].word, "man");
/// // What is to `woman` as `king` is to `man`?
/// assert_eq!(embeddings.analogy(["man", "king", "woman"], 1)?[0].word, "queen");
///
/// let error = embeddings.nearest("quen", 1).unwrap_err();
/// assert_eq!(error.to_string(), "there is no vector for the word `quen`");
/// assert_eq!(error.hint().as_deref(), Some("there is `queen`"));
/// # Ok::<(), polyglow_train::TrainError>(())
/// ```
pub struct Embeddings {
    pub(super) words: Vec<String>,
    pub(super) dim: usize,
    /// `[words, dim]`.
    values: Vec<f32>,
    pub(super) directions: Directions,
    pub(super) lookup: Lookup,
}

/// The way in which a word is looked up.
pub(super) enum Lookup {
    /// By its spelling: the index of each word.
    Spelling(HashMap<String, usize>),
    /// By the tokens that it is cut into: the index of each token by its id. Special tokens have
    /// none.
    Tokens(Arc<Tokenizer>, Vec<Option<usize>>),
}

/// The result of looking up a word.
pub(super) struct Entry {
    /// The vector of the word, or the mean of those of its tokens.
    pub(super) vector: Vec<f32>,
    /// The index of the word, or those of its tokens.
    pub(super) indices: Vec<usize>,
}

impl Embeddings {
    /// Takes the vectors of a file, whose words are looked up as they are spelled.
    pub fn from_file(vectors: WordVectors) -> Self {
        let words = vectors.words;
        let indices = words.iter().cloned().zip(0..).collect();
        Self::new(
            words,
            vectors.dim,
            vectors.values,
            Lookup::Spelling(indices),
        )
    }

    /// Reads the embedding table of a model on one side: a vector for each token but the special
    /// ones, which stand for no text. Its word is the token as `Tokenizer::shown` spells it.
    pub fn from_model(
        model: &Model,
        tokenizer: &Arc<Tokenizer>,
        side: Side,
        device: &Device,
    ) -> Self {
        let table = model.vectors(side, device);
        let [_, dim] = table.dims();
        let table: Vec<f32> = table.into_data().iter().collect();
        Self::from_table(&table, dim, tokenizer)
    }

    /// Takes the vectors of all ids of a vocabulary, `[vocab_size, dim]`.
    pub(super) fn from_table(table: &[f32], dim: usize, tokenizer: &Arc<Tokenizer>) -> Self {
        let special = tokenizer.special();
        let mut words = Vec::new();
        let mut values = Vec::new();
        let mut indices = Vec::new();
        for (id, vector) in (0..).zip(table.chunks(dim)) {
            // A table may have more rows than the vocabulary has tokens.
            let is_text =
                tokenizer.token(id).is_some() && !tokenizer.is_silent(id) && id != special.unk;
            indices.push(is_text.then_some(words.len()));
            if is_text {
                words.push(tokenizer.shown(id));
                values.extend(vector);
            }
        }
        let lookup = Lookup::Tokens(Arc::clone(tokenizer), indices);
        Self::new(words, dim, values, lookup)
    }

    fn new(words: Vec<String>, dim: usize, values: Vec<f32>, lookup: Lookup) -> Self {
        let directions = Directions::new(values.clone(), dim);
        Self {
            words,
            dim,
            values,
            directions,
            lookup,
        }
    }

    /// Returns the first `count` words in the order of the file or the vocabulary, or all if there
    /// are fewer, with their vectors scaled to length 1.
    pub fn first(&self, count: usize) -> impl Iterator<Item = (&str, &[f32])> {
        let words = self.words.iter().take(count).enumerate();
        words.map(|(index, word)| (word.as_str(), self.directions.get(index)))
    }

    /// Returns the dimension of the vectors.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the vector of a word, scaled to length 1. If the vocabulary cuts the word into several
    /// tokens, it is the mean of theirs.
    ///
    /// # Errors
    /// The word is unknown, which is a usage error; the hint names words that are spelled alike.
    pub fn direction(&self, word: &str) -> Result<Vec<f32>> {
        let Entry { vector, .. } = self.find(word)?;
        Ok(Directions::new(vector, self.dim).get(0).to_vec())
    }

    /// Returns the mean of the vectors of the known words of a text, or `None` if no word is known.
    ///
    /// # Errors
    /// The text cannot be encoded.
    pub fn mean(&self, text: &str) -> Result<Option<Vec<f32>>> {
        let indices = match &self.lookup {
            Lookup::Spelling(indices) => text
                .split_whitespace()
                .filter_map(|word| indices.get(word).copied())
                .collect(),
            Lookup::Tokens(tokenizer, indices) => known(indices, &tokenizer.encode(text)?),
        };
        Ok((!indices.is_empty()).then(|| self.mean_vector(&indices)))
    }

    /// Writes all vectors in word2vec's text format: the number of words and their dimension, then
    /// a word and its values on each line. A token of a model is written as it is shown, so that
    /// other programs list it as text: `▁très` begins a word, and `très` does not.
    ///
    /// The format cannot express words with whitespace, which only a file can have; these are left
    /// out, and their number is returned.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<usize> {
        let mut lines = Vec::with_capacity(self.words.len());
        for (word, vector) in self.words.iter().zip(self.values.chunks(self.dim)) {
            if !word.contains(char::is_whitespace) {
                lines.push((word, vector));
            }
        }
        writeln!(out, "{} {}", lines.len(), self.dim)?;
        for (word, vector) in &lines {
            write!(out, "{word}")?;
            for value in *vector {
                write!(out, " {value}")?;
            }
            writeln!(out)?;
        }
        Ok(self.words.len() - lines.len())
    }

    /// Looks up a word.
    ///
    /// # Errors
    /// As [`Self::direction`].
    pub(super) fn find(&self, word: &str) -> Result<Entry> {
        let indices = match &self.lookup {
            Lookup::Spelling(indices) => indices.get(word).copied().into_iter().collect(),
            Lookup::Tokens(tokenizer, indices) => {
                let ids = tokenizer.encode(word)?;
                // The mean of the known tokens alone would be the vector of another word.
                if ids.contains(&tokenizer.special().unk) {
                    Vec::new()
                } else {
                    known(indices, &ids)
                }
            }
        };
        if indices.is_empty() {
            return Err(self.unknown(word));
        }
        Ok(Entry {
            vector: self.mean_vector(&indices),
            indices,
        })
    }

    fn unknown(&self, word: &str) -> TrainError {
        let error = usage(TrainError::new(format!(
            "there is no vector for the word `{word}`"
        )));
        // Users type no `▁` for the space before a word, but a file may mean it.
        let words = self.words.iter().map(|known| match self.lookup {
            Lookup::Spelling(_) => known.as_str(),
            Lookup::Tokens(..) => known.trim_matches('▁'),
        });
        let mut spellings = alike(word, words, SPELLINGS);
        spellings.dedup();
        // The vector of a space by itself is no word.
        spellings.retain(|spelling| !spelling.is_empty());
        if spellings.is_empty() {
            error
        } else {
            with_hint(error, format!("there is `{}`", spellings.join("`, `")))
        }
    }

    fn mean_vector(&self, indices: &[usize]) -> Vec<f32> {
        let vectors = indices
            .iter()
            .map(|index| &self.values[index * self.dim..][..self.dim]);
        mean(vectors, self.dim)
    }
}

/// The indices of the tokens that stand for text; `indices` has one for each id.
fn known(indices: &[Option<usize>], ids: &[u32]) -> Vec<usize> {
    ids.iter().filter_map(|&id| indices[id as usize]).collect()
}
