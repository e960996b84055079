//! A word in its context, layer by layer: the words of other sentences that have similar states.

use std::collections::HashMap;

use polyglow_predict::error::usage;
use polyglow_predict::states::Reader;
use polyglow_train::{Result, TrainError};
use serde::Serialize;

use super::{Directions, bare, mean, with_known};

/// The states of all words of some sentences at every layer, which words of other sentences are
/// compared with.
///
/// States are compared only within a layer, because each layer has a space of its own. All states
/// of a layer share a large component, which makes all cosines large (Ethayarajh, 2019), so the
/// mean of the layer is subtracted first.
pub struct Bank {
    dim: usize,
    sentences: Vec<String>,
    /// The different words of all sentences.
    words: Vec<String>,
    occurrences: Vec<Occurrence>,
    layers: Vec<Layer>,
}

/// A word in a sentence, as indices of both.
#[derive(Clone, Copy)]
struct Occurrence {
    word: usize,
    sentence: usize,
}

/// The states of all occurrences after a layer.
struct Layer {
    mean: Vec<f32>,
    /// A row for each occurrence, without the mean.
    states: Directions,
}

/// A word of another sentence with a similar state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextNeighbor {
    /// The word.
    pub word: String,
    /// Cosine of the angle between both states after the mean of the layer is subtracted, -1 to 1.
    pub cosine: f32,
    /// The sentence of the word.
    pub sentence: String,
}

/// The neighbors of a word at one layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerNeighbors {
    /// The number of the layer, counted from 1; 0 stands for the embedding.
    pub layer: usize,
    /// The nearest words, nearest first.
    pub neighbors: Vec<ContextNeighbor>,
}

/// A line as ids, with the words that have no unknown tokens.
struct Line<'a> {
    ids: Vec<u32>,
    words: Vec<LineWord<'a>>,
}

/// A word of a line, with the indices of its tokens.
struct LineWord<'a> {
    text: &'a str,
    tokens: Vec<usize>,
}

impl Bank {
    /// Reads sentences and keeps the state of each of their words at each layer.
    ///
    /// Words are split at whitespace and lose the punctuation around them. The state of a word of
    /// several tokens is the mean of theirs. Words with unknown tokens are left out.
    ///
    /// # Errors
    /// A sentence cannot be encoded; no sentence has a known word.
    pub fn new(reader: Reader<'_>, sentences: Vec<String>) -> Result<Self> {
        let mut lines = Vec::with_capacity(sentences.len());
        for text in &sentences {
            lines.push(line(reader, text)?);
        }
        let mut words: Vec<String> = Vec::new();
        let mut indices: HashMap<&str, usize> = HashMap::new();
        let mut occurrences = Vec::new();
        let mut layers: Vec<Vec<f32>> = Vec::new();
        let mut dim = 0;
        let ids: Vec<&[u32]> = lines.iter().map(|line| &*line.ids).collect();
        // Lines come by length, so words and occurrences are in that order, too.
        reader.read(&ids, &mut |sentence, states| {
            let line = &lines[sentence];
            layers.resize_with(states.len(), Vec::new);
            dim = states[0].len() / line.ids.len().min(reader.longest());
            for LineWord { text, tokens } in &line.words {
                let word = *indices.entry(text).or_insert_with(|| {
                    words.push((*text).to_owned());
                    words.len() - 1
                });
                occurrences.push(Occurrence { word, sentence });
                for (layer, states) in layers.iter_mut().zip(states) {
                    layer.extend(word_state(states, tokens, dim));
                }
            }
        });
        if occurrences.is_empty() {
            return Err(TrainError::new(
                "the sentences to compare with have no word that the vocabulary knows",
            ));
        }
        let layers = layers
            .into_iter()
            .map(|states| Layer::new(&states, dim))
            .collect();
        // They borrow the sentences.
        drop(lines);
        Ok(Self {
            dim,
            sentences,
            words,
            occurrences,
            layers,
        })
    }

    /// Returns the words whose states are nearest to that of the first `word` in `text`, before the
    /// first layer and after each, at most `count` a layer. A word that occurs several times counts once, with its nearest state.
    /// `word` itself is left out.
    ///
    /// # Errors
    /// The word is not in the text, or has unknown tokens, which is a usage error; the text cannot
    /// be encoded.
    pub fn neighbors(
        &self,
        reader: Reader<'_>,
        text: &str,
        word: &str,
        count: usize,
    ) -> Result<Vec<LayerNeighbors>> {
        let Line { ids, words } = line(reader, text)?;
        let longest = reader.longest();
        if ids.len() > longest {
            tracing::warn!(
                "the text has {} tokens, of which the model reads the first {longest}",
                ids.len()
            );
        }
        let Some(LineWord { tokens, .. }) = words.iter().find(|known| known.text == word) else {
            return Err(no_such_word(word, &words));
        };
        let mut layers = Vec::new();
        reader.read(&[&ids], &mut |_, states| {
            for (number, (states, layer)) in states.iter().zip(&self.layers).enumerate() {
                let state = difference(&word_state(states, tokens, self.dim), &layer.mean);
                layers.push(LayerNeighbors {
                    layer: number,
                    neighbors: self.nearest(layer, &state, word, count),
                });
            }
        });
        Ok(layers)
    }

    /// The words with the states nearest to `state`, each once, without `word` itself.
    fn nearest(
        &self,
        layer: &Layer,
        state: &[f32],
        word: &str,
        count: usize,
    ) -> Vec<ContextNeighbor> {
        // All occurrences are sorted, since it is not known how many of the nearest ones repeat a
        // word.
        let nearest = layer
            .states
            .nearest(state, self.occurrences.len(), |index| {
                self.words[self.occurrences[index].word] != word
            });
        let mut is_listed = vec![false; self.words.len()];
        let mut neighbors = Vec::new();
        for (index, cosine) in nearest {
            if neighbors.len() == count {
                break;
            }
            let Occurrence { word, sentence } = self.occurrences[index];
            if is_listed[word] {
                continue;
            }
            is_listed[word] = true;
            neighbors.push(ContextNeighbor {
                word: self.words[word].clone(),
                cosine,
                sentence: self.sentences[sentence].clone(),
            });
        }
        neighbors
    }
}

impl Layer {
    /// Subtracts the mean of all states, `[occurrences, dim]`, from each.
    fn new(states: &[f32], dim: usize) -> Self {
        let mean = mean(states.chunks(dim), dim);
        let centered = states
            .chunks(dim)
            .flat_map(|state| difference(state, &mean))
            .collect();
        Self {
            states: Directions::new(centered, dim),
            mean,
        }
    }
}

/// Cuts a line into ids and words.
fn line<'a>(reader: Reader<'_>, text: &'a str) -> Result<Line<'a>> {
    let (ids, word_of_token) = reader.tokenizer.encode_words(text)?;
    let unk = reader.tokenizer.special().unk;
    let mut words: Vec<LineWord<'_>> = text
        .split_whitespace()
        .map(|word| LineWord {
            text: bare(word),
            tokens: Vec::new(),
        })
        .collect();
    // The model reads no more tokens than this; words beyond have no state.
    let read = word_of_token.into_iter().take(reader.longest());
    for (token, index) in read.enumerate() {
        // A line without words may have tokens, such as that of a space.
        if let Some(word) = words.get_mut(index) {
            word.tokens.push(token);
        }
    }
    words.retain(|word| {
        let is_known = word.tokens.iter().all(|token| ids[*token] != unk);
        !word.tokens.is_empty() && is_known
    });
    Ok(Line { ids, words })
}

fn no_such_word(word: &str, words: &[LineWord<'_>]) -> TrainError {
    let error = usage(TrainError::new(format!(
        "the text has no word `{word}` that the model's vocabulary knows"
    )));
    with_known(error, word, words.iter().map(|known| known.text))
}

/// The mean of the states of a word's tokens.
fn word_state(states: &[f32], tokens: &[usize], dim: usize) -> Vec<f32> {
    let states = tokens.iter().map(|token| &states[token * dim..][..dim]);
    mean(states, dim)
}

fn difference(state: &[f32], mean: &[f32]) -> Vec<f32> {
    let pairs = state.iter().zip(mean);
    pairs.map(|(value, mean)| value - mean).collect()
}
