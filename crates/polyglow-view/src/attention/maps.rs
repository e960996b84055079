//! The attention weights of a model on one pair of sentences.

use std::path::Path;

use burn::tensor::{TensorData, Transaction};
use polyglow_data::example::Example;
use polyglow_data::sources::PairBatch;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::attention::AttentionKind;
use polyglow_model::{Inputs, Inspect, Pair, Task, Text};
use polyglow_train::device::upload_rows;
use polyglow_train::predict::runner::{Member, Runner};
use polyglow_train::{Result, TrainError};
use serde::Serialize;

use super::{Selection, render};
use crate::drawing::{Format, write};

/// The name of the trained vector that an encoder may have before its text.
const CLASS: &str = "[class]";

/// The attention weights of all layers and heads on one pair.
///
/// ```
/// use polyglow_view::attention::{Map, PairAttention, render};
///
/// let tokens = |text: &str| text.split(' ').map(str::to_owned).collect();
/// // One layer with two heads.
/// let cross = Map {
///     queries: tokens("der Hund"),
///     keys: tokens("the dog"),
///     weights: vec![vec![vec![0.75, 0.25, 0.0, 1.0], vec![0.25, 0.75, 0.5, 0.5]]],
/// };
/// assert_eq!(cross.head(0, Some(1)), [0.25, 0.75, 0.5, 0.5]);
/// assert_eq!(cross.head(0, None), [0.5, 0.5, 0.25, 0.75]);
///
/// // This model has no self-attention.
/// let none = || Map { queries: Vec::new(), keys: Vec::new(), weights: Vec::new() };
/// let attention = PairAttention { encoder: none(), decoder: none(), cross };
/// let page = render(&attention, "the dog", "der Hund")?;
/// assert!(page.starts_with("<!DOCTYPE html>"));
/// # Ok::<(), polyglow_train::TrainError>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct PairAttention {
    /// Source positions attend to source positions.
    pub encoder: Map,
    /// Target positions attend to target positions.
    pub decoder: Map,
    /// Target positions attend to source positions.
    pub cross: Map,
}

/// The weights of one kind of attention, with their tokens.
///
/// A query is named by the token that its position predicts, a key by the token at its position, as
/// [`Tokenizer::shown`] has them. Tokens that are parts of one character are one row and one column: the mean of their
/// weights as queries, the sum as keys.
#[derive(Clone, Debug, Serialize)]
pub struct Map {
    /// Tokens of the queries: the rows, top to bottom.
    pub queries: Vec<String>,
    /// Tokens of the keys: the columns, left to right.
    pub keys: Vec<String>,
    /// `[layer][head][query * keys + key]`, 0 to 1; the weights of a query sum to 1. Without layers if the model has no
    /// attention of this kind.
    pub weights: Vec<Vec<Vec<f32>>>,
}

impl PairAttention {
    /// Runs the first model of an ensemble over a pair, with teacher forcing, and reads its weights in one transfer.
    ///
    /// Each side is cut at the model's longest length.
    ///
    /// # Errors
    /// A side cannot be encoded.
    pub fn new(runner: &Runner, src: &str, tgt: &str) -> Result<Self> {
        let Member { model, src: src_tokenizer } = &runner.members[0];
        let encode = |tokenizer: &Tokenizer, text: &str| -> Result<Vec<u32>> {
            let mut ids = tokenizer.encode(text)?;
            ids.truncate(runner.longest);
            Ok(ids)
        };
        let example = Example { src: encode(src_tokenizer, src)?, tgt: encode(&runner.tgt, tgt)? };
        let (special, tgt_special) = (src_tokenizer.special(), runner.tgt.special());
        let batch = PairBatch::new(std::slice::from_ref(&example), special, tgt_special, 1);
        let (src_ids, tgt_in) = (upload_rows(&batch.src, &runner.device), upload_rows(&batch.tgt_in, &runner.device));
        let inputs: Inputs = match runner.kind() {
            Task::Translation => Pair { src: src_ids, tgt_in }.into(),
            Task::Labels | Task::Masked => Text { ids: src_ids }.into(),
            Task::Language | Task::Words => Text { ids: tgt_in }.into(),
            Task::Images | Task::Captions => return Err(TrainError::new("the model reads images, and no text")),
        };
        let maps = Inspect::attention(model, inputs);

        let names = |tokenizer: &Tokenizer, first: Option<u32>, ids: &[u32], last: Option<u32>| {
            let ids: Vec<u32> = first.into_iter().chain(ids.iter().copied()).chain(last).collect();
            tokenizer.shown_together(&ids)
        };
        let mut src = names(src_tokenizer, None, &example.src, Some(special.eos));
        // An encoder may have a trained vector before its text.
        let num_states = maps.encoder.first().map_or(0, |layer| layer.dims()[3]);
        if num_states > example.src.len() + 1 {
            src.insert(0, (CLASS.to_owned(), 1));
        }
        let tgt_in = names(&runner.tgt, Some(tgt_special.bos), &example.tgt, None);
        let tgt_out = names(&runner.tgt, None, &example.tgt, Some(tgt_special.eos));
        let kinds = [(&src, &src, &maps.encoder), (&tgt_out, &tgt_in, &maps.decoder), (&tgt_out, &src, &maps.cross)];
        let tensors = kinds.iter().flat_map(|(_, _, layers)| layers.iter().cloned());
        let mut read = tensors.fold(Transaction::default(), Transaction::register).execute().into_iter();
        let [encoder, decoder, cross] = kinds.map(|(queries, keys, layers)| {
            let heads = |layer: TensorData| {
                let [_, _, num_queries, num_keys] = layer.shape()[..] else { return Vec::new() };
                let values: Vec<f32> = layer.iter().collect();
                values.chunks(num_queries * num_keys).map(|head| joined(head, queries, keys)).collect()
            };
            let weights = read.by_ref().take(layers.len()).map(heads).collect();
            let texts = |tokens: &[(String, usize)]| tokens.iter().map(|(text, _)| text.clone()).collect();
            Map { queries: texts(queries), keys: texts(keys), weights }
        });
        Ok(Self { encoder, decoder, cross })
    }

    /// Writes the weights on this pair: a page of all layers and heads, or a picture of one.
    ///
    /// # Errors
    /// The model has no such attention; the picture is too large; the file cannot be written.
    ///
    /// # Panics
    /// There is no such layer or head: see [`Selection::check`].
    pub fn write(&self, [src, tgt]: [&str; 2], selection: Selection, format: Format, path: &Path) -> Result<()> {
        if format == Format::Html {
            return write(path, render(self, src, tgt)?);
        }
        let map = self.map(selection.kind);
        let Some(last) = map.weights.len().checked_sub(1) else {
            return Err(TrainError::new("the model has no such layers"));
        };
        let layer = selection.layer.map_or(last, |layer| layer - 1);
        let weights = map.head(layer, selection.head.map(|head| head - 1));
        let drawing = map.drawing(&weights);
        if format == Format::Svg { write(path, drawing.svg()) } else { write(path, drawing.png()?) }
    }

    /// The map of one kind.
    pub fn map(&self, kind: AttentionKind) -> &Map {
        match kind {
            AttentionKind::Encoder => &self.encoder,
            AttentionKind::Decoder => &self.decoder,
            AttentionKind::Cross => &self.cross,
        }
    }
}

impl Map {
    /// The weights of a head, `[queries * keys]`, or the mean over all heads if `head` is `None`. Both count from 0.
    ///
    /// # Panics
    /// There is no such layer or head.
    pub fn head(&self, layer: usize, head: Option<usize>) -> Vec<f32> {
        head_or_mean(&self.weights[layer], head)
    }
}

/// The weights of a head, or the mean over all heads if `head` is `None`.
pub(super) fn head_or_mean(heads: &[Vec<f32>], head: Option<usize>) -> Vec<f32> {
    if let Some(head) = head {
        return heads[head].clone();
    }
    let sum = |place: usize| heads.iter().map(|head| head[place]).sum::<f32>();
    (0..heads[0].len()).map(|place| sum(place) / heads.len() as f32).collect()
}

/// The weights of a head, `[queries * keys]`, where each query and key is so many tokens.
fn joined(head: &[f32], queries: &[(String, usize)], keys: &[(String, usize)]) -> Vec<f32> {
    let num_keys: usize = keys.iter().map(|(_, count)| count).sum();
    let mut rows = head.chunks(num_keys);
    let row = |(_, count): &(String, usize)| {
        let mut mean = vec![0.0; num_keys];
        for row in rows.by_ref().take(*count) {
            mean.iter_mut().zip(row).for_each(|(mean, weight)| *mean += weight / *count as f32);
        }
        let mut columns = mean.into_iter();
        keys.iter().map(|(_, count)| columns.by_ref().take(*count).sum()).collect::<Vec<f32>>()
    };
    queries.iter().flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_character_are_one_row_and_one_column() {
        let tokens = |counts: &[usize]| counts.iter().map(|count| (String::new(), *count)).collect::<Vec<_>>();
        let head = [0.5, 0.25, 0.25, 0.0, 1.0, 0.0, 0.25, 0.25, 0.5];
        assert_eq!(joined(&head, &tokens(&[1, 1, 1]), &tokens(&[1, 1, 1])), head);
        assert_eq!(joined(&head, &tokens(&[1, 2]), &tokens(&[2, 1])), [0.75, 0.25, 0.75, 0.25]);
    }
}
