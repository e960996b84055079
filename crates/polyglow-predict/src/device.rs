//! Names of devices (`flex`, `wgpu:1`, `cuda`) and the Burn devices that they stand for on this
//! machine.

#[cfg(any(
    feature = "wgpu",
    feature = "vulkan",
    feature = "metal",
    feature = "cuda",
    feature = "rocm"
))]
mod gpus;

use std::panic::{self, AssertUnwindSafe};

use burn::tensor::{Device, Int, Tensor, TensorData};
use polyglow_data::padded::Padded;
use polyglow_kernels::instruction_set;
use polyglow_model::quantization::has_int8_kernels;
use polyglow_model::{Targets, computes_on_host};
use serde::Serialize;

use crate::error::{ErrorKind, Result, TrainError, failed, usage, with_hint};
use crate::suggestion::nearest;
use crate::wording::counted;

/// Every backend that can be built in: its name, which is also its Cargo feature; whether this build
/// has it; and the hardware and drivers that it needs.
const BACKENDS: [(&str, bool, &str); 7] = [
    ("flex", cfg!(feature = "flex"), "a CPU"),
    ("ndarray", cfg!(feature = "ndarray"), "a CPU"),
    (
        "wgpu",
        cfg!(feature = "wgpu"),
        "a graphics driver for Vulkan, Metal or DirectX 12",
    ),
    ("vulkan", cfg!(feature = "vulkan"), "a Vulkan driver"),
    ("metal", cfg!(feature = "metal"), "an Apple GPU"),
    (
        "cuda",
        cfg!(feature = "cuda"),
        "an NVIDIA GPU with its driver",
    ),
    ("rocm", cfg!(feature = "rocm"), "an AMD GPU with ROCm"),
];

/// A device of this machine that this build can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// The backend: `wgpu`.
    pub backend: &'static str,
    /// The value for `--device` and the key `device`: `wgpu:0`.
    pub name: String,
    /// The name that the hardware reports.
    pub adapter: String,
    /// `cpu`, `discrete gpu`, `integrated gpu`, `virtual gpu` or `gpu`.
    pub kind: &'static str,
}

/// Returns the widest instructions that kernels use on this device. Only `flex`, which is the CPU, has
/// them, and only in builds with kernels.
pub fn instructions(device: &Device) -> Option<&'static str> {
    instruction_set().filter(|_| has_int8_kernels(device))
}

/// Returns the number of threads with which a step on the CPU computes.
pub fn threads() -> usize {
    rayon::current_num_threads()
}

/// A device that the driver lists, before it is opened.
struct ListedDevice {
    name: String,
    kind: &'static str,
    device: Device,
    /// Opens the device and returns the name that its hardware reports; `None` for the CPU, which
    /// Burn does not name.
    hardware_name: fn(&Device) -> Option<String>,
}

/// Returns the names of the backends in this build.
pub fn compiled_in() -> Vec<&'static str> {
    let backends = BACKENDS.iter().filter(|(_, compiled_in, _)| *compiled_in);
    backends.map(|(name, ..)| *name).collect()
}

/// Opens the device called `name`: a backend, or a backend and one of its devices, as in `cuda:1`
/// or `wgpu:cpu`.
///
/// A backend alone stands for its first device that is not a software driver.
///
/// # Errors
/// With exit code 2 an unknown name, a backend that is not in this build (the hint says how to
/// build it in), and a device that the backend does not have; with exit code 1 a backend without
/// any device on this machine, and a device that cannot be opened.
pub fn open(name: &str) -> Result<Device> {
    let backend = name.split_once(':').map_or(name, |(backend, _)| backend);
    let Some((backend, compiled_in, needs)) =
        BACKENDS.into_iter().find(|(known, ..)| *known == backend)
    else {
        return Err(unknown(name));
    };
    if !compiled_in {
        let error = usage(failed!(
            "device `{name}`: the backend `{backend}` is not in this build"
        ));
        return Err(with_hint(
            error,
            format!("build it in: `cargo run --release --features {backend} -- ...`"),
        ));
    }
    let mut devices = list_devices(backend)?;
    if devices.is_empty() {
        let error =
            failed!("device `{name}`: the backend `{backend}` finds no device on this machine");
        return Err(with_hint(
            error,
            format!("`{backend}` needs {needs}; `polyglow devices` lists what is there"),
        ));
    }
    let position = devices.iter().position(|device| is_called(device, name));
    let Some(index) = position else {
        let names: Vec<_> = devices
            .iter()
            .map(|device| format!("`{}`", device.name))
            .collect();
        let error = usage(failed!(
            "device `{name}`: there is only {}",
            names.join(", ")
        ));
        return Err(with_hint(
            error,
            "`polyglow devices` lists what this build finds on this machine",
        ));
    };
    let device = devices.swap_remove(index).device;
    start(&device).map_err(|error| error.context(format!("device `{name}`: cannot be opened")))?;
    Ok(device)
}

/// As [`open`], for the process with the index `local_rank` on its machine. If `name` is that of a
/// backend with several devices, each process opens another, as long as there are enough.
///
/// # Errors
/// As [`open`].
pub fn open_for(name: &str, local_rank: usize) -> Result<Device> {
    let is_plain = BACKENDS
        .iter()
        .any(|(known, compiled_in, _)| *known == name && *compiled_in);
    if !is_plain || local_rank == 0 {
        return open(name);
    }
    // Without software drivers, which are slow.
    let mut devices = list_devices(name)?;
    devices.retain(|device| device.kind != "cpu");
    if devices.is_empty() {
        return open(name);
    }
    open(&devices[local_rank % devices.len()].name)
}

/// Lists every device of every backend in this build, opened to learn its name.
///
/// A backend whose driver fails is reported as a warning and left out.
pub fn list() -> Vec<DeviceInfo> {
    let mut list = Vec::new();
    for backend in compiled_in() {
        let devices = list_devices(backend).unwrap_or_else(|error| {
            tracing::warn!("cannot look for devices of `{backend}`: {error}");
            Vec::new()
        });
        for device in devices {
            let adapter =
                adapter(&device).unwrap_or_else(|error| format!("cannot be opened: {error}"));
            list.push(DeviceInfo {
                backend,
                name: device.name,
                adapter,
                kind: device.kind,
            });
        }
    }
    list
}

/// Returns whether a device has memory of its own, so that filling it harms nothing else on the
/// machine.
///
/// # Errors
/// The driver fails.
pub fn has_own_memory(name: &str) -> Result<bool> {
    let backend = name.split_once(':').map_or(name, |(backend, _)| backend);
    let is_discrete = matches!(backend, "cuda" | "rocm");
    let devices = list_devices(backend)?;
    let mut named = devices.iter().filter(|device| is_called(device, name));
    Ok(named.any(|device| is_discrete || device.kind == "discrete gpu"))
}

/// Returns whether `name` stands for a device. The name of a backend alone stands for its first device.
fn is_called(device: &ListedDevice, name: &str) -> bool {
    device.name == name || device.name.strip_suffix(":0") == Some(name)
}

fn unknown(name: &str) -> TrainError {
    let known = BACKENDS.map(|(name, ..)| name);
    let error = usage(failed!(
        "unknown device `{name}`; there are {}, and for one of several GPUs its number, as in `cuda:1`",
        known.map(|name| format!("`{name}`")).join(", ")
    ));
    match nearest(name, known) {
        // The names that other programs have for it.
        _ if name.eq_ignore_ascii_case("cpu") => with_hint(error, "the CPU is `flex`"),
        _ if name.eq_ignore_ascii_case("gpu") => {
            with_hint(error, "`polyglow devices` lists the GPUs of this machine")
        }
        Some(known) => with_hint(error, format!("did you mean `{known}`?")),
        None => with_hint(
            error,
            "`polyglow devices` lists what this build finds on this machine",
        ),
    }
}

/// Lists the devices of a backend, without opening them.
fn list_devices(backend: &str) -> Result<Vec<ListedDevice>> {
    guard(|| match backend {
        #[cfg(feature = "flex")]
        "flex" => vec![ListedDevice {
            name: "flex".to_owned(),
            kind: "cpu",
            device: Device::flex(),
            hardware_name: |_| None,
        }],
        #[cfg(feature = "ndarray")]
        "ndarray" => vec![ListedDevice {
            name: "ndarray".to_owned(),
            kind: "cpu",
            device: ndarray(),
            hardware_name: |_| None,
        }],
        #[cfg(feature = "wgpu")]
        "wgpu" => gpus::adapters("wgpu", burn::tensor::DeviceType::Wgpu, Device::wgpu),
        #[cfg(feature = "vulkan")]
        "vulkan" => gpus::adapters("vulkan", burn::tensor::DeviceType::Vulkan, Device::vulkan),
        #[cfg(feature = "metal")]
        "metal" => gpus::adapters("metal", burn::tensor::DeviceType::Metal, Device::metal),
        #[cfg(feature = "cuda")]
        "cuda" => gpus::numbered("cuda", burn::tensor::DeviceType::Cuda),
        #[cfg(feature = "rocm")]
        "rocm" => gpus::numbered("rocm", burn::tensor::DeviceType::Rocm),
        _ => Vec::new(),
    })
}

/// Opens a device: only then does a broken driver fail.
fn start(device: &Device) -> Result<()> {
    Ok(guard(|| device.sync())??)
}

/// Returns the name that the hardware of a device reports.
fn adapter(listed: &ListedDevice) -> Result<String> {
    let device = &listed.device;
    start(device)?;
    if let Some(name) = guard(|| (listed.hardware_name)(device))? {
        return Ok(name);
    }
    let instructions = instructions(device)
        .map(|name| format!(", {name}"))
        .unwrap_or_default();
    Ok(format!(
        "{}{instructions}, {}",
        std::env::consts::ARCH,
        counted(threads(), "thread")
    ))
}

/// Turns a panic of `work` into an error. Burn has no errors of its own: it panics where a driver fails
/// or a device has no memory left.
///
/// # Errors
/// `work` panicked: of the kind [`ErrorKind::Device`], with the panic's message.
pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message
            .or(payload.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a message");
        TrainError::new(message).with_kind(ErrorKind::Device)
    })
}

/// Returns the device of a backend that Burn is about to drop; until then it is a second opinion on the
/// results of `flex`.
#[cfg(feature = "ndarray")]
#[expect(deprecated, reason = "offered as long as Burn has it")]
fn ndarray() -> Device {
    Device::ndarray()
}

/// Brings rows of ids, each of `len` ids, to a device.
///
/// # Shapes
/// - output: `[rows, len]`
pub fn upload(ids: Vec<i32>, len: usize, device: &Device) -> Tensor<2, Int> {
    let rows = ids.len() / len.max(1);
    Tensor::from_data(TensorData::new(ids, [rows, len]), device)
}

/// Brings padded rows of ids to a device.
///
/// # Shapes
/// - output: `[rows, len]`
pub fn upload_rows(rows: &Padded, device: &Device) -> Tensor<2, Int> {
    upload(rows.ids.clone(), rows.len, device)
}

/// Brings the targets of a batch to a device, row after row. Positions with `pad_id` do not count in a
/// loss; on a GPU they are left out beforehand.
pub fn upload_targets(ids: &[i32], pad_id: u32, device: &Device) -> Targets {
    if computes_on_host(device) {
        return upload(ids.to_vec(), ids.len(), device)
            .flatten::<1>(0, 1)
            .into();
    }
    Targets::without_padding(ids.to_vec(), pad_id, device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "flex")]
    #[test]
    fn the_cpu_opens_by_name_and_is_listed_under_it() {
        assert_eq!(open("flex").expect("flex is in this build"), Device::flex());
        let list = list();
        assert!(
            list.iter()
                .any(|info| info.name == "flex" && info.backend == "flex" && info.kind == "cpu")
        );
    }

    #[test]
    fn a_cpu_shares_its_memory() {
        for info in list().iter().filter(|info| info.kind == "cpu") {
            assert!(
                !has_own_memory(&info.name).expect("it was listed a moment ago"),
                "{}",
                info.name
            );
        }
    }

    #[test]
    fn every_listed_name_is_known_to_open() {
        for info in list() {
            let known = list_devices(info.backend).expect("the backend was listed a moment ago");
            assert!(
                known.iter().any(|device| device.name == info.name),
                "{}",
                info.name
            );
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_with_a_suggestion() {
        let error = open("cudda:1")
            .expect_err("there is no such backend")
            .to_string();
        assert!(
            error.contains("unknown device `cudda:1`") && error.contains("`rocm`"),
            "{error}"
        );
        for (name, hint) in [
            ("cudda", "did you mean `cuda`?"),
            ("cpu", "the CPU is `flex`"),
            ("tenstorrent", "`polyglow devices`"),
        ] {
            let error = open(name).expect_err("there is no such backend");
            assert!(
                error.hint().is_some_and(|actual| actual.contains(hint)),
                "{name}: {:?}",
                error.hint()
            );
        }
    }

    #[cfg(feature = "flex")]
    #[test]
    fn a_device_that_a_backend_does_not_have_is_an_error_that_lists_those_it_has() {
        for name in ["flex:0", "flex:1", "flex:"] {
            let error = open(name)
                .expect_err("flex has one device and no numbers")
                .to_string();
            assert_eq!(error, format!("device `{name}`: there is only `flex`"));
        }
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_backend_that_is_not_in_this_build_is_an_error() {
        let error = open("cuda:0")
            .expect_err("cuda is not in this build")
            .to_string();
        assert_eq!(
            error,
            "device `cuda:0`: the backend `cuda` is not in this build"
        );
    }
}
