//! A fork with another vocabulary: tokens keep their embeddings by their spelling.

use std::collections::HashMap;

use burn::tensor::TensorData;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_predict::error::Result;
use polyglow_predict::weights::Weights;

/// The axis of a parameter that has an index for each token of a vocabulary.
struct VocabularyAxis {
    is_source: bool,
    axis: usize,
}

/// Returns the axis of a parameter that is over a vocabulary; `None` if it has none.
fn vocabulary_axis(name: &str) -> Option<VocabularyAxis> {
    let axis = match name {
        "src_embedding.weight" | "tgt_embedding.weight" | "embedding.weight" | "output_bias" => 0,
        "output.weight" => 1,
        _ => return None,
    };
    let is_source = name == "src_embedding.weight";
    Some(VocabularyAxis { is_source, axis })
}

/// The vocabularies of a model and of its fork.
pub(super) struct Vocabularies<'a> {
    pub(super) old: &'a Tokenizers,
    pub(super) new: &'a Tokenizers,
}

impl Vocabularies<'_> {
    /// Counts the tokens of the fork, of both sides, and those of them that the old model has.
    pub(super) fn shared(&self) -> (usize, usize) {
        let src = &self.new.src;
        let src_known = num_known(&self.old.src, src);
        if self.new.is_shared() {
            return (src.vocab_size(), src_known);
        }
        let tgt = &self.new.tgt;
        let tgt_known = num_known(&self.old.tgt, tgt);
        (src.vocab_size() + tgt.vocab_size(), src_known + tgt_known)
    }

    /// Returns the values of the parameter `name`, which has this shape in the fork: for tokens
    /// that both have those of `weights`, for others the drawn ones.
    ///
    /// # Errors
    /// As [`Weights::take`].
    pub(super) fn carry(
        &self,
        name: &str,
        shape: &[usize],
        drawn: &TensorData,
        weights: &mut Weights,
    ) -> Result<TensorData> {
        let Some(VocabularyAxis { is_source, axis }) = vocabulary_axis(name) else {
            return weights.take(name, shape);
        };
        let old = side(self.old, is_source);
        let new = side(self.new, is_source);
        let mut old_shape = shape.to_vec();
        old_shape[axis] = old.vocab_size();
        let known: Vec<f32> = weights.take(name, &old_shape)?.iter().collect();
        let mut values: Vec<f32> = drawn.iter().collect();
        // `[outer, tokens, inner]`, whichever axis it is.
        let outer: usize = shape[..axis].iter().product();
        let inner: usize = shape[axis + 1..].iter().product();
        let ids = old_ids(old, new);
        for outer in 0..outer {
            for (new_id, old_id) in ids.iter().enumerate() {
                let Some(old_id) = old_id else {
                    continue;
                };
                let to = (outer * shape[axis] + new_id) * inner;
                let from = (outer * old_shape[axis] + old_id) * inner;
                values[to..to + inner].copy_from_slice(&known[from..from + inner]);
            }
        }
        Ok(TensorData::new(values, shape))
    }
}

fn side(tokenizers: &Tokenizers, is_source: bool) -> &Tokenizer {
    if is_source {
        &tokenizers.src
    } else {
        &tokenizers.tgt
    }
}

/// Counts the tokens of the new vocabulary that the old one has.
fn num_known(old: &Tokenizer, new: &Tokenizer) -> usize {
    old_ids(old, new).iter().flatten().count()
}

/// Returns for each token of the new vocabulary its id in the old one, if it is there. Special
/// tokens are the same however they are spelled.
fn old_ids(old: &Tokenizer, new: &Tokenizer) -> Vec<Option<usize>> {
    let by_spelling: HashMap<String, u32> = (0..old.vocab_size() as u32)
        .filter_map(|id| Some((old.token(id)?, id)))
        .collect();
    let new_special = new.special();
    let old_special = old.special();
    let special = [
        (new_special.pad, old_special.pad),
        (new_special.bos, old_special.bos),
        (new_special.eos, old_special.eos),
        (new_special.unk, old_special.unk),
    ];
    let mut ids = Vec::with_capacity(new.vocab_size());
    for new_id in 0..new.vocab_size() as u32 {
        let old_id = match special.iter().find(|(special, _)| *special == new_id) {
            Some((_, old_id)) => Some(*old_id),
            None => new
                .token(new_id)
                .and_then(|token| by_spelling.get(&token).copied()),
        };
        ids.push(old_id.map(|id| id as usize));
    }
    ids
}
