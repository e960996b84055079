//! Sentence pairs: the only module that shifts decoder inputs against outputs.

use crate::alignment::Link;
use crate::example::Example;
use crate::padded::Padded;
use crate::special::SpecialIds;

/// Padded sentence pairs.
///
/// With source ids `s1 s2` and target ids `t1 t2`, the rows are `s1 s2 </s>`, `<s> t1 t2` and
/// `t1 t2 </s>`: at each target position the decoder sees what precedes it (teacher forcing).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PairBatch {
    /// Source ids and end of sentence, `[batch, src_len]`.
    pub src: Padded,
    /// Begin of sentence and target ids, `[batch, tgt_len]`.
    pub tgt_in: Padded,
    /// Target ids and end of sentence, `[batch, tgt_len]`.
    pub tgt_out: Padded,
    /// The attention that the alignments call for, `[batch, tgt_len, src_len]` row by row: the
    /// source positions that are linked to a target position share 1, and a target position without
    /// links has zeros. `None` if the text is not aligned.
    pub gold_attention: Option<Vec<f32>>,
}

impl PairBatch {
    /// Pads examples to multiples of `pad_multiple`.
    pub fn new(
        examples: &[Example],
        src: SpecialIds,
        tgt: SpecialIds,
        pad_multiple: usize,
    ) -> Self {
        let sources: Vec<&[u32]> = examples.iter().map(|example| &*example.src).collect();
        let targets: Vec<&[u32]> = examples.iter().map(|example| &*example.tgt).collect();
        Self {
            src: Padded::ended(&sources, src.eos, src.pad, pad_multiple),
            tgt_in: Padded::begun(&targets, tgt.bos, tgt.pad, pad_multiple),
            tgt_out: Padded::ended(&targets, tgt.eos, tgt.pad, pad_multiple),
            gold_attention: None,
        }
    }

    /// Adds [`Self::gold_attention`] from the links of each row, which are between tokens and
    /// sorted by the target.
    #[must_use]
    pub fn with_links(mut self, links: &[Vec<Link>]) -> Self {
        let src_len = self.src.len;
        let tgt_len = self.tgt_out.len;
        let mut gold = vec![0.0; self.src.num_rows() * tgt_len * src_len];
        for (row, links) in links.iter().enumerate() {
            // Sorted by target, the links of one target position are neighbors.
            for same_target in links.chunk_by(|left, right| left.1 == right.1) {
                let start = (row * tgt_len + same_target[0].1) * src_len;
                for (src, _) in same_target {
                    gold[start + src] = 1.0 / same_target.len() as f32;
                }
            }
        }
        self.gold_attention = Some(gold);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRC: SpecialIds = SpecialIds {
        pad: 0,
        bos: 1,
        eos: 2,
        unk: 3,
    };
    const TGT: SpecialIds = SpecialIds {
        pad: 9,
        bos: 7,
        eos: 8,
        unk: 6,
    };

    fn examples() -> Vec<Example> {
        vec![
            Example {
                src: vec![10, 11, 12],
                tgt: vec![20],
            },
            Example {
                src: vec![13],
                tgt: vec![21, 22],
            },
            Example {
                src: vec![],
                tgt: vec![],
            },
        ]
    }

    #[test]
    fn the_decoder_input_is_the_output_moved_right_by_one() {
        let PairBatch {
            src,
            tgt_in,
            tgt_out,
            ..
        } = PairBatch::new(&examples(), SRC, TGT, 1);
        assert_eq!(
            (src.num_rows(), src.len, tgt_in.len, tgt_out.len),
            (3, 4, 3, 3)
        );
        assert_eq!(src.ids, [10, 11, 12, 2, 13, 2, 0, 0, 2, 0, 0, 0]);
        assert_eq!(tgt_in.ids, [7, 20, 9, 7, 21, 22, 7, 9, 9]);
        assert_eq!(tgt_out.ids, [20, 8, 9, 21, 22, 8, 8, 9, 9]);
        assert_eq!(
            (src.lengths, tgt_out.lengths),
            (vec![4, 2, 1], vec![2, 3, 1])
        );
    }

    #[test]
    fn the_links_of_a_target_position_share_its_attention() {
        let batch = PairBatch::new(&examples(), SRC, TGT, 1).with_links(&[
            vec![(0, 0), (2, 0)],
            vec![(0, 1)],
            vec![],
        ]);
        let mut expected = vec![0.0; 3 * 3 * 4];
        (expected[0], expected[2]) = (0.5, 0.5);
        // The second row's second target token.
        expected[(3 + 1) * 4] = 1.0;
        assert_eq!(batch.gold_attention, Some(expected));
    }
}
