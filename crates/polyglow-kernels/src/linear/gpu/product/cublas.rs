//! Products by cuBLASLt, NVIDIA's library for them, where it is installed.
//!
//! Its kernels use matrix instructions that CubeCL cannot write: on Hopper they compute a product of
//! a step of `base` in bf16 in a fifth of the time (docs/gpu.md). The library chooses a kernel by a
//! formula, without a trial, so that training begins sooner, too.
//!
//! CubeCL launches on streams of its own, from a thread of the device. A product is handed to that
//! thread like a launch: there its memory is resolved, and the library is given the stream, so that
//! the product takes its turn between kernels.

#[expect(unsafe_code, reason = "the library is one of C")]
mod plan;

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::fusion::custom::StreamId;
use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::__private::Runtime;
use cubecl::client::Client;
use cubecl::cuda::CudaRuntime;
use cubecl::device::DeviceId;
use cubecl::device_handle::DeviceHandle;
use cubecl::dry_run::launch_mode;
use cubecl::logging::{LaunchObserver, TimingRequest};
use cubecl::prelude::KernelId;
use cubecl::server::{Server, ServerError, ServerStorage};
use cubecl_server::stream::{ExecuteScope, WriteScoped};

use self::plan::{Matrix, Plan, Product};

type CudaServer = <CudaRuntime as Runtime>::Server;

/// The name of a product to those who observe launches.
const NAME: &str = "cuBLASLt";

/// Computes a product, and returns whether it was: not without the library, on another device than
/// one of CUDA, or for formats and views that the library does not know.
pub(super) fn launch(left: &CubeTensor, right: &CubeTensor, output: &CubeTensor) -> bool {
    let Some(device) = cuda_device(&output.client) else {
        return false;
    };
    let Some(product) = describe(left, right, output) else {
        return false;
    };
    let Some(plan) = planned(device, product) else {
        return false;
    };
    // A warm-up of a shape wants what is compiled, not the product.
    if !launch_mode().is_skipped() {
        observed(&output.client, || {
            enqueue(&output.client, device, plan, [left, right, output]);
        });
    }
    true
}

/// Whether products on the device of a client are computed by the library.
pub(super) fn is_used(client: &Client) -> bool {
    cuda_device(client).is_some()
}

/// The device of a client if it computes by CUDA and the library is installed.
fn cuda_device(client: &Client) -> Option<DeviceId> {
    let service = client.service_id();
    (service.service == TypeId::of::<CudaServer>() && plan::is_installed())
        .then_some(service.device)
}

/// The product as the library needs to know it; `None` if it cannot compute it.
fn describe(left: &CubeTensor, right: &CubeTensor, output: &CubeTensor) -> Option<Product> {
    let formats = [left.dtype, right.dtype, output.dtype];
    let is_known = matches!(
        formats,
        [DType::F32, DType::F32, DType::F32]
            | [DType::F16, DType::F16, DType::F16 | DType::F32]
            | [DType::BF16, DType::BF16, DType::BF16 | DType::F32]
    );
    let is_empty = [left, right]
        .iter()
        .any(|matrix| matrix.meta.num_elements() == 0);
    if !is_known || is_empty {
        return None;
    }
    Some(Product {
        left: matrix(left)?,
        right: matrix(right)?,
        output: matrix(output)?,
    })
}

/// A matrix, or a stack of them, whose rows or columns lie together.
fn matrix(tensor: &CubeTensor) -> Option<Matrix> {
    let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
    let (stack, rows, columns) = match *shape.as_slice() {
        [rows, columns] => (1, rows, columns),
        [stack, rows, columns] => (stack, rows, columns),
        _ => return None,
    };
    let [row, column] = [strides[strides.len() - 2], strides[strides.len() - 1]];
    // An axis of length 1 may have any stride.
    let is_transposed = column != 1 && columns != 1;
    let (distance, width) = if !is_transposed {
        (if rows > 1 { row } else { columns }, columns)
    } else if row == 1 || rows == 1 {
        (column, rows)
    } else {
        return None;
    };
    let offset = tensor.handle.offset_start.unwrap_or(0);
    (distance >= width).then_some(Matrix {
        stack,
        rows,
        columns,
        distance,
        is_transposed,
        step: if stack > 1 { strides[0] } else { 0 },
        dtype: tensor.dtype,
        // Memory itself is aligned to more than any kernel asks for.
        alignment: 1 << offset.trailing_zeros().min(8),
    })
}

/// The plan of a product, which is made once; `None` if the library has no kernel for it.
fn planned(device: DeviceId, product: Product) -> Option<Arc<Plan>> {
    type Plans = HashMap<(DeviceId, Product), Option<Arc<Plan>>>;
    static PLANS: Mutex<Option<Plans>> = Mutex::new(None);
    let lock = || PLANS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (device, product);
    if let Some(plan) = lock().as_ref().and_then(|plans| plans.get(&key)) {
        return plan.clone();
    }
    let stream = StreamId::current();
    let planned = handle(device).submit_blocking(move |server| {
        // It makes the device's context that of the thread, which the library asks for.
        server.staging(&[], stream).ok()?;
        Some(Plan::new(&product).map(Arc::new))
    });
    // What the library says is kept, an error of the device is not.
    let plan = planned.ok().flatten()?;
    lock().get_or_insert_default().insert(key, plan.clone());
    plan
}

fn handle(device: DeviceId) -> DeviceHandle<CudaServer> {
    DeviceHandle::new(device)
}

/// Hands the product to the device's thread.
#[expect(unsafe_code, reason = "the library computes with addresses")]
fn enqueue(client: &Client, device: DeviceId, plan: Arc<Plan>, matrices: [&CubeTensor; 3]) {
    let stream = StreamId::current();
    let [left, right, output] = matrices.map(|matrix| matrix.handle.clone().binding());
    let workspace = client.empty(plan.workspace().max(1)).binding();
    handle(device).submit(move |server| {
        // Before the scope, within which what is written counts as not written.
        let written =
            [&output, &workspace].map(|memory| server.get_resource(memory.clone(), stream));
        let reads = [&left, &right].into_iter();
        let kernel = KernelId::new::<Plan>();
        let scope = ExecuteScope::launching(server, kernel, stream, reads, vec![output.clone()]);
        scope.execute(|server| {
            let read = [&left, &right].map(|memory| server.get_resource(memory.clone(), stream));
            let ([left_memory, right_memory], [output_memory, workspace_memory]) = (read, written);
            let memory = [
                left_memory?,
                right_memory?,
                output_memory?,
                workspace_memory?,
            ];
            let bindings = [&left, &right, &output, &workspace].into_iter();
            let mut streams = server.write_streams().resolve(stream, bindings)?;
            let [left, right, output, workspace] =
                memory.each_ref().map(|memory| memory.resource().ptr);
            // SAFETY: the addresses are of memory that `memory` holds, with the sizes that the plan
            // was made for, on the device of this thread, whose stream this is.
            unsafe { plan.enqueue(left, right, output, workspace, streams.current().sys) }
                .map_err(|error| failure(&error))
        });
    });
}

fn failure(error: &str) -> ServerError {
    ServerError::Generic {
        reason: format!("cuBLASLt could not compute a product: {error}"),
        backtrace: Default::default(),
    }
}

/// The observer of launches that is called for products, too.
static OBSERVER: Mutex<Option<Arc<dyn LaunchObserver>>> = Mutex::new(None);

/// Calls an observer of launches for each product that cuBLASLt computes, until it is dropped: CubeCL
/// does not see those.
pub struct ProductObservation(());

impl ProductObservation {
    /// Begins to call `observer`, and no other.
    #[must_use]
    pub fn new(observer: Arc<dyn LaunchObserver>) -> Self {
        *OBSERVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(observer);
        Self(())
    }
}

impl Drop for ProductObservation {
    fn drop(&mut self) {
        *OBSERVER.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Enqueues a product, and calls the observer with its time on the device if it asks for that.
fn observed(client: &Client, enqueue: impl FnOnce() + Send) {
    let observer = OBSERVER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let Some(observer) = observer else {
        enqueue();
        return;
    };
    observer.launched(NAME);
    if observer.timing() != TimingRequest::Deferred {
        enqueue();
    } else if let Ok(((), time)) = client.profile(enqueue, NAME) {
        observer.profiled(NAME, time);
    }
}
