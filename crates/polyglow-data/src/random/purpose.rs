//! The purposes of random numbers: the first part of every key, which keeps the random streams
//! apart.

use super::{GOLDEN_GAMMA, absorb};

/// The purpose of a random number.
///
/// A key is the number of its purpose and the parts that are listed for it. Two keys give
/// independent numbers if they differ in any part or in length, so purposes with keys of the same
/// length must have different numbers. There is one exception: [`Purpose::BatchOrder`] and
/// [`Purpose::MaskedToken`] share number and length, but the latter continues with 64 random bits,
/// which equal the seed of the run with a probability of 2^-64.
///
/// The numbers are part of every result: changing one changes the batches of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The choice of an epoch's examples from a corpus with a fractional weight. Key: seed, epoch,
    /// example.
    Selection,
    /// The order of examples with equal padded lengths. Key: seed, epoch, entry.
    Ties,
    /// The order of the batches of an epoch. Key: seed, epoch.
    BatchOrder,
    /// New segmentations of the source side. Key: seed, epoch, example, attempt.
    SrcSegmentation,
    /// New segmentations of the target side. Key: seed, epoch, example, attempt.
    TgtSegmentation,
    /// The offset at which the windows of a stream of text begin. Key: seed, epoch.
    WindowOffset,
    /// A generated picture of the toy corpus. Key: seed, picture.
    Picture,
    /// The random choices in the row of an example: its bits are the key of the four purposes
    /// below. Key: seed, epoch, example.
    Row,
    /// The positions that are masked. Key: bits of [`Purpose::Row`].
    MaskedPositions,
    /// Whether a masked token shows the mask, a random token or itself. Key: bits of
    /// [`Purpose::Row`], position.
    MaskedKind,
    /// The random token that replaces a masked one. Key: bits of [`Purpose::Row`], position.
    MaskedToken,
    /// The choice of mirroring and turning an image. Key: bits of [`Purpose::Row`].
    Turn,
    /// The skip-grams of a line; its bits begin further keys. Key: bits mixed from seed, epoch and
    /// example.
    SkipGrams,
    /// The images or captions that are trained on, if not all. Key: seed, example.
    Sample,
    /// The links of the words of a text; its bits begin further keys. Key: seed, chain, direction,
    /// iteration.
    Alignment,
    /// The changes that a program makes to an example before it is trained on. Key: seed, epoch,
    /// example.
    Augmentation,
    /// The noise in a source. Key: seed, epoch, example, attempt.
    Noise,
}

impl Purpose {
    /// Mixes the number of this purpose and the rest of a key into 64 random bits.
    pub fn mix(self, key: &[u64]) -> u64 {
        let (number, len) = self.number_and_key_len();
        debug_assert_eq!(key.len(), len, "the key of {self:?}");
        key.iter()
            .fold(absorb(GOLDEN_GAMMA, number), |state, &part| {
                absorb(state, part)
            })
    }

    /// The first part of a key, and how many parts follow it.
    const fn number_and_key_len(self) -> (u64, usize) {
        match self {
            Self::Selection => (1, 3),
            Self::Ties => (2, 3),
            Self::BatchOrder | Self::MaskedToken => (3, 2),
            Self::SrcSegmentation => (4, 4),
            Self::TgtSegmentation => (5, 4),
            Self::WindowOffset => (4, 2),
            Self::Picture => (5, 2),
            Self::Sample => (6, 2),
            Self::Row => (6, 3),
            Self::Alignment => (6, 4),
            Self::Augmentation => (7, 3),
            Self::Noise => (7, 4),
            Self::MaskedPositions => (1, 1),
            Self::MaskedKind => (2, 2),
            Self::Turn => (4, 1),
            Self::SkipGrams => (5, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mix;
    use super::*;

    const ALL: [Purpose; 17] = [
        Purpose::Selection,
        Purpose::Ties,
        Purpose::BatchOrder,
        Purpose::SrcSegmentation,
        Purpose::TgtSegmentation,
        Purpose::WindowOffset,
        Purpose::Picture,
        Purpose::Row,
        Purpose::MaskedPositions,
        Purpose::MaskedKind,
        Purpose::MaskedToken,
        Purpose::Turn,
        Purpose::SkipGrams,
        Purpose::Sample,
        Purpose::Augmentation,
        Purpose::Alignment,
        Purpose::Noise,
    ];

    #[test]
    fn purposes_with_keys_of_the_same_length_have_different_numbers() {
        let mut equal = Vec::new();
        for (index, left) in ALL.iter().enumerate() {
            let same = |right: &&Purpose| left.number_and_key_len() == right.number_and_key_len();
            equal.extend(
                ALL[..index]
                    .iter()
                    .filter(same)
                    .map(|right| (*right, *left)),
            );
        }
        assert_eq!(equal, [(Purpose::BatchOrder, Purpose::MaskedToken)]);
    }

    /// Runs that are resumed, and the expected values of tests, depend on these numbers.
    #[test]
    fn a_key_is_the_number_of_its_purpose_and_its_parts() {
        assert_eq!(Purpose::Ties.mix(&[7, 8, 9]), mix(&[2, 7, 8, 9]));
        assert_eq!(Purpose::Row.mix(&[7, 8, 9]), mix(&[6, 7, 8, 9]));
        assert_eq!(Purpose::SkipGrams.mix(&[7]), mix(&[5, 7]));
    }
}
