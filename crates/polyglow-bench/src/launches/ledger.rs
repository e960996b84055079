//! A record of the blocks that Burn's fusion server runs, written while it runs them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::backend::fusion::observer::{BlockOperations, FusionObserver};
use burn::backend::ir::{OperationIr, TensorId, TensorIr, TensorStatus};
use burn::cubecl::dry_run::{LaunchMode, launch_mode};
use burn::cubecl::logging::LaunchObserver;

use super::operations::{name, product};

/// Operations that give a tensor other axes, and mostly move nothing.
const VIEWS: [&str; 4] = ["Reshape", "SwapDims", "Permute", "Expand"];

/// Operations that launch no kernel: data that comes from the host, and blocks that only drop tensors.
const NOTHING: [&str; 2] = ["", "Init"];
/// The name of a kernel whose block was not compiled.
const UNKNOWN: &str = "not compiled";

/// Operations that run together: one fused kernel's, or a single one.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// The names of the operations, in order: `Matmul Add Relu`.
    pub(super) operations: String,
    /// The kernels that were launched for them.
    pub(super) kernels: Vec<&'static str>,
    /// Bytes of the tensors that the block reads, each counted once.
    pub(super) read: u64,
    /// Bytes of the tensors that the block makes and that outlive it.
    pub(super) written: u64,
    /// Floating-point operations of their matrix products.
    pub(super) flops: f64,
    /// The units of the device that compute the products; `None` without products.
    pub(super) units: Option<Units>,
}

/// The units of a device for products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Units {
    /// Units for matrices of f32, or of what it is rounded to.
    F32,
    /// Units for matrices of f16 or bf16.
    Half,
    /// Units for single elements of f32, as in kernels of our own.
    Lanes,
}

/// Kernels by the operations of a block, in the order of their blocks.
pub(super) type KnownKernels = HashMap<String, VecDeque<Vec<&'static str>>>;

/// The record, to which any thread may add.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    blocks: Vec<Block>,
    /// The kernels of blocks, if they are known from another step.
    known: Option<KnownKernels>,
    /// The known kernels of the blocks that this step has not run yet.
    rest: KnownKernels,
    /// Whether launches belong to the last block.
    is_open: bool,
    memory: Memory,
}

impl Ledger {
    /// Makes a record that gives each block the kernels of a block of the same operations in another
    /// step.
    pub(super) fn knowing(known: KnownKernels) -> Self {
        Self {
            state: Mutex::new(State {
                known: Some(known),
                ..State::default()
            }),
        }
    }

    /// Begins a step: forgets all blocks, but not the tensors that are alive.
    pub(super) fn begin_step(&self) {
        let state = &mut *self.state();
        state.blocks.clear();
        state.rest = state.known.clone().unwrap_or_default();
        state.memory.peak = state.memory.live;
    }

    /// Takes the blocks since the last call.
    pub(super) fn take(&self) -> Vec<Block> {
        std::mem::take(&mut self.state().blocks)
    }

    /// Returns the position among the blocks of the one that runs now, and `None` between blocks.
    pub(super) fn running(&self) -> Option<usize> {
        let state = self.state();
        state.is_open.then(|| state.blocks.len() - 1)
    }

    /// Returns the most bytes of tensors that were alive at once since the step began.
    pub(super) fn peak(&self) -> u64 {
        self.state().memory.peak
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FusionObserver for Ledger {
    fn registered(&self, _: &OperationIr) {}

    fn block_starts(&self, operations: BlockOperations<'_>) {
        let state = &mut *self.state();
        let names: Vec<String> = operations
            .iter()
            .map(name)
            .filter(|name| name != "Drop")
            .collect();
        let names = names.join(" ");
        let kernels = state.rest.get_mut(&names).and_then(|blocks| {
            // The last one stands for all further blocks, if this step has more of them.
            if blocks.len() > 1 {
                blocks.pop_front()
            } else {
                blocks.front().cloned()
            }
        });
        let is_view = kernels
            .as_ref()
            .map_or_else(|| VIEWS.contains(&&*names), Vec::is_empty);
        // Operations that were fused differently in the other step take at least one kernel.
        let unknown = if state.known.is_some() && !is_view && !NOTHING.contains(&&*names) {
            vec![UNKNOWN]
        } else {
            vec![]
        };
        let mut block = Block {
            kernels: kernels.unwrap_or(unknown),
            ..Block::default()
        };
        state.memory.account(&operations, is_view, &mut block);
        if !names.is_empty() {
            state.blocks.push(Block {
                operations: names,
                ..block
            });
            state.is_open = state.known.is_none();
        }
    }

    fn block_ran(&self) {
        self.state().is_open = false;
    }
}

impl LaunchObserver for Ledger {
    fn launched(&self, kernel: &'static str) {
        // In a dry run the only launches that are executed are `CubeCL`'s own measurements.
        if launch_mode() == LaunchMode::Execute {
            return;
        }
        let state = &mut *self.state();
        if !state.is_open {
            state.blocks.push(Block {
                operations: "outside of fusion".to_owned(),
                ..Block::default()
            });
        }
        if let Some(block) = state.blocks.last_mut() {
            block.kernels.push(kernel);
        }
    }
}

/// The tensors that are alive, and their sizes. A view shares the memory of the tensor that it shows.
#[derive(Debug, Default)]
struct Memory {
    /// The tensor whose memory each tensor uses, mostly its own.
    owners: HashMap<TensorId, TensorId>,
    /// By owner the bytes of the memory, and the number of tensors that use it.
    owned: HashMap<TensorId, (u64, usize)>,
    /// Bytes of all memory now.
    live: u64,
    /// The most bytes since the step began.
    peak: u64,
}

impl Memory {
    /// Adds the tensors that operations make, frees those that they free, and fills in the bytes and the
    /// products of their block.
    fn account(&mut self, operations: &BlockOperations<'_>, is_view: bool, block: &mut Block) {
        let mut made = Vec::new();
        let mut read = Vec::new();
        let mut freed = Vec::new();
        for operation in operations.iter() {
            let is_drop = matches!(operation, OperationIr::Drop(_));
            for input in operation.inputs() {
                if !is_drop && !made.contains(&input.id) && !read.contains(&input.id) {
                    read.push(input.id);
                    block.read += self.bytes(input);
                }
                if is_drop || input.status == TensorStatus::ReadWrite {
                    freed.push(input.id);
                }
            }
            for output in operation.outputs() {
                made.push(output.id);
                let owner = operation
                    .inputs()
                    .next()
                    .filter(|_| is_view)
                    .map(|input| self.owner(input));
                self.add(output, owner);
            }
            if let Some((flops, units)) = product(operation) {
                block.flops += flops;
                block.units = Some(units);
            }
        }
        // Freed before the peak is taken: a tensor that is used only inside of a fused kernel never has
        // memory.
        let (inside, outside): (Vec<TensorId>, Vec<TensorId>) =
            freed.into_iter().partition(|id| made.contains(id));
        for id in inside {
            self.free(id);
        }
        // A freed tensor has no owner any more, and a view has no bytes of its own.
        block.written = made
            .iter()
            .filter(|id| self.owners.contains_key(*id))
            .filter_map(|id| Some(self.owned.get(id)?.0))
            .sum();
        if is_view {
            block.read = 0;
            block.written = 0;
        }
        self.peak = self.peak.max(self.live);
        for id in outside {
            self.free(id);
        }
    }

    fn owner(&self, tensor: &TensorIr) -> TensorId {
        self.owners.get(&tensor.id).copied().unwrap_or(tensor.id)
    }

    fn add(&mut self, tensor: &TensorIr, owner: Option<TensorId>) {
        let owner = owner.unwrap_or(tensor.id);
        if self.owners.insert(tensor.id, owner).is_some() {
            return;
        }
        if owner == tensor.id {
            self.live += size(tensor);
            self.owned.insert(owner, (size(tensor), 1));
        } else if let Some((_, users)) = self.owned.get_mut(&owner) {
            *users += 1;
        }
    }

    fn free(&mut self, id: TensorId) {
        let Some(owner) = self.owners.remove(&id) else {
            return;
        };
        let Some((bytes, users)) = self.owned.get_mut(&owner) else {
            return;
        };
        *users -= 1;
        if *users == 0 {
            self.live -= *bytes;
            self.owned.remove(&owner);
        }
    }

    /// Returns the bytes that are read of a tensor. A view that repeats elements has fewer in memory than
    /// its shape says.
    fn bytes(&self, tensor: &TensorIr) -> u64 {
        let owned = self.owned.get(&self.owner(tensor)).map(|(bytes, _)| *bytes);
        owned.unwrap_or(u64::MAX).min(size(tensor))
    }
}

fn size(tensor: &TensorIr) -> u64 {
    (tensor.shape.num_elements() * tensor.dtype.size()) as u64
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use std::sync::Arc;

    use burn::backend::fusion::observer::FusionObservation;
    use burn::cubecl::dry_run::DryRun;
    use burn::cubecl::logging::LaunchObservation;
    use burn::tensor::{Device, Int, Tensor};

    use super::*;

    /// The record of what `work` does on a device in a dry run.
    fn ledger_of<T>(device: &Device, work: impl FnOnce() -> T) -> (Arc<Ledger>, T) {
        device.sync().expect("the device works");
        let ledger = Arc::new(Ledger::default());
        let fusion = FusionObservation::new(ledger.clone());
        let launches = LaunchObservation::new(ledger.clone());
        let dry = DryRun::new();
        ledger.begin_step();
        let result = work();
        device.sync().expect("the device works");
        drop((dry, launches, fusion));
        (ledger, result)
    }

    /// The device, for one test at a time: ledgers see the whole process.
    fn device() -> (Device, MutexGuard<'static, ()>) {
        static ONE: Mutex<()> = Mutex::new(());
        let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let device =
            polyglow_predict::device::open("wgpu:cpu").expect("a software driver is installed");
        (device, turn)
    }

    /// Returns the number of kernels of a block. A product takes as many kernels as the fastest way that
    /// was measured, so it counts as one.
    fn num_kernels(block: &Block) -> usize {
        if block.flops > 0.0 {
            1
        } else {
            block.kernels.len()
        }
    }

    /// Returns the operations of a block, its kernels, its bytes read and written, and its flops.
    fn line(block: &Block) -> (String, usize, u64, u64, f64) {
        let operations = block.operations.clone();
        let kernels = num_kernels(block);
        (operations, kernels, block.read, block.written, block.flops)
    }

    #[test]
    fn blocks_are_those_that_a_reader_counts() {
        let (device, _turn) = device();
        let left = Tensor::<2>::ones([32, 64], &device);
        let right = Tensor::<2>::ones([64, 128], &device);
        let factor = Tensor::<2>::ones([32, 128], &device);
        let (ledger, _kept) = ledger_of(&device, || {
            let product = left.matmul(right);
            device.sync().expect("the device works");
            // One kernel: two factors in, one result out, nothing between them.
            let result = (product * factor + 1.0).exp();
            device.sync().expect("the device works");
            // No kernel.
            result.transpose()
        });
        let blocks = ledger.take();
        let lines: Vec<_> = blocks.iter().map(line).collect();
        let product = 2.0 * 32.0 * 64.0 * 128.0;
        let [of_left, of_right, of_result] = [4 * 32 * 64, 4 * 64 * 128, 4 * 32 * 128];
        assert!(!blocks[0].kernels.is_empty());
        assert_eq!(
            lines[0],
            (
                "Matmul".to_owned(),
                1,
                of_left + of_right,
                of_result,
                product
            )
        );
        assert_eq!(
            lines[1],
            (
                "Mul AddScalar Exp".to_owned(),
                1,
                2 * of_result,
                of_result,
                0.0
            )
        );
        assert_eq!(lines[2..], [("SwapDims".to_owned(), 0, 0, 0, 0.0)]);
        // Those that were made before are not counted.
        assert_eq!(ledger.peak(), 2 * of_result);
    }

    /// Returns the bytes that the device's memory pool has handed out.
    fn bytes_in_use(device: &Device) -> u64 {
        device
            .memory_pool_usage()
            .expect("it has memory of its own")
            .bytes_in_use
    }

    /// The tensors that are alive take the memory that the driver handed out, except for some arguments
    /// of kernels.
    #[test]
    fn bytes_are_those_of_the_devices_memory() {
        let (device, _turn) = device();
        device.sync().expect("the device works");
        let ledger = Arc::new(Ledger::default());
        let fusion = FusionObservation::new(ledger.clone());
        let before = bytes_in_use(&device);
        let data: Vec<f32> = vec![1.0; 1 << 20];
        let ids = Tensor::<2, Int>::ones([1 << 10, 1 << 9], &device);
        let numbers = Tensor::<1>::from_floats(&data[..], &device);
        let sum = numbers.clone() + 1.0;
        let view = sum.clone().reshape([1 << 10, 1 << 10]).transpose();
        device.sync().expect("the device works");
        let check = |expected: u64| {
            ledger.begin_step();
            assert_eq!(ledger.peak(), expected);
            let used = bytes_in_use(&device) - before;
            assert!(
                (expected..expected + 1024).contains(&used),
                "{used} bytes are used, and {expected} live"
            );
        };
        check((4 << 19) + 2 * (4 << 20));
        drop((ids, sum));
        device.sync().expect("the device works");
        check(2 * (4 << 20));
        drop((numbers, view, fusion));
    }
}
