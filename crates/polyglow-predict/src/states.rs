//! The hidden states of a model at the tokens of lines.

use burn::tensor::{Device, Tensor, Transaction};
use polyglow_data::batch::TextBatch;
use polyglow_data::padded::Padded;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::{Model, Side};

use crate::device::upload_rows;

/// The most positions in a batch, padding included.
const POSITIONS: usize = 4096;

/// A model that reads text, with all that it needs to do so.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The model.
    pub model: &'a Model,
    /// The tokenizer of the side that it reads.
    pub tokenizer: &'a Tokenizer,
    /// The device of the model.
    pub device: &'a Device,
}

/// A line of ids with its index among all lines.
type NumberedLine<'a> = (usize, &'a [u32]);

impl Reader<'_> {
    /// Returns the most tokens of a line that are read.
    pub fn longest(&self) -> usize {
        // One position is for the BOS or EOS token.
        self.model.vocabulary().max_len - 1
    }

    /// Runs lines of ids through the model in batches of similar length, and calls `take` for each
    /// line with its index and its states: first the embeddings of its tokens, then the states
    /// after each layer. Lines come in the order of their length. Empty lines are skipped, and
    /// lines longer than [`Self::longest`] are cut.
    ///
    /// # Shapes
    /// - states: `[len, d_model]` each, row by row, without BOS and EOS
    pub fn read(&self, lines: &[&[u32]], take: &mut dyn FnMut(usize, &[&[f32]])) {
        let longest = self.longest();
        let mut lines: Vec<NumberedLine<'_>> = lines
            .iter()
            .map(|ids| &ids[..ids.len().min(longest)])
            .enumerate()
            .collect();
        lines.retain(|(_, ids)| !ids.is_empty());
        lines.sort_by_key(|(index, ids)| (ids.len(), *index));
        let mut rest = &lines[..];
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(batch_size(rest));
            self.read_batch(batch, take);
            rest = later;
        }
    }

    fn read_batch(&self, lines: &[NumberedLine<'_>], take: &mut dyn FnMut(usize, &[&[f32]])) {
        let special = self.tokenizer.special();
        let rows: Vec<&[u32]> = lines.iter().map(|(_, ids)| *ids).collect();
        // A decoder reads BOS before the tokens, an encoder EOS after them.
        let (batch, first) = match self.model.reading_side() {
            Side::Src => (Padded::ended(&rows, special.eos, special.pad, 1), 0),
            Side::Tgt => (TextBatch::of_lines(&rows, special, 1).inputs, 1),
        };
        let layers = self.model.states(upload_rows(&batch, self.device));
        let d_model = layers
            .first()
            .map_or(0, |states: &Tensor<3>| states.dims()[2]);
        let layers = read_layers(layers);
        for (row, (index, ids)) in lines.iter().enumerate() {
            let start = (row * batch.len + first) * d_model;
            let states: Vec<&[f32]> = layers
                .iter()
                .map(|layer| &layer[start..][..ids.len() * d_model])
                .collect();
            take(*index, &states);
        }
    }
}

/// The number of lines, sorted by length, that fit in a batch; at least one.
fn batch_size(lines: &[NumberedLine<'_>]) -> usize {
    let mut size = 1;
    while let Some((_, longest)) = lines.get(size) {
        // Each row has the length of the longest line, with BOS or EOS.
        if (size + 1) * (longest.len() + 1) > POSITIONS {
            break;
        }
        size += 1;
    }
    size
}

/// Reads the states of all layers from the device, in one transfer.
fn read_layers(layers: Vec<Tensor<3>>) -> Vec<Vec<f32>> {
    let mut transaction = Transaction::default();
    for layer in layers {
        transaction = transaction.register(layer);
    }
    let layers = transaction.execute();
    layers.iter().map(|layer| layer.iter().collect()).collect()
}
