//! Between Burn's tensors on GPUs and the autodiff graph: operations that are composed of Burn's,
//! with slopes of their own.
//!
//! Burn's slopes of the same operations keep more for the backward pass, and are cut into more
//! kernels, since each is written for itself. What is written here as one formula is fused as one.

pub(crate) mod operation;
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

/// A tensor outside of the graph and its node; `None` unless it trains on a GPU.
pub(crate) fn open<const D: usize>(tensor: &Tensor<D>) -> Option<(Tensor<D>, Node)> {
    // What an operation keeps is never computed again, which is what checkpointing asks for.
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

/// Enters an operation into the graph.
pub(crate) fn record<S: BackwardPass<N, D>, const N: usize, const D: usize>(
    state: S,
    inputs: [Node; N],
    output: Tensor<D>,
) -> Tensor<D> {
    let output = Gradient::from(output).0;
    let prepared = Recorded(PhantomData)
        .prepare::<NoCheckpointing>(inputs)
        .compute_bound()
        .stateful();
    Tensor::from_primitive::<Autodiff<Cube>>(match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(state, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    })
}

/// [`BackwardPass`] as Burn calls them.
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
            if let (Some(parent), Some(Gradient(gradient))) = (parent, gradient) {
                grads.register::<Cube>(parent.id, gradient);
            }
        }
    }
}
