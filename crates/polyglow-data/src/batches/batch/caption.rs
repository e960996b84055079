//! Images with a caption each.

use crate::padded::Padded;
use crate::special::SpecialIds;

/// Images of one size and their captions, padded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptionBatch {
    /// `[images, height * width * channels]` row by row.
    pub pixels: Vec<u8>,
    /// Begin of sentence and caption ids, `[images, tgt_len]`.
    pub tgt_in: Padded,
    /// Caption ids and end of sentence, `[images, tgt_len]`.
    pub tgt_out: Padded,
}

impl CaptionBatch {
    /// Pads captions to multiples of `pad_multiple`. `pixels` are the bytes of the images, one
    /// after the other.
    pub fn new<R: AsRef<[u32]>>(
        pixels: Vec<u8>,
        captions: &[R],
        special: SpecialIds,
        pad_multiple: usize,
    ) -> Self {
        Self {
            pixels,
            tgt_in: Padded::begun(captions, special.bos, special.pad, pad_multiple),
            tgt_out: Padded::ended(captions, special.eos, special.pad, pad_multiple),
        }
    }
}
