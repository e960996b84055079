//! A word in its context, layer by layer: the words of other sentences that have similar states.

use std::collections::HashMap;

use polyglow_predict::error::usage;
use polyglow_train::{Result, TrainError};
use serde::Serialize;

use super::{Directions, Reader, bare, mean, with_known};

/// The states of all words of some sentences at every layer, which words of other sentences are
/// compared with.
///
/// States are compared only within a layer, because each layer has a space of its own. All states
/// of a layer share a large component, which makes all cosines large (Ethayarajh, 2019), so the
/// mean of the layer is subtracted first.
pub struct Bank {
    dim: usize,
    sentences: Vec<String>,
    words: Vec<String>,
    /// Word and sentence of each state.
    places: Vec<(usize, usize)>,
    layers: Vec<Layer>,
}

struct Layer {
    mean: Vec<f32>,
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
    /// The number of the layer from 1; 0 stands for the embedding.
    pub layer: usize,
    /// The nearest words, nearest first.
    pub neighbors: Vec<ContextNeighbor>,
}

/// A line as ids, with the words that have no unknown tokens.
struct Line<'a> {
    ids: Vec<u32>,
    words: Vec<(&'a str, Vec<usize>)>,
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
        let lines = sentences
            .iter()
            .map(|text| line(reader, text))
            .collect::<Result<Vec<_>, _>>()?;
        let (mut words, mut known): (Vec<String>, HashMap<&str, usize>) =
            (Vec::new(), HashMap::new());
        let (mut places, mut layers): (_, Vec<Vec<f32>>) = (Vec::new(), Vec::new());
        let mut dim = 0;
        reader.read(
            &lines.iter().map(|line| &*line.ids).collect::<Vec<_>>(),
            &mut |sentence, states| {
                layers.resize_with(states.len(), Vec::new);
                let Line {
                    ids,
                    words: of_line,
                } = &lines[sentence];
                dim = states[0].len() / ids.len().min(reader.longest());
                for (word, tokens) in of_line {
                    let place = *known.entry(word).or_insert_with(|| {
                        words.push((*word).to_owned());
                        words.len() - 1
                    });
                    places.push((place, sentence));
                    for (layer, states) in layers.iter_mut().zip(states) {
                        layer.extend(word_state(states, tokens, dim));
                    }
                }
            },
        );
        if places.is_empty() {
            return Err(TrainError::new(
                "the sentences to compare with have no word that the vocabulary knows",
            ));
        }
        let center = |values: Vec<f32>| {
            let mean = mean(values.chunks(dim), dim);
            let centered = values
                .chunks(dim)
                .flat_map(|state| without(state, &mean))
                .collect();
            Layer {
                states: Directions::new(centered, dim),
                mean,
            }
        };
        let layers = layers.into_iter().map(center).collect();
        drop(lines);
        Ok(Self {
            dim,
            sentences,
            words,
            places,
            layers,
        })
    }

    /// The words with the states nearest to that of the first `word` in `text`, before the first
    /// layer and after each. A word that occurs several times counts once, with its nearest state.
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
        if ids.len() > reader.longest() {
            let (len, longest) = (ids.len(), reader.longest());
            tracing::warn!(
                "the text has {len} tokens, of which the model reads the first {longest}"
            );
        }
        let Some((_, tokens)) = words.iter().find(|(known, _)| *known == word) else {
            return Err(no_such_word(word, &words));
        };
        let mut layers = Vec::new();
        reader.read(&[&ids], &mut |_, states| {
            for (number, (states, layer)) in states.iter().zip(&self.layers).enumerate() {
                let state = without(&word_state(states, tokens, self.dim), &layer.mean);
                layers.push(LayerNeighbors {
                    layer: number,
                    neighbors: self.near(layer, &state, word, count),
                });
            }
        });
        Ok(layers)
    }

    fn near(&self, layer: &Layer, state: &[f32], word: &str, count: usize) -> Vec<ContextNeighbor> {
        let mut seen = vec![false; self.words.len()];
        let nearest = layer.states.nearest(state, self.places.len(), |place| {
            self.words[self.places[place].0] != word
        });
        let first = nearest
            .into_iter()
            .filter(|(place, _)| !std::mem::replace(&mut seen[self.places[*place].0], true));
        let neighbor = |(place, cosine): (usize, f32)| {
            let (word, sentence) = self.places[place];
            ContextNeighbor {
                word: self.words[word].clone(),
                cosine,
                sentence: self.sentences[sentence].clone(),
            }
        };
        first.take(count).map(neighbor).collect()
    }
}

/// Cuts a line into ids and words.
fn line<'a>(reader: Reader<'_>, text: &'a str) -> Result<Line<'a>> {
    let (ids, numbers) = reader.tokenizer.encode_words(text)?;
    let unk = reader.tokenizer.special().unk;
    let mut words: Vec<(&str, Vec<usize>)> = text
        .split_whitespace()
        .map(|word| (bare(word), Vec::new()))
        .collect();
    for (token, number) in numbers.into_iter().enumerate().take(reader.longest()) {
        // A line without words may have tokens, such as that of a space.
        if let Some((_, tokens)) = words.get_mut(number) {
            tokens.push(token);
        }
    }
    words.retain(|(_, tokens)| !tokens.is_empty() && tokens.iter().all(|token| ids[*token] != unk));
    Ok(Line { ids, words })
}

fn no_such_word(word: &str, words: &[(&str, Vec<usize>)]) -> TrainError {
    let error = usage(TrainError::new(format!(
        "the text has no word `{word}` that the model's vocabulary knows"
    )));
    with_known(error, word, words.iter().map(|(known, _)| *known))
}

/// The mean of the states of a word's tokens.
fn word_state(states: &[f32], tokens: &[usize], dim: usize) -> Vec<f32> {
    mean(
        tokens.iter().map(|token| &states[token * dim..][..dim]),
        dim,
    )
}

fn without(state: &[f32], mean: &[f32]) -> Vec<f32> {
    state
        .iter()
        .zip(mean)
        .map(|(value, mean)| value - mean)
        .collect()
}
