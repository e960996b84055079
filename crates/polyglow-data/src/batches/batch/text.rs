//! Text of one side: at each position the id before the one to predict, and that one.

use std::ops::Range;

use crate::padded::Padded;
use crate::special::SpecialIds;

/// Padded text: at each position the id before the one to predict, and that one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextBatch {
    /// The ids that the model reads, `[batch, len]`.
    pub inputs: Padded,
    /// The ids that it predicts, `[batch, len]`.
    pub targets: Padded,
}

impl TextBatch {
    /// Makes a batch of whole lines: `<s> t1 t2` is read, `t1 t2 </s>` predicted.
    pub fn of_lines<R: AsRef<[u32]>>(
        lines: &[R],
        special: SpecialIds,
        pad_multiple: usize,
    ) -> Self {
        Self {
            inputs: Padded::begun(lines, special.bos, special.pad, pad_multiple),
            targets: Padded::ended(lines, special.eos, special.pad, pad_multiple),
        }
    }

    /// Makes a batch of windows of text, each a row of pieces.
    ///
    /// At each position the input is the id before the one that is predicted, or begin of sentence,
    /// as in [`TextBatch::of_lines`], so that windows which cover a text predict the same ids, each
    /// once.
    pub fn of_windows(windows: &[Vec<Piece>], special: SpecialIds, pad_multiple: usize) -> Self {
        let longest = windows.iter().map(|pieces| num_positions(pieces)).max();
        let longest = longest.unwrap_or(0);
        let mut inputs = Padded::with_room(windows.len(), longest, pad_multiple);
        let mut targets = inputs.clone();
        for pieces in windows {
            let mut framed: Vec<Vec<u32>> = Vec::with_capacity(pieces.len());
            for piece in pieces {
                framed.push([&[special.bos], &*piece.ids, &[special.eos]].concat());
            }
            // With BOS before them, the ids are one position behind those that are predicted.
            let mut read: Vec<&[u32]> = Vec::with_capacity(pieces.len());
            let mut predicted: Vec<&[u32]> = Vec::with_capacity(pieces.len());
            for (ids, Piece { positions, .. }) in framed.iter().zip(pieces) {
                read.push(&ids[positions.clone()]);
                predicted.push(&ids[1..][positions.clone()]);
            }
            inputs.push(&read, special.pad);
            targets.push(&predicted, special.pad);
        }
        Self { inputs, targets }
    }
}

/// The length of a window of text.
fn num_positions(window: &[Piece]) -> usize {
    window.iter().map(|piece| piece.positions.len()).sum()
}

/// Consecutive target positions of an example, as a part of a window of text. At position `n` id
/// `n` is to be predicted, or end of sentence if there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The ids of the whole example.
    pub ids: Vec<u32>,
    /// The positions, at most `ids.len() + 1` of them.
    pub positions: Range<usize>,
}

/// Returns the pieces at `positions` of a stream, which begin in the example `first`. `text`
/// returns the position in the stream at which an example starts, and its ids.
///
/// # Errors
/// `text` fails.
pub fn pieces<E>(
    positions: Range<u64>,
    first: u32,
    mut text: impl FnMut(u32) -> Result<(u64, Vec<u32>), E>,
) -> Result<Vec<Piece>, E> {
    let Range { mut start, end } = positions;
    let mut pieces = Vec::new();
    let mut examples = first..;
    while start < end
        && let Some(example) = examples.next()
    {
        let (before, ids) = text(example)?;
        let until = end.min(before + ids.len() as u64 + 1);
        pieces.push(Piece {
            ids,
            positions: (start - before) as usize..(until - before) as usize,
        });
        start = until;
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: SpecialIds = SpecialIds {
        pad: 9,
        bos: 7,
        eos: 8,
        unk: 6,
    };

    #[test]
    fn windows_over_whole_lines_are_the_lines() {
        let whole = |ids: &[u32]| {
            vec![Piece {
                ids: ids.to_vec(),
                positions: 0..ids.len() + 1,
            }]
        };
        let windows = [whole(&[20]), whole(&[21, 22]), whole(&[])];
        let lines: [&[u32]; 3] = [&[20], &[21, 22], &[]];
        assert_eq!(
            TextBatch::of_windows(&windows, SPECIAL, 4),
            TextBatch::of_lines(&lines, SPECIAL, 4)
        );
    }

    #[test]
    fn a_window_goes_on_where_the_one_before_it_ended() {
        let piece = |ids: &[u32], positions| Piece {
            ids: ids.to_vec(),
            positions,
        };
        let windows = [
            vec![
                piece(&[20, 21], 0..3),
                piece(&[], 0..1),
                piece(&[22, 23, 24], 0..2),
            ],
            vec![piece(&[22, 23, 24], 2..4)],
        ];
        let TextBatch { inputs, targets } = TextBatch::of_windows(&windows, SPECIAL, 1);
        assert_eq!(inputs.ids, [7, 20, 21, 7, 7, 22, 23, 24, 9, 9, 9, 9]);
        assert_eq!(targets.ids, [20, 21, 8, 8, 22, 23, 24, 8, 9, 9, 9, 9]);
        assert_eq!(targets.lengths, [6, 2]);
    }
}
