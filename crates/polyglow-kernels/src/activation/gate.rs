//! The kernel of a gated unit.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::Dropped;
use crate::dropout::mask::Mask;
use crate::flex::{Numbers, from_values, open, record, values_of};
use crate::vector::{Kernel, sigmoid, vectorized};

/// Numbers that share a part of the mask.
const PART: usize = 1 << 13;

/// [`super::gated`] on flex with autodiff.
pub(super) fn gated(gate: Tensor<3>, inner: Tensor<3>, dropped: Option<Dropped>) -> Tensor<3> {
    let shape = gate.dims();
    assert_eq!(inner.dims(), shape, "the two sides of a gate");
    let (gate, gate_node) = open(gate).into_parts();
    let (inner, inner_node) = open(inner).into_parts();
    let (gate, inner) = (Numbers::of(gate), Numbers::of(inner));
    let mut output = inner.slice().to_vec();
    let parts = output.par_chunks_mut(PART).zip(gate.slice().par_chunks(PART)).enumerate();
    parts.for_each(|(part, (values, gate))| vectorized(Gate { values, opening: gate, mask: mask_of(dropped, part) }));
    record(Gated, [gate_node, inner_node], (gate, inner, dropped), from_values(output, shape))
}

fn mask_of(dropped: Option<Dropped>, part: usize) -> Option<Mask> {
    dropped.map(|dropped| Mask::new(dropped).part(part))
}

#[derive(Debug)]
struct Gated;

impl Backward<Flex, 2> for Gated {
    type State = (Numbers, Numbers, Option<Dropped>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (gate, inner, dropped) = ops.state;
        let gradient = grads.consume::<Flex>(&ops.node);
        let shape: [usize; 3] = gradient.layout().shape().dims();
        let mut of_inner = values_of(gradient);
        let mut of_gate = vec![0.0; of_inner.len()];
        let sides = gate.slice().par_chunks(PART).zip(inner.slice().par_chunks(PART));
        let parts = of_inner.par_chunks_mut(PART).zip(of_gate.par_chunks_mut(PART)).zip(sides).enumerate();
        parts.for_each(|(part, ((of_inner, of_gate), (gate, inner)))| {
            vectorized(GateBack { of_inner, of_gate, gate, inner, mask: mask_of(dropped, part) });
        });
        let [gate_node, inner_node] = ops.parents;
        if let Some(node) = gate_node {
            grads.register::<Flex>(node.id, from_values(of_gate, shape));
        }
        if let Some(node) = inner_node {
            grads.register::<Flex>(node.id, from_values(of_inner, shape));
        }
    }
}

struct Gate<'a> {
    values: &'a mut [f32],
    opening: &'a [f32],
    mask: Option<Mask>,
}

impl Kernel for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (value, gate) in self.values.iter_mut().zip(self.opening) {
            *value *= gate * sigmoid(*gate);
        }
        if let Some(mask) = self.mask {
            self.values.iter_mut().zip(0u32..).for_each(|(value, place)| *value *= mask.at(place));
        }
    }
}

struct GateBack<'a> {
    /// The gradient of the output, which becomes that of the inner projection.
    of_inner: &'a mut [f32],
    of_gate: &'a mut [f32],
    gate: &'a [f32],
    inner: &'a [f32],
    mask: Option<Mask>,
}

impl Kernel for GateBack<'_> {
    type Output = ();

    /// `silu'(x) = σ(x) (1 + x (1 - σ(x)))`.
    #[inline(always)]
    fn run(self) {
        let Self { of_inner, of_gate, gate, inner, mask } = self;
        if let Some(mask) = mask {
            of_inner.iter_mut().zip(0u32..).for_each(|(slope, place)| *slope *= mask.at(place));
        }
        for ((of_inner, of_gate), (gate, inner)) in of_inner.iter_mut().zip(of_gate).zip(gate.iter().zip(inner)) {
            let share = sigmoid(*gate);
            *of_gate = *of_inner * inner * share * (1.0 + gate * (1.0 - share));
            *of_inner *= gate * share;
        }
    }
}
