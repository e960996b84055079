//! The complete shape of a recurrent encoder-decoder.

use crate::config::recurrent::{Cell, Score};
use crate::config::{DEEPEST, ModelConfig, Sizes, Task, TieEmbeddings, Vocabulary, WIDEST, check_dropout, check_size};
use crate::error::ModelError;
use crate::loss::prediction::loss_numbers;
use crate::precision::Precision;

/// The complete shape of a [`crate::Rnn`].
#[derive(Clone, Debug, PartialEq)]
pub struct RnnShape {
    /// What the data decides.
    pub vocabulary: Vocabulary,
    /// Width of every hidden state; in the encoder half of it for each direction.
    pub d_model: usize,
    /// Layers of the encoder.
    pub num_encoder_layers: usize,
    /// Layers of the decoder.
    pub num_decoder_layers: usize,
    /// Dropout on embeddings, between layers and on the output, a probability.
    pub dropout: f64,
    /// What the layers are made of.
    pub cell: Cell,
    /// Where the decoder looks.
    pub attention: Score,
    /// Whether the output before is fed to the lowest layer of the decoder; not without attention.
    pub input_feeding: bool,
    /// Shared embedding matrices.
    pub tie_embeddings: TieEmbeddings,
    /// In what matrix products are computed while the model is trained.
    pub precision: Precision,
}

impl ModelConfig {
    /// Whether the decoder looks at the source.
    pub fn has_attention(&self) -> bool {
        self.arch.task() == Task::Translation && self.attention != Some(Score::None)
    }

    /// Whether a recurrent decoder is fed its last output: if the key says so, or is left out and there is attention.
    pub(in crate::config) fn input_feeding(&self) -> bool {
        self.input_feeding.unwrap_or_else(|| self.has_attention())
    }

    /// The complete shape of a recurrent model for the given vocabularies; products are f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, an odd width, a dropout outside `[0, 1)`, and input
    /// feeding without attention.
    pub fn rnn(&self, vocabulary: Vocabulary) -> Result<RnnShape, ModelError> {
        let config = self.recurrent(vocabulary)?;
        if !config.d_model.is_multiple_of(2) {
            let reason = "must be even: each direction of the encoder takes half of it";
            return Err(ModelError::config("model.d_model", config.d_model, reason));
        }
        Ok(config)
    }

    /// The same with any width.
    pub(super) fn recurrent(&self, vocabulary: Vocabulary) -> Result<RnnShape, ModelError> {
        let Sizes { num_layers, d_model, dropout, .. } = self.sizes();
        let config = RnnShape {
            vocabulary,
            d_model: self.d_model.unwrap_or(d_model),
            num_encoder_layers: self.num_encoder_layers.unwrap_or(num_layers),
            num_decoder_layers: self.num_decoder_layers.unwrap_or(num_layers),
            dropout: self.dropout.unwrap_or(dropout),
            cell: self.cell.unwrap_or_default(),
            attention: self.attention.unwrap_or_default(),
            input_feeding: self.input_feeding(),
            tie_embeddings: self.tie_embeddings,
            precision: Precision::F32,
        };
        config.validate()?;
        Ok(config)
    }
}

impl RnnShape {
    fn validate(&self) -> Result<(), ModelError> {
        check_size("model.d_model", self.d_model, WIDEST)?;
        check_size("model.num_encoder_layers", self.num_encoder_layers, DEEPEST)?;
        check_size("model.num_decoder_layers", self.num_decoder_layers, DEEPEST)?;
        check_dropout("model.dropout", self.dropout)?;
        if self.input_feeding && self.attention == Score::None {
            let reason = "input feeding needs attention: leave it out, or set `model.attention`";
            return Err(ModelError::config("model.input_feeding", true, reason));
        }
        Ok(())
    }

    pub(crate) fn forward_flops(&self, [rows, src_len, tgt_len]: [usize; 3]) -> f64 {
        let [src, tgt] = [src_len, tgt_len].map(|len| (rows * len) as f64);
        let (width, gates) = (self.d_model as f64, self.cell.gates() as f64);
        // Both directions, each from the whole width and its own half to half a width.
        let encoder = src * gates * width * (width + width / 2.0) * self.num_encoder_layers as f64;
        let fed = if self.input_feeding { 1.0 } else { 0.0 };
        let decoder = tgt * gates * width * width * (2.0 * self.num_decoder_layers as f64 + fed);
        let products = |score: Score| match score {
            Score::None => 0.0,
            Score::Luong => 2.0 * tgt * width * width,
            Score::LuongGeneral => (2.0 * tgt + src) * width * width,
            Score::Bahdanau => (3.0 * tgt + src) * width * width,
        };
        let looks = if self.attention == Score::None { 0.0 } else { 2.0 * tgt * src_len as f64 * width };
        let logits = tgt * width * self.vocabulary.tgt_size as f64;
        2.0 * (encoder + decoder + products(self.attention) + looks + logits)
    }

    /// Numbers that a forward pass over `rows` sentences keeps for the backward pass.
    ///
    /// With kernels: per position and layer the input, both sums of products, the state before and the output; and
    /// where there is attention, two weights for each source position and 7 `d_model`. Without: eleven numbers for each
    /// of the state's in place of two and the state; three weights, and with additive attention two arrays of every
    /// target and source position times the width. To both come the loss, as a Transformer's, and 2 `d_model` in the
    /// embedding.
    pub(crate) fn activations(&self, [rows, src_len, tgt_len]: [usize; 3], kernels: bool) -> u64 {
        let count = |number: usize| number as u64;
        let (src, tgt, width) = (count(rows * src_len), count(rows * tgt_len), count(self.d_model));
        let (gates, states) = (count(self.cell.gates()), count(self.cell.kernel().states()));
        let of_layer = width * (2 * gates + if kernels { 2 + states } else { 11 });
        let layers = of_layer * (src * count(self.num_encoder_layers) + tgt * count(self.num_decoder_layers));
        let looks = match self.attention {
            Score::None => 0,
            Score::Luong | Score::LuongGeneral => tgt * (3 * count(src_len) + 6 * width),
            Score::Bahdanau if kernels => tgt * (2 * count(src_len) + 7 * width),
            Score::Bahdanau => tgt * count(src_len) * (3 + 2 * width) + 7 * tgt * width,
        };
        layers + looks + loss_numbers(tgt, self.vocabulary.tgt_size, kernels) + 2 * (src + tgt) * width
    }
}
