//! Examples become rectangular batches of ids: the only place of padding, and of the shift between decoder input and
//! output.

use std::ops::Range;

use crate::alignment::Link;
use crate::example::Example;
use crate::masking::Masked;
use crate::skip_gram::SkipGram;
use crate::special::SpecialIds;

/// Padded rows of ids, ready for a model.
///
/// A pair with source ids `s1 s2` and target ids `t1 t2` becomes `s1 s2 </s>` in `src`, `<s> t1 t2` in `tgt_in` and `t1
/// t2 </s>` in `tgt_out`: at each target position the decoder sees the ids before it (teacher forcing). All rows are
/// padded on the right.
///
/// ```
/// use polyglow_data::batch::Batch;
/// use polyglow_data::example::Example;
/// use polyglow_data::special::SpecialIds;
///
/// let examples = [Example { src: vec![10, 11], tgt: vec![20, 21] }, Example { src: vec![12], tgt: vec![22] }];
/// let special = SpecialIds { pad: 0, bos: 1, eos: 2, unk: 3 };
/// let batch = Batch::new(&examples, special, special, 1);
/// assert_eq!(batch.src, [10, 11, 2, 12, 2, 0]);
/// assert_eq!(batch.tgt_in, [1, 20, 21, 1, 22, 0]);
/// assert_eq!(batch.tgt_out, [20, 21, 2, 22, 2, 0]);
/// assert_eq!(batch.tgt_lengths, [3, 2]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Source ids and end of sentence, `[batch_size, src_len]`, row-major.
    pub src: Vec<i32>,
    /// Begin of sentence and target ids, `[batch_size, tgt_len]`, row-major.
    pub tgt_in: Vec<i32>,
    /// Target ids and end of sentence, `[batch_size, tgt_len]`, row-major.
    pub tgt_out: Vec<i32>,
    /// For each row, the number of source positions that are not padding.
    pub src_lengths: Vec<usize>,
    /// For each row, the number of target positions that are not padding and count in the loss.
    pub tgt_lengths: Vec<usize>,
    /// Number of rows.
    pub batch_size: usize,
    /// Padded source length.
    pub src_len: usize,
    /// Padded target length.
    pub tgt_len: usize,
    /// The attention that each target position should have, `[batch_size, tgt_len, src_len]`, row-major: equal weights
    /// on its linked source positions that add up to 1, or zeros without links. `None` if the text is not aligned.
    pub gold_attention: Option<Vec<f32>>,
    /// For each row, its example as an index into the id cache; for a window, its first example.
    pub example_indices: Vec<u32>,
    /// Epoch of the batch, counted from 0.
    pub epoch: u64,
    /// Position of the batch in its epoch, counted from 0.
    pub position: usize,
    /// Number of batches in that epoch.
    pub epoch_len: usize,
}

/// A range of target positions of an example, as a part of a window of text. At position `n` id `n` is predicted, or
/// end of sentence after the last id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The ids of the whole example.
    pub ids: Vec<u32>,
    /// The positions, within `0..ids.len() + 1`.
    pub positions: Range<usize>,
}

/// Padded source sentences, for translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBatch {
    /// Source ids and end of sentence, `[batch_size, src_len]`, row-major.
    pub src: Vec<i32>,
    /// For each row, the number of positions that are not padding.
    pub src_lengths: Vec<usize>,
    /// Number of rows.
    pub batch_size: usize,
    /// Padded length.
    pub src_len: usize,
}

impl Batch {
    /// Makes a batch of sentence pairs, with lengths that are multiples of `pad_multiple`.
    ///
    /// The fields that say where the batch comes from, from `example_indices` on, are left empty or 0.
    pub fn new(examples: &[Example], src: SpecialIds, tgt: SpecialIds, pad_multiple: usize) -> Self {
        let source_rows: Vec<&[u32]> = examples.iter().map(|example| &*example.src).collect();
        let SourceBatch { src, src_lengths, batch_size, src_len } = SourceBatch::new(&source_rows, src, pad_multiple);
        let tgt_len = padded_len(examples.iter().map(|example| example.tgt.len()), pad_multiple);
        let mut tgt_in = Vec::with_capacity(batch_size * tgt_len);
        let mut tgt_out = Vec::with_capacity(batch_size * tgt_len);
        for example in examples {
            push_row(&mut tgt_in, &[&[tgt.bos], &*example.tgt], tgt.pad, tgt_len);
            push_row(&mut tgt_out, &[&*example.tgt, &[tgt.eos]], tgt.pad, tgt_len);
        }
        Self {
            src,
            tgt_in,
            tgt_out,
            src_lengths,
            tgt_lengths: examples.iter().map(|example| example.tgt.len() + 1).collect(),
            batch_size,
            src_len,
            tgt_len,
            gold_attention: None,
            example_indices: Vec::new(),
            epoch: 0,
            position: 0,
            epoch_len: 0,
        }
    }

    /// Makes a batch of windows of text; each row consists of pieces. Sources are empty.
    ///
    /// At each position the input is the id before the one that is predicted, or begin of sentence, as in
    /// [`Batch::new`]. So windows that cover a text predict the same ids as its whole examples, each id once.
    pub fn of_windows(windows: &[Vec<Piece>], special: SpecialIds, pad_multiple: usize) -> Self {
        let lengths = windows.iter().map(|pieces| pieces.iter().map(|piece| piece.positions.len()).sum());
        let lengths: Vec<usize> = lengths.collect();
        let tgt_len = padded_len(lengths.iter().map(|&len| len.saturating_sub(1)), pad_multiple);
        let (mut tgt_in, mut tgt_out) = (Vec::new(), Vec::new());
        for pieces in windows {
            let framed = pieces.iter().map(|piece| [&[special.bos], &*piece.ids, &[special.eos]].concat());
            let framed: Vec<Vec<u32>> = framed.collect();
            let moved = |by: usize| -> Vec<&[u32]> {
                let ranges = pieces.iter().map(|Piece { positions, .. }| positions.start + by..positions.end + by);
                framed.iter().zip(ranges).map(|(ids, range)| &ids[range]).collect()
            };
            push_row(&mut tgt_in, &moved(0), special.pad, tgt_len);
            push_row(&mut tgt_out, &moved(1), special.pad, tgt_len);
        }
        let empty = Self::new(&vec![Example::default(); windows.len()], special, special, pad_multiple);
        Self { tgt_in, tgt_out, tgt_lengths: lengths, tgt_len, ..empty }
    }

    /// Makes a batch of skip-grams: `src` holds the words, `tgt_in` their candidates, and `tgt_out` is 1 for the
    /// candidate from the text and 0 for those drawn from the noise. All rows have the same number of candidates.
    pub fn of_skip_grams(rows: &[SkipGram]) -> Self {
        let count = rows.first().map_or(0, |row| row.candidates.len());
        let ids = |ids: &[u32]| ids.iter().map(|&id| id as i32).collect::<Vec<_>>();
        let of_row: Vec<i32> = (0..count).map(|place| i32::from(place == 0)).collect();
        Self {
            src: rows.iter().map(|row| row.center as i32).collect(),
            tgt_in: rows.iter().flat_map(|row| ids(&row.candidates)).collect(),
            tgt_out: of_row.repeat(rows.len()),
            src_lengths: vec![1; rows.len()],
            tgt_lengths: vec![count; rows.len()],
            batch_size: rows.len(),
            src_len: 1,
            tgt_len: count,
            ..Self::new(&[], SpecialIds::LEARNED, SpecialIds::LEARNED, 1)
        }
    }

    /// Makes a batch of labeled sources; the only target of a row is the first target id of its example.
    pub fn of_labels(sources: SourceBatch, examples: &[Example], special: SpecialIds) -> Self {
        let SourceBatch { src, src_lengths, batch_size, src_len } = sources;
        let label = |example: &Example| example.tgt.first().map_or(special.unk, |&label| label) as i32;
        let empty = Self::new(&[], special, special, 1);
        Self {
            src,
            tgt_in: vec![special.bos as i32; batch_size],
            tgt_out: examples.iter().map(label).collect(),
            src_lengths,
            tgt_lengths: vec![1; batch_size],
            batch_size,
            src_len,
            tgt_len: 1,
            ..empty
        }
    }

    /// Makes a batch of texts with masked tokens: the targets are the masked ids at their positions, and padding
    /// elsewhere. `tgt_in` is unused, because such models have no decoder; it equals `tgt_out`.
    pub fn of_masked(texts: &[Masked], special: SpecialIds, pad_multiple: usize) -> Self {
        let shown: Vec<&[u32]> = texts.iter().map(|text| &*text.shown).collect();
        let SourceBatch { src, src_lengths, batch_size, src_len } = SourceBatch::new(&shown, special, pad_multiple);
        let mut targets = Vec::with_capacity(batch_size * src_len);
        for text in texts {
            push_row(&mut targets, &[&*text.asked], special.pad, src_len);
        }
        let empty = Self::new(&[], special, special, 1);
        Self {
            src,
            tgt_in: targets.clone(),
            tgt_out: targets,
            src_lengths,
            tgt_lengths: texts.iter().map(|text| text.num_asked(special)).collect(),
            batch_size,
            src_len,
            tgt_len: src_len,
            ..empty
        }
    }

    /// Sets [`Self::gold_attention`] from the links of each row, which are between tokens and sorted by target
    /// position.
    #[must_use]
    pub fn with_links(mut self, links: &[Vec<Link>]) -> Self {
        let mut gold = vec![0.0; self.batch_size * self.tgt_len * self.src_len];
        for (row, links) in links.iter().enumerate() {
            for same_target in links.chunk_by(|left, right| left.1 == right.1) {
                let start = (row * self.tgt_len + same_target[0].1) * self.src_len;
                for (src, _) in same_target {
                    gold[start + src] = 1.0 / same_target.len() as f32;
                }
            }
        }
        self.gold_attention = Some(gold);
        self
    }

    /// Number of target positions that count in the loss: tokens and ends of sentence, without padding.
    pub fn num_target_tokens(&self) -> usize {
        self.tgt_lengths.iter().sum()
    }

    /// Number of source positions that are not padding.
    pub fn num_source_tokens(&self) -> usize {
        self.src_lengths.iter().sum()
    }

    /// Number of source and target positions together, including padding.
    pub fn num_positions(&self) -> usize {
        self.batch_size * (self.src_len + self.tgt_len)
    }
}

impl SourceBatch {
    /// Appends end of sentence to each row, and pads all rows to a multiple of `pad_multiple`.
    pub fn new<R: AsRef<[u32]>>(rows: &[R], special: SpecialIds, pad_multiple: usize) -> Self {
        let src_len = padded_len(rows.iter().map(|row| row.as_ref().len()), pad_multiple);
        let mut src = Vec::with_capacity(rows.len() * src_len);
        for row in rows {
            push_row(&mut src, &[row.as_ref(), &[special.eos]], special.pad, src_len);
        }
        let src_lengths = rows.iter().map(|row| row.as_ref().len() + 1).collect();
        Self { src, src_lengths, batch_size: rows.len(), src_len }
    }

    /// Makes a batch of images of equal size, without end of sentence. Shorter rows are filled with 0.
    pub fn of_images<R: AsRef<[u32]>>(rows: &[R]) -> Self {
        let src_len = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
        let mut src = Vec::with_capacity(rows.len() * src_len);
        for row in rows {
            push_row(&mut src, &[row.as_ref()], 0, src_len);
        }
        Self { src, src_lengths: vec![src_len; rows.len()], batch_size: rows.len(), src_len }
    }
}

/// The padded length of rows with these numbers of ids; each row gets one special token in addition.
fn padded_len(lengths: impl Iterator<Item = usize>, pad_multiple: usize) -> usize {
    lengths.max().map_or(0, |longest| (longest + 1).next_multiple_of(pad_multiple.max(1)))
}

fn push_row<P: AsRef<[u32]>>(rows: &mut Vec<i32>, pieces: &[P], pad: u32, len: usize) {
    let end = rows.len() + len;
    rows.extend(pieces.iter().flat_map(P::as_ref).map(|&id| id as i32));
    rows.resize(end, pad as i32);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRC: SpecialIds = SpecialIds { pad: 0, bos: 1, eos: 2, unk: 3 };
    const TGT: SpecialIds = SpecialIds { pad: 9, bos: 7, eos: 8, unk: 6 };

    fn examples() -> Vec<Example> {
        vec![
            Example { src: vec![10, 11, 12], tgt: vec![20] },
            Example { src: vec![13], tgt: vec![21, 22] },
            Example { src: vec![], tgt: vec![] },
        ]
    }

    #[test]
    fn the_decoder_input_is_the_output_moved_right_by_one() {
        let batch = Batch::new(&examples(), SRC, TGT, 1);
        assert_eq!([batch.batch_size, batch.src_len, batch.tgt_len], [3, 4, 3]);
        assert_eq!(batch.src, [10, 11, 12, 2, 13, 2, 0, 0, 2, 0, 0, 0]);
        assert_eq!(batch.tgt_in, [7, 20, 9, 7, 21, 22, 7, 9, 9]);
        assert_eq!(batch.tgt_out, [20, 8, 9, 21, 22, 8, 8, 9, 9]);
        assert_eq!(batch.src_lengths, [4, 2, 1]);
        assert_eq!(batch.tgt_lengths, [2, 3, 1]);
        assert_eq!(batch.num_source_tokens(), 7);
        assert_eq!(batch.num_target_tokens(), 6);
        assert_eq!(batch.num_positions(), 21);
    }

    #[test]
    fn a_label_is_the_only_target_and_an_image_has_no_end() {
        let rows = [[10, 11, 12].as_slice(), &[13]];
        let batch = Batch::of_labels(SourceBatch::new(&rows, SRC, 1), &examples()[..2], TGT);
        assert_eq!(batch.src, [10, 11, 12, 2, 13, 2, 0, 0]);
        assert_eq!((batch.tgt_in, batch.tgt_out), (vec![7, 7], vec![20, 21]));
        assert_eq!((batch.tgt_lengths, batch.tgt_len), (vec![1, 1], 1));
        let images = SourceBatch::of_images(&[[10, 11], [12, 13]]);
        assert_eq!((images.src, images.src_len, images.src_lengths), (vec![10, 11, 12, 13], 2, vec![2, 2]));
    }

    #[test]
    fn hidden_tokens_are_the_targets_at_their_places() {
        let texts =
            [Masked { shown: vec![10, 1, 12], asked: vec![0, 11, 0] }, Masked { shown: vec![13], asked: vec![13] }];
        let batch = Batch::of_masked(&texts, SRC, 1);
        assert_eq!(batch.src, [10, 1, 12, 2, 13, 2, 0, 0]);
        assert_eq!(batch.tgt_out, [0, 11, 0, 0, 13, 0, 0, 0]);
        assert_eq!((batch.num_target_tokens(), batch.num_source_tokens(), batch.tgt_len), (2, 6, 4));
    }

    #[test]
    fn windows_over_whole_examples_are_the_examples() {
        let whole = |ids: &[u32]| vec![Piece { ids: ids.to_vec(), positions: 0..ids.len() + 1 }];
        let windows = [whole(&[20]), whole(&[21, 22]), whole(&[])];
        let batch = Batch::of_windows(&windows, TGT, 4);
        let expected = Batch::new(&examples(), SRC, TGT, 4);
        assert_eq!((batch.tgt_in, batch.tgt_out), (expected.tgt_in, expected.tgt_out));
        assert_eq!((batch.tgt_lengths, batch.tgt_len), (expected.tgt_lengths, expected.tgt_len));
        assert_eq!((batch.src, batch.src_lengths), (vec![8, 9, 9, 9, 8, 9, 9, 9, 8, 9, 9, 9], vec![1, 1, 1]));
    }

    #[test]
    fn a_window_goes_on_where_the_one_before_it_ended() {
        let piece = |ids: &[u32], positions| Piece { ids: ids.to_vec(), positions };
        let windows = [
            vec![piece(&[20, 21], 0..3), piece(&[], 0..1), piece(&[22, 23, 24], 0..2)],
            vec![piece(&[22, 23, 24], 2..4)],
        ];
        let batch = Batch::of_windows(&windows, TGT, 1);
        assert_eq!(batch.tgt_in, [7, 20, 21, 7, 7, 22, 23, 24, 9, 9, 9, 9]);
        assert_eq!(batch.tgt_out, [20, 21, 8, 8, 22, 23, 24, 8, 9, 9, 9, 9]);
        assert_eq!(batch.tgt_lengths, [6, 2]);
    }

    #[test]
    fn the_first_candidate_is_the_real_one() {
        let row = |center, candidates: &[u32]| SkipGram { center, candidates: candidates.to_vec() };
        let batch = Batch::of_skip_grams(&[row(4, &[5, 6, 7]), row(5, &[4, 6, 6])]);
        assert_eq!((batch.src, batch.tgt_in), (vec![4, 5], vec![5, 6, 7, 4, 6, 6]));
        assert_eq!(batch.tgt_out, [1, 0, 0, 1, 0, 0]);
        assert_eq!([batch.batch_size, batch.src_len, batch.tgt_len], [2, 1, 3]);
        assert_eq!((batch.src_lengths, batch.tgt_lengths), (vec![1, 1], vec![3, 3]));
    }

    #[test]
    fn the_links_of_a_target_position_share_its_attention() {
        let batch = Batch::new(&examples(), SRC, TGT, 1).with_links(&[vec![(0, 0), (2, 0)], vec![(0, 1)], vec![]]);
        let mut expected = vec![0.0; 3 * 3 * 4];
        (expected[0], expected[2]) = (0.5, 0.5);
        // The second row's second target token.
        expected[(3 + 1) * 4] = 1.0;
        assert_eq!(batch.gold_attention, Some(expected));
    }

    #[test]
    fn padded_lengths_are_multiples() {
        let batch = Batch::new(&examples(), SRC, TGT, 8);
        assert_eq!([batch.src_len, batch.tgt_len], [8, 8]);
        assert_eq!(batch.src_lengths, [4, 2, 1]);
        assert!(batch.src[4..8].iter().all(|&id| id == 0) && batch.tgt_out[2..8].iter().all(|&id| id == 9));
    }

    #[test]
    fn no_rows_make_an_empty_batch() {
        let batch = SourceBatch::new::<Vec<u32>>(&[], SRC, 8);
        assert_eq!((batch.batch_size, batch.src_len, batch.src.len()), (0, 0, 0));
    }
}
