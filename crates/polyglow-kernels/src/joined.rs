//! Joining flat tensors into one, `[a; b; ...]`, so that an optimizer updates all parameters in one
//! pass.

#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::Tensor;

/// Returns flat tensors, which are outside of the autodiff graph, one after the other in one
/// tensor; on GPUs one kernel copies many of them.
///
/// # Shapes
/// - `values`: `[len]` each, at least one; output: `[sum of len]`
pub fn joined(mut values: Vec<Tensor<1>>) -> Tensor<1> {
    if values.len() == 1 {
        return values.remove(0);
    }
    #[cfg(feature = "gpu")]
    if gpu::are_on_gpu(&values) {
        return gpu::joined(values);
    }
    Tensor::cat(values, 0)
}

/// Returns the identity of a tensor on GPUs, and `None` elsewhere. Clones have the same name, and
/// no two other tensors of the process have.
pub fn name<const D: usize>(tensor: &Tensor<D>) -> Option<u64> {
    #[cfg(feature = "gpu")]
    return gpu::name(tensor);
    #[cfg(not(feature = "gpu"))]
    {
        let _ = tensor;
        None
    }
}
