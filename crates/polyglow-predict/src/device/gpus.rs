//! GPUs, as their drivers list them, and the names that they have here.

#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "metal"))]
use burn::tensor::DeviceKind;
use burn::tensor::{Device, DeviceType};

use super::ListedDevice;

/// Numbers the adapters of a graphics interface: discrete GPUs first, then integrated, virtual and
/// unclassified ones; a software driver has no number and is called `cpu`.
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "metal"))]
pub(super) fn adapters(
    backend: &str,
    device_type: DeviceType,
    build: fn(DeviceKind) -> Device,
) -> Vec<ListedDevice> {
    /// From the index of a device among those of its kind to what Burn builds it from.
    type Selector = fn(usize) -> DeviceKind;
    let selectors: [(&'static str, Selector); 3] = [
        ("discrete gpu", DeviceKind::DiscreteGpu),
        ("integrated gpu", DeviceKind::IntegratedGpu),
        ("virtual gpu", DeviceKind::VirtualGpu),
    ];
    let existing = Device::enumerate(device_type);
    let mut unclassified = existing.to_vec();
    let mut gpus = Vec::new();
    for (kind, select) in selectors {
        // Burn tells adapters apart by a kind and an index within the kind, so those of each kind
        // are built one after the other until one does not exist.
        let candidates = (0..).map(|index| build(select(index)));
        let of_this_kind: Vec<Device> = candidates
            .take_while(|device| existing.contains(device))
            .collect();
        unclassified.retain(|device| !of_this_kind.contains(device));
        gpus.extend(with_kind(kind, of_this_kind));
    }
    let software = build(DeviceKind::Cpu);
    unclassified.retain(|device| *device != software);
    gpus.extend(with_kind("gpu", unclassified));

    let mut devices = with_numbers(backend, gpus);
    if existing.contains(&software) {
        devices.push(ListedDevice {
            name: format!("{backend}:cpu"),
            kind: "cpu",
            device: software,
            hardware_name,
        });
    }
    devices
}

/// Numbers the GPUs of a backend in the driver's order.
#[cfg(any(feature = "cuda", feature = "rocm"))]
pub(super) fn numbered(backend: &str, device_type: DeviceType) -> Vec<ListedDevice> {
    with_numbers(backend, with_kind("gpu", Device::enumerate(device_type)))
}

/// Names devices by their backend and their index in it: `cuda:0`.
fn with_numbers(backend: &str, devices: Vec<(&'static str, Device)>) -> Vec<ListedDevice> {
    let mut numbered = Vec::with_capacity(devices.len());
    for (index, (kind, device)) in devices.into_iter().enumerate() {
        numbered.push(ListedDevice {
            name: format!("{backend}:{index}"),
            kind,
            device,
            hardware_name,
        });
    }
    numbered
}

/// Pairs devices with the name of their kind.
fn with_kind(
    kind: &'static str,
    devices: impl IntoIterator<Item = Device>,
) -> Vec<(&'static str, Device)> {
    devices.into_iter().map(|device| (kind, device)).collect()
}

/// Opens a device and returns the name that its hardware reports.
fn hardware_name(device: &Device) -> Option<String> {
    device.identity().map(|identity| identity.name)
}
