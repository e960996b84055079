//! The base of all kernels for the CPU: from Burn's tensors to slices and back, and from a kernel
//! to the autodiff graph.
//!
//! An operation on flex has four steps. [`mode`] says whether there is a kernel for its tensors,
//! and whether it trains. [`read`] (or [`open`]) takes each input out of the graph, as contiguous
//! memory and a node. The kernel fills a `Vec`, which [`from_values`] turns into a tensor without a
//! copy. [`record`] enters the result into the graph, with a [`BackwardPass`] that holds what the
//! forward pass kept.
//!
//! The modules below hold the loops: [`matrix`] (products), [`vector`] (loops that compile to SIMD
//! instructions), [`row`] (sums along and across rows) and [`softmax`].

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

/// Whether a kernel has to keep something for a backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// With autodiff: the backward pass needs some intermediate values.
    Training,
    /// Without autodiff: nothing is kept.
    Inference,
}

/// The mode of a kernel on this tensor; `None` if the plain version has to run.
pub(crate) fn mode<const D: usize>(tensor: &Tensor<D>) -> Option<Mode> {
    // A device with autodiff is equal to the same one without.
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

/// The [`mode`] of two tensors; `None` if they differ or have none.
pub(crate) fn mode_of_both<const D: usize, const E: usize>(
    left: &Tensor<D>,
    right: &Tensor<E>,
) -> Option<Mode> {
    mode(left).filter(|mode_of_left| mode(right) == Some(*mode_of_left))
}

/// Takes a tensor that has a [`mode`] out of the graph, and returns it with its node.
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

/// [`open`] for an input that is only read, as contiguous memory.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> (Contiguous, Node) {
    let (tensor, node) = open(tensor);
    (Contiguous::new(tensor), node)
}

/// [`open`] for an operation that has no backward pass.
///
/// Panics on a tensor with autodiff.
pub(crate) fn open_untracked<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    let (tensor, node) = open(tensor);
    // Without this the operation would silently cut the tensor off from its gradient.
    assert!(
        node.is_none(),
        "an operation without autodiff on a tensor with it"
    );
    tensor
}

/// A tensor without autodiff.
pub(crate) fn close<const D: usize>(tensor: FlexTensor) -> Tensor<D> {
    Tensor::from_primitive::<Flex>(tensor)
}

/// The backward pass of an operation on `N` tensors. The implementing type is what the forward pass
/// kept for it.
pub(crate) trait BackwardPass<const N: usize>: Clone + Debug + Send + 'static {
    /// Returns the gradients of the inputs, given that of the output. An input that is not
    /// `tracked` may get `None`.
    fn gradients(self, gradient: FlexTensor, tracked: [bool; N]) -> [Option<FlexTensor>; N];
}

/// Enters an operation into the graph, and returns its output; without autodiff just the output.
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
    // Burn calls an operation whose state is kept and not recomputed "compute bound".
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
            if let Some(parent) = parent
                && let Some(gradient) = gradient
            {
                grads.register::<Flex>(parent.id, gradient);
            }
        }
    }
}

/// A tensor whose elements lie in row-major order without gaps.
#[derive(Clone, Debug)]
pub(crate) struct Contiguous(FlexTensor);

impl Contiguous {
    /// Takes a tensor, and copies it only if it is a view in another order.
    pub(crate) fn new(tensor: FlexTensor) -> Self {
        Self(if tensor.as_slice::<f32>().is_some() {
            tensor
        } else {
            tensor.to_contiguous()
        })
    }

    /// The elements in row-major order.
    pub(crate) fn slice(&self) -> &[f32] {
        self.0
            .as_slice()
            .expect("contiguous memory, as `new` has checked or copied")
    }
}

/// The elements of a tensor, to be overwritten; copied only if the graph or a view still needs the
/// tensor as it is.
pub(crate) fn into_values(tensor: FlexTensor) -> Vec<f32> {
    tensor
        .into_data()
        .try_into_vec::<f32>()
        .expect("flex trains in `f32`")
}

/// A tensor of this shape that takes over `values` without a copy.
pub(crate) fn from_values<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    from_data(TensorData::new(values, shape))
}

/// [`into_values`] with the shape and the type, as flex holds them.
pub(crate) fn into_data(tensor: FlexTensor) -> TensorData {
    tensor.into_data()
}

/// A tensor that takes over `data` without a copy.
pub(crate) fn from_data(data: TensorData) -> FlexTensor {
    FlexTensor::from_data(data)
}

#[cfg(test)]
pub(crate) mod tests {
    use burn::tensor::{Distribution, Gradients};

    use super::*;

    /// `len` values between -1 and 1 without visible order, which follow from `seed`.
    pub(crate) fn pseudo_random(len: usize, seed: usize) -> Vec<f32> {
        (0..len)
            .map(|index| ((index * 7 + seed) as f64 * 0.618_034).fract() as f32 * 2.0 - 1.0)
            .collect()
    }

    /// Random values between `-limit` and `limit`, without autodiff.
    pub(crate) fn random<const D: usize>(shape: [usize; D], limit: f64) -> Tensor<D> {
        Tensor::random(shape, Distribution::Uniform(-limit, limit), &Device::flex())
    }

    /// [`random`] values with autodiff, which get gradients.
    pub(crate) fn random_tracked<const D: usize>(shape: [usize; D], limit: f64) -> Tensor<D> {
        with_autodiff(&random(shape, limit)).require_grad()
    }

    /// A copy with autodiff.
    pub(crate) fn with_autodiff<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
        Tensor::from_data(tensor.clone().into_data(), &Device::flex().autodiff())
    }

    /// The gradient of a tracked tensor.
    pub(crate) fn gradient_of<const D: usize>(
        tensor: &Tensor<D>,
        gradients: &Gradients,
    ) -> Vec<f32> {
        elements(tensor.grad(gradients).expect("the output depends on it"))
    }

    /// The elements in row-major order.
    pub(crate) fn elements<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().iter::<f32>().collect()
    }

    /// Panics if a difference is above `tolerance` times the largest value, or times 1.
    pub(crate) fn assert_near(left: &[f32], right: &[f32], tolerance: f32) {
        assert_eq!(left.len(), right.len());
        let largest = right
            .iter()
            .fold(1.0f32, |largest, value| largest.max(value.abs()));
        for (index, (left, right)) in left.iter().zip(right).enumerate() {
            assert!(
                (left - right).abs() <= tolerance * largest,
                "element {index}: {left}, {right}"
            );
        }
    }

    /// The result of `run` in a pool of `threads` threads.
    pub(crate) fn on_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("threads")
            .install(run)
    }
}
