//! Texts in which some tokens are hidden.

use crate::masking::Masked;
use crate::padded::Padded;
use crate::special::SpecialIds;

/// Padded texts with hidden tokens, and these tokens at their positions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MaskedBatch {
    /// The texts with hidden tokens, each with EOS, `[batch, len]`.
    pub shown: Padded,
    /// The original id at each position that is to be predicted, and padding elsewhere,
    /// `[batch, len]` row by row.
    pub asked: Vec<i32>,
    /// The number of tokens to be predicted.
    pub num_asked: usize,
}

impl MaskedBatch {
    /// Pads texts to multiples of `pad_multiple`.
    pub fn new(texts: &[Masked], special: SpecialIds, pad_multiple: usize) -> Self {
        let rows: Vec<&[u32]> = texts.iter().map(|text| &*text.shown).collect();
        let shown = Padded::ended(&rows, special.eos, special.pad, pad_multiple);
        let mut asked = Padded::with_room(texts.len(), shown.len, 1);
        for text in texts {
            asked.push(&[&text.asked], special.pad);
        }
        let num_asked = texts.iter().map(|text| text.num_asked(special)).sum();
        Self {
            shown,
            asked: asked.ids,
            num_asked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_tokens_are_the_targets_at_their_places() {
        let texts = [
            Masked {
                shown: vec![10, 1, 12],
                asked: vec![0, 11, 0],
            },
            Masked {
                shown: vec![13],
                asked: vec![13],
            },
        ];
        let batch = MaskedBatch::new(
            &texts,
            SpecialIds {
                pad: 0,
                bos: 1,
                eos: 2,
                unk: 3,
            },
            1,
        );
        assert_eq!(batch.shown.ids, [10, 1, 12, 2, 13, 2, 0, 0]);
        assert_eq!(batch.asked, [0, 11, 0, 0, 13, 0, 0, 0]);
        assert_eq!((batch.num_asked, batch.shown.num_real()), (2, 6));
    }
}
