//! What rows should be, and which of them count.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// So many rows at once are left out or not, so that few numbers of rows occur: kernels are chosen
/// and compiled by shape.
#[cfg(feature = "gpu")]
const STEP: usize = 256;

/// The targets of a batch, a class for each row, of which those that are padding do not count.
#[derive(Clone, Debug)]
pub struct Targets {
    /// All of them, `[rows]`.
    pub all: Tensor<1, Int>,
    #[cfg(feature = "gpu")]
    pub(crate) counted: Option<Counted>,
}

/// The rows that count, in their order, and behind them some that do not.
#[cfg(feature = "gpu")]
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// Which they are, `[counted]`.
    pub rows: Tensor<1, Int>,
    /// Their targets, `[counted]`.
    pub targets: Tensor<1, Int>,
    /// Where each row of the batch is among them, `[rows]`; one that is not is `counted`.
    pub places: Tensor<1, Int>,
}

impl Targets {
    /// Brings targets to a GPU, and what leaves most rows of padding out of the loss there. In host
    /// memory the kernels of the loss look for themselves, and tensors are targets as they are.
    #[must_use]
    pub fn without_padding(ids: Vec<i32>, pad_id: u32, device: &Device) -> Self {
        let tensor = |ids: Vec<i32>| {
            let len = ids.len();
            Tensor::from_data(TensorData::new(ids, [len]), device)
        };
        #[cfg(feature = "gpu")]
        let counted = places(&ids, pad_id).map(|[rows, targets, places]| Counted {
            rows: tensor(rows),
            targets: tensor(targets),
            places: tensor(places),
        });
        #[cfg(not(feature = "gpu"))]
        let _ = pad_id;
        Self {
            all: tensor(ids),
            #[cfg(feature = "gpu")]
            counted,
        }
    }
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

/// Rows, targets and places as [`Counted`] has them; `None` if no row is left out.
#[cfg(feature = "gpu")]
fn places(ids: &[i32], pad_id: u32) -> Option<[Vec<i32>; 3]> {
    let is_padding = |row: usize| ids[row] == pad_id as i32;
    let (padding, mut rows): (Vec<usize>, Vec<usize>) =
        (0..ids.len()).partition(|&row| is_padding(row));
    let missing = rows.len().next_multiple_of(STEP) - rows.len();
    if rows.is_empty() || missing >= padding.len() {
        return None;
    }
    rows.extend(&padding[..missing]);
    let mut places = vec![rows.len() as i32; ids.len()];
    for (place, &row) in rows.iter().enumerate() {
        places[row] = place as i32;
    }
    let targets = rows.iter().map(|&row| ids[row]).collect();
    Some([
        rows.into_iter().map(|row| row as i32).collect(),
        targets,
        places,
    ])
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use super::*;

    #[test]
    fn rows_of_padding_are_left_out_in_steps() {
        let ids: Vec<i32> = (0..1000).map(|row| i32::from(row % 3 == 0)).collect();
        let [rows, targets, places] = places(&ids, 0).expect("most rows are padding");
        assert_eq!(rows.len(), 512);
        assert_eq!(targets, [vec![1; 334], vec![0; 178]].concat());
        for (row, &place) in places.iter().enumerate() {
            match rows.get(place as usize) {
                Some(&actual) => assert_eq!(actual, row as i32),
                None => assert!(place == 512 && ids[row] == 0),
            }
        }
        assert!(
            super::places(&ids[..200], 0).is_none(),
            "a step is more than there are"
        );
        assert!(super::places(&[0; 300], 0).is_none(), "a loss needs a row");
    }
}
