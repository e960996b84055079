//! Tensors one after the other, as parameters and their gradients are for an update of all of them.

#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::Tensor;

/// Flat tensors one after the other, outside of the autodiff graph; on GPUs many of them are copied
/// by one kernel.
///
/// # Shapes
/// - `values`: `[len]` each, at least one; output: `[sum of len]`
pub fn joined(mut values: Vec<Tensor<1>>) -> Tensor<1> {
    if values.len() == 1 {
        return values.remove(0);
    }
    #[cfg(feature = "gpu")]
    if gpu::are_there(&values) {
        return gpu::joined(values);
    }
    Tensor::cat(values, 0)
}

/// Which tensor it is, on GPUs: clones have the same name, and no two others of a process. `None`
/// elsewhere.
pub fn name<const D: usize>(tensor: &Tensor<D>) -> Option<u64> {
    #[cfg(feature = "gpu")]
    return gpu::name(tensor);
    #[cfg(not(feature = "gpu"))]
    {
        let _ = tensor;
        None
    }
}
