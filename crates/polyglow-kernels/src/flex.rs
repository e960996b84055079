//! Between Burn's tensors and the slices that kernels work on, and between kernels and the autodiff
//! graph.

pub(crate) mod matrix;
pub(crate) mod row;
pub(crate) mod softmax;
pub(crate) mod vector;

use std::fmt::Debug;
use std::marker::PhantomData;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::{Autodiff, BackendTypes, Flex, TensorData};
use burn::tensor::{Device, GradientCheckpointingStrategy, Tensor};

/// A float tensor of the backend flex.
pub(crate) type FlexTensor = <Flex as BackendTypes>::FloatTensorPrimitive;

/// An input's node in the autodiff graph; `None` without autodiff.
pub(crate) type Node = Option<NodeGuard>;

/// What a kernel runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// With autodiff: the backward pass needs some intermediate values.
    Training,
    /// Without autodiff: nothing is kept.
    Inference,
}

/// What a kernel on this tensor would run for; `None` if the plain version has to run.
pub(crate) fn mode<const D: usize>(tensor: &Tensor<D>) -> Option<Mode> {
    // Devices are equal whether they differentiate or not.
    if cfg!(feature = "plain") || tensor.device() != Device::flex() {
        return None;
    }
    if !tensor.is_autodiff() {
        return Some(Mode::Inference);
    }
    // Kernels keep what their backward passes need and cannot recompute it, which is what
    // checkpointing asks for.
    let keeps_all =
        tensor.gradient_checkpointing_strategy() == Some(GradientCheckpointingStrategy::Disabled);
    keeps_all.then_some(Mode::Training)
}

/// [`mode`] of two tensors, if it is the same.
pub(crate) fn mode_of_both<const D: usize, const E: usize>(
    left: &Tensor<D>,
    right: &Tensor<E>,
) -> Option<Mode> {
    mode(left).filter(|of_left| mode(right) == Some(*of_left))
}

/// The primitive of a tensor that has a [`mode`], and its node.
pub(crate) fn open<const D: usize>(tensor: Tensor<D>) -> (FlexTensor, Node) {
    const ON_FLEX: &str = "all inputs of an operation are on one device";
    if tensor.is_autodiff() {
        let (tensor, node) = tensor
            .try_into_primitive::<Autodiff<Flex>>()
            .expect(ON_FLEX)
            .into_parts();
        (tensor, Some(node))
    } else {
        (tensor.try_into_primitive::<Flex>().expect(ON_FLEX), None)
    }
}

/// [`open`] for an input that is only read.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> (Contiguous, Node) {
    let (tensor, node) = open(tensor);
    (Contiguous::of(tensor), node)
}

/// [`open`] for an input whose gradient nobody could ask for.
pub(crate) fn open_untracked<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    let (tensor, node) = open(tensor);
    // Without this the operation would silently cut the tensor off from its gradient.
    assert!(
        node.is_none(),
        "an operation without autodiff on a tensor with it"
    );
    tensor
}

/// A tensor that is in no graph.
pub(crate) fn close<const D: usize>(tensor: FlexTensor) -> Tensor<D> {
    Tensor::from_primitive::<Flex>(tensor)
}

/// The backward pass of an operation on `N` tensors; `self` is what the forward pass kept for it.
pub(crate) trait BackwardPass<const N: usize>: Clone + Debug + Send + 'static {
    /// The gradients of the inputs, from that of the output. An input that is not `tracked` may get
    /// `None`.
    fn gradients(self, gradient: FlexTensor, tracked: [bool; N]) -> [Option<FlexTensor>; N];
}

/// Enters an operation into the graph, unless its inputs are in none.
pub(crate) fn record<S: BackwardPass<N>, const N: usize, const D: usize>(
    state: S,
    inputs: [Node; N],
    output: FlexTensor,
) -> Tensor<D> {
    if inputs.iter().all(Option::is_none) {
        return close(output);
    }
    let inputs = inputs
        .map(|node| node.expect("the inputs of an operation are all in the graph, or none is"));
    // What the state keeps is never computed again, which Burn calls compute bound.
    let prepared = Recorded(PhantomData)
        .prepare::<NoCheckpointing>(inputs)
        .compute_bound()
        .stateful();
    Tensor::from_primitive::<Autodiff<Flex>>(match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(state, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    })
}

/// A [`BackwardPass`] as Burn calls it.
#[derive(Debug)]
struct Recorded<S>(PhantomData<S>);

impl<S: BackwardPass<N>, const N: usize> Backward<Flex, N> for Recorded<S> {
    type State = S;

    fn backward(self, ops: Ops<S, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node);
        // An input that needs no gradient, such as data or a frozen parameter, has no parent here.
        let tracked = ops.parents.each_ref().map(Option::is_some);
        for (parent, gradient) in ops
            .parents
            .into_iter()
            .zip(ops.state.gradients(gradient, tracked))
        {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(parent.id, gradient);
            }
        }
    }
}

/// A contiguous tensor.
#[derive(Clone, Debug)]
pub(crate) struct Contiguous(FlexTensor);

impl Contiguous {
    /// Copies only if the tensor is a view in another order.
    pub(crate) fn of(tensor: FlexTensor) -> Self {
        Self(if tensor.as_slice::<f32>().is_some() {
            tensor
        } else {
            tensor.to_contiguous()
        })
    }

    /// Its values in row-major order.
    pub(crate) fn slice(&self) -> &[f32] {
        self.0
            .as_slice()
            .expect("it was checked or copied when it was made")
    }
}

/// The values of a tensor, to be overwritten; copied only if the graph or a view needs the tensor
/// as it is.
pub(crate) fn into_values(tensor: FlexTensor) -> Vec<f32> {
    tensor
        .into_data()
        .try_into_vec::<f32>()
        .expect("flex trains in `f32`")
}

/// A tensor of these values, without a copy.
pub(crate) fn from_values<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    from_data(TensorData::new(values, shape))
}

/// [`into_values`] with their shape.
pub(crate) fn into_data(tensor: FlexTensor) -> TensorData {
    tensor.into_data()
}

/// A tensor of this data, without a copy.
pub(crate) fn from_data(data: TensorData) -> FlexTensor {
    FlexTensor::from_data(data)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().iter::<f32>().collect()
    }

    /// The differences are at most `tolerance` times the largest number.
    pub(crate) fn assert_near(left: &[f32], right: &[f32], tolerance: f32) {
        assert_eq!(left.len(), right.len());
        let largest = right
            .iter()
            .fold(1.0f32, |largest, value| largest.max(value.abs()));
        for (place, (left, right)) in left.iter().zip(right).enumerate() {
            assert!(
                (left - right).abs() <= tolerance * largest,
                "{place}: {left}, {right}"
            );
        }
    }

    /// What `run` gives on so many threads.
    pub(crate) fn on_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("threads")
            .install(run)
    }
}
