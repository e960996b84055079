//! The attention weights of a model: of all layers and heads on one pair of sentences or on an
//! image, and from word to word.

mod images;
mod words;

use burn::tensor::{TensorData, Transaction};
use polyglow_data::padded::Padded;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::attention::AttentionKind;
use polyglow_model::{Inputs, Inspect, Pair, Text};
use serde::Serialize;

use crate::device::upload_rows;
use crate::error::{Result, TrainError};
use crate::runner::{Member, Runner};
use crate::tasks::Reads;
pub use images::{CaptionWeights, HeadWeights, ImageWeights, caption_weights, image_weights};
pub use words::{UnitLink, WordAttention, strongest, unit_links, word_attention};

/// The name of the trained vector that an encoder may have before its text.
const CLASS: &str = "[class]";

/// The attention weights of all layers and heads on one pair.
///
/// ```
/// use polyglow_predict::attention::Map;
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
/// [`Tokenizer::shown`] has them. Tokens that are parts of one character are one row and one
/// column: the mean of their weights as queries, the sum as keys.
#[derive(Clone, Debug, Serialize)]
pub struct Map {
    /// Tokens of the queries: the rows, top to bottom.
    pub queries: Vec<String>,
    /// Tokens of the keys: the columns, left to right.
    pub keys: Vec<String>,
    /// `[layer][head][query * keys + key]`, 0 to 1; the weights of a query sum to 1. Without layers
    /// if the model has no attention of this kind.
    pub weights: Vec<Vec<Vec<f32>>>,
}

impl PairAttention {
    /// Runs the first model of an ensemble over a pair, with teacher forcing, and reads its weights
    /// in one transfer.
    ///
    /// Each side is cut at the model's longest length.
    ///
    /// # Errors
    /// A side cannot be encoded.
    pub fn new(runner: &Runner, src: &str, tgt: &str) -> Result<Self> {
        let member = &runner.members[0];
        let Member {
            model,
            src: src_tokenizer,
        } = member;
        let src_tags = runner.src_tags(member)?;
        let tgt_tags = runner.tgt_tags()?;
        let src_ids = encode_cut(src_tokenizer, src_tags, src, runner.longest)?;
        let tgt_ids = encode_cut(&runner.tgt, tgt_tags, tgt, runner.longest)?;
        let special = src_tokenizer.special();
        let tgt_special = runner.tgt.special();
        let src_in = Padded::ended(&[&src_ids], special.eos, special.pad, 1);
        let tgt_in = Padded::begun(&[&tgt_ids], tgt_special.bos, tgt_special.pad, 1);
        let [src, tgt] = [&src_in, &tgt_in].map(|rows| upload_rows(rows, &runner.device));
        let inputs: Inputs = match runner.task.facts().reads {
            Reads::Pair => {
                let src = src.into();
                Pair { src, tgt_in: tgt }.into()
            }
            Reads::Source => Text { ids: src }.into(),
            Reads::Target => Text { ids: tgt }.into(),
            Reads::Image | Reads::ImageAndTarget => {
                return Err(TrainError::new("the model reads images, and no text"));
            }
        };
        let maps = Inspect::attention(model, inputs);

        let mut src = src_tokenizer.shown_together(&[&src_ids[..], &[special.eos]].concat());
        // An encoder may have a trained vector before its text.
        let num_states = maps.encoder.first().map_or(0, |layer| layer.dims()[3]);
        if num_states > src_ids.len() + 1 {
            src.insert(0, (CLASS.to_owned(), 1));
        }
        let tgt_in = [&[tgt_special.bos], &tgt_ids[..]].concat();
        let tgt_in = runner.tgt.shown_together(&tgt_in);
        let tgt_out = [&tgt_ids[..], &[tgt_special.eos]].concat();
        let tgt_out = runner.tgt.shown_together(&tgt_out);
        let kinds = [
            (&src, &src, &maps.encoder),
            (&tgt_out, &tgt_in, &maps.decoder),
            (&tgt_out, &src, &maps.cross),
        ];
        // One transfer for all layers of all kinds.
        let mut transaction = Transaction::default();
        for layer in kinds.iter().flat_map(|(_, _, layers)| layers.iter()) {
            transaction = transaction.register(layer.clone());
        }
        let mut layers = transaction.execute().into_iter();
        let [encoder, decoder, cross] = kinds.map(|(queries, keys, own)| {
            let own = layers.by_ref().take(own.len());
            Map {
                queries: texts(queries),
                keys: texts(keys),
                weights: own
                    .map(|layer| shown_heads(&layer, queries, keys))
                    .collect(),
            }
        });
        Ok(Self {
            encoder,
            decoder,
            cross,
        })
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

/// The ids of a text behind `tags`, at most as many as the model reads.
fn encode_cut(
    tokenizer: &Tokenizer,
    tags: Vec<u32>,
    text: &str,
    longest: usize,
) -> Result<Vec<u32>> {
    let mut ids = tags;
    ids.extend(tokenizer.encode(text)?);
    ids.truncate(longest);
    Ok(ids)
}

/// The texts of tokens, each of which stands for a count of positions.
fn texts(tokens: &[(String, usize)]) -> Vec<String> {
    tokens.iter().map(|(text, _)| text.clone()).collect()
}

/// Returns the counts of positions that tokens stand for.
fn counts(tokens: &[(String, usize)]) -> Vec<usize> {
    tokens.iter().map(|(_, count)| *count).collect()
}

/// Returns the weights of each head of a layer, `[queries * keys]` by shown tokens.
///
/// # Shapes
/// - `layer`: `[1, heads, queries, keys]`
fn shown_heads(
    layer: &TensorData,
    queries: &[(String, usize)],
    keys: &[(String, usize)],
) -> Vec<Vec<f32>> {
    let queries = counts(queries);
    let keys = counts(keys);
    let heads = head_weights(layer);
    heads
        .iter()
        .map(|head| join(head, &queries, &keys))
        .collect()
}

/// Returns the weights of each head of a layer, `[queries * keys]`.
///
/// # Shapes
/// - `layer`: `[1, heads, queries, keys]`
fn head_weights(layer: &TensorData) -> Vec<Vec<f32>> {
    let [_, _, num_queries, num_keys] = layer.shape()[..] else {
        return Vec::new();
    };
    let values: Vec<f32> = layer.iter().collect();
    let heads = values.chunks(num_queries * num_keys);
    heads.map(<[f32]>::to_vec).collect()
}

impl Map {
    /// The weights of a head, `[queries * keys]`, or the mean over all heads if `head` is `None`.
    /// Both count from 0.
    ///
    /// # Panics
    /// There is no such layer or head.
    pub fn head(&self, layer: usize, head: Option<usize>) -> Vec<f32> {
        head_or_mean(&self.weights[layer], head)
    }
}

/// The weights of a head, or the mean over all heads if `head` is `None`.
///
/// # Panics
/// There is no such head.
pub fn head_or_mean(heads: &[Vec<f32>], head: Option<usize>) -> Vec<f32> {
    if let Some(head) = head {
        return heads[head].clone();
    }
    let mut mean = vec![0.0; heads[0].len()];
    for (index, mean) in mean.iter_mut().enumerate() {
        *mean = heads.iter().map(|head| head[index]).sum::<f32>() / heads.len() as f32;
    }
    mean
}

/// Joins positions of a head, `[positions * positions]`, that are shown as one: `queries[i]` rows
/// become their mean, `keys[j]` columns their sum. Output: `[queries.len() * keys.len()]`.
fn join(head: &[f32], queries: &[usize], keys: &[usize]) -> Vec<f32> {
    let num_keys: usize = keys.iter().sum();
    let mut rows = head.chunks(num_keys);
    let mut joined = Vec::with_capacity(queries.len() * keys.len());
    for &count in queries {
        let mut mean = vec![0.0; num_keys];
        for row in rows.by_ref().take(count) {
            for (mean, weight) in mean.iter_mut().zip(row) {
                *mean += weight / count as f32;
            }
        }
        let mut columns = mean.into_iter();
        for &count in keys {
            joined.push(columns.by_ref().take(count).sum());
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_character_are_one_row_and_one_column() {
        let head = [0.5, 0.25, 0.25, 0.0, 1.0, 0.0, 0.25, 0.25, 0.5];
        assert_eq!(join(&head, &[1, 1, 1], &[1, 1, 1]), head);
        assert_eq!(join(&head, &[1, 2], &[2, 1]), [0.75, 0.25, 0.75, 0.25]);
    }
}
