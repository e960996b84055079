//! Custom backward passes on GPUs: from Burn's tensors to the autodiff graph and back.
//!
//! An operation takes its inputs out of the graph with [`open`], computes its output with Burn's
//! operations or with kernels of its own ([`operation`]), and enters the result with [`record`],
//! together with a [`BackwardPass`] that knows the closed-form gradients.
//!
//! Burn's own gradients of the same operations keep more tensors for the backward pass, and are cut
//! into more kernels, since each elementary operation has its own. Here a formula that is written
//! as one is fused as one.

pub(crate) mod operation;
pub(crate) mod rows;
pub(crate) mod vector;

use std::fmt::Debug;
use std::marker::PhantomData;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::{Autodiff, BackendTypes, Cube};
use burn::tensor::{GradientCheckpointingStrategy, Tensor};

/// A tensor's node in the autodiff graph.
pub(crate) type Node = NodeGuard;

/// The gradient of an input.
pub(crate) struct Gradient(<Cube as BackendTypes>::FloatTensorPrimitive);

impl<const D: usize> From<Tensor<D>> for Gradient {
    fn from(tensor: Tensor<D>) -> Self {
        Self(
            tensor
                .try_into_primitive::<Cube>()
                .expect("a gradient is where its tensor is"),
        )
    }
}

/// Takes a tensor out of the graph, and returns it with its node; `None` unless it is on a GPU,
/// with autodiff, and without gradient checkpointing.
pub(crate) fn open<const D: usize>(tensor: &Tensor<D>) -> Option<(Tensor<D>, Node)> {
    // These operations keep what their backward passes need and cannot recompute it, which is what
    // checkpointing asks for.
    let keeps_all =
        tensor.gradient_checkpointing_strategy() == Some(GradientCheckpointingStrategy::Disabled);
    if cfg!(feature = "plain") || !tensor.is_autodiff() || !keeps_all {
        return None;
    }
    let (inner, node) = tensor
        .clone()
        .try_into_primitive::<Autodiff<Cube>>()
        .ok()?
        .into_parts();
    Some((Tensor::from_primitive::<Cube>(inner), node))
}

/// The backward pass of an operation on `N` tensors with an output of `D` axes; `self` is what the
/// forward pass kept for it.
pub(crate) trait BackwardPass<const N: usize, const D: usize>:
    Clone + Debug + Send + 'static
{
    /// The gradients of the inputs, from that of the output. An input that is not `tracked` may get
    /// `None`.
    fn gradients(self, gradient: Tensor<D>, tracked: [bool; N]) -> [Option<Gradient>; N];
}

/// Enters an operation into the graph, and returns its output as a tensor with autodiff.
pub(crate) fn record<S: BackwardPass<N, D>, const N: usize, const D: usize>(
    state: S,
    inputs: [Node; N],
    output: Tensor<D>,
) -> Tensor<D> {
    let output = Gradient::from(output).0;
    // Burn calls an operation whose state is kept and not recomputed "compute bound".
    let prepared = Recorded(PhantomData)
        .prepare::<NoCheckpointing>(inputs)
        .compute_bound()
        .stateful();
    Tensor::from_primitive::<Autodiff<Cube>>(match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(state, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    })
}

/// A [`BackwardPass`] as Burn calls it.
#[derive(Debug)]
struct Recorded<S, const D: usize>(PhantomData<S>);

impl<S: BackwardPass<N, D>, const N: usize, const D: usize> Backward<Cube, N> for Recorded<S, D> {
    type State = S;

    fn backward(self, ops: Ops<S, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = Tensor::from_primitive::<Cube>(grads.consume::<Cube>(&ops.node));
        // An input that needs no gradient, such as data or a frozen parameter, has no parent here.
        let tracked = ops.parents.each_ref().map(Option::is_some);
        for (parent, gradient) in ops
            .parents
            .into_iter()
            .zip(ops.state.gradients(gradient, tracked))
        {
            if let Some(parent) = parent
                && let Some(Gradient(gradient)) = gradient
            {
                grads.register::<Cube>(parent.id, gradient);
            }
        }
    }
}
