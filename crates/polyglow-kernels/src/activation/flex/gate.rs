//! The gate of SwiGLU on the CPU: `mask * silu(gate) * inner`, one pass in each direction.
//!
//! The forward pass keeps both inputs; the backward pass computes the sigmoid and the mask again,
//! which costs less than keeping two more arrays of `[rows, d_ff]`. A task is [`MASK_PART`]
//! elements, which have a part of the mask.

use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::Dropped;
use crate::dropout::MASK_PART;
use crate::dropout::mask::Mask;
use crate::flex::vector::{Kernel, sigmoid, vectorized};
use crate::flex::{
    BackwardPass, Contiguous, FlexTensor, Mode, from_values, into_values, mode_of_both, read,
    record,
};

/// [`super::gated`] on flex with autodiff.
pub(crate) fn gated(
    gate: &Tensor<2>,
    inner: &Tensor<2>,
    dropped: Option<Dropped>,
) -> Option<Tensor<2>> {
    if mode_of_both(gate, inner) != Some(Mode::Training) {
        return None;
    }
    let shape = gate.dims();
    assert_eq!(inner.dims(), shape, "the two sides of a gate");
    let (gate, gate_node) = read(gate.clone());
    let (inner, inner_node) = read(inner.clone());
    // A copy to multiply: the backward pass needs the inner projection.
    let mut output = inner.slice().to_vec();
    let parts = output
        .par_chunks_mut(MASK_PART)
        .zip(gate.slice().par_chunks(MASK_PART))
        .enumerate();
    parts.for_each(|(part, (values, gate))| {
        vectorized(Forward {
            values,
            gate,
            mask: mask_of(dropped, part),
        });
    });
    Some(record(
        State {
            shape,
            gate,
            inner,
            dropped,
        },
        [gate_node, inner_node],
        from_values(output, shape),
    ))
}

/// The mask of a part; `None` without dropout.
fn mask_of(dropped: Option<Dropped>, part: usize) -> Option<Mask> {
    dropped.map(|dropped| Mask::new(dropped).part(part))
}

/// The data that the forward pass keeps for the gradients.
#[derive(Clone, Debug)]
struct State {
    /// `[rows, d_ff]`, as of all arrays here.
    shape: [usize; 2],
    gate: Contiguous,
    /// The projection that is multiplied by `silu(gate)`.
    inner: Contiguous,
    /// For the backward pass to compute the mask again.
    dropped: Option<Dropped>,
}

impl BackwardPass<2> for State {
    fn gradients(self, gradient: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let Self {
            shape,
            gate,
            inner,
            dropped,
        } = self;
        // In place, which saves an array of `[rows, d_ff]`.
        let mut grad_inner = into_values(gradient);
        let mut grad_gate = vec![0.0; grad_inner.len()];
        let sides = gate
            .slice()
            .par_chunks(MASK_PART)
            .zip(inner.slice().par_chunks(MASK_PART));
        let parts = grad_inner
            .par_chunks_mut(MASK_PART)
            .zip(grad_gate.par_chunks_mut(MASK_PART))
            .zip(sides)
            .enumerate();
        parts.for_each(|(part, ((grad_inner, grad_gate), (gate, inner)))| {
            vectorized(Backward {
                grad_inner,
                grad_gate,
                gate,
                inner,
                mask: mask_of(dropped, part),
            });
        });
        [grad_gate, grad_inner].map(|values| Some(from_values(values, shape)))
    }
}

/// Computes a part of the output.
struct Forward<'a> {
    /// The inner projection, which becomes the output.
    values: &'a mut [f32],
    gate: &'a [f32],
    mask: Option<Mask>,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (value, gate) in self.values.iter_mut().zip(self.gate) {
            *value *= gate * sigmoid(*gate);
        }
        if let Some(mask) = self.mask {
            for (value, index) in self.values.iter_mut().zip(0u32..) {
                *value *= mask.at(index);
            }
        }
    }
}

/// Computes a part of both gradients.
struct Backward<'a> {
    /// The gradient of the output, which becomes that of the inner projection.
    grad_inner: &'a mut [f32],
    grad_gate: &'a mut [f32],
    gate: &'a [f32],
    inner: &'a [f32],
    mask: Option<Mask>,
}

impl Kernel for Backward<'_> {
    type Output = ();

    /// `silu'(x) = σ(x) (1 + x (1 - σ(x)))`.
    #[inline(always)]
    fn run(self) {
        let Self {
            grad_inner,
            grad_gate,
            gate,
            inner,
            mask,
        } = self;
        if let Some(mask) = mask {
            for (grad, index) in grad_inner.iter_mut().zip(0u32..) {
                *grad *= mask.at(index);
            }
        }
        for ((grad_inner, grad_gate), (gate, inner)) in grad_inner
            .iter_mut()
            .zip(grad_gate)
            .zip(gate.iter().zip(inner))
        {
            let sigma = sigmoid(*gate);
            // `grad_inner` is `s` before its last line.
            *grad_gate = *grad_inner * inner * sigma * (1.0 + gate * (1.0 - sigma));
            *grad_inner *= gate * sigma;
        }
    }
}
