//! Between Burn's tensors and the slices that kernels work on.

use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::ops::{Backward, NodeGuard, OpsKind};
use burn::backend::{Autodiff, BackendTypes, Flex, TensorData};
use burn::tensor::{Device, GradientCheckpointingStrategy, Tensor};

/// A float tensor of the backend flex.
pub(crate) type FlexTensor = <Flex as BackendTypes>::FloatTensorPrimitive;

/// The same with its place in the graph.
pub(crate) type TrackedTensor = <Autodiff<Flex> as BackendTypes>::FloatTensorPrimitive;

/// Whether a tensor is on flex with autodiff, and there are kernels for it.
///
/// With gradient checkpointing there are none: each keeps what its backward pass needs, and would have nothing to compute
/// again.
pub(crate) fn has_kernels<const D: usize>(tensor: &Tensor<D>) -> bool {
    let keeps_all = tensor.gradient_checkpointing_strategy() == Some(GradientCheckpointingStrategy::Disabled);
    // Devices are equal whether they differentiate or not.
    !cfg!(feature = "plain") && keeps_all && tensor.device() == Device::flex().autodiff()
}

/// Whether a tensor is on flex without autodiff, and there are kernels for it.
pub(crate) fn is_flex<const D: usize>(tensor: &Tensor<D>) -> bool {
    !cfg!(feature = "plain") && !tensor.is_autodiff() && tensor.device() == Device::flex()
}

/// Takes a tensor that [`has_kernels`] to its primitive.
pub(crate) fn open<const D: usize>(tensor: Tensor<D>) -> TrackedTensor {
    tensor.try_into_primitive::<Autodiff<Flex>>().expect("the caller asked for its device")
}

/// Takes a tensor that [`is_flex`] to its primitive.
pub(crate) fn open_plain<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    tensor.try_into_primitive::<Flex>().expect("the caller asked for its device")
}

/// The way back from [`open_plain`].
pub(crate) fn close_plain<const D: usize>(tensor: FlexTensor) -> Tensor<D> {
    Tensor::from_primitive::<Flex>(tensor)
}

/// Enters an operation into the graph: what it made of its `parents`, and what its backward pass needs.
pub(crate) fn record<O: Backward<Flex, N>, const N: usize, const D: usize>(
    operation: O,
    parents: [NodeGuard; N],
    state: O::State,
    output: FlexTensor,
) -> Tensor<D> {
    Tensor::from_primitive::<Autodiff<Flex>>(
        match operation.prepare::<NoCheckpointing>(parents).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish(state, output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        },
    )
}

/// A tensor whose numbers lie in their order.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(FlexTensor);

impl Numbers {
    /// Copies where the tensor is a view in another order.
    pub(crate) fn of(tensor: FlexTensor) -> Self {
        Self(if tensor.as_slice::<f32>().is_some() { tensor } else { tensor.to_contiguous() })
    }

    pub(crate) fn slice(&self) -> &[f32] {
        self.0.as_slice().expect("it was checked or copied when it was made")
    }
}

/// The numbers of a tensor, to be written over; a copy only where the graph or a view needs the tensor as it is.
pub(crate) fn values_of(tensor: FlexTensor) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().expect("flex trains in `f32`")
}

/// A tensor of these numbers, without a copy.
pub(crate) fn from_values<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    from_data(TensorData::new(values, shape))
}

/// The numbers of a tensor in their order; a copy only where the graph or a view needs the tensor as it is.
pub(crate) fn into_data(tensor: FlexTensor) -> TensorData {
    tensor.into_data()
}

/// A tensor of these numbers.
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
        let largest = right.iter().fold(1.0f32, |largest, value| largest.max(value.abs()));
        for (place, (left, right)) in left.iter().zip(right).enumerate() {
            assert!((left - right).abs() <= tolerance * largest, "{place}: {left}, {right}");
        }
    }

    /// What `run` gives on so many threads.
    pub(crate) fn on_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(run)
    }
}
