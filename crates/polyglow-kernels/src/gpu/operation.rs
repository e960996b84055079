//! Kernels of our own in the queue of Burn's fusion.
//!
//! Burn's fusion collects operations lazily and fuses neighboring ones into a kernel when a result
//! is needed. A kernel that was launched at once would run before operations that are still queued,
//! so [`queue`] registers it as a custom operation: the fusion runs what stands before it, then
//! calls the closure with the tensors, and continues. Shapes and formats of outputs are therefore
//! known before anything is computed.

use std::sync::OnceLock;

use burn::backend::Cube;
use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::fusion::FusionTensor;
use burn::backend::fusion::custom::{
    CustomOpIr, HandleContainer, OperationFn, OperationIr, StreamId, TensorId, TensorIr,
};
use burn::tensor::kind::Basic;
use burn::tensor::{BackendPrimitive, DType, Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::features::Plane;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::CubeCount;
use burn_cubecl::fusion::FusionCubeRuntime;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

/// A tensor on a GPU that a custom operation reads or has written.
#[derive(Clone, Debug)]
pub(crate) struct Operand(FusionTensor<FusionCubeRuntime>);

impl<const D: usize, K> From<Tensor<D, K>> for Operand
where
    K: Basic + BackendPrimitive<Cube, Primitive = FusionTensor<FusionCubeRuntime>>,
{
    fn from(tensor: Tensor<D, K>) -> Self {
        Self(
            tensor
                .try_into_primitive::<Cube>()
                .expect("it is outside of the graph, and on a GPU"),
        )
    }
}

impl Operand {
    /// The identity of the tensor in the fusion, which clones share.
    pub(crate) fn id(&self) -> TensorId {
        self.0.id
    }

    /// The format of the elements.
    pub(crate) fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// The length of an axis.
    pub(crate) fn len(&self, axis: usize) -> usize {
        self.0.shape[axis]
    }

    /// The number of elements.
    pub(crate) fn num_elements(&self) -> usize {
        self.0.shape.num_elements()
    }

    /// The operand as a float tensor with `D` axes.
    pub(crate) fn tensor<const D: usize>(self) -> Tensor<D> {
        Tensor::from_primitive::<Cube>(self.0)
    }
}

/// The shape and the element type of a tensor that an operation writes.
pub(crate) type Written = (Vec<usize>, DType);

/// Queues an operation, and returns the tensors that it will have written.
///
/// `launch` is called when its turn comes, with the tensors that it reads, contiguous unless they
/// are masks, and those that it has to write, which are not initialized. `name` shows in profiles.
pub(crate) fn queue<const I: usize, const O: usize>(
    name: &str,
    inputs: [Operand; I],
    outputs: [Written; O],
    launch: impl Fn(&Client, [CubeTensor; I], [CubeTensor; O]) + Send + Sync + 'static,
) -> [Operand; O] {
    queue_all(
        name,
        inputs.into(),
        outputs,
        into_contiguous,
        move |client, inputs, written| {
            launch(
                client,
                inputs.try_into().expect("as many as were given"),
                written,
            );
        },
    )
}

/// [`queue`], with the tensors that it reads as they are, for kernels that read by strides.
pub(crate) fn queue_strided<const I: usize, const O: usize>(
    name: &str,
    inputs: [Operand; I],
    outputs: [Written; O],
    launch: impl Fn(&Client, [CubeTensor; I], [CubeTensor; O]) + Send + Sync + 'static,
) -> [Operand; O] {
    queue_all(
        name,
        inputs.into(),
        outputs,
        |tensor| tensor,
        move |client, inputs, written| {
            launch(
                client,
                inputs.try_into().expect("as many as were given"),
                written,
            );
        },
    )
}

/// [`queue`] with any number of tensors to read, at least one, and what is done with each first.
pub(crate) fn queue_all<const O: usize>(
    name: &str,
    inputs: Vec<Operand>,
    outputs: [Written; O],
    prepare: fn(CubeTensor) -> CubeTensor,
    launch: impl Fn(&Client, Vec<CubeTensor>, [CubeTensor; O]) + Send + Sync + 'static,
) -> [Operand; O] {
    let client = inputs[0].0.client.clone();
    let inputs: Vec<TensorIr> = inputs
        .into_iter()
        .map(|operand| operand.0.into_ir())
        .collect();
    let outputs = outputs.map(|(shape, dtype)| {
        TensorIr::uninit(client.create_empty_handle(), Shape::from(shape), dtype)
    });
    let description = CustomOpIr {
        id: name.to_owned(),
        inputs: inputs.clone(),
        outputs: outputs.to_vec(),
        scalars: Vec::new(),
    };
    let execute = OperationFn(move |handles: &mut HandleContainer<_>| {
        let mut read = |input: &TensorIr| {
            let tensor = handles.get_float_tensor::<CubeBackend>(input);
            // Kernels read masks by their strides, so that a view need not be copied.
            if input.dtype.is_bool() {
                tensor
            } else {
                prepare(tensor)
            }
        };
        let inputs: Vec<CubeTensor> = inputs.iter().map(&mut read).collect();
        let client = inputs[0].client.clone();
        let device = inputs[0].device.clone();
        // By default tensors on CUDA and ROCm may have padding between rows, and kernels index rows
        // without it.
        let written = outputs.each_ref().map(|output| {
            empty_device_contiguous_dtype(
                client.clone(),
                device.clone(),
                output.shape.clone(),
                output.dtype,
            )
        });
        launch(&client, inputs, written.clone());
        for (output, tensor) in outputs.iter().zip(written) {
            handles.register_float_tensor::<CubeBackend>(&output.id, tensor);
        }
        Ok(())
    });
    let operands = client.register(
        StreamId::current(),
        OperationIr::Custom(description),
        execute,
    );
    operands
        .into_iter()
        .map(Operand)
        .collect::<Vec<_>>()
        .try_into()
        .expect("there is one for each that is written")
}

/// A small tensor to bind where a kernel has an output that it does not write in this variant:
/// every parameter of a kernel needs a binding.
pub(crate) fn placeholder(client: &Client, like: &CubeTensor) -> CubeTensor {
    empty_device_contiguous_dtype(
        client.clone(),
        like.device.clone(),
        Shape::from([MAX_LANES]),
        like.dtype,
    )
}

/// The most elements that a thread reads at once: 16 bytes of f32.
const MAX_LANES: usize = 4;

/// Elements that a thread reads at once from rows of this width: the largest of 4, 2 and 1 that
/// divides it, so that no vector crosses the end of a row.
pub(crate) fn vector_size(width: usize) -> usize {
    [MAX_LANES, 2]
        .into_iter()
        .find(|lanes| width.is_multiple_of(*lanes))
        .unwrap_or(1)
}

/// At least `count` workgroups, on two axes because no axis may have 2^16. Kernels check their
/// position against the number of rows.
pub(crate) fn workgroups(count: usize) -> CubeCount {
    // Both axes together may have more than `count`, hence the check in kernels.
    let side = count.clamp(1, 1 << 15);
    CubeCount::Static(side as u32, count.div_ceil(side) as u32, 1)
}

/// The element type of a tensor, as launches take it.
pub(crate) fn elements(tensor: &CubeTensor) -> ElemType {
    dtype_to_storage_type(tensor.dtype)
}

/// The client of a tensor's device.
pub(crate) fn client(tensor: &Operand) -> Client {
    tensor.0.client.device().client()
}

/// The bytes of shared memory that a workgroup may have on a tensor's device.
pub(crate) fn shared_memory(tensor: &Operand) -> usize {
    client(tensor).properties().hardware.max_shared_memory_size
}

/// The number of bindings that a kernel may have on a tensor's device.
pub(crate) fn max_bindings(tensor: &Operand) -> usize {
    client(tensor).properties().hardware.max_bindings as usize
}

/// Whether threads exchange numbers also where CubeCL says nothing of it, as of drivers that compute on
/// the CPU: comparisons with the CPU set this, so that the kernels of GPUs are compared without one.
fn is_forced() -> bool {
    static IS_FORCED: OnceLock<bool> = OnceLock::new();
    *IS_FORCED.get_or_init(|| std::env::var_os("POLYGLOW_EXCHANGE").is_some())
}

/// Whether `count` neighboring threads on a tensor's device exchange numbers without shared memory.
pub(crate) fn exchanges_numbers(tensor: &Operand, count: usize) -> bool {
    let client = client(tensor);
    let properties = client.properties();
    // Threads that have no row leave the loops of the others, a plane at a time.
    let needed = Plane::Ops | Plane::NonUniformControlFlow;
    (properties.features.plane.is_superset(needed) || is_forced())
        && properties.hardware.plane_size_min as usize >= count
}
