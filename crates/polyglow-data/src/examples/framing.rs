//! How examples become rows of a batch: what a model reads, and what it predicts.

use std::num::NonZeroUsize;

use crate::batch::{Batch, SourceBatch};
use crate::example::Example;
use crate::masking::Masked;
use crate::random::Purpose;
use crate::skip_gram::SkipGrams;
use crate::tokenizer::Tokenizer;

#[cfg(feature = "training")]
mod size;

/// What a row of a batch is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Framing {
    /// A sentence pair: the source is read, and each target token is predicted from the source and the tokens before
    /// it.
    #[default]
    Pairs,
    /// A window of one-sided text that is read as a stream; see `window`.
    Windows {
        /// Length of a window, in positions.
        context_len: NonZeroUsize,
    },
    /// A word of one-sided text and candidates for a word near it; one example becomes many rows. See
    /// [`crate::skip_gram`].
    SkipGrams(SkipGrams),
    /// A text, with its label as the only target.
    Labels,
    /// An image, with its label as the only target. It has no end of sentence, because all images have the same size.
    Images {
        /// Height, width and channels if each image is mirrored and turned at random; `None` if it stays as it is.
        turned: Option<[usize; 3]>,
    },
    /// One-sided text with some tokens masked; the targets are the masked tokens at their positions. See
    /// [`crate::masking`].
    Masked,
}

impl Framing {
    /// Makes a batch of whole examples, with lengths that are multiples of `pad_multiple`.
    ///
    /// Everything random in a row is a function of the row's `key`. The fields of the batch from `example_indices` on
    /// are left empty or 0.
    pub fn batch(
        self,
        examples: &[Example],
        key: impl Fn(usize) -> u64,
        (src, tgt): (&Tokenizer, &Tokenizer),
        pad_multiple: usize,
    ) -> Batch {
        let sources = || examples.iter().map(|example| &*example.src).collect::<Vec<_>>();
        match self {
            Self::Pairs | Self::Windows { .. } | Self::SkipGrams(_) => {
                Batch::new(examples, src.special(), tgt.special(), pad_multiple)
            }
            Self::Labels => {
                Batch::of_labels(SourceBatch::new(&sources(), src.special(), pad_multiple), examples, tgt.special())
            }
            Self::Images { turned: None } => {
                Batch::of_labels(SourceBatch::of_images(&sources()), examples, tgt.special())
            }
            Self::Images { turned: Some(shape) } => {
                let rows: Vec<Vec<u32>> =
                    sources().iter().enumerate().map(|(row, pixels)| turn(pixels, shape, key(row))).collect();
                Batch::of_labels(SourceBatch::of_images(&rows), examples, tgt.special())
            }
            Self::Masked => {
                let hide = |(row, example): (usize, &Example)| {
                    Masked::new(&example.tgt, tgt.special(), tgt.vocab_size(), key(row))
                };
                let texts: Vec<Masked> = examples.iter().enumerate().map(hide).collect();
                Batch::of_masked(&texts, tgt.special(), pad_multiple)
            }
        }
    }
}

/// Mirrors an image horizontally, vertically, both or not at all, and a square one also along its diagonal, which makes
/// all quarter turns and their mirror images. The choice is a function of `key`.
fn turn(pixels: &[u32], [height, width, channels]: [usize; 3], key: u64) -> Vec<u32> {
    let bits = Purpose::Turn.mix(&[key]);
    let bit = |number: u32| bits >> number & 1 == 1;
    let swapped = height == width && bit(2);
    let mut turned = Vec::with_capacity(pixels.len());
    for place in 0..height * width {
        let (row, column) = (place / width, place % width);
        let (row, column) = if swapped { (column, row) } else { (row, column) };
        let row = if bit(0) { height - 1 - row } else { row };
        let column = if bit(1) { width - 1 - column } else { column };
        let start = (row * width + column) * channels;
        turned.extend_from_slice(&pixels[start..start + channels]);
    }
    turned
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_square_is_turned_in_eight_ways_and_any_other_image_in_four() {
        let pixels: Vec<u32> = (0..12).collect();
        let turned = |shape: [usize; 3]| -> BTreeSet<Vec<u32>> {
            let pixels = &pixels[..shape.iter().product()];
            (0..200).map(|key| turn(pixels, shape, key)).collect()
        };
        let ways = turned([2, 2, 3]);
        assert_eq!(ways.len(), 8);
        // By hand: a quarter turn to the right, and the mirror image along the diagonal.
        assert!(ways.contains(&vec![6, 7, 8, 0, 1, 2, 9, 10, 11, 3, 4, 5]));
        assert!(ways.contains(&vec![0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11]));
        assert_eq!(turned([2, 3, 2]).len(), 4);
        assert!(turned([2, 3, 2]).contains(&vec![4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7]));
    }
}
