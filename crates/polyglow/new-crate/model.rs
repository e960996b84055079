//! An encoder-decoder Transformer with `RmsNorm`, rotary positions, heads that share keys and values,
//! and SwiGLU, to be changed into a model of your own.

use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor};
use polyglow_model::attention::{
    AttentionConfig, AttentionInput, AttentionKind, CrossAttention, KeyValue, SelfAttention,
};
use polyglow_model::cache::indices;
use polyglow_model::dropout::Dropout;
use polyglow_model::embedding::Embedding;
use polyglow_model::feed_forward::{FeedForward, FeedForwardConfig};
use polyglow_model::init::ParamInit;
use polyglow_model::mask::{causal_padding_mask, padding_mask};
use polyglow_model::position::Rotation;
use polyglow_model::registry::Architecture;
use polyglow_model::rms_norm::RmsNorm;
use polyglow_model::{
    Activation, Generate, Inspect, ModelError, Pair, Predict, Prediction, Projection, Side, Source,
    Task, Vocabulary,
};
use serde::{Deserialize, Serialize};

/// The base of the wavelengths of rotary positions (Su et al., 2021).
const ROTATION_BASE: f64 = 10_000.0;

/// The table `[model.grouped]` of a config: sizes in elements, `dropout` a probability.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    width: usize,
    inner_width: usize,
    heads: usize,
    /// Heads of keys and values, each of which several heads of queries share.
    kv_heads: usize,
    /// Layers of the encoder, and as many of the decoder.
    layers: usize,
    dropout: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            width: 128,
            inner_width: 256,
            heads: 4,
            kv_heads: 2,
            layers: 2,
            dropout: 0.1,
        }
    }
}

impl Settings {
    fn attention(&self) -> AttentionConfig {
        AttentionConfig {
            d_model: self.width,
            num_heads: self.heads,
            num_kv_heads: self.kv_heads,
            bias: false,
            dropout: self.dropout,
        }
    }

    fn feed_forward(&self) -> FeedForwardConfig {
        FeedForwardConfig {
            d_model: self.width,
            d_ff: self.inner_width,
            activation: Activation::Swiglu,
            bias: false,
            dropout: self.dropout,
        }
    }
}

/// The model. Parameters are named after its fields: `decoder.0.attention.qkv.weight`.
#[derive(Module, Debug)]
pub(crate) struct Grouped {
    src_embedding: Embedding,
    tgt_embedding: Embedding,
    encoder: Vec<Layer>,
    encoder_norm: RmsNorm,
    decoder: Vec<Layer>,
    decoder_norm: RmsNorm,
    dropout: Dropout,
    head_width: usize,
    src_pad_id: u32,
    tgt_pad_id: u32,
}

/// A layer of the encoder, or with cross-attention one of the decoder.
#[derive(Module, Debug)]
struct Layer {
    attention_norm: RmsNorm,
    attention: SelfAttention,
    cross: Option<Cross>,
    feed_forward_norm: RmsNorm,
    feed_forward: FeedForward,
    dropout: Dropout,
}

#[derive(Module, Debug)]
struct Cross {
    norm: RmsNorm,
    attention: CrossAttention,
}

impl Layer {
    fn new(settings: &Settings, has_cross: bool, init: &mut ParamInit) -> Self {
        Self {
            attention_norm: RmsNorm::new(settings.width, init),
            attention: SelfAttention::new(&settings.attention(), init),
            cross: has_cross.then(|| Cross {
                norm: RmsNorm::new(settings.width, init),
                attention: CrossAttention::new(&settings.attention(), init),
            }),
            feed_forward_norm: RmsNorm::new(settings.width, init),
            feed_forward: FeedForward::new(&settings.feed_forward(), init),
            dropout: Dropout::new(settings.dropout),
        }
    }

    /// Adds `sublayer(norm(states))` to states, `[rows, width]`.
    fn add(
        &self,
        states: Tensor<2>,
        norm: &RmsNorm,
        sublayer: impl FnOnce(Tensor<2>) -> Tensor<2>,
    ) -> Tensor<2> {
        let change = sublayer(norm.forward(states.clone()));
        self.dropout.add(states, change)
    }

    /// Computes all positions at once, `[batch * len, width]`. A decoder's layer also looks at the
    /// encoder's output `[batch * src_len, width]`, where its mask allows it.
    fn forward(
        &self,
        states: Tensor<2>,
        shared: &AttentionInput<'_>,
        kind: AttentionKind,
        memory: Option<(&Tensor<2>, &Tensor<4, Bool>)>,
    ) -> Tensor<2> {
        let mut states = self.add(states, &self.attention_norm, |x| {
            self.attention.forward(x, shared, kind, None)
        });
        if let (Some(cross), Some((memory, mask))) = (&self.cross, memory) {
            states = self.add(states, &cross.norm, |x| {
                cross.attention.forward(x, memory.clone(), mask, None)
            });
        }
        self.add(states, &self.feed_forward_norm, |x| {
            self.feed_forward.forward(x)
        })
    }

    /// Computes one more position of a decoder's layer, `[rows, width]`.
    fn advance(
        &self,
        states: Tensor<2>,
        rotation: &Rotation,
        cache: &mut LayerCache,
        mask: &Tensor<4, Bool>,
    ) -> Tensor<2> {
        let mut states = self.add(states, &self.attention_norm, |x| {
            self.attention
                .advance(x, Some(rotation), None, &mut cache.target)
        });
        if let (Some(cross), Some(source)) = (&self.cross, &cache.source) {
            states = self.add(states, &cross.norm, |x| {
                cross.attention.advance(x, source, mask)
            });
        }
        self.add(states, &self.feed_forward_norm, |x| {
            self.feed_forward.forward(x)
        })
    }
}

impl Architecture for Grouped {
    type Config = Settings;
    const TASK: Task = Task::Translation;

    fn new(settings: &Settings, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self {
        let width = settings.width;
        let src_embedding = Embedding::new(vocabulary.src_size, width, init);
        let tgt_embedding = Embedding::new(vocabulary.tgt_size, width, init);
        let mut encoder = Vec::new();
        let mut decoder = Vec::new();
        for _ in 0..settings.layers {
            encoder.push(Layer::new(settings, false, init));
            decoder.push(Layer::new(settings, true, init));
        }
        Self {
            src_embedding,
            tgt_embedding,
            encoder,
            encoder_norm: RmsNorm::new(width, init),
            decoder,
            decoder_norm: RmsNorm::new(width, init),
            dropout: Dropout::new(settings.dropout),
            head_width: width / settings.heads,
            src_pad_id: vocabulary.src_pad_id,
            tgt_pad_id: vocabulary.tgt_pad_id,
        }
    }

    fn d_model(settings: &Settings) -> usize {
        settings.width
    }

    fn check(settings: &Settings, _: &Vocabulary) -> Result<(), ModelError> {
        let Settings {
            width,
            heads,
            kv_heads,
            ..
        } = *settings;
        // Named as the config has them; the layers' own checks know their fields alone.
        if heads == 0 || width % (2 * heads) != 0 {
            let reason = "must give each of `width` an even number of elements";
            return Err(ModelError::config("model.grouped.heads", heads, reason));
        }
        if kv_heads == 0 || heads % kv_heads != 0 {
            let reason = "must divide `heads`";
            return Err(ModelError::config(
                "model.grouped.kv_heads",
                kv_heads,
                reason,
            ));
        }
        settings.attention().check()?;
        settings.feed_forward().check()
    }
}

impl Grouped {
    /// Returns the encoder's output, `[batch * src_len, width]`, and where the source is padding,
    /// `[batch, 1, 1, src_len]`.
    fn encode(&self, src: Tensor<2, Int>) -> (Tensor<2>, Tensor<4, Bool>) {
        let [_, len] = src.dims();
        let mask = padding_mask(&src, self.src_pad_id);
        let rotation = Rotation::new(self.head_width, ROTATION_BASE, 0..len, &src.device());
        let shared = AttentionInput {
            rotation: Some(&rotation),
            ..AttentionInput::new(&mask)
        };
        let embedded = self.src_embedding.forward(src).flatten(0, 1);
        let mut states = self.dropout.forward(embedded);
        for layer in &self.encoder {
            states = layer.forward(states, &shared, AttentionKind::Encoder, None);
        }
        (self.encoder_norm.forward(states), mask)
    }

    fn scores(&self, states: Tensor<2>) -> Prediction<'_> {
        let hidden = self.decoder_norm.forward(states);
        Projection::Tied(&self.tgt_embedding).project(hidden)
    }
}

/// Training predicts all positions of the target at once.
impl Predict<Pair> for Grouped {
    fn predict(&self, Pair { src, tgt_in }: Pair) -> Prediction<'_> {
        let (memory, memory_mask) = self.encode(src.into_ids());
        let [_, len] = tgt_in.dims();
        let mask = causal_padding_mask(&tgt_in, self.tgt_pad_id);
        let rotation = Rotation::new(self.head_width, ROTATION_BASE, 0..len, &tgt_in.device());
        let shared = AttentionInput {
            rotation: Some(&rotation),
            ..AttentionInput::new(&mask)
        };
        let embedded = self.tgt_embedding.forward(tgt_in).flatten(0, 1);
        let mut states = self.dropout.forward(embedded);
        let memory = Some((&memory, &memory_mask));
        for layer in &self.decoder {
            states = layer.forward(states, &shared, AttentionKind::Decoder, memory);
        }
        self.scores(states)
    }
}

/// The keys, values and masks that a search keeps between positions.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    layers: Vec<LayerCache>,
    mask: Tensor<4, Bool>,
    num_positions: usize,
}

#[derive(Clone, Debug)]
struct LayerCache {
    target: Option<KeyValue>,
    source: Option<KeyValue>,
}

/// A search predicts one position after the other, of rows that split and end.
impl Generate for Grouped {
    type Cache = Cache;

    fn start(&self, src: Source) -> Cache {
        let src = src.into_ids();
        let [batch, len] = src.dims();
        let (memory, mask) = self.encode(src);
        let [_, width] = memory.dims();
        let memory = memory.reshape([batch, len, width]);
        let mut layers = Vec::new();
        for layer in &self.decoder {
            let cross = layer.cross.as_ref();
            layers.push(LayerCache {
                target: None,
                source: cross.map(|cross| cross.attention.key_value(memory.clone())),
            });
        }
        Cache {
            layers,
            mask,
            num_positions: 0,
        }
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        let newest = cache.num_positions..cache.num_positions + 1;
        cache.num_positions += 1;
        let rotation = Rotation::new(self.head_width, ROTATION_BASE, newest, &ids.device());
        let mut states = self.tgt_embedding.forward(ids).flatten(0, 1);
        for (layer, cached) in self.decoder.iter().zip(&mut cache.layers) {
            states = layer.advance(states, &rotation, cached, &cache.mask);
        }
        self.scores(states).logits()
    }

    fn select(cache: &mut Cache, rows: &[usize], device: &Device) {
        let indices = indices(rows, device);
        cache.mask = cache.mask.clone().select(0, indices.clone());
        for layer in &mut cache.layers {
            for kept in [&mut layer.target, &mut layer.source].into_iter().flatten() {
                kept.select(rows, &indices);
            }
        }
    }
}

/// The command `embeddings` reads states of the model.
impl Inspect for Grouped {
    type Inputs = Pair;

    fn embedding(&self, side: Side) -> Option<&Embedding> {
        match side {
            Side::Src => Some(&self.src_embedding),
            Side::Tgt => Some(&self.tgt_embedding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search that computes position after position must see what training sees at once.
    #[test]
    fn steps_of_a_search_score_as_the_whole_target() {
        let device = Device::flex();
        let vocabulary = Vocabulary {
            src_size: 20,
            tgt_size: 20,
            max_len: 16,
            src_pad_id: 0,
            tgt_pad_id: 0,
            shared: false,
            image: None,
        };
        let init = &mut ParamInit::new(1, &device);
        let model = Grouped::new(&Settings::default(), &vocabulary, init);
        let src = Tensor::<2, Int>::from_data([[4, 5, 6], [7, 8, 0]], &device);
        let tgt = Tensor::<2, Int>::from_data([[1, 9, 10], [1, 11, 12]], &device);
        let inputs = Pair {
            src: src.clone().into(),
            tgt_in: tgt.clone(),
        };
        let whole = model.predict(inputs).logits().reshape([2, 3, 20]);
        let mut cache = model.start(src.into());
        for position in 0..3 {
            // The rows change places before the last position, as in a beam.
            let is_last = position == 2;
            let rows = if is_last { [1, 0] } else { [0, 1] };
            Grouped::select(&mut cache, &rows, &device);
            let rows = Tensor::<1, Int>::from_data(rows.map(|row| row as i32), &device);
            let newest = tgt.clone().select(0, rows.clone()).narrow(1, position, 1);
            let scores = model.advance(newest, &mut cache);
            let expected = whole
                .clone()
                .select(0, rows)
                .narrow(1, position, 1)
                .squeeze_dim(1);
            let difference: f32 = (scores - expected).abs().max().into_scalar();
            assert!(difference < 1e-4, "position {position}: {difference}");
        }
    }
}
