//! The complete shape of a recurrent encoder-decoder.

use super::keys::{CELLS, DECODER, RECURRENT_DECODER, SIZES};
use crate::architectures::Rnn;
use crate::attention::AttentionKind;
use crate::config::recurrent::{Attend, Cell, Score};
use crate::config::{
    Arch, ArchRow, DEEPEST, ModelConfig, Shape, Sizes, Task, TieEmbeddings, Vocabulary, WIDEST,
    check_dropout, check_size,
};
use crate::error::ModelError;
use crate::loss::prediction::loss_elements;
use crate::model::Model;
use crate::parameter::init::ParamInit;
use crate::precision::Precision;
use crate::recurrent::Recurrent;
use crate::registry::Choice;

/// The row of the recurrent encoder-decoder, with attention (Bahdanau et al., 2015; Luong et al.,
/// 2015) or without (Sutskever et al., 2014).
pub(in crate::config) static ROW: ArchRow = ArchRow {
    num_layers: few_layers,
    attends_to_source: |config| config.attention != Some(Score::None),
    resolve: |config| ModelConfig {
        cell: Some(config.cell.unwrap_or_default()),
        attention: Some(config.attention.unwrap_or_default()),
        // The default is left out, so that configs of runs from before the key existed stay the
        // same.
        attend: config.attend.filter(|attend| *attend != Attend::default()),
        input_feeding: Some(config.input_feeding()),
        ..config.resolve_sizes()
    },
    ..ArchRow::new(
        "rnn",
        |_| Task::Translation,
        &[
            SIZES,
            DECODER,
            CELLS,
            RECURRENT_DECODER,
            &["num_encoder_layers", "dropout"],
        ],
        |config, vocabulary| {
            config.check_tied(vocabulary)?;
            Ok(config.rnn(vocabulary)?.into())
        },
    )
};

impl Rnn {
    /// Its name in a config.
    pub const ARCH: Arch = Choice(&ROW);
}

/// Returns a third of the layers of a Transformer. Each recurrent layer reads the whole sequence, so
/// few are needed, and each costs `len` sequential steps.
pub(super) fn few_layers(num_transformer_layers: usize) -> usize {
    num_transformer_layers / 3
}

/// The complete shape of a [`crate::Rnn`].
#[derive(Clone, Debug, PartialEq)]
pub struct RnnShape {
    /// The sizes and ids that the data decides.
    pub vocabulary: Vocabulary,
    /// Width of every hidden state; in the encoder half of it for each direction.
    pub d_model: usize,
    /// Layers of the encoder.
    pub num_encoder_layers: usize,
    /// Layers of the decoder.
    pub num_decoder_layers: usize,
    /// Dropout on embeddings, between layers and on the output, a probability.
    pub dropout: f64,
    /// The kind of recurrent cell.
    pub cell: Cell,
    /// Width of an LSTM's memory, more than `d_model` if its output is projected; in the encoder
    /// half of it for each direction.
    pub cell_size: usize,
    /// Whether the layers have biases.
    pub bias: bool,
    /// The score of the decoder's attention.
    pub attention: Score,
    /// When the decoder attends.
    pub attend: Attend,
    /// Whether the previous output is fed to the lowest layer of the decoder; only if it attends
    /// after the step.
    pub input_feeding: bool,
    /// Shared embedding matrices.
    pub tie_embeddings: TieEmbeddings,
    /// Precision of matrix products in training.
    pub precision: Precision,
}

impl ModelConfig {
    /// Whether a recurrent decoder is fed its previous output: as the key says; by default if there
    /// is attention after the step.
    fn input_feeding(&self) -> bool {
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

    /// As [`Self::rnn`], for models without a bidirectional encoder, which may have an odd width.
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
                "must be more than `model.d_model = {}`, to which it is projected, and only an LSTM \
                 has a memory of its own",
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
                let reason = "with `model.attend = \"before\"` the context is fed, and not the \
                              output; leave it out";
                return Err(ModelError::config("model.input_feeding", true, reason));
            }
        }
        Ok(())
    }

    /// A layer from `d_model` to `width`; its memory is in proportion.
    pub(crate) fn layer(&self, width: usize, init: &mut ParamInit) -> Recurrent {
        let cell_size = self.cell_size * width / self.d_model;
        let layer = Recurrent::with_cells(self.cell, self.d_model, width, cell_size, init);
        if self.bias {
            layer
        } else {
            layer.without_biases()
        }
    }

    /// The number of vectors of `d_model` elements that the initial state of a layer is bridged
    /// from: its output, and a memory if that is as wide.
    pub(crate) fn bridged_states(&self) -> usize {
        if self.cell_size == self.d_model {
            self.cell.kernel().states()
        } else {
            1
        }
    }
}

impl Shape for RnnShape {
    fn build(&self, init: ParamInit) -> Model {
        Model::writer(Rnn::build(self, init), self.clone())
    }

    fn task(&self) -> Task {
        Task::Translation
    }

    fn d_model(&self) -> usize {
        self.d_model
    }

    fn vocabulary(&self) -> Vocabulary {
        self.vocabulary
    }

    fn max_len_mut(&mut self) -> &mut usize {
        &mut self.vocabulary.max_len
    }

    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    fn attention_size(&self, kind: AttentionKind) -> (usize, usize) {
        // One attention with one head serves all layers of the decoder.
        if kind == AttentionKind::Cross && self.attention != Score::None {
            (1, 1)
        } else {
            (0, 0)
        }
    }

    fn forward_flops(&self, [rows, src_len, tgt_len]: [usize; 3]) -> f64 {
        // Positions of the whole batch.
        let src = (rows * src_len) as f64;
        let tgt = (rows * tgt_len) as f64;
        let width = self.d_model as f64;
        let gates = self.cell.gates() as f64;
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
        let attends_before = self.attend == Attend::Before;
        let fed = if self.input_feeding || attends_before {
            1.0
        } else {
            0.0
        };
        // The output is computed from three vectors, and is twice as wide before the larger one of
        // each two elements is taken.
        let output = if attends_before {
            4.0 * tgt * width * width
        } else {
            0.0
        };
        let layers = self.num_decoder_layers as f64;
        let decoder = tgt * cells * width * (gates * (2.0 * layers + fed) + projected * layers);
        let projections = match self.attention {
            Score::None => 0.0,
            Score::Dot => 2.0 * tgt * width * width,
            Score::General => (2.0 * tgt + src) * width * width,
            Score::Additive => (3.0 * tgt + src) * width * width,
        };
        let attention = if self.attention == Score::None {
            0.0
        } else {
            2.0 * tgt * src_len as f64 * width
        };
        let logits = tgt * width * self.vocabulary.tgt_size as f64;
        2.0 * (encoder + decoder + projections + output + attention + logits)
    }

    /// With kernels: per position and layer the input, both sums of products, the state before and
    /// the output; and with attention two weights for each source position and 7 `d_model`. Without
    /// kernels: eleven elements for each one of the state, in place of two and the state; three
    /// weights, and with additive attention two arrays of every target and source position times
    /// the width. Both add the loss, as a Transformer's, and 2 `d_model` in the embedding. An
    /// output from three vectors, with attention before the step, adds 7 `d_model`.
    fn activations(&self, [rows, src_len, tgt_len]: [usize; 3], kernels: bool) -> u64 {
        // Positions of the whole batch.
        let src = (rows * src_len) as u64;
        let tgt = (rows * tgt_len) as u64;
        let src_len = src_len as u64;
        let width = self.d_model as u64;
        let gates = self.cell.gates() as u64;
        let states = self.cell.kernel().states() as u64;
        // A layer with a projection has no kernel.
        let is_projected = self.cell_size != self.d_model;
        let kept_by_step = if kernels && !is_projected {
            2 + states
        } else {
            11
        };
        let per_position = self.cell_size as u64 * (2 * gates + kept_by_step);
        let layers = per_position
            * (src * self.num_encoder_layers as u64 + tgt * self.num_decoder_layers as u64);
        let attention = match self.attention {
            Score::None => 0,
            Score::Dot | Score::General => tgt * (3 * src_len + 6 * width),
            Score::Additive if kernels => tgt * (2 * src_len + 7 * width),
            Score::Additive => tgt * src_len * (3 + 2 * width) + 7 * tgt * width,
        };
        let output = if self.attend == Attend::Before {
            7 * tgt * width
        } else {
            0
        };
        layers
            + attention
            + output
            + loss_elements(tgt, self.vocabulary.tgt_size, kernels)
            + 2 * (src + tgt) * width
    }
}
