//! Cross-entropy from hidden states on the CPU, in chunks of at most 512 rows.
//!
//! A chunk has four steps, each on all cores: its hidden states are copied side by side, without
//! rows of padding; `logits = x W`; [`into_gradients`] turns the logits into their gradient `s` in
//! place; and two products give its rows of the gradient of `x`, `s Wᵀ`, and its addend to that of
//! `W`, `xᵀ s`. At a vocabulary of 32 000 a chunk's logits take 62 MiB, which the next chunk
//! reuses.

use burn::tensor::{Int, Tensor};

use super::ROWS_PER_CHUNK;
use crate::cross_entropy::{RowLoss, into_gradients, scalar_gradient, scaled, sums, to_ids};
use crate::flex::matrix::{Matrix, add_product, product};
use crate::flex::{BackwardPass, Contiguous, FlexTensor, from_values, read, record};
use crate::linear::{Layout, Sizes};
use crate::{Factors, LossOutput};

/// [`super::projected_cross_entropy`] on flex with autodiff.
pub(super) fn projected_cross_entropy(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    layout: Layout,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
    pad_id: u32,
    factors: Factors,
) -> LossOutput {
    let sizes = Sizes::new(&hidden, &weight, layout);
    let targets = to_ids(targets);
    assert_eq!(sizes.rows, targets.len(), "a target for each row");
    let weight_shape = weight.dims();
    let (hidden, hidden_node) = read(hidden);
    let (weight, weight_node) = read(weight);
    let work = Work {
        sizes,
        hidden,
        weight,
        smoothing: label_smoothing as f32,
        factors,
    };
    let counted: Vec<usize> = (0..targets.len())
        .filter(|row| targets[*row] != pad_id)
        .collect();
    // All chunks have about the same size, so that none is too small for all cores.
    let num_chunks = counted.len().div_ceil(ROWS_PER_CHUNK).max(1);
    let mut results = Results {
        losses: Vec::new(),
        grad_hidden: vec![0.0; sizes.rows * sizes.d_in],
        grad_weight: Vec::new(),
    };
    // In order and one at a time, each on all cores: the sum of their weight gradients does not
    // depend on threads.
    for rows in counted.chunks(counted.len().div_ceil(num_chunks).max(1)) {
        let targets: Vec<u32> = rows.iter().map(|row| targets[*row]).collect();
        work.chunk(rows, &targets, pad_id, &mut results);
    }
    // Still empty if every target is padding.
    results.grad_weight.resize(sizes.d_in * sizes.d_out, 0.0);
    let (loss_sum, nll_sum) = sums(&results.losses);
    let grad_hidden = from_values(results.grad_hidden, [sizes.rows, sizes.d_in]);
    let gradients = Gradients([grad_hidden, from_values(results.grad_weight, weight_shape)]);
    LossOutput {
        loss_sum: record(gradients, [hidden_node, weight_node], loss_sum),
        nll_sum,
    }
}

/// The inputs that all chunks share.
struct Work {
    sizes: Sizes,
    /// `[rows, d_model]`.
    hidden: Contiguous,
    /// `[d_model, vocab_size]`, or the other way around.
    weight: Contiguous,
    /// ε.
    smoothing: f32,
    factors: Factors,
}

/// The results that chunks add to.
struct Results {
    /// One for each row that was processed.
    losses: Vec<RowLoss>,
    /// `[rows, d_model]`, with zeros in rows of padding.
    grad_hidden: Vec<f32>,
    /// Empty before the first chunk.
    grad_weight: Vec<f32>,
}

impl Work {
    /// Adds the losses and gradients of some rows, none of which is padding, to the results.
    fn chunk(&self, rows: &[usize], targets: &[u32], pad_id: u32, results: &mut Results) {
        let Sizes { d_in, d_out, .. } = self.sizes;
        let hidden = self.hidden.slice();
        // Copied side by side, so that rows of padding between them cost no products.
        let input: Vec<f32> = rows
            .iter()
            .flat_map(|row| &hidden[row * d_in..][..d_in])
            .copied()
            .collect();
        let input = Matrix::new(&input, rows.len(), d_in);
        let weight = self.sizes.weight(&self.weight);
        let mut logits = product(input, weight, self.factors);
        results
            .losses
            .extend(into_gradients(&mut logits, targets, self.smoothing, pad_id));
        let gradient = Matrix::new(&logits, rows.len(), d_out);
        let grad_input = product(gradient, weight.transposed(), self.factors);
        for (row, values) in rows.iter().zip(grad_input.chunks_exact(d_in)) {
            results.grad_hidden[row * d_in..][..d_in].copy_from_slice(values);
        }
        let (left, right) = match self.sizes.layout {
            Layout::InOut => (input.transposed(), gradient),
            Layout::OutIn => (gradient.transposed(), input),
        };
        // The first chunk saves zeroing memory that its product would be added to.
        if results.grad_weight.is_empty() {
            results.grad_weight = product(left, right, self.factors);
        } else {
            add_product(&mut results.grad_weight, left, right, self.factors);
        }
    }
}

/// The gradients of the hidden states and of the weight, which the forward pass has computed.
#[derive(Clone, Debug)]
struct Gradients([FlexTensor; 2]);

impl BackwardPass<2> for Gradients {
    fn gradients(self, gradient: FlexTensor, tracked: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let factor = scalar_gradient(gradient);
        let [grad_hidden, grad_weight] = self.0;
        [
            tracked[0].then(|| scaled(grad_hidden, factor)),
            tracked[1].then(|| scaled(grad_weight, factor)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::super::{plain, with_logits};
    use super::*;
    use crate::flex::tests::{assert_near, elements, on_threads, pseudo_random};

    const PAD: u32 = 0;

    type Function =
        fn(Tensor<2>, Tensor<2>, Layout, Tensor<1, Int>, f64, u32, Factors) -> LossOutput;

    /// Hidden states, weights and targets.
    struct Case {
        hidden: TensorData,
        weight: TensorData,
        layout: Layout,
        targets: Vec<i32>,
        smoothing: f64,
        factors: Factors,
    }

    /// The loss and the loss without smoothing; the gradient of the hidden states and that of the
    /// weight, both of four times the loss.
    type Outputs = [Vec<f32>; 3];

    impl Case {
        fn new([rows, d_in, d_out]: [usize; 3], layout: Layout, smoothing: f64) -> Self {
            let shape = if layout == Layout::InOut {
                [d_in, d_out]
            } else {
                [d_out, d_in]
            };
            Self {
                hidden: TensorData::new(pseudo_random(rows * d_in, 1), [rows, d_in]),
                weight: TensorData::new(pseudo_random(d_in * d_out, 2), shape),
                layout,
                // Of 3 tokens a third is padding, of 2 000 none.
                targets: (0..rows)
                    .map(|row| ((row * 7 + 1) % d_out) as i32)
                    .collect(),
                smoothing,
                factors: Factors::F32,
            }
        }

        fn run(&self, function: Function) -> Outputs {
            let device = Device::flex().autodiff();
            let [hidden, weight] = [&self.hidden, &self.weight]
                .map(|data| Tensor::<2>::from_data(data.clone(), &device).require_grad());
            let targets = Tensor::<1, Int>::from_data(self.targets.as_slice(), &device);
            let LossOutput { loss_sum, nll_sum } = function(
                hidden.clone(),
                weight.clone(),
                self.layout,
                targets,
                self.smoothing,
                PAD,
                self.factors,
            );
            // A power of two: multiplying by it before or after rounding gives the same.
            let gradients = (loss_sum.clone() * 4.0).backward();
            let [grad_hidden, grad_weight] = [hidden, weight]
                .map(|tensor| elements(tensor.grad(&gradients).expect("the loss depends on it")));
            [
                [elements(loss_sum), elements(nll_sum)].concat(),
                grad_hidden,
                grad_weight,
            ]
        }
    }

    #[test]
    fn the_kernel_and_the_plain_version_give_what_logits_give() {
        let edges = [
            1,
            ROWS_PER_CHUNK - 1,
            ROWS_PER_CHUNK,
            ROWS_PER_CHUNK + 1,
            2 * ROWS_PER_CHUNK + 7,
        ];
        let sizes = edges
            .into_iter()
            .flat_map(|rows| [[rows, 5, 3], [rows, 6, 16]])
            .chain([[40, 33, 2_000]]);
        for size in sizes {
            for layout in [Layout::InOut, Layout::OutIn] {
                for smoothing in [0.0, 0.1] {
                    for factors in [Factors::F32, Factors::Bf16] {
                        let case = Case {
                            factors,
                            ..Case::new(size, layout, smoothing)
                        };
                        let expected = case.run(with_logits);
                        // Burn's products of rounded factors are rounded, too, and the kernel's are
                        // not.
                        let plain = (factors == Factors::F32).then(|| case.run(plain));
                        for actual in [Some(case.run(projected_cross_entropy)), plain]
                            .into_iter()
                            .flatten()
                        {
                            for (actual, expected) in actual.iter().zip(&expected) {
                                // As for linear maps: products group their sums in other ways.
                                assert_near(actual, expected, 1e-5);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let case = Case::new([2 * ROWS_PER_CHUNK + 7, 64, 300], Layout::OutIn, 0.1);
        let bits = |threads: usize| {
            on_threads(threads, || case.run(projected_cross_entropy))
                .map(|part| part.into_iter().map(f32::to_bits).collect())
        };
        let expected: [Vec<u32>; 3] = bits(1);
        for threads in [1, 2, 3] {
            assert!(bits(threads) == expected, "{threads} threads");
        }
    }

    #[test]
    fn padding_alone_has_neither_loss_nor_gradient() {
        let mut case = Case::new([4, 3, 5], Layout::OutIn, 0.1);
        case.targets.fill(PAD as i32);
        assert_eq!(
            case.run(projected_cross_entropy),
            [vec![0.0; 2], vec![0.0; 12], vec![0.0; 15]]
        );
    }

    #[test]
    fn a_hidden_state_that_is_not_finite_shows_in_the_loss() {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut case = Case::new([4, 3, 5], Layout::InOut, 0.1);
            // The second row, which is no padding.
            case.hidden.as_mut_slice::<f32>().expect("they are `f32`")[4] = bad;
            let [losses, ..] = case.run(projected_cross_entropy);
            assert!(
                losses.iter().all(|loss| !loss.is_finite()),
                "{bad}: {losses:?}"
            );
        }
    }
}
