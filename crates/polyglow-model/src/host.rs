//! Whether a device computes in host memory.

use burn::tensor::Device;

/// Whether the device computes in host memory, so that reading from it costs nothing. The function
/// compares devices, so it does not wait for a GPU.
///
/// Only the backends `flex` and `ndarray` of this crate's features are known. Any other counts as a
/// device of its own, which is slower if that is wrong, but correct.
pub fn computes_on_host(device: &Device) -> bool {
    // Devices are equal whether they differentiate or not.
    #[cfg(feature = "flex")]
    if *device == Device::flex() {
        return true;
    }
    #[cfg(feature = "ndarray")]
    {
        #[expect(deprecated, reason = "offered as long as Burn has it")]
        let ndarray = Device::ndarray();
        if *device == ndarray {
            return true;
        }
    }
    let _ = device;
    false
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;

    #[test]
    fn flex_computes_on_the_host_with_gradients_and_without() {
        assert!(computes_on_host(&Device::flex()));
        assert!(computes_on_host(&Device::flex().autodiff()));
    }
}
