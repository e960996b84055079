//! The complete shape of a recurrent encoder-decoder.

use crate::config::recurrent::{Attend, Cell, Score};
use crate::config::{
    DEEPEST, ModelConfig, Sizes, Task, TieEmbeddings, Vocabulary, WIDEST, check_dropout, check_size,
};
use crate::error::ModelError;
use crate::loss::prediction::loss_numbers;
use crate::parameter::init::ParamInit;
use crate::precision::Precision;
use crate::recurrent::Recurrent;

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
    /// Width of an LSTM's memory, more than `d_model` if its output is projected; in the encoder
    /// half of it for each direction.
    pub cell_size: usize,
    /// Whether the layers have biases.
    pub bias: bool,
    /// Where the decoder looks.
    pub attention: Score,
    /// When the decoder looks.
    pub attend: Attend,
    /// Whether the output before is fed to the lowest layer of the decoder; only if it attends
    /// after the step.
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

    /// Whether a recurrent decoder is fed its last output: if the key says so, or is left out and
    /// there is attention after the step.
    pub(in crate::config) fn input_feeding(&self) -> bool {
        self.input_feeding.unwrap_or_else(|| {
            self.has_attention() && self.attend.unwrap_or_default() == Attend::After
        })
    }

    /// The complete shape of a recurrent model for the given vocabularies; products are f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, an odd width, a dropout outside
    /// `[0, 1)`, and input feeding without attention.
    pub fn rnn(&self, vocabulary: Vocabulary) -> Result<RnnShape, ModelError> {
        let config = self.recurrent(vocabulary)?;
        if !config.d_model.is_multiple_of(2) {
            let reason = "must be even: each direction of the encoder takes half of it";
            return Err(ModelError::config("model.d_model", config.d_model, reason));
        }
        if !config.cell_size.is_multiple_of(2) {
            let reason = "must be even: each direction of the encoder takes half of it";
            return Err(ModelError::config(
                "model.cell_size",
                config.cell_size,
                reason,
            ));
        }
        Ok(config)
    }

    /// The same with any width.
    pub(super) fn recurrent(&self, vocabulary: Vocabulary) -> Result<RnnShape, ModelError> {
        let Sizes {
            num_layers,
            d_model,
            dropout,
            ..
        } = self.sizes();
        let config = RnnShape {
            vocabulary,
            d_model: self.d_model.unwrap_or(d_model),
            num_encoder_layers: self.num_encoder_layers.unwrap_or(num_layers),
            num_decoder_layers: self.num_decoder_layers.unwrap_or(num_layers),
            dropout: self.dropout.unwrap_or(dropout),
            cell: self.cell.unwrap_or_default(),
            cell_size: self
                .cell_size
                .unwrap_or_else(|| self.d_model.unwrap_or(d_model)),
            bias: self.bias.unwrap_or(true),
            attention: self.attention.unwrap_or_default(),
            attend: self.attend.unwrap_or_default(),
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
        check_size("model.cell_size", self.cell_size, WIDEST)?;
        if self.cell_size != self.d_model
            && (self.cell != Cell::Lstm || self.cell_size < self.d_model)
        {
            let reason = format!(
                "must be more than `model.d_model = {}`, to which it is projected, and only an LSTM has a memory of its own",
                self.d_model
            );
            return Err(ModelError::config(
                "model.cell_size",
                self.cell_size,
                reason,
            ));
        }
        if self.input_feeding && self.attention == Score::None {
            let reason = "input feeding needs attention: leave it out, or set `model.attention`";
            return Err(ModelError::config("model.input_feeding", true, reason));
        }
        if self.attend == Attend::Before {
            if self.attention == Score::None {
                let reason = "needs attention: leave it out, or set `model.attention`";
                return Err(ModelError::config("model.attend", "before", reason));
            }
            if self.input_feeding {
                let reason = "with `model.attend = \"before\"` the context is fed, and not the output; leave it out";
                return Err(ModelError::config("model.input_feeding", true, reason));
            }
        }
        Ok(())
    }

    /// A layer from `d_model` to `width`, of which the memory has its share.
    pub(crate) fn layer(&self, width: usize, init: &mut ParamInit) -> Recurrent {
        let cell_size = self.cell_size * width / self.d_model;
        let layer = Recurrent::with_cells(self.cell, self.d_model, width, cell_size, init);
        if self.bias {
            layer
        } else {
            layer.without_biases()
        }
    }

    /// How many vectors of `d_model` numbers the state of a layer begins with: its output, and a
    /// memory that is as wide.
    pub(crate) fn bridged_states(&self) -> usize {
        if self.cell_size == self.d_model {
            self.cell.kernel().states()
        } else {
            1
        }
    }

    pub(crate) fn forward_flops(&self, [rows, src_len, tgt_len]: [usize; 3]) -> f64 {
        let [src, tgt] = [src_len, tgt_len].map(|len| (rows * len) as f64);
        let (width, gates) = (self.d_model as f64, self.cell.gates() as f64);
        let cells = self.cell_size as f64;
        let projected = if self.cell_size == self.d_model {
            0.0
        } else {
            1.0
        };
        // Both directions, each from the whole width and its own half to half a width.
        let encoder = src
            * cells
            * (gates * (width + width / 2.0) + projected * width / 2.0)
            * self.num_encoder_layers as f64;
        let before = self.attend == Attend::Before;
        let fed = if self.input_feeding || before {
            1.0
        } else {
            0.0
        };
        // The output is made of three vectors, and twice as wide before its larger half is taken.
        let output = if before {
            4.0 * tgt * width * width
        } else {
            0.0
        };
        let layers = self.num_decoder_layers as f64;
        let decoder = tgt * cells * width * (gates * (2.0 * layers + fed) + projected * layers);
        let products = |score: Score| match score {
            Score::None => 0.0,
            Score::Dot => 2.0 * tgt * width * width,
            Score::General => (2.0 * tgt + src) * width * width,
            Score::Additive => (3.0 * tgt + src) * width * width,
        };
        let looks = if self.attention == Score::None {
            0.0
        } else {
            2.0 * tgt * src_len as f64 * width
        };
        let logits = tgt * width * self.vocabulary.tgt_size as f64;
        2.0 * (encoder + decoder + products(self.attention) + output + looks + logits)
    }

    /// Numbers that a forward pass over `rows` sentences keeps for the backward pass.
    ///
    /// With kernels: per position and layer the input, both sums of products, the state before and
    /// the output; and where there is attention, two weights for each source position and 7
    /// `d_model`. Without: eleven numbers for each of the state's in place of two and the state;
    /// three weights, and with additive attention two arrays of every target and source position
    /// times the width. To both come the loss, as a Transformer's, and 2 `d_model` in the
    /// embedding. An output that is made of three vectors keeps 7 `d_model` more.
    pub(crate) fn activations(&self, [rows, src_len, tgt_len]: [usize; 3], kernels: bool) -> u64 {
        let count = |number: usize| number as u64;
        let (src, tgt, width) = (
            count(rows * src_len),
            count(rows * tgt_len),
            count(self.d_model),
        );
        let (gates, states) = (count(self.cell.gates()), count(self.cell.kernel().states()));
        let is_projected = self.cell_size != self.d_model;
        // What is projected is computed step by step.
        let of_layer = count(self.cell_size)
            * (2 * gates
                + if kernels && !is_projected {
                    2 + states
                } else {
                    11
                });
        let layers = of_layer
            * (src * count(self.num_encoder_layers) + tgt * count(self.num_decoder_layers));
        let looks = match self.attention {
            Score::None => 0,
            Score::Dot | Score::General => tgt * (3 * count(src_len) + 6 * width),
            Score::Additive if kernels => tgt * (2 * count(src_len) + 7 * width),
            Score::Additive => tgt * count(src_len) * (3 + 2 * width) + 7 * tgt * width,
        };
        let output = if self.attend == Attend::Before {
            7 * tgt * width
        } else {
            0
        };
        layers
            + looks
            + output
            + loss_numbers(tgt, self.vocabulary.tgt_size, kernels)
            + 2 * (src + tgt) * width
    }
}
