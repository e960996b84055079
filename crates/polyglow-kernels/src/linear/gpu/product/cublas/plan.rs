//! The calls of cuBLASLt.
//!
//! The library counts matrices by columns. A matrix whose rows lie together is, by columns, its
//! transpose: so `right` goes first and `left` second, and the library computes the transpose of the
//! product by columns, which is the product by rows.

use std::cell::OnceCell;
use std::ffi::c_void;
use std::ptr::from_ref;
use std::sync::OnceLock;

use burn::tensor::DType;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t as Description,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtMatrixLayout_t,
    cublasLtMatrixLayoutAttribute_t as Layout, cudaDataType_t,
};
use cudarc::driver::sys::CUstream;

/// Bytes that a kernel may use between its beginning and its end; NVIDIA's documentation asks for
/// as many on Hopper.
const MAX_WORKSPACE: usize = 32 << 20;

/// Whether the library is there.
pub(super) fn is_installed() -> bool {
    static IS_INSTALLED: OnceLock<bool> = OnceLock::new();
    // SAFETY: NVIDIA's library is loaded and unloaded, which it allows at any time.
    *IS_INSTALLED.get_or_init(|| unsafe { sys::is_culib_present() })
}

/// A matrix in memory, or several one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Matrix {
    /// The number of matrices, one behind the other.
    pub(super) stack: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Elements from a row to the next, or from a column to the next.
    pub(super) distance: usize,
    /// Whether columns lie together, and not rows.
    pub(super) is_transposed: bool,
    /// Elements from a matrix to the next.
    pub(super) step: usize,
    pub(super) dtype: DType,
    /// Bytes that its address is a multiple of.
    pub(super) alignment: u32,
}

/// Two factors, and their product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Product {
    pub(super) left: Matrix,
    pub(super) right: Matrix,
    pub(super) output: Matrix,
}

/// A kernel of cuBLASLt that was chosen for a product, with its layouts and its workspace.
pub(super) struct Plan {
    library: cublasLtHandle_t,
    description: cublasLtMatmulDesc_t,
    left: cublasLtMatrixLayout_t,
    right: cublasLtMatrixLayout_t,
    output: cublasLtMatrixLayout_t,
    kernel: cublasLtMatmulAlgo_t,
    workspace: usize,
}

// SAFETY: the library's functions may be called by several threads, and nothing here is changed.
unsafe impl Send for Plan {}
// SAFETY: see above.
unsafe impl Sync for Plan {}

impl Plan {
    /// Chooses a kernel, and `None` if there is none. The calling thread has the context of the
    /// device.
    pub(super) fn new(product: &Product) -> Option<Self> {
        let library = library()?;
        Self::chosen(library, product).ok()
    }

    fn chosen(library: cublasLtHandle_t, product: &Product) -> Result<Self, CublasError> {
        // What is made here is kept for as long as the process lives, as its plan is.
        let description = description(product)?;
        let [left, right, output] = [&product.left, &product.right, &product.output].map(layout);
        let (left, right, output) = (left?, right?, output?);
        let preference = result::create_matmul_pref()?;
        set_preference(
            preference,
            Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            &MAX_WORKSPACE,
        )?;
        for (attribute, matrix) in [
            (
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                &product.right,
            ),
            (
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                &product.left,
            ),
            (
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                &product.output,
            ),
            (
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                &product.output,
            ),
        ] {
            set_preference(preference, attribute, &matrix.alignment)?;
        }
        // SAFETY: all of them were made above.
        let found = unsafe {
            let found = result::get_matmul_algo_heuristic(
                library,
                description,
                right,
                left,
                output,
                output,
                preference,
            );
            result::destroy_matmul_pref(preference)?;
            found?
        };
        Ok(Self {
            library,
            description,
            left,
            right,
            output,
            kernel: found.algo,
            workspace: found.workspaceSize,
        })
    }

    /// Bytes that the kernel uses while it runs.
    pub(super) fn workspace(&self) -> usize {
        self.workspace
    }

    /// Puts the product into a stream.
    ///
    /// # Errors
    /// The library refuses it, with its name of the error.
    ///
    /// # Safety
    /// The addresses are of memory on the stream's device, with as many elements as the matrices of
    /// the plan, that stays there until the stream has come to the product.
    pub(super) unsafe fn enqueue(
        &self,
        left: u64,
        right: u64,
        output: u64,
        workspace: u64,
        stream: CUstream,
    ) -> Result<(), String> {
        let (one, zero) = (1.0f32, 0.0f32);
        // SAFETY: the caller's promise; the descriptions were made by the library and never freed.
        unsafe {
            result::matmul(
                self.library,
                self.description,
                from_ref(&one).cast(),
                from_ref(&zero).cast(),
                right as *const c_void,
                self.right,
                left as *const c_void,
                self.left,
                output as *const c_void,
                self.output,
                output as *mut c_void,
                self.output,
                &raw const self.kernel,
                workspace as *mut c_void,
                self.workspace,
                stream.cast(),
            )
        }
        .map_err(|CublasError(status)| format!("{status:?}"))
    }
}

/// The library for the device of this thread; `None` if it cannot be started.
fn library() -> Option<cublasLtHandle_t> {
    thread_local! {
        // Each device has a thread of its own, which lives as long as the process.
        static LIBRARY: OnceCell<Option<cublasLtHandle_t>> = const { OnceCell::new() };
    }
    LIBRARY.with(|library| *library.get_or_init(|| result::create_handle().ok()))
}

fn description(product: &Product) -> Result<cublasLtMatmulDesc_t, CublasError> {
    // f32 is rounded to tf32, as CubeCL's kernels do.
    let sums = match product.left.dtype {
        DType::F32 => cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        _ => cublasComputeType_t::CUBLAS_COMPUTE_32F,
    };
    let description = result::create_matmul_desc(sums, cudaDataType_t::CUDA_R_32F)?;
    for (attribute, matrix) in [
        (Description::CUBLASLT_MATMUL_DESC_TRANSA, &product.right),
        (Description::CUBLASLT_MATMUL_DESC_TRANSB, &product.left),
    ] {
        // `cublasOperation_t`: 1 transposes.
        let operation = i32::from(matrix.is_transposed);
        // SAFETY: the description was made above, and the value is of the type of the attribute.
        unsafe {
            result::set_matmul_desc_attribute(
                description,
                attribute,
                from_ref(&operation).cast(),
                size_of_val(&operation),
            )?;
        }
    }
    Ok(description)
}

fn layout(matrix: &Matrix) -> Result<cublasLtMatrixLayout_t, CublasError> {
    // By columns: the axis whose elements lie together comes first.
    let (together, other) = if matrix.is_transposed {
        (matrix.rows, matrix.columns)
    } else {
        (matrix.columns, matrix.rows)
    };
    let dtype = match matrix.dtype {
        DType::F16 => cudaDataType_t::CUDA_R_16F,
        DType::BF16 => cudaDataType_t::CUDA_R_16BF,
        _ => cudaDataType_t::CUDA_R_32F,
    };
    let layout =
        result::create_matrix_layout(dtype, together as u64, other as u64, matrix.distance as i64)?;
    if matrix.stack > 1 {
        let (stack, step) = (matrix.stack as i32, matrix.step as i64);
        // SAFETY: the layout was made above, and the values are of the types of the attributes.
        unsafe {
            result::set_matrix_layout_attribute(
                layout,
                Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                from_ref(&stack).cast(),
                size_of_val(&stack),
            )?;
            result::set_matrix_layout_attribute(
                layout,
                Layout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                from_ref(&step).cast(),
                size_of_val(&step),
            )?;
        }
    }
    Ok(layout)
}

fn set_preference<T>(
    preference: sys::cublasLtMatmulPreference_t,
    attribute: Preference,
    value: &T,
) -> Result<(), CublasError> {
    // SAFETY: the preference was made by the caller, and the value is of the type of the attribute.
    unsafe {
        result::set_matmul_pref_attribute(
            preference,
            attribute,
            from_ref(value).cast(),
            size_of::<T>(),
        )
    }
}
