//! The attention of a model on one pair, to look at: as a page, as a picture, or as links.

mod image;
mod page;
mod picture;

use burn::tensor::{TensorData, Transaction};
use polyglow_data::batch::Batch;
use polyglow_data::example::Example;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::attention::AttentionKind;
use serde::Serialize;

use polyglow_train::Result;
use polyglow_train::device::upload;
use polyglow_train::predict::translate::{Member, Translator};

pub use image::ImageAttention;
pub use page::render;
pub use picture::{PictureFormat, Selection, draw};

/// What the trained vector before a text is called.
const CLASS: &str = "[class]";

/// The weights of all layers and heads on one pair.
#[derive(Clone, Debug, Serialize)]
pub struct PairAttention {
    /// Source positions look at source positions.
    pub encoder: Map,
    /// Target positions look at target positions.
    pub decoder: Map,
    /// Target positions look at source positions.
    pub cross: Map,
}

/// One kind of attention. A query is named by the token that comes out at its position, a key by the one that stands
/// there.
#[derive(Clone, Debug, Serialize)]
pub struct Map {
    /// Who looks, top to bottom.
    pub queries: Vec<String>,
    /// Who is looked at, left to right.
    pub keys: Vec<String>,
    /// `[layer][head][query * keys + key]`, 0 to 1; the weights of a query sum to 1.
    pub weights: Vec<Vec<Vec<f32>>>,
}

impl PairAttention {
    /// Runs the first of the models over a pair (teacher forcing) and reads its weights in one transfer.
    ///
    /// A side that is longer than the model is cut.
    ///
    /// # Errors
    /// A side cannot be encoded.
    pub fn new(translator: &Translator<'_>, src: &str, tgt: &str) -> Result<Self> {
        let Member { model, src: src_tokenizer } = translator.members[0];
        let encode = |tokenizer: &Tokenizer, text: &str| -> Result<Vec<u32>> {
            let mut ids = tokenizer.encode(text)?;
            ids.truncate(translator.longest());
            Ok(ids)
        };
        let example = Example { src: encode(src_tokenizer, src)?, tgt: encode(translator.tgt, tgt)? };
        let (special, tgt_special) = (src_tokenizer.special(), translator.tgt.special());
        let batch = Batch::new(std::slice::from_ref(&example), special, tgt_special, 1);
        let ids = |values, len| upload(values, len, translator.device);
        let maps = model.attention(ids(batch.src, batch.src_len), ids(batch.tgt_in, batch.tgt_len));

        let names = |tokenizer: &Tokenizer, first: Option<u32>, ids: &[u32], last: Option<u32>| -> Vec<String> {
            let all = first.into_iter().chain(ids.iter().copied()).chain(last);
            all.map(|id| tokenizer.token(id).unwrap_or_else(|| format!("#{id}"))).collect()
        };
        let mut src = names(src_tokenizer, None, &example.src, Some(special.eos));
        // An encoder may have a trained vector before its text.
        let num_states = maps.encoder.first().map_or(src.len(), |layer| layer.dims()[3]);
        if num_states > src.len() {
            src.insert(0, CLASS.to_owned());
        }
        let tgt_in = names(translator.tgt, Some(tgt_special.bos), &example.tgt, None);
        let tgt_out = names(translator.tgt, None, &example.tgt, Some(tgt_special.eos));
        let kinds = [(&src, &src, &maps.encoder), (&tgt_out, &tgt_in, &maps.decoder), (&tgt_out, &src, &maps.cross)];
        let tensors = kinds.iter().flat_map(|(_, _, layers)| layers.iter().cloned());
        let mut read = tensors.fold(Transaction::default(), Transaction::register).execute().into_iter();
        let [encoder, decoder, cross] = kinds.map(|(queries, keys, layers)| {
            let heads = |layer: TensorData| {
                let values: Vec<f32> = layer.iter().collect();
                values.chunks(queries.len() * keys.len()).map(<[f32]>::to_vec).collect()
            };
            let weights = read.by_ref().take(layers.len()).map(heads).collect();
            Map { queries: queries.clone(), keys: keys.clone(), weights }
        });
        Ok(Self { encoder, decoder, cross })
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
    /// The weights of a head, or without one the mean over the heads.
    pub fn head(&self, layer: usize, head: Option<usize>) -> Vec<f32> {
        let heads = &self.weights[layer];
        if let Some(head) = head {
            return heads[head].clone();
        }
        let sum = |place: usize| heads.iter().map(|head| head[place]).sum::<f32>();
        (0..self.queries.len() * self.keys.len()).map(|place| sum(place) / heads.len() as f32).collect()
    }
}
