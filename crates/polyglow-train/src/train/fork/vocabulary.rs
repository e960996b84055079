//! A fork with another vocabulary: what a model knows of a token goes with its spelling.

use std::collections::HashMap;

use burn::tensor::TensorData;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_predict::error::Result;
use polyglow_predict::weights::Weights;

/// The axis of a parameter that has a place for each token of a vocabulary.
struct VocabularyAxis {
    of_source: bool,
    axis: usize,
}

/// Whether a parameter is over a vocabulary, and how.
fn vocabulary_axis(name: &str) -> Option<VocabularyAxis> {
    Some(match name {
        "src_embedding.weight" => VocabularyAxis {
            of_source: true,
            axis: 0,
        },
        "tgt_embedding.weight" | "embedding.weight" | "output_bias" => VocabularyAxis {
            of_source: false,
            axis: 0,
        },
        "output.weight" => VocabularyAxis {
            of_source: false,
            axis: 1,
        },
        _ => return None,
    })
}

/// The vocabularies of a model and of its fork.
pub(super) struct Vocabularies<'a> {
    pub(super) old: &'a Tokenizers,
    pub(super) new: &'a Tokenizers,
}

impl Vocabularies<'_> {
    /// The tokens of the fork, of both sides, and how many of them the old model has.
    pub(super) fn shared(&self) -> (usize, usize) {
        let of_side = |old: &Tokenizer, new: &Tokenizer| {
            (new.vocab_size(), old_ids(old, new).iter().flatten().count())
        };
        let (all, known) = of_side(&self.old.src, &self.new.src);
        if self.new.is_shared() {
            return (all, known);
        }
        let (all_of_tgt, known_of_tgt) = of_side(&self.old.tgt, &self.new.tgt);
        (all + all_of_tgt, known + known_of_tgt)
    }

    /// The parameter `name`, which has this shape in the fork: of tokens that both have from
    /// `weights`, of others as drawn.
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
        let Some(VocabularyAxis { of_source, axis }) = vocabulary_axis(name) else {
            return weights.take(name, shape);
        };
        let (old, new) = if of_source {
            (&self.old.src, &self.new.src)
        } else {
            (&self.old.tgt, &self.new.tgt)
        };
        let mut old_shape = shape.to_vec();
        old_shape[axis] = old.vocab_size();
        let known: Vec<f32> = weights.take(name, &old_shape)?.iter().collect();
        let mut values: Vec<f32> = drawn.iter().collect();
        // `[outer, tokens, inner]`, whichever axis it is.
        let (outer, inner): (usize, usize) = (
            shape[..axis].iter().product(),
            shape[axis + 1..].iter().product(),
        );
        let ids = old_ids(old, new);
        for outer in 0..outer {
            for (new_id, old_id) in ids
                .iter()
                .enumerate()
                .filter_map(|(new_id, old_id)| Some((new_id, (*old_id)?)))
            {
                let (to, from) = (
                    (outer * shape[axis] + new_id) * inner,
                    (outer * old_shape[axis] + old_id) * inner,
                );
                values[to..to + inner].copy_from_slice(&known[from..from + inner]);
            }
        }
        Ok(TensorData::new(values, shape))
    }
}

/// For each token of the new vocabulary its id in the old one, if it is there. Marks are the same
/// whatever they are called.
fn old_ids(old: &Tokenizer, new: &Tokenizer) -> Vec<Option<usize>> {
    let by_spelling: HashMap<String, u32> = (0..old.vocab_size() as u32)
        .filter_map(|id| Some((old.token(id)?, id)))
        .collect();
    let (ours, theirs) = (old.special(), new.special());
    let marks = [
        (theirs.pad, ours.pad),
        (theirs.bos, ours.bos),
        (theirs.eos, ours.eos),
        (theirs.unk, ours.unk),
    ];
    let id = |id: u32| match marks.iter().find(|(theirs, _)| *theirs == id) {
        Some((_, ours)) => Some(*ours),
        None => by_spelling.get(&new.token(id)?).copied(),
    };
    (0..new.vocab_size() as u32)
        .map(|new_id| id(new_id).map(|id| id as usize))
        .collect()
}
