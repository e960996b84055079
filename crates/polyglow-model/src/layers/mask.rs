//! Attention masks: `true` = forbidden. They are built here and nowhere else, once per batch, and
//! passed down.

use burn::tensor::{Bool, Device, Int, Tensor};

/// Forbids attention to padding.
///
/// # Shapes
/// - `ids`: `[batch, key_len]`; output: `[batch, 1, 1, key_len]`, for every head and query
pub fn padding_mask(ids: &Tensor<2, Int>, pad_id: u32) -> Tensor<4, Bool> {
    ids.clone()
        .equal_elem(pad_id as i32)
        .unsqueeze_dims(&[1, 1])
}

/// Forbids attention to padding behind `num_before` positions without ids, which every position may
/// attend to.
///
/// # Shapes
/// - `ids`: `[batch, len]`; output: `[batch, 1, 1, num_before + len]`
pub fn padding_mask_behind(
    ids: &Tensor<2, Int>,
    pad_id: u32,
    num_before: usize,
) -> Tensor<4, Bool> {
    let mask = padding_mask(ids, pad_id);
    if num_before == 0 {
        return mask;
    }
    let before = no_mask(ids.dims()[0], num_before, &ids.device());
    Tensor::cat(vec![before, mask], 3)
}

/// A mask that forbids nothing.
///
/// # Shapes
/// - output: `[batch, 1, 1, len]`
pub fn no_mask(batch: usize, len: usize, device: &Device) -> Tensor<4, Bool> {
    Tensor::<4, Int>::zeros([batch, 1, 1, len], device).not_equal_elem(0)
}

/// Forbids attention to later positions (Vaswani et al., 2017, section 3.2.3).
///
/// ```
/// use burn::tensor::Device;
/// use polyglow_model::mask::causal_mask;
///
/// let mask = causal_mask(2, &Device::flex());
/// let forbidden: Vec<bool> = mask.into_data().iter::<bool>().collect();
/// assert_eq!(forbidden, [false, true, false, false]);
/// ```
///
/// # Shapes
/// - output: `[1, 1, len, len]`
pub fn causal_mask(len: usize, device: &Device) -> Tensor<4, Bool> {
    // `tril_mask` is true above the diagonal: the positions that lie in a query's future.
    Tensor::<2, Bool>::tril_mask([len, len], 0, device).unsqueeze_dims(&[0, 0])
}

/// Forbids attention to padding and to later positions.
///
/// # Shapes
/// - `ids`: `[batch, len]`; output: `[batch, 1, len, len]`
pub fn causal_padding_mask(ids: &Tensor<2, Int>, pad_id: u32) -> Tensor<4, Bool> {
    let [batch, len] = ids.dims();
    let future = causal_mask(len, &ids.device());
    let shape = [batch, 1, len, len];
    padding_mask(ids, pad_id)
        .expand(shape)
        .bool_or(future.expand(shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_before_the_ids_are_open() {
        let ids = Tensor::<2, Int>::from_data([[5, 6], [7, 0]], &crate::test_device());
        let mask = padding_mask_behind(&ids, 0, 1);
        assert_eq!(mask.dims(), [2, 1, 1, 3]);
        let expected = [false, false, false, false, false, true];
        assert_eq!(
            mask.into_data().iter::<bool>().collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn the_mask_forbids_the_future_and_the_padding() {
        let ids = Tensor::<2, Int>::from_data([[5, 6, 7], [8, 0, 0]], &crate::test_device());
        let mask = causal_padding_mask(&ids, 0);
        assert_eq!(mask.dims(), [2, 1, 3, 3]);
        let expected = [
            [
                [false, true, true],
                [false, false, true],
                [false, false, false],
            ],
            [
                [false, true, true],
                [false, true, true],
                [false, true, true],
            ],
        ];
        let expected: Vec<bool> = expected.as_flattened().as_flattened().to_vec();
        assert_eq!(
            mask.into_data().iter::<bool>().collect::<Vec<_>>(),
            expected
        );
    }
}
