//! Words and their vectors: of a trained model, or of a file.

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

/// The most similar spellings that an error suggests for an unknown word.
const SPELLINGS: usize = 3;

/// Words and their vectors.
///
/// ```
/// use polyglow_data::word_vectors::WordVectors;
/// use polyglow_view::embeddings::Embeddings;
///
/// let words = ["man", "woman", "king", "queen", "apple"].map(str::to_owned).to_vec();
/// let values = vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, -1.0, -1.0, 0.0];
/// let embeddings = Embeddings::of_file(WordVectors { words, dim: 3, values, repeated: 0 });
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

/// How a word is found.
pub(super) enum Lookup {
    /// As it is spelled.
    Spelling(HashMap<String, usize>),
    /// As the tokens that it is cut into. The place of each is listed by its id; special tokens
    /// have none.
    Tokens(Arc<Tokenizer>, Vec<Option<usize>>),
}

/// A word that was found.
pub(super) struct Found {
    /// The mean of the vectors of its tokens.
    pub(super) vector: Vec<f32>,
    /// The places of its tokens.
    pub(super) places: Vec<usize>,
}

impl Embeddings {
    /// The vectors of a file.
    pub fn of_file(
        WordVectors {
            words, dim, values, ..
        }: WordVectors,
    ) -> Self {
        let places = words
            .iter()
            .enumerate()
            .map(|(place, word)| (word.clone(), place))
            .collect();
        Self::new(words, dim, values, Lookup::Spelling(places))
    }

    /// The embedding of a model on one side: a vector for each token but the special ones, which
    /// stand for no text. Its word is the token as `Tokenizer::shown` has it.
    pub fn of_model(
        model: &Model,
        tokenizer: &Arc<Tokenizer>,
        side: Side,
        device: &Device,
    ) -> Self {
        let table = model.vectors(side, device);
        let [_, dim] = table.dims();
        let table: Vec<f32> = table.into_data().iter().collect();
        Self::of_table(&table, dim, tokenizer)
    }

    /// As [`Self::of_model`], of the vectors of all ids.
    pub(super) fn of_table(table: &[f32], dim: usize, tokenizer: &Arc<Tokenizer>) -> Self {
        let special = tokenizer.special();
        let (mut words, mut values, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (id, vector) in (0..).zip(table.chunks(dim)) {
            let is_text =
                tokenizer.token(id).is_some() && !special.is_silent(id) && id != special.unk;
            places.push(is_text.then_some(words.len()));
            if is_text {
                words.push(tokenizer.shown(id));
                values.extend(vector);
            }
        }
        Self::new(
            words,
            dim,
            values,
            Lookup::Tokens(Arc::clone(tokenizer), places),
        )
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

    /// The first `count` words in the order of the file or the vocabulary, or all if there are
    /// fewer, with their vectors scaled to length 1.
    pub fn first(&self, count: usize) -> impl Iterator<Item = (&str, &[f32])> {
        self.words
            .iter()
            .enumerate()
            .take(count)
            .map(|(place, word)| (word.as_str(), self.directions.get(place)))
    }

    /// The dimension of the vectors.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The vector of a word, scaled to length 1. If the vocabulary cuts the word into several
    /// tokens, it is the mean of theirs.
    ///
    /// # Errors
    /// The word is unknown, which is a usage error; the hint names words that are spelled alike.
    pub fn direction(&self, word: &str) -> Result<Vec<f32>> {
        let Found { vector, .. } = self.find(word)?;
        Ok(Directions::new(vector, self.dim).get(0).to_vec())
    }

    /// The mean of the vectors of the known words of a text, or `None` if no word is known.
    ///
    /// # Errors
    /// The text cannot be encoded.
    pub fn mean(&self, text: &str) -> Result<Option<Vec<f32>>> {
        let places = match &self.lookup {
            Lookup::Spelling(places) => text
                .split_whitespace()
                .filter_map(|word| places.get(word).copied())
                .collect(),
            Lookup::Tokens(tokenizer, places) => known(places, &tokenizer.encode(text)?),
        };
        Ok((!places.is_empty()).then(|| self.mean_of(&places)))
    }

    /// Writes all vectors in word2vec's text format: the number of words and their dimension, then
    /// a word and its values on each line. A token of a model is written as it is shown, so that
    /// other programs list it as text: `▁très` begins a word, and `très` does not. The format
    /// cannot express words with whitespace, which only a file can have; these are left out, and
    /// their number is returned.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<usize> {
        let fits = |word: &&String| !word.contains(char::is_whitespace);
        let count = self.words.iter().filter(fits).count();
        writeln!(out, "{count} {}", self.dim)?;
        for (word, vector) in self
            .words
            .iter()
            .zip(self.values.chunks(self.dim))
            .filter(|(word, _)| fits(word))
        {
            write!(out, "{word}")?;
            for value in vector {
                write!(out, " {value}")?;
            }
            writeln!(out)?;
        }
        Ok(self.words.len() - count)
    }

    pub(super) fn find(&self, word: &str) -> Result<Found> {
        let places = match &self.lookup {
            Lookup::Spelling(places) => places.get(word).copied().into_iter().collect(),
            Lookup::Tokens(tokenizer, places) => {
                let ids = tokenizer.encode(word)?;
                if ids.contains(&tokenizer.special().unk) {
                    Vec::new()
                } else {
                    known(places, &ids)
                }
            }
        };
        if places.is_empty() {
            return Err(self.unknown(word));
        }
        Ok(Found {
            vector: self.mean_of(&places),
            places,
        })
    }

    fn unknown(&self, word: &str) -> TrainError {
        let error = usage(TrainError::new(format!(
            "there is no vector for the word `{word}`"
        )));
        // A space is no part of what is typed, but is part of what a file has.
        let words = self.words.iter().map(|known| match self.lookup {
            Lookup::Spelling(_) => known.as_str(),
            Lookup::Tokens(..) => known.trim_matches('▁'),
        });
        let mut spellings = alike(word, words, SPELLINGS);
        spellings.dedup();
        if spellings.is_empty() {
            error
        } else {
            with_hint(error, format!("there is `{}`", spellings.join("`, `")))
        }
    }

    fn mean_of(&self, places: &[usize]) -> Vec<f32> {
        mean(
            places
                .iter()
                .map(|place| &self.values[place * self.dim..][..self.dim]),
            self.dim,
        )
    }
}

/// The places of the tokens that stand for text.
fn known(places: &[Option<usize>], ids: &[u32]) -> Vec<usize> {
    ids.iter().filter_map(|&id| places[id as usize]).collect()
}
