//! Texts with a label each.

use crate::example::Example;
use crate::padded::Padded;
use crate::special::SpecialIds;

/// Padded texts and their labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LabelBatch {
    /// The texts, each with EOS, `[batch, len]`.
    pub texts: Padded,
    /// The label of each text, as an id of the labels' tokenizer.
    pub labels: Vec<i32>,
}

impl LabelBatch {
    /// Makes a batch of texts in the sources of examples, and labels in their targets; `unknown`
    /// stands for a label that is missing.
    pub fn new(examples: &[Example], text: SpecialIds, unknown: u32, pad_multiple: usize) -> Self {
        let texts: Vec<&[u32]> = examples.iter().map(|example| &*example.src).collect();
        let mut labels = Vec::with_capacity(examples.len());
        for example in examples {
            let label = example.tgt.first().copied().unwrap_or(unknown);
            labels.push(label as i32);
        }
        Self {
            texts: Padded::ended(&texts, text.eos, text.pad, pad_multiple),
            labels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_the_only_target() {
        let example = |src: &[u32], label| Example {
            src: src.to_vec(),
            tgt: vec![label],
        };
        let examples = [
            example(&[10, 11, 12], 20),
            example(&[13], 21),
            Example::default(),
        ];
        let batch = LabelBatch::new(
            &examples,
            SpecialIds {
                pad: 0,
                bos: 1,
                eos: 2,
                unk: 3,
            },
            6,
            1,
        );
        assert_eq!(batch.texts.ids, [10, 11, 12, 2, 13, 2, 0, 0, 2, 0, 0, 0]);
        assert_eq!(batch.labels, [20, 21, 6]);
    }
}
