//! The kernels of `CubeK` for a product, of which few are tried.
//!
//! Burn tries up to 33 kernels for a product, and each has to be compiled first, one after the
//! other: on an H200 it was at it for minutes before a training's first step. Most of them win
//! nowhere. Of the products of a step of `base` in bf16 the best of two takes 1.02 of the time of
//! the best of all (docs/gpu.md). Small products, of which a search has one for each number of
//! sentences that are left, go to one kernel without a trial. With `CUBECL_AUTOTUNE_LEVEL=full` all
//! kernels are tried for all products that the cache of kernels does not know yet.
//!
//! Burn also fuses a product with what follows it, by other kernels that are tried as well; here
//! that is a kernel of its own, which reads and writes the product once more.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use burn::backend::cubecl::dtype_to_storage_type;
use burn_cubecl::CubeTuneId;
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::config::autotune::AutotuneLevel;
use burn_cubecl::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::tune::{LocalTuner, Tunable, TunableSet, TuneGroup, local_tuner};
use burn_cubecl::tensor::CubeTensor;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::launch_ref;
use cubek::matmul::multi_level::Strategy;
use cubek::matmul::multi_level::components::tile::TileMatmulKind;
use cubek::matmul::multi_level::definition::adjust_dtypes;
use cubek::matmul::multi_level::routines::TileSizeSelection;
use cubek::matmul::multi_level::routines::batch::double_buffering::DoubleBufferingArgs;
use cubek::matmul::multi_level::routines::batch::double_unit::DoubleUnitSelectionArgs;
use cubek::matmul::multi_level::routines::batch::ordered_double_buffering::OrderedSelectionArgs;
use cubek::matmul::multi_level::routines::batch::simple::SimpleArgs;
use cubek::matmul::multi_level::routines::batch::simple_unit::SimpleUnitSelectionArgs;
use cubek::matmul::multi_level::routines::gemm::GemmStrategy;
use cubek::matmul::routine::BlueprintStrategy::Inferred;
use cubek::matmul::tune_key::MatmulAutotuneKey;
use cubek::std::InputBinding;

/// Products with fewer multiplications than this take microseconds: finding the fastest kernel for
/// each of them would cost more than it brings.
const SMALL: usize = 1 << 30;

/// Two factors, and their product.
type Matrices = (CubeTensor, CubeTensor, CubeTensor);

/// The formats of two factors and of their product.
type Formats = [ElemType; 3];

/// Computes a product by the kernel that was the fastest for products of about this size, and finds
/// out which that is when the first comes.
pub(super) fn launch_fastest(left: CubeTensor, right: CubeTensor, output: CubeTensor) {
    let matrices = (left, right, output);
    if multiplications(&matrices) == 0 && matrices.2.meta.num_elements() == 0 {
        return;
    }
    if multiplications(&matrices) < SMALL && !tries_all() {
        launch_small(&matrices);
    } else {
        launch_tuned(matrices);
    }
}

/// Whether `CUBECL_AUTOTUNE_LEVEL`, or the file that CubeCL reads, asks for everything to be tried.
fn tries_all() -> bool {
    static TRIES_ALL: OnceLock<bool> = OnceLock::new();
    *TRIES_ALL.get_or_init(|| {
        let config = CubeClRuntimeConfig::get();
        matches!(config.autotune.level, AutotuneLevel::Full)
    })
}

fn multiplications((left, _, output): &Matrices) -> usize {
    let terms = left.meta.shape().last().copied().unwrap_or(1);
    output.meta.num_elements() * terms
}

/// The units of a device that a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    /// Units for matrices, as NVIDIA's instructions have them.
    Mma,
    /// Units for matrices, as every interface has them.
    Cmma,
    /// None but those for single numbers.
    Any,
}

impl Units {
    /// Whether a device has them for these formats, or for those that a kernel rounds them to.
    fn are_supported(self, client: &Client, formats: Formats) -> bool {
        let kind = match self {
            Self::Mma => TileMatmulKind::Mma,
            Self::Cmma => TileMatmulKind::Cmma,
            Self::Any => return true,
        };
        let mut elements = elems_from_formats(formats);
        adjust_dtypes(client, &mut elements, kind.requires_accelerator());
        let sizes = kind.supported_sizes(
            client,
            elements.lhs_register,
            elements.rhs_register,
            elements.acc_register,
        );
        !sizes.is_empty()
    }
}

/// Launches the first kernel that suits the device and the formats.
fn launch_small(matrices: &Matrices) {
    /// The position of the kernel that was taken for these formats on this device.
    static TAKEN: Mutex<Option<HashMap<(CubeTuneId, Formats), usize>>> = Mutex::new(None);
    let lock = || TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let client = &matrices.2.client;
    let formats = formats(matrices);
    let key = (CubeTuneId::new(client, &matrices.2.device), formats);
    let known = lock().as_ref().and_then(|taken| taken.get(&key).copied());
    let kernels = kernels_for_small().into_iter().enumerate();
    for (position, (strategy, units)) in kernels.skip(known.unwrap_or(0)) {
        let is_supported = known == Some(position) || units.are_supported(client, formats);
        if is_supported && launch(&strategy, matrices.clone()).is_ok() {
            if known != Some(position) {
                lock().get_or_insert_default().insert(key, position);
            }
            return;
        }
    }
    unreachable!("the last kernel computes every product");
}

/// The first was the fastest on an H200 for most products of f32 with few rows by CUDA; what Vulkan has,
/// and what every device has, comes behind it.
fn kernels_for_small() -> [(Strategy, Units); 4] {
    [
        (
            Strategy::DoubleCyclicMma(Inferred(double(TileMatmulKind::Mma))),
            Units::Mma,
        ),
        (
            Strategy::SimpleCyclicCmma(Inferred(simple(TileMatmulKind::Cmma))),
            Units::Cmma,
        ),
        (units(TileSizeSelection::MinTileSize), Units::Any),
        (Strategy::Naive, Units::Any),
    ]
}

fn simple(tile_matmul: TileMatmulKind) -> SimpleArgs {
    SimpleArgs {
        multi_rows: true,
        tile_matmul,
    }
}

fn double(tile_matmul: TileMatmulKind) -> DoubleBufferingArgs {
    DoubleBufferingArgs {
        specialized: false,
        tile_matmul,
    }
}

fn ordered(tile_matmul: TileMatmulKind, row_count: u32) -> OrderedSelectionArgs {
    OrderedSelectionArgs {
        partition_k: Some(2),
        row_count: Some(row_count),
        rows_per_plane: Some(2),
        tile_matmul,
    }
}

fn units(tile_size: TileSizeSelection) -> Strategy {
    Strategy::SimpleUnit(Inferred(SimpleUnitSelectionArgs { tile_size }))
}

/// When a kernel is tried for a large product.
#[derive(Clone, Copy, PartialEq)]
enum Tried {
    /// Always.
    Always,
    /// For devices without units for NVIDIA's matrix instructions.
    WithoutMma,
    /// If all are.
    WithAll,
    /// If all others fail.
    Last,
}

fn kernels_for_large() -> Vec<(Strategy, Units, Tried)> {
    use TileMatmulKind::{Cmma, Mma};
    use Tried::{Always, Last, WithAll, WithoutMma};
    let single_row = |tile_matmul| SimpleArgs {
        multi_rows: false,
        tile_matmul,
    };
    let specialized = |tile_matmul| DoubleBufferingArgs {
        specialized: true,
        tile_matmul,
    };
    let double_units =
        |tile_size| Strategy::DoubleUnit(Inferred(DoubleUnitSelectionArgs { tile_size }));
    let gemm = GemmStrategy {
        target_num_planes: None,
    };
    vec![
        (
            Strategy::OrderedDoubleCmma(Inferred(ordered(Cmma, 8))),
            Units::Cmma,
            Always,
        ),
        (
            Strategy::DoubleCyclicMma(Inferred(double(Mma))),
            Units::Mma,
            Always,
        ),
        (
            Strategy::SimpleCyclicCmma(Inferred(simple(Cmma))),
            Units::Cmma,
            WithoutMma,
        ),
        (
            Strategy::OrderedDoubleMma(Inferred(ordered(Mma, 8))),
            Units::Mma,
            WithAll,
        ),
        (
            Strategy::SimpleCyclicMma(Inferred(simple(Mma))),
            Units::Mma,
            WithAll,
        ),
        (
            Strategy::SimpleCyclicMma(Inferred(single_row(Mma))),
            Units::Mma,
            WithAll,
        ),
        (
            Strategy::SimpleCyclicCmma(Inferred(single_row(Cmma))),
            Units::Cmma,
            WithAll,
        ),
        (
            Strategy::OrderedDoubleMma(Inferred(ordered(Mma, 4))),
            Units::Mma,
            WithAll,
        ),
        (
            Strategy::OrderedDoubleCmma(Inferred(ordered(Cmma, 4))),
            Units::Cmma,
            WithAll,
        ),
        (
            Strategy::DoubleCyclicCmma(Inferred(double(Cmma))),
            Units::Cmma,
            WithAll,
        ),
        (
            Strategy::DoubleCyclicCmma(Inferred(specialized(Cmma))),
            Units::Cmma,
            WithAll,
        ),
        (
            Strategy::DoubleCyclicMma(Inferred(specialized(Mma))),
            Units::Mma,
            WithAll,
        ),
        (
            Strategy::SpecializedCyclicMma(Inferred(().into())),
            Units::Mma,
            WithAll,
        ),
        (
            Strategy::SimpleTmaMma(Inferred(single_row(Mma))),
            Units::Mma,
            WithAll,
        ),
        (
            Strategy::SimpleTmaMma(Inferred(simple(Mma))),
            Units::Mma,
            WithAll,
        ),
        (
            Strategy::SpecializedTmaMma(Inferred(().into())),
            Units::Mma,
            WithAll,
        ),
        (units(TileSizeSelection::MaxTileSize), Units::Any, Always),
        (
            double_units(TileSizeSelection::MaxTileSize),
            Units::Any,
            Always,
        ),
        (Strategy::Gemm(Inferred(gemm)), Units::Any, Always),
        (units(TileSizeSelection::MinTileSize), Units::Any, WithAll),
        (
            double_units(TileSizeSelection::MinTileSize),
            Units::Any,
            WithAll,
        ),
        (Strategy::Naive, Units::Any, Last),
    ]
}

fn launch_tuned(matrices: Matrices) {
    static TUNER: LocalTuner<MatmulAutotuneKey, CubeTuneId> = local_tuner!();
    let client = matrices.2.client.clone();
    let id = CubeTuneId::new(&client, &matrices.2.device);
    let tune_client = client.clone();
    let candidates = TUNER.init(&id, move || candidates(&tune_client));
    TUNER.execute(&id, &client, candidates, matrices);
}

fn candidates(client: &Client) -> TunableSet<MatmulAutotuneKey, Matrices, ()> {
    // Those of a group are tried if all of the groups with larger numbers fail.
    let matrix_units = TuneGroup::<MatmulAutotuneKey>::new("matrix units", |_| 2);
    let any_units = TuneGroup::<MatmulAutotuneKey>::new("any units", |_| 1);
    let last = TuneGroup::<MatmulAutotuneKey>::new("last", |_| 0);
    // Trials write to a copy, so that the product itself is computed once, by the winner.
    let trial = |_: &MatmulAutotuneKey, (left, right, output): &Matrices| {
        (left.clone(), right.clone(), output.copy())
    };
    let mut set = TunableSet::new(key, trial);
    for (strategy, units, tried) in kernels_for_large() {
        let client = client.clone();
        let group = match (units, tried) {
            (_, Tried::Last) => &last,
            (Units::Any, _) => &any_units,
            _ => &matrix_units,
        };
        let tunable = Tunable::new(&strategy.to_string(), move |matrices: Matrices| {
            launch(&strategy, matrices)
        });
        set = set.with(tunable.group(group, move |key| {
            let product = &key.definition;
            let formats = [product.elem_lhs, product.elem_rhs, product.elem_out];
            let is_tried = match tried {
                Tried::Always | Tried::Last => true,
                Tried::WithoutMma => tries_all() || !Units::Mma.are_supported(&client, formats),
                Tried::WithAll => tries_all(),
            };
            // A kernel with a negative number is not tried.
            if is_tried && units.are_supported(&client, formats) {
                0
            } else {
                -1
            }
        }));
    }
    set
}

/// Returns a key that products share for which the same kernel is the fastest: formats, layouts,
/// and sizes up to a power of 2.
fn key((left, right, output): &Matrices) -> MatmulAutotuneKey {
    MatmulAutotuneKey::from_parts(
        left.meta.shape(),
        right.meta.shape(),
        left.meta.strides(),
        right.meta.strides(),
        left.meta.tiling,
        right.meta.tiling,
        dtype_to_storage_type(left.dtype),
        dtype_to_storage_type(right.dtype),
        dtype_to_storage_type(output.dtype),
        None,
        None,
    )
}

fn formats((left, right, output): &Matrices) -> Formats {
    [left, right, output].map(|matrix| dtype_to_storage_type(matrix.dtype))
}

fn elems_from_formats([lhs, rhs, out]: Formats) -> MatmulElems {
    MatmulElems::from_globals(&MatmulGlobalElems { lhs, rhs, out })
}

/// Launches a kernel.
///
/// # Errors
/// It does not suit the product or the device.
fn launch(strategy: &Strategy, matrices: Matrices) -> Result<(), String> {
    let formats = formats(&matrices);
    let (left, right, output) = matrices;
    let client = output.client.clone();
    launch_ref(
        &strategy.clone().into(),
        &client,
        InputBinding::new(left.binding(), formats[0]),
        InputBinding::new(right.binding(), formats[1]),
        output.binding(),
        &mut elems_from_formats(formats),
    )
    .map_err(|error| format!("{error:?}"))
}
