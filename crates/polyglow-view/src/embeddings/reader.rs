//! The hidden states of a model as it reads lines.

use burn::tensor::{Device, Tensor, Transaction};
use polyglow_data::batch::TextBatch;
use polyglow_data::padded::Padded;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::{Model, Side};
use polyglow_predict::device::upload_rows;

/// The most positions in a batch.
const POSITIONS: usize = 4096;

/// A model that reads text.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The model.
    pub model: &'a Model,
    /// The tokenizer of the side that it reads.
    pub tokenizer: &'a Tokenizer,
    /// The device of the model.
    pub device: &'a Device,
}

impl Reader<'_> {
    /// The most tokens of a line that are read.
    pub fn longest(&self) -> usize {
        self.model.vocabulary().max_len - 1
    }

    /// Reads lines of ids in batches of similar length, and passes the place and the states of each
    /// to `take`: first the embeddings of its tokens, then the states after each layer. Empty lines
    /// are skipped, and lines longer than [`Self::longest`] are cut.
    ///
    /// # Shapes
    /// - states: `[len, d_model]` each, row by row, without begin and end marks
    pub fn read(&self, lines: &[&[u32]], take: &mut dyn FnMut(usize, &[&[f32]])) {
        let mut lines: Vec<(usize, &[u32])> = lines
            .iter()
            .map(|ids| &ids[..ids.len().min(self.longest())])
            .enumerate()
            .collect();
        lines.retain(|(_, ids)| !ids.is_empty());
        lines.sort_by_key(|(number, ids)| (ids.len(), *number));
        let mut rest = &lines[..];
        while !rest.is_empty() {
            let fits = |rows: &usize| rows * (rest[rows - 1].1.len() + 1) <= POSITIONS;
            let (batch, later) =
                rest.split_at((2..=rest.len()).take_while(fits).last().unwrap_or(1));
            self.read_batch(batch, take);
            rest = later;
        }
    }

    fn read_batch(&self, lines: &[(usize, &[u32])], take: &mut dyn FnMut(usize, &[&[f32]])) {
        let special = self.tokenizer.special();
        let rows: Vec<&[u32]> = lines.iter().map(|(_, ids)| *ids).collect();
        // A text begins with a mark, a source with its first token.
        let (batch, first) = match self.model.reading_side() {
            Side::Src => (Padded::ended(&rows, special.eos, special.pad, 1), 0),
            Side::Tgt => (TextBatch::of_lines(&rows, special, 1).inputs, 1),
        };
        let layers = self.model.states(upload_rows(&batch, self.device));
        let d_model = layers
            .first()
            .map_or(0, |states: &Tensor<3>| states.dims()[2]);
        let read = layers
            .into_iter()
            .fold(Transaction::default(), Transaction::register)
            .execute();
        let layers: Vec<Vec<f32>> = read.iter().map(|layer| layer.iter().collect()).collect();
        for (row, (number, ids)) in lines.iter().enumerate() {
            let start = (row * batch.len + first) * d_model;
            let states: Vec<&[f32]> = layers
                .iter()
                .map(|layer| &layer[start..][..ids.len() * d_model])
                .collect();
            take(*number, &states);
        }
    }
}
