//! Masking tokens of a text for a model to predict (Devlin et al., 2019, section 3.1 and appendix
//! A.1).

use crate::random::{Purpose, below, mix, shuffle, unit};
use crate::special::SpecialIds;

/// Share of the tokens of a text that are to be predicted.
const PREDICTED: f64 = 0.15;
/// Share of these that are replaced by the mask.
const MASKED: f64 = 0.8;
/// Share of these that are replaced by a random token. The rest stays unchanged.
const RANDOM: f64 = 0.1;

/// A text with masked tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked {
    /// The ids that the model sees.
    pub shown: Vec<u32>,
    /// The original id at each position that is to be predicted, and padding elsewhere.
    pub asked: Vec<u32>,
}

impl Masked {
    /// Selects 15 % of the tokens, at least one, to be predicted. 80 % of them are replaced by the
    /// mask, 10 % by a random token, and 10 % are unchanged. The mask is begin of sentence, which
    /// no text contains. The choice is a pure function of `key`.
    pub fn new(ids: &[u32], special: SpecialIds, vocab_size: usize, key: u64) -> Self {
        let mut positions: Vec<usize> = (0..ids.len()).collect();
        shuffle(&mut positions, Purpose::MaskedPositions.mix(&[key]));
        let count = (ids.len() as f64 * PREDICTED).round().max(1.0) as usize;
        let mut masked = Self {
            shown: ids.to_vec(),
            asked: vec![special.pad; ids.len()],
        };
        for position in positions.into_iter().take(count) {
            masked.asked[position] = ids[position];
            let kind = unit(Purpose::MaskedKind.mix(&[key, position as u64]));
            if kind < MASKED {
                masked.shown[position] = special.bos;
            } else if kind < MASKED + RANDOM {
                let token_key = Purpose::MaskedToken.mix(&[key, position as u64]);
                masked.shown[position] = any_token(special, vocab_size, token_key);
            }
        }
        masked
    }

    /// Number of tokens to be predicted.
    pub(crate) fn num_asked(&self, special: SpecialIds) -> usize {
        self.asked.iter().filter(|&&id| id != special.pad).count()
    }
}

/// Draws a token of the vocabulary that is not padding, begin or end of sentence.
fn any_token(special: SpecialIds, vocab_size: usize, key: u64) -> u32 {
    let drawn = (0..64).map(|attempt| below(mix(&[key, attempt]), vocab_size as u64) as u32);
    // The number of attempts is limited because a vocabulary may consist almost entirely of special
    // tokens.
    drawn
        .into_iter()
        .find(|&id| !special.is_silent(id))
        .unwrap_or(special.unk)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: SpecialIds = SpecialIds::LEARNED;

    #[test]
    fn so_many_tokens_are_asked_for_and_each_is_what_stood_there() {
        for len in 0..60_usize {
            let ids: Vec<u32> = (0..len as u32).map(|place| 10 + place).collect();
            let masked = Masked::new(&ids, SPECIAL, 100, len as u64);
            let expected = if len == 0 {
                0
            } else {
                ((len as f64 * 0.15).round() as usize).max(1)
            };
            assert_eq!(masked.num_asked(SPECIAL), expected);
            for (place, &id) in ids.iter().enumerate() {
                if masked.asked[place] == SPECIAL.pad {
                    assert_eq!(masked.shown[place], id);
                } else {
                    assert_eq!(masked.asked[place], id);
                    assert!(
                        masked.shown[place] == SPECIAL.bos || masked.shown[place] >= SPECIAL.unk
                    );
                }
            }
        }
    }

    #[test]
    fn the_shares_are_those_of_the_paper_and_the_key_decides() {
        let ids: Vec<u32> = (0..1000).map(|_| 50).collect();
        let mut counts = [0; 3];
        for key in 0..100 {
            let masked = Masked::new(&ids, SPECIAL, 1_000_000, key);
            assert_eq!(masked, Masked::new(&ids, SPECIAL, 1_000_000, key));
            assert_ne!(masked, Masked::new(&ids, SPECIAL, 1_000_000, key + 1));
            for (&shown, _) in masked
                .shown
                .iter()
                .zip(&masked.asked)
                .filter(|&(_, &asked)| asked != SPECIAL.pad)
            {
                counts[if shown == SPECIAL.bos {
                    0
                } else {
                    1 + usize::from(shown == 50)
                }] += 1;
            }
        }
        // Of 15 000, by more than four standard deviations.
        let near = |count: i32, expected: i32| (count - expected).abs() < 200;
        assert!(
            near(counts[0], 12_000) && near(counts[1], 1_500) && near(counts[2], 1_500),
            "{counts:?}"
        );
    }
}
