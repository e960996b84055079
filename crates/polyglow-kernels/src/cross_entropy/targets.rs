//! The targets of a batch, and on GPUs the rows that are not padding.
//!
//! On GPUs, rows of padding are left out before the projection to the vocabulary: `Counted::rows`
//! selects the others from the hidden states, and `Counted::positions` puts their gradients back,
//! with a row of zeros for those that were left out.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Row counts are rounded up to this multiple, so that few shapes occur: kernels are chosen and
/// compiled by shape.
#[cfg(feature = "gpu")]
const ROWS_STEP: usize = 256;

/// The targets of a batch, a class for each row. Rows whose target is padding do not count.
#[derive(Clone, Debug)]
pub struct Targets {
    /// The target of each row, `[rows]`.
    pub all: Tensor<1, Int>,
    #[cfg(feature = "gpu")]
    pub(crate) counted: Option<Counted>,
}

/// The rows that count, in their order, and behind them some rows of padding, up to a multiple of
/// [`ROWS_STEP`].
#[cfg(feature = "gpu")]
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// Their indices in the batch, `[counted]`.
    pub rows: Tensor<1, Int>,
    /// Their targets, `[counted]`.
    pub targets: Tensor<1, Int>,
    /// The position of each row of the batch among them, `[rows]`; `counted` if it was left out.
    pub positions: Tensor<1, Int>,
}

impl Targets {
    /// Copies targets to a device, on GPUs with the indices that leave most rows of padding out of
    /// the loss. On the CPU the kernels of the loss look at the targets themselves, so that a
    /// tensor can be converted as it is.
    #[must_use]
    pub fn without_padding(ids: Vec<i32>, pad_id: u32, device: &Device) -> Self {
        #[cfg(feature = "gpu")]
        let counted = positions(&ids, pad_id).map(|[rows, targets, positions]| Counted {
            rows: to_tensor(rows, device),
            targets: to_tensor(targets, device),
            positions: to_tensor(positions, device),
        });
        #[cfg(not(feature = "gpu"))]
        let _ = pad_id;
        Self {
            all: to_tensor(ids, device),
            #[cfg(feature = "gpu")]
            counted,
        }
    }
}

/// A tensor of `[len]` on this device.
fn to_tensor(ids: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let len = ids.len();
    Tensor::from_data(TensorData::new(ids, [len]), device)
}

impl From<Tensor<1, Int>> for Targets {
    fn from(all: Tensor<1, Int>) -> Self {
        Self {
            all,
            #[cfg(feature = "gpu")]
            counted: None,
        }
    }
}

/// Rows, targets and positions as in [`Counted`]; `None` if no row is left out.
#[cfg(feature = "gpu")]
fn positions(ids: &[i32], pad_id: u32) -> Option<[Vec<i32>; 3]> {
    let (padding, mut rows): (Vec<usize>, Vec<usize>) =
        (0..ids.len()).partition(|&row| ids[row] == pad_id as i32);
    let missing = rows.len().next_multiple_of(ROWS_STEP) - rows.len();
    // A loss needs a row; and if all padding is needed to fill up the last step, selecting rows
    // would leave out none.
    if rows.is_empty() || missing >= padding.len() {
        return None;
    }
    rows.extend(&padding[..missing]);
    let mut positions = vec![rows.len() as i32; ids.len()];
    for (position, &row) in rows.iter().enumerate() {
        positions[row] = position as i32;
    }
    let targets = rows.iter().map(|&row| ids[row]).collect();
    Some([
        rows.into_iter().map(|row| row as i32).collect(),
        targets,
        positions,
    ])
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use super::*;

    #[test]
    fn rows_of_padding_are_left_out_in_steps() {
        let ids: Vec<i32> = (0..1000).map(|row| i32::from(row % 3 == 0)).collect();
        let [rows, targets, positions] = positions(&ids, 0).expect("most rows are padding");
        assert_eq!(rows.len(), 512);
        assert_eq!(targets, [vec![1; 334], vec![0; 178]].concat());
        for (row, &position) in positions.iter().enumerate() {
            match rows.get(position as usize) {
                Some(&actual) => assert_eq!(actual, row as i32),
                None => assert!(position == 512 && ids[row] == 0),
            }
        }
        assert!(
            super::positions(&ids[..200], 0).is_none(),
            "a step is more than there are"
        );
        assert!(
            super::positions(&[0; 300], 0).is_none(),
            "a loss needs a row"
        );
    }
}
