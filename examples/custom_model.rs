//! An architecture of one's own, trained, stopped, resumed and searched by what the built-in ones
//! use:
//!
//! ```text
//! cargo run --release -p polyglow-examples --example custom_model -- runs/custom 100
//! ```
//!
//! Each word of the source is read with its two neighbors (a convolution). A recurrent layer reads
//! the target, and looks at the source at each position. The training stops after step 100, and
//! goes on from there to its end.
#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use std::{env, error::Error, sync::Arc};

use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor, activation::relu};
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::recurrent::{Cell, Direction, Recurrent, State};
use polyglow_model::{
    Generate, Pair, Precision, Predict, Prediction, Projection, Source, attention::attend,
    dropout::Dropout, embedding::Embedding, init::ParamInit, linear::Linear, mask::padding_mask,
};
use polyglow_train::tasks::translation::Translation;
use polyglow_train::{Config, Observer, Result, Stop, Training, load_runner_with};

/// The `[model]` section is for the built-in models, so it is left out.
const CONFIG: &str = "
    data.corpus = 'mini-en-de'
    tokenizer.kind = 'word'
    train = { max_steps = 300, max_tokens = 800, lr = 1e-2, warmup_steps = 50 }";
const WIDTH: usize = 48;

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

/// The source, `[batch, src_len, WIDTH]`, and where it is padding, `[batch, 1, 1, src_len]`.
type Memory = (Tensor<3>, Tensor<4, Bool>);

impl ConvToGru {
    fn new(tokenizers: &Tokenizers, device: &Device) -> Self {
        let init = &mut ParamInit::new(1, device);
        Self {
            embedding: Embedding::new(tokenizers.tgt.vocab_size(), WIDTH, init),
            convolution: Linear::new(3 * WIDTH, WIDTH, init),
            decoder: Recurrent::new(Cell::Gru, WIDTH, WIDTH, init),
            combine: Linear::new(2 * WIDTH, WIDTH, init),
            dropout: Dropout::new(0.1),
            pad_id: tokenizers.src.special().pad,
        }
    }

    fn read(&self, src: Source) -> Memory {
        let src = src.into_ids();
        let [batch, len] = src.dims();
        let mask = padding_mask(&src, self.pad_id);
        // Zeros for padding, as beyond the edges: a sentence is read in the same way, however long
        // its batch is.
        let pads = mask
            .clone()
            .reshape([batch, len, 1])
            .expand([batch, len, WIDTH]);
        let words = self
            .dropout
            .forward(self.embedding.forward(src))
            .mask_fill(pads, 0.0);
        let padded = words.clone().pad((0, 0, 1, 1), 0.0);
        let windows = (0..3)
            .map(|shift| padded.clone().narrow(1, shift, len))
            .collect();
        (
            words + relu(self.convolution.forward(Tensor::cat(windows, 2))),
            mask,
        )
    }

    /// What the target's states `[batch, tgt_len, WIDTH]` become when they have looked at the
    /// source.
    fn look(&self, states: Tensor<3>, (memory, mask): &Memory) -> Tensor<3> {
        let (query, memory) = (
            states.clone().unsqueeze_dim(1),
            memory.clone().unsqueeze_dim::<4>(1),
        );
        let (found, _) = attend(
            query,
            memory.clone(),
            memory,
            Some(mask),
            &self.dropout,
            Precision::F32,
        );
        self.combine
            .forward(Tensor::cat(vec![states, found.squeeze_dim(1)], 2))
            .tanh()
    }
}

/// What training asks for: all positions at once.
impl Predict<Pair> for ConvToGru {
    fn predict(&self, Pair { src, tgt_in }: Pair) -> Prediction<'_> {
        let words = self.dropout.forward(self.embedding.forward(tgt_in));
        let states = self.decoder.run(words, None, None, Direction::Forward);
        Projection::Tied(&self.embedding).project(self.look(states, &self.read(src)).flatten(0, 1))
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
        *state = self.decoder.step(
            self.decoder
                .input
                .rows(self.embedding.forward(ids).squeeze_dim(1)),
            state,
        );
        let hidden = self.look(state.hidden().unsqueeze_dim(1), memory);
        Projection::Tied(&self.embedding)
            .project(hidden.squeeze_dim(1))
            .logits()
    }

    fn select(((memory, mask), state): &mut Self::Cache, rows: &[usize], device: &Device) {
        let rows = Tensor::<1, Int>::from_data(
            &rows.iter().map(|&row| row as i32).collect::<Vec<_>>()[..],
            device,
        );
        (*memory, *mask) = (
            memory.clone().select(0, rows.clone()),
            mask.clone().select(0, rows.clone()),
        );
        *state = state.select(&rows);
    }
}

/// Asks for the end after a step, as a signal handler would at any time.
struct StopAfter(u64, Stop);

impl Observer for StopAfter {
    fn step(&mut self, step: u64) {
        if step == self.0 {
            self.1.request();
        }
    }
}

/// Begins, or goes on from the newest checkpoint.
fn train(run: &str, stop_after: u64) -> Result<()> {
    let mut observer = StopAfter(stop_after, Stop::default());
    let training = Training::prepare(Config::from_text(CONFIG, &[])?, run, &mut observer)?;
    let task =
        Translation::<ConvToGru>::new(training.setting()?, Arc::clone(training.data.text()?))?;
    let new = |device: &Device| ConvToGru::new(&training.tokenizers, device);
    let (ending, state) = training.run_with(&task, new, &observer.1.clone(), &mut observer)?;
    println!(
        "{ending:?} after step {}, BLEU {:.1}",
        state.step,
        state.best.map_or(0.0, |best| best.score)
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let run = env::args().nth(1).unwrap_or("runs/custom".to_owned());
    let stop_after = env::args().nth(2).map_or(Ok(100), |step| step.parse())?;
    train(&run, stop_after)?;
    train(&run, u64::MAX)?;

    let runner = load_runner_with(&run, &Device::flex(), ConvToGru::new)?;
    println!(
        "the dog sleeps . -> {}",
        runner.best(&["the dog sleeps ."])?.concat()
    );
    Ok(())
}
