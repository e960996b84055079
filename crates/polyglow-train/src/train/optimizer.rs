//! The update of the weights: the mean gradient, clipped by its norm, goes to an update rule, and
//! the moving average follows.

mod adafactor;
mod adam;
mod freeze;
mod lion;
mod loss_scale;
mod slot;
#[cfg(test)]
mod tests;
mod update;

use std::fmt::Debug;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Device, Tensor, TensorData};
use polyglow_kernels::{Factors, RoundedOnce, joined};
use polyglow_model::parameter::ParamPath;
use polyglow_model::registry::{Named, Row, Table};
use polyglow_model::{ModelError, Precision};

pub(super) use self::freeze::freeze;
use self::loss_scale::LossScale;
use self::slot::{Member, Slot, slots};
use self::update::{Ready, Update};
use super::sums::{WindowSums, norm};
use crate::config::TrainConfig;

/// Keeps the division by the norm finite where all gradients are zero; PyTorch's value.
const NORM_EPSILON: f64 = 1e-6;

/// The update of one parameter: what the literature calls an optimizer.
///
/// To add one: a file in this folder, and a row of the table below. One that is not part of this
/// library is registered ([`register_optimizer`]), or given to
/// [`Training::with_rule`](super::Training::with_rule).
pub trait UpdateRule: Debug + Send {
    /// Lists the parts of the state that is kept of a parameter of this name and shape from step to
    /// step: the name of each in checkpoints, and its number of elements. All are 0 before the
    /// first step.
    fn state(&self, name: &str, shape: &[usize]) -> Vec<(&'static str, usize)>;

    /// Returns whether an element's update depends on nothing but itself, its state and its
    /// gradient: neither on its neighbors nor on name or shape. Small parameters are then joined
    /// where that saves launches.
    fn is_elementwise(&self) -> bool {
        false
    }

    /// Returns the new values of a parameter and of the parts of its state, in their order.
    /// `gradient` is a sum, to be multiplied by [`ParameterStep::scale`].
    ///
    /// It must not read from the device. Where the gradient is not finite, the result is discarded.
    ///
    /// # Shapes
    /// - `weight`, `gradient`: `[len]`; `state`: as [`Self::state`] says, each flat; output: as
    ///   `weight` and `state`
    fn update(
        &self,
        weight: Tensor<1>,
        state: Vec<Tensor<1>>,
        gradient: Tensor<1>,
        step: &ParameterStep<'_>,
    ) -> (Tensor<1>, Vec<Tensor<1>>);
}

/// The arguments of an update of one parameter, apart from its tensors.
#[derive(Clone, Copy, Debug)]
pub struct ParameterStep<'a> {
    /// The parameter's name, as in `decoder.layers.0.feed_forward.inner.weight`.
    pub name: &'a str,
    /// The parameter's shape, before it was made flat.
    pub shape: &'a [usize],
    /// The factor that makes the gradient the mean over all tokens, clipped, `[1]`.
    pub scale: &'a Tensor<1>,
    /// The learning rate.
    pub lr: f64,
    /// The step's number, from 1; steps that were skipped count.
    pub step: u64,
    /// Weight decay; 0 for parameters that have none.
    pub weight_decay: f64,
}

/// Makes an update rule from the section `[train]`.
pub type MakeUpdateRule = fn(&TrainConfig) -> Box<dyn UpdateRule>;

/// A row of the table of optimizers.
pub struct OptimizerRow {
    name: &'static str,
    make: MakeUpdateRule,
}

/// The optimizers that are built in.
const BUILT_IN: [&OptimizerRow; 4] = [
    // Adam (Kingma and Ba, 2015), whose weight decay, if any, is added to the gradient.
    &OptimizerRow {
        name: "adam",
        make: |config| adam(config, false),
    },
    // Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
    &OptimizerRow {
        name: "adamw",
        make: |config| adam(config, true),
    },
    // Adafactor (Shazeer and Stern, 2018), which keeps means of rows and columns in place of Adam's
    // two values per weight; decoupled weight decay.
    &OptimizerRow {
        name: "adafactor",
        make: |_| Box::new(adafactor::Adafactor),
    },
    // Lion (Chen et al., 2023), which keeps one value a weight; decoupled weight decay.
    &OptimizerRow {
        name: "lion",
        make: |config| {
            Box::new(lion::Lion {
                betas: config.betas,
            })
        },
    },
];

static TABLE: Table<OptimizerRow> = Table::new("train.optimizer", &BUILT_IN);

impl Named for OptimizerRow {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Row for OptimizerRow {
    fn table() -> &'static Table<Self> {
        &TABLE
    }
}

/// Registers an update rule, which a config chooses by `train.optimizer = "NAME"`.
///
/// # Errors
/// The name is no word in lower case, or that of another optimizer.
pub fn register_optimizer(name: &'static str, make: MakeUpdateRule) -> Result<(), ModelError> {
    TABLE.register(Box::new(OptimizerRow { name, make }))
}

/// Makes the update rule that a configuration names.
pub fn rule(config: &TrainConfig) -> Box<dyn UpdateRule> {
    (config.optimizer.0.make)(config)
}

fn adam(config: &TrainConfig, decoupled: bool) -> Box<dyn UpdateRule> {
    let &TrainConfig { betas, eps, .. } = config;
    Box::new(adam::Adam {
        betas,
        eps,
        decoupled,
    })
}

/// Returns the number of values that an optimizer keeps for a model, apart from its weights and
/// their moving average.
pub(super) fn state_len(rule: &dyn UpdateRule, model: &impl Module) -> usize {
    let mut sum = 0;
    for Parameter { name, shape, .. } in parameters(model) {
        let parts = rule.state(&name, &shape);
        sum += parts.iter().map(|(_, len)| len).sum::<usize>();
    }
    sum
}

/// A function that makes the update rule of a training from its config.
type Make = Box<dyn Fn(&TrainConfig) -> Box<dyn UpdateRule> + Send + Sync>;

/// The update rule of a training, made once its config is known.
pub(crate) struct MakeRule {
    /// The name under which a run keeps a rule of the caller's own; `None` for that of the config.
    pub(crate) name: Option<String>,
    pub(crate) make: Make,
}

/// An update rule with its state for every parameter, and the moving average of the weights if
/// `ema_decay` is set.
#[derive(Debug)]
pub struct Optimizer {
    rule: Box<dyn UpdateRule>,
    weight_decay: f64,
    clip_norm: f64,
    ema_decay: f64,
    on_host: bool,
    slots: Vec<Slot>,
    /// The precision to which linear maps round weights.
    factors: Factors,
    /// With f16 alone: the exponents of other types reach as far as those of f32.
    loss_scale: Option<LossScale>,
}

impl Optimizer {
    /// Makes the configured optimizer for a model, before its first step.
    pub fn new(config: &TrainConfig, model: &impl Module) -> Self {
        Self::with_rule(rule(config), config, model)
    }

    /// Makes an optimizer with another rule than the configured one.
    pub fn with_rule(rule: Box<dyn UpdateRule>, config: &TrainConfig, model: &impl Module) -> Self {
        let TrainConfig {
            weight_decay,
            clip_norm,
            ema_decay,
            ..
        } = *config;
        let devices = model.devices();
        // Once, and not in each step: a GPU would have to finish its work to answer.
        let on_host = devices
            .iter()
            .all(|device| device.memory_pool_usage().is_none());
        // In host memory there are no launches to save, and a parameter by itself is updated in
        // place.
        let joins = rule.is_elementwise() && !on_host;
        let slots = slots(&*rule, parameters(model), joins, ema_decay > 0.0);
        let loss_scale = devices
            .into_iter()
            .next()
            .filter(|_| config.precision == Precision::F16)
            .map(|device| LossScale::new(&device.inner()));
        Self {
            rule,
            weight_decay,
            clip_norm,
            ema_decay,
            on_host,
            slots,
            factors: config.precision.in_training(),
            loss_scale,
        }
    }

    /// Returns the factor by which losses are multiplied for this step's gradients, `[1]`; `None`
    /// where they are not.
    pub fn loss_scale(&self) -> Option<Tensor<1>> {
        Some(self.loss_scale.as_ref()?.scale.clone())
    }

    /// Rounds the joined parameters, of which many are one tensor, to the training precision;
    /// others are rounded when they are used.
    pub(super) fn round_weights(&self, rounded: &RoundedOnce) {
        for slot in &self.slots {
            slot.round(rounded, self.factors);
        }
    }

    /// Updates every weight once; returns the model and the norm of the mean gradient before
    /// clipping, `[1]`.
    ///
    /// `sums` are divided by their number of tokens here. `step` counts from 1. Weight decay acts
    /// on weight matrices, not on embeddings, biases and norms.
    ///
    /// If the norm or a loss in `sums` is NaN or infinite, the step is skipped: weights, state and
    /// moving average keep their bits. On a GPU that is decided on the device, and nothing is read
    /// from it. Gradients are of losses times [`Self::loss_scale`].
    pub fn step<M: Module>(
        &mut self,
        model: M,
        sums: WindowSums,
        lr: f64,
        step: u64,
    ) -> (M, Tensor<1>) {
        if self.on_host {
            // On one of the pool's threads: from another, each operation, of which most are small,
            // would wake one and wait for it.
            return rayon::scope(|_| self.update_weights(model, sums, lr, step));
        }
        self.update_weights(model, sums, lr, step)
    }

    fn update_weights<M: Module>(
        &mut self,
        model: M,
        sums: WindowSums,
        lr: f64,
        step: u64,
    ) -> (M, Tensor<1>) {
        let num_tokens = sums.num_tokens as f64;
        let gradients = self.join(sums.gradients.into_parts());
        let mut norm = norm(&gradients) / num_tokens;
        let unscale = self.loss_scale().map(Tensor::recip);
        if let Some(unscale) = &unscale {
            norm = norm * unscale.clone();
        }
        // One comparison for all three: an infinite value makes the sum infinite, and a comparison
        // with NaN is false.
        let sizes = norm.clone().abs() + sums.loss_sum.abs() + sums.nll_sum.abs();
        let finite = sizes.lower_equal_elem(f32::MAX);
        let mut skipped = None;
        if !self.on_host {
            skipped = Some(finite.bool_not());
        } else if !finite.into_scalar::<bool>() {
            // In host memory a value costs nothing to read, and nothing need be computed.
            self.scale_after(&Tensor::ones([1], &norm.device()));
            return (model, norm);
        }
        let mut scale = self.gradient_scale(&norm, num_tokens);
        if let Some(unscale) = unscale {
            scale = scale * unscale;
            let not_skipped = Tensor::zeros([1], &norm.device());
            self.scale_after(skipped.as_ref().unwrap_or(&not_skipped));
        }
        let gradients = gradients
            .into_iter()
            .map(|(gradient, _)| gradient)
            .collect();
        let update = Update {
            optimizer: self,
            gradients,
            scale,
            skipped,
            lr,
            step,
        };
        let mut ready = Ready::new(update, &model);
        (model.map(&mut ready), norm)
    }

    /// Returns the factor of summed gradients that makes them the mean over tokens, and no longer
    /// than `clip_norm`, `[1]`.
    fn gradient_scale(&self, norm: &Tensor<1>, num_tokens: f64) -> Tensor<1> {
        if self.clip_norm <= 0.0 {
            return norm.zeros_like() + 1.0 / num_tokens;
        }
        let inverse = (norm.clone() + NORM_EPSILON).recip();
        inverse.mul_scalar(self.clip_norm).clamp_max(1.0) / num_tokens
    }

    /// Adapts the scale of losses, if there is one, to whether this step was skipped.
    fn scale_after(&mut self, skipped: &Tensor<1, Bool>) {
        self.loss_scale = self.loss_scale.take().map(|scale| scale.after(skipped));
    }

    /// Joins the gradients of each parameter to those of each slot, with the length of their rows.
    fn join(&self, gradients: Vec<(Tensor<1>, usize)>) -> Vec<(Tensor<1>, usize)> {
        let mut gradients: Vec<_> = gradients.into_iter().map(Some).collect();
        // Moved out, so that the memory of a gradient is free once it is joined.
        let mut take = |index: usize| {
            gradients[index]
                .take()
                .expect("each parameter is in one slot")
        };
        let mut all = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            all.push(match &slot.members[..] {
                [only] => take(only.index),
                members => {
                    let parts = members.iter().map(|member| take(member.index).0);
                    (joined(parts.collect()), slot.row())
                }
            });
        }
        all
    }

    /// Returns the state by name, for a checkpoint: `<part>.<parameter>`, as in
    /// `mean.encoder.norm.gamma`, in the parameters' order.
    pub fn state(&self) -> Vec<(String, TensorData)> {
        let mut all: Vec<(&Member, Vec<TensorData>)> = Vec::new();
        for slot in &self.slots {
            all.extend(slot.read(&slot.state.iter().collect::<Vec<_>>()));
        }
        all.sort_by_key(|(member, _)| member.index);
        let mut state = Vec::new();
        for (member, values) in all {
            let parts = self.rule.state(&member.name, &member.shape);
            for ((part, _), value) in parts.into_iter().zip(values) {
                state.push((member.part(part), value));
            }
        }
        state.extend(self.loss_scale.iter().flat_map(LossScale::state));
        state
    }

    /// Returns the exponential moving average of the weights by parameter name, in the parameters'
    /// shapes; it is empty unless `ema_decay` is set.
    pub fn ema(&self) -> Vec<(String, TensorData)> {
        let mut all: Vec<(&Member, Vec<TensorData>)> = Vec::new();
        for slot in &self.slots {
            if let Some(ema) = &slot.ema {
                all.extend(slot.read(&[ema]));
            }
        }
        all.sort_by_key(|(member, _)| member.index);
        all.into_iter()
            .map(|(member, mut values)| {
                let value = reshape(values.remove(0), &member.shape);
                (member.name.clone(), value)
            })
            .collect()
    }

    /// Restores what [`Self::state`] has returned: `state` is called with the name and the shape of
    /// each part.
    ///
    /// # Errors
    /// The first error of `state`.
    pub fn restore_state<E>(
        &mut self,
        device: &Device,
        mut state: impl FnMut(&str, &[usize]) -> Result<TensorData, E>,
    ) -> Result<(), E> {
        for slot in &mut self.slots {
            let mut parts: Vec<Vec<Tensor<1>>> = vec![Vec::new(); slot.state.len()];
            for member in &slot.members {
                let of_rule = self.rule.state(&member.name, &member.shape);
                for (values, (part, len)) in parts.iter_mut().zip(of_rule) {
                    values.push(Tensor::from_data(
                        state(&member.part(part), &[len])?,
                        device,
                    ));
                }
            }
            slot.state = parts.into_iter().map(joined).collect();
        }
        if let Some(scale) = &mut self.loss_scale {
            *scale = LossScale::restore(device, state)?;
        }
        Ok(())
    }

    /// Restores what [`Self::ema`] has returned: `ema` is called with the name and the shape of
    /// each parameter.
    ///
    /// # Errors
    /// The first error of `ema`.
    pub fn restore_ema<E>(
        &mut self,
        device: &Device,
        mut ema: impl FnMut(&str, &[usize]) -> Result<TensorData, E>,
    ) -> Result<(), E> {
        for slot in &mut self.slots {
            let Some(kept) = &mut slot.ema else {
                continue;
            };
            let mut parts = Vec::with_capacity(slot.members.len());
            for member in &slot.members {
                let values = ema(&member.name, &member.shape)?;
                parts.push(Tensor::from_data(reshape(values, &[member.len()]), device));
            }
            *kept = joined(parts);
        }
        Ok(())
    }
}

/// Returns the same values in another shape.
fn reshape(data: TensorData, shape: &[usize]) -> TensorData {
    let dtype = data.dtype();
    TensorData::from_bytes(data.into_bytes(), shape.to_vec(), dtype)
}

/// A parameter of a model, outside of the graph.
#[derive(Debug)]
struct Parameter {
    name: String,
    shape: Vec<usize>,
    /// Flat.
    value: Tensor<1>,
    /// The identity of the tensor, on backends that have one.
    tensor: Option<u64>,
    is_frozen: bool,
}

/// Lists all parameters, in their order.
fn parameters(model: &impl Module) -> Vec<Parameter> {
    let mut visitor = Parameters::default();
    model.visit(&mut visitor);
    visitor.all
}

#[derive(Default)]
struct Parameters {
    path: ParamPath,
    all: Vec<Parameter>,
}

impl ModuleVisitor for Parameters {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        self.all.push(Parameter {
            name: self.path.name(),
            shape: param.dims().to_vec(),
            tensor: polyglow_kernels::name(&value),
            is_frozen: !value.is_require_grad(),
            value: value.inner().reshape([-1]),
        });
    }
}

/// Takes the parts of a state apart, as many as the rule has.
fn parts<const N: usize>(state: Vec<Tensor<1>>) -> [Tensor<1>; N] {
    state
        .try_into()
        .expect("the state has the parts that its rule lists")
}
