//! Access to a model's parameters by name, for checkpoints and for weights from other programs.
//!
//! ```
//! use burn::tensor::{Device, TensorData};
//! use polyglow_model::init::ParamInit;
//! use polyglow_model::linear::Linear;
//! use polyglow_model::parameter;
//!
//! let linear = Linear::new(2, 3, &mut ParamInit::new(1, &Device::flex()));
//! let zeros = |shape: &[usize]| TensorData::zeros::<f32, _>(shape.to_vec());
//! let linear = parameter::replace(linear, |_, shape| Ok::<_, String>(zeros(shape)))?;
//! let names: Vec<String> = parameter::read(&linear).into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["weight", "bias"]);
//! assert_eq!(parameter::count(&linear), 9);
//! # Ok::<(), String>(())
//! ```

pub mod init;
pub mod quantization;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData, Transaction};

/// The path of a parameter during a visit, which gives its name, such as
/// `encoder.layers.0.self_attention.qkv.weight`.
///
/// Names are part of the checkpoint format. They follow the field names; variants of enums are left
/// out.
#[derive(Debug, Default)]
pub struct ParamPath {
    parts: Vec<Option<String>>,
}

impl ParamPath {
    /// Enters a field, element or variant; call it from a Burn visitor's `enter_module`.
    pub fn enter(&mut self, name: &str, container: &str) {
        let is_variant = container.starts_with("Enum");
        self.parts.push((!is_variant).then(|| name.to_owned()));
    }

    /// Leaves the field, element or variant; call it from `exit_module`.
    pub fn exit(&mut self) {
        self.parts.pop();
    }

    /// The dotted name of the current field.
    pub fn name(&self) -> String {
        let named: Vec<&str> = self.parts.iter().flatten().map(String::as_str).collect();
        named.join(".")
    }
}

/// Reads every parameter from the device, and returns it with its name.
pub fn read(model: &impl Module) -> Vec<(String, TensorData)> {
    let mut reader = Reader::default();
    model.visit(&mut reader);
    reader.finish()
}

/// Replaces every parameter by the data that `lookup` returns for its name and shape; its device
/// and whether it gets a gradient stay as they are.
///
/// # Errors
/// The first error of `lookup`; the model is then dropped.
///
/// # Panics
/// If `lookup` returns data of another shape than requested.
pub fn replace<M: Module, E>(
    model: M,
    lookup: impl FnMut(&str, &[usize]) -> Result<TensorData, E>,
) -> Result<M, E> {
    let mut replacer = Replacer {
        path: ParamPath::default(),
        lookup,
        error: None,
    };
    let model = model.map(&mut replacer);
    match replacer.error {
        Some(error) => Err(error),
        None => Ok(model),
    }
}

/// Freezes the parameters for whose name `is_frozen` returns true: they get no gradient.
pub fn freeze<M: Module>(model: M, is_frozen: impl FnMut(&str) -> bool) -> M {
    model.map(&mut Freezer {
        path: ParamPath::default(),
        is_frozen,
    })
}

/// Counts the trained values; tied matrices count once.
pub fn count(model: &impl Module) -> usize {
    model.num_params()
}

/// Elements to read from a device at once, at least. Each read waits for the device, so there
/// should be few; and the device holds a copy of all that is read at once.
const READ_TOGETHER: usize = 1 << 25;

/// A visitor that reads parameters in few transfers.
#[derive(Default)]
struct Reader {
    path: ParamPath,
    names: Vec<String>,
    values: Vec<TensorData>,
    /// The parameters that were visited and not read yet.
    pending: Transaction,
    /// Their elements.
    len: usize,
}

impl Reader {
    /// Reads the pending parameters.
    fn read(&mut self) {
        self.values
            .extend(std::mem::take(&mut self.pending).execute());
        self.len = 0;
    }

    fn finish(mut self) -> Vec<(String, TensorData)> {
        self.read();
        self.names.into_iter().zip(self.values).collect()
    }
}

impl ModuleVisitor for Reader {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        self.len += value.shape().num_elements();
        self.names.push(self.path.name());
        self.pending = std::mem::take(&mut self.pending).register(value);
        if self.len >= READ_TOGETHER {
            self.read();
        }
    }
}

/// A mapper that removes parameters from the training.
struct Freezer<F> {
    path: ParamPath,
    is_frozen: F,
}

impl<F: FnMut(&str) -> bool> ModuleMapper for Freezer<F> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if (self.is_frozen)(&self.path.name()) {
            param.set_require_grad(false)
        } else {
            param
        }
    }
}

/// A mapper that replaces parameters until the first error.
struct Replacer<F, E> {
    path: ParamPath,
    lookup: F,
    error: Option<E>,
}

impl<E, F: FnMut(&str, &[usize]) -> Result<TensorData, E>> ModuleMapper for Replacer<F, E> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.error.is_some() {
            return param;
        }
        let shape = param.dims();
        match (self.lookup)(&self.path.name(), &shape) {
            Ok(data) => param.map(|old| {
                let new = Tensor::<D>::from_data(data, &old.device());
                assert_eq!(new.dims(), shape, "a parameter keeps its shape");
                if old.is_require_grad() {
                    new.require_grad()
                } else {
                    new
                }
            }),
            Err(error) => {
                self.error = Some(error);
                param
            }
        }
    }
}
