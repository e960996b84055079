//! Lines to lines, order and count kept: one path for `translate`, `evaluate` and validation.

use anyhow::Context;
use burn::tensor::{Device, Int, Tensor, TensorData};
use polyglow_data::batch::SourceBatch;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::Transformer;
use polyglow_model::search::{Incremental, Marks, SearchConfig, beam_search};

/// Everything that turns source lines into target lines.
pub struct Translator<'a> {
    /// The model, on a device that does not differentiate.
    pub model: &'a Transformer,
    /// Both sides' tokenizers.
    pub tokenizers: &'a Tokenizers,
    /// How to look for a translation.
    pub search: &'a SearchConfig,
    /// Where the model is.
    pub device: &'a Device,
    /// Source positions in a batch, times the beam, at most.
    pub max_tokens: usize,
    /// What padded lengths are multiples of.
    pub pad_multiple: usize,
}

/// A piece of a line: whole lines, but for those that are longer than the model has positions.
struct Piece {
    line: usize,
    ids: Vec<u32>,
}

impl Translator<'_> {
    /// Translates every line; a blank line stays blank, and none has a line break in it.
    ///
    /// `first_line` is the number of the first line in its file, for warnings.
    ///
    /// Lines are batched by length, so a call with many lines is faster than many calls. A line longer than the model was
    /// made for is translated in pieces, with a warning.
    ///
    /// # Errors
    /// A line cannot be encoded or an output cannot be decoded.
    pub fn translate<S: AsRef<str> + Sync>(&self, lines: &[S], first_line: usize) -> anyhow::Result<Vec<String>> {
        let mut pieces = self.pieces(lines, first_line)?;
        // Longest first: the first batch shows whether the memory suffices.
        pieces.sort_by_key(|piece| (std::cmp::Reverse(piece.ids.len()), piece.line));
        let mut outputs: Vec<(usize, usize, String)> = Vec::with_capacity(pieces.len());
        let mut first = 0;
        while first < pieces.len() {
            let batch = &pieces[first..first + self.rows(&pieces[first..])];
            for (index, ids) in self.search(batch).into_iter().enumerate() {
                let text = self.tokenizers.tgt.decode(&ids).context("decoding a translation")?;
                // A break inside a translation would make two lines of one.
                outputs.push((batch[index].line, first + index, text.replace(['\n', '\r'], " ")));
            }
            first += batch.len();
        }
        Ok(join(outputs, lines.len()))
    }

    fn pieces<S: AsRef<str> + Sync>(&self, lines: &[S], first_line: usize) -> anyhow::Result<Vec<Piece>> {
        let longest = self.model.config().max_len - 1;
        let mut pieces = Vec::with_capacity(lines.len());
        for (line, ids) in self.tokenizers.src.encode_batch(lines)?.into_iter().enumerate() {
            if lines[line].as_ref().trim().is_empty() {
                continue;
            }
            if ids.len() > longest {
                let (number, len) = (first_line + line, ids.len());
                tracing::warn!("line {number} has {len} tokens, more than `data.max_len`: translating it in pieces");
            }
            pieces.extend(ids.chunks(longest).map(|ids| Piece { line, ids: ids.to_vec() }));
        }
        Ok(pieces)
    }

    /// How many of the pieces, of which the first is the longest, go into one batch.
    fn rows(&self, pieces: &[Piece]) -> usize {
        let positions = (pieces[0].ids.len() + 1) * self.search.beam_size;
        (self.max_tokens / positions).clamp(1, pieces.len())
    }

    /// The ids of the best hypothesis for each piece.
    fn search(&self, pieces: &[Piece]) -> Vec<Vec<u32>> {
        let (src, tgt) = (self.tokenizers.src.special(), self.tokenizers.tgt.special());
        let rows: Vec<&[u32]> = pieces.iter().map(|piece| &*piece.ids).collect();
        let batch = SourceBatch::new(&rows, src, self.pad_multiple);
        let data = TensorData::new(batch.src, [batch.batch_size, batch.src_len]);
        let ids = Tensor::<2, Int>::from_data(data, self.device);
        let max_len = |len: &usize| self.search.max_len(*len).min(self.model.config().max_len);
        let max_lens: Vec<usize> = batch.src_lengths.iter().map(max_len).collect();
        let mut next = Incremental::new(self.model, ids, &[tgt.pad, tgt.bos]);
        let found = beam_search(&mut next, &max_lens, self.search, Marks { bos: tgt.bos, eos: tgt.eos });
        found.into_iter().map(|mut hypotheses| hypotheses.swap_remove(0).ids).collect()
    }
}

/// Puts the pieces of each line back together, in the order of the lines.
fn join(mut outputs: Vec<(usize, usize, String)>, num_lines: usize) -> Vec<String> {
    outputs.sort_by_key(|&(line, piece, _)| (line, piece));
    let mut lines = vec![String::new(); num_lines];
    for (line, _, text) in outputs {
        if !lines[line].is_empty() && !text.is_empty() {
            lines[line].push(' ');
        }
        lines[line].push_str(&text);
    }
    lines
}
