//! A program with an architecture of its own, and with every command of `polyglow`:
//!
//! ```text
//! cargo run --release -p polyglow-examples --example custom_model -- train examples/custom_model.toml
//! cargo run --release -p polyglow-examples --example custom_model -- translate runs/custom_model
//! ```
//!
//! Each word of the source is read with its two neighbors (a convolution). A recurrent layer reads
//! the target, and looks at the source at each position.

use std::process::ExitCode;

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Bool, Device, Int, Tensor};
use polyglow::Registry;
use polyglow_model::attention::attend;
use polyglow_model::dropout::Dropout;
use polyglow_model::embedding::Embedding;
use polyglow_model::init::ParamInit;
use polyglow_model::linear::Linear;
use polyglow_model::mask::padding_mask;
use polyglow_model::recurrent::{Cell, Direction, Recurrent, State};
use polyglow_model::registry::Architecture;
use polyglow_model::{
    Generate, Inspect, ModelError, Pair, Precision, Predict, Prediction, Projection, Side, Source,
    Task, Vocabulary,
};
use serde::{Deserialize, Serialize};

fn main() -> ExitCode {
    polyglow::run_with(Registry::new().architecture::<ConvToGru>("conv-to-gru"))
}

/// The table `[model.conv-to-gru]` of a config.
#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    width: usize,
    dropout: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            width: 48,
            dropout: 0.1,
        }
    }
}

/// A model is a Burn module.
#[derive(Module, Debug)]
struct ConvToGru {
    embedding: Embedding,
    convolution: Linear,
    decoder: Recurrent,
    combine: Linear,
    dropout: Dropout,
    pad_id: u32,
}

impl Architecture for ConvToGru {
    type Config = Settings;
    const TASK: Task = Task::Translation;

    fn new(settings: &Settings, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self {
        let width = settings.width;
        Self {
            embedding: Embedding::new(vocabulary.tgt_size, width, init),
            convolution: Linear::new(3 * width, width, init),
            decoder: Recurrent::new(Cell::Gru, width, width, init),
            combine: Linear::new(2 * width, width, init),
            dropout: Dropout::new(settings.dropout),
            pad_id: vocabulary.src_pad_id,
        }
    }

    fn d_model(settings: &Settings) -> usize {
        settings.width
    }

    fn check(settings: &Settings, vocabulary: &Vocabulary) -> Result<(), ModelError> {
        if settings.width == 0 {
            let key = "model.conv-to-gru.width";
            return Err(ModelError::config(key, 0, "must be at least 1"));
        }
        if !vocabulary.shared {
            let reason = "one embedding is for both sides: set it to true";
            return Err(ModelError::config("tokenizer.shared", false, reason));
        }
        Ok(())
    }
}

/// The source, `[batch, src_len, width]`, and where it is padding, `[batch, 1, 1, src_len]`.
type Memory = (Tensor<3>, Tensor<4, Bool>);

impl ConvToGru {
    fn read(&self, src: Source) -> Memory {
        let src = src.into_ids();
        let mask = padding_mask(&src, self.pad_id);
        let words = self.dropout.forward(self.embedding.forward(src));
        let [batch, len, width] = words.dims();
        // Zeros for padding, as beyond the edges: a sentence is read in the same way, however long
        // its batch is.
        let pads = mask.clone().reshape([batch, len, 1]);
        let words = words.mask_fill(pads.expand([batch, len, width]), 0.0);
        let padded = words.clone().pad((0, 0, 1, 1), 0.0);
        let windows = (0..3).map(|shift| padded.clone().narrow(1, shift, len));
        let windows = Tensor::cat(windows.collect(), 2);
        (words + relu(self.convolution.forward(windows)), mask)
    }

    /// Returns what the target's states `[batch, tgt_len, width]` become when they have looked at
    /// the source.
    fn look(&self, states: Tensor<3>, (memory, mask): &Memory) -> Tensor<3> {
        let query = states.clone().unsqueeze_dim(1);
        let memory: Tensor<4> = memory.clone().unsqueeze_dim(1);
        let mask = Some(mask);
        let precision = Precision::F32;
        let (context, _) = attend(
            query,
            memory.clone(),
            memory,
            mask,
            &self.dropout,
            precision,
        );
        let both = Tensor::cat(vec![states, context.squeeze_dim(1)], 2);
        self.combine.forward(both).tanh()
    }
}

/// What training asks for: all positions at once.
impl Predict<Pair> for ConvToGru {
    fn predict(&self, Pair { src, tgt_in }: Pair) -> Prediction<'_> {
        let words = self.dropout.forward(self.embedding.forward(tgt_in));
        let states = self.decoder.run(words, None, None, Direction::Forward);
        let hidden = self.look(states, &self.read(src));
        Projection::Tied(&self.embedding).project(hidden.flatten(0, 1))
    }
}

/// What search asks for: one position after the other, of rows that split and end.
impl Generate for ConvToGru {
    type Cache = (Memory, State);

    fn start(&self, src: Source) -> Self::Cache {
        let state = self.decoder.initial_state(src.num_rows(), &src.device());
        (self.read(src), state)
    }

    fn advance(&self, ids: Tensor<2, Int>, (memory, state): &mut Self::Cache) -> Tensor<2> {
        let word = self.embedding.forward(ids).squeeze_dim(1);
        *state = self.decoder.step(self.decoder.input.rows(word), state);
        let hidden = self.look(state.hidden().unsqueeze_dim(1), memory);
        let prediction = Projection::Tied(&self.embedding).project(hidden.squeeze_dim(1));
        prediction.logits()
    }

    fn select(((memory, mask), state): &mut Self::Cache, rows: &[usize], device: &Device) {
        let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let rows = Tensor::<1, Int>::from_data(&rows[..], device);
        *memory = memory.clone().select(0, rows.clone());
        *mask = mask.clone().select(0, rows.clone());
        *state = state.select(&rows);
    }
}

/// What `polyglow embeddings` asks for.
impl Inspect for ConvToGru {
    type Inputs = Pair;

    fn embedding(&self, _: Side) -> Option<&Embedding> {
        Some(&self.embedding)
    }
}
