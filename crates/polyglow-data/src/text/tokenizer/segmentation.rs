//! The segmentation of words in training.

/// The segmentation of words in training text: see [`TokenizerConfig::segmentation`].
///
/// [`TokenizerConfig::segmentation`]: super::TokenizerConfig::segmentation
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Segmentation {
    /// Always as the tokenizer does it.
    Fixed,
    /// Anew in every epoch, by BPE dropout (Provilkov et al., 2020): each merge is skipped with this
    /// probability, in `[0, 1)`.
    Dropout(f64),
    /// Anew in every epoch, by the unigram language model (Kudo, 2018): a segmentation is drawn in
    /// proportion to the probability of its tokens to the power of this number, above 0.
    Sampling(f64),
}

// How much longer new segmentations may make a sentence: by a share of its length, and a few tokens.
// Room for all of them would mean more padding in every batch; so about one draw in thirteen exceeds
// the limits, and is drawn again. With BPE dropout the share is in proportion to the probability (8 000
// tokens, captions of Multi30k, p = 0.1: 29 % longer on average, and one draw in thirteen beyond). With
// sampling it falls with alpha (8 000 pieces, Multi30k: 93, 30, 12 and 3 % longer on average at 0.1, 0.2,
// 0.3 and 0.5, and 6 to 9 % of the draws beyond up to 0.3; sentences of Tatoeba alike).
const DROPOUT_GROWTH: f64 = 3.5;
const SAMPLING_GROWTH: f64 = 2.9;
const SAMPLING_DECAY: f64 = 9.0;
const SLACK: usize = 2;

impl Segmentation {
    /// Whether words are always segmented as the tokenizer does it.
    pub const fn is_fixed(self) -> bool {
        matches!(self, Self::Fixed)
    }

    /// The key of `[tokenizer]` that asks for it, if one does.
    pub const fn key(self) -> Option<&'static str> {
        match self {
            Self::Fixed => None,
            Self::Dropout(_) => Some("tokenizer.dropout"),
            Self::Sampling(_) => Some("tokenizer.sampling_alpha"),
        }
    }

    /// Returns the most tokens of a side in a batch whose text the tokenizer segments into `len`.
    ///
    /// With BPE dropout at probability p this is `len (1 + 3.5 p) + 2`, with sampling at alpha
    /// `len (1 + 2.9 exp(-9 alpha)) + 2`, rounded up. Longer segmentations are drawn again, so a batch is never larger than planned.
    pub fn planned_len(self, len: usize) -> usize {
        let growth = match self {
            Self::Fixed => return len,
            _ if len == 0 => return len,
            Self::Dropout(probability) => DROPOUT_GROWTH * probability,
            Self::Sampling(alpha) => SAMPLING_GROWTH * (-SAMPLING_DECAY * alpha).exp(),
        };
        len + (len as f64 * growth).ceil() as usize + SLACK
    }
}
