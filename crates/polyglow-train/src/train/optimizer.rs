//! How weights move: the mean gradient, clipped by its norm, goes to an update rule; and the moving
//! average of the weights.

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
use polyglow_model::Precision;
use polyglow_model::parameter::ParamPath;

pub(super) use self::freeze::freeze;
use self::loss_scale::LossScale;
use self::slot::{Member, Slot, slots};
use self::update::{Ready, Update};
use super::sums::{WindowSums, norm};
use crate::config::{OptimizerKind, TrainConfig};

/// Keeps the division by the norm finite where all gradients are zero; PyTorch's value.
const NORM_EPSILON: f64 = 1e-6;

/// How one parameter moves: what is an optimizer of its own in the literature.
///
/// To add one: a file in this folder, a variant of [`OptimizerKind`], and a line in [`rule`]. One
/// that is not part of this library goes to [`Training::with_rule`](super::Training::with_rule).
pub trait UpdateRule: Debug + Send {
    /// What is kept of a parameter of this name and shape from step to step: for each part its name
    /// in checkpoints, and how many values it has. All are 0 before the first step.
    fn state(&self, name: &str, shape: &[usize]) -> Vec<(&'static str, usize)>;

    /// Whether a number's update depends on nothing but itself, its state and its gradient: neither
    /// on its neighbors nor on name or shape. Small parameters are then joined where that saves
    /// launches.
    fn is_elementwise(&self) -> bool {
        false
    }

    /// The new values of a parameter and of the parts of its state, in their order. `gradient` is a
    /// sum, to be multiplied by [`ParameterStep::scale`].
    ///
    /// Nothing is read from the device. Where the gradient is not finite, the result is thrown
    /// away.
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

/// What an update of one parameter depends on beside its tensors.
#[derive(Clone, Copy, Debug)]
pub struct ParameterStep<'a> {
    /// The parameter's name, as in `decoder.layers.0.feed_forward.inner.weight`.
    pub name: &'a str,
    /// The parameter's shape, before it was made flat.
    pub shape: &'a [usize],
    /// What makes the gradient the mean over all tokens, clipped, `[1]`.
    pub scale: &'a Tensor<1>,
    /// The learning rate.
    pub lr: f64,
    /// The step's number, from 1; steps that were skipped count.
    pub step: u64,
    /// Weight decay; 0 for parameters that are to have none.
    pub weight_decay: f64,
}

/// The update rule that a configuration names.
pub fn rule(config: &TrainConfig) -> Box<dyn UpdateRule> {
    let &TrainConfig { betas, eps, .. } = config;
    match config.optimizer {
        OptimizerKind::Adam => Box::new(adam::Adam {
            betas,
            eps,
            decoupled: false,
        }),
        OptimizerKind::Adamw => Box::new(adam::Adam {
            betas,
            eps,
            decoupled: true,
        }),
        OptimizerKind::Adafactor => Box::new(adafactor::Adafactor),
        OptimizerKind::Lion => Box::new(lion::Lion { betas }),
    }
}

/// How many values an optimizer keeps for a model, beside its weights and their moving average.
pub(super) fn state_len(rule: &dyn UpdateRule, model: &impl Module) -> usize {
    let len = |Parameter { name, shape, .. }: &Parameter| {
        rule.state(name, shape)
            .iter()
            .map(|(_, len)| len)
            .sum::<usize>()
    };
    parameters(model).iter().map(len).sum()
}

/// What makes the update rule of a training from its config.
pub(crate) type MakeRule = Box<dyn Fn(&TrainConfig) -> Box<dyn UpdateRule> + Send + Sync>;

/// An update rule with its state for every parameter, and the moving average of the weights if one
/// is asked for.
#[derive(Debug)]
pub struct Optimizer {
    rule: Box<dyn UpdateRule>,
    weight_decay: f64,
    clip_norm: f64,
    ema_decay: f64,
    on_host: bool,
    slots: Vec<Slot>,
    /// What linear maps round weights to.
    factors: Factors,
    /// With f16 alone.
    loss_scale: Option<LossScale>,
}

impl Optimizer {
    /// The configured optimizer, before its first step.
    pub fn new(config: &TrainConfig, model: &impl Module) -> Self {
        Self::with_rule(rule(config), config, model)
    }

    /// As [`Self::new`], with another rule than the configured one.
    pub fn with_rule(rule: Box<dyn UpdateRule>, config: &TrainConfig, model: &impl Module) -> Self {
        let TrainConfig {
            weight_decay,
            clip_norm,
            ema_decay,
            ..
        } = *config;
        // Asked once: a GPU would have to finish its work to answer.
        let on_host = model
            .devices()
            .iter()
            .all(|device| device.memory_pool_usage().is_none());
        let joins = rule.is_elementwise() && !on_host;
        let slots = slots(&*rule, parameters(model), joins, ema_decay > 0.0);
        let device = model.devices().into_iter().next().map(Device::inner);
        let loss_scale = device
            .filter(|_| config.precision == Precision::F16)
            .map(|device| LossScale::new(&device));
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

    /// What losses are multiplied by for this step's gradients, `[1]`; `None` where they are not.
    pub fn loss_scale(&self) -> Option<Tensor<1>> {
        Some(self.loss_scale.as_ref()?.scale.clone())
    }

    /// Rounds the weights that the last step left, of which many are one tensor; others are rounded
    /// when they are used.
    pub(super) fn round_weights(&self, rounded: &RoundedOnce) {
        self.slots
            .iter()
            .for_each(|slot| slot.round(rounded, self.factors));
    }

    /// Moves every weight once; returns the model and the norm of the mean gradient before
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
            // In one of the threads that share the work, or each operation, of which most are
            // small, would have to wake one.
            return rayon::scope(|_| self.move_weights(model, sums, lr, step));
        }
        self.move_weights(model, sums, lr, step)
    }

    fn move_weights<M: Module>(
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
        // No number is above the largest, and NaN is not below it either.
        let sizes = norm.clone().abs() + sums.loss_sum.abs() + sums.nll_sum.abs();
        let finite = sizes.lower_equal_elem(f32::MAX);
        let mut skipped = None;
        if !self.on_host {
            skipped = Some(finite.bool_not());
        } else if !finite.into_scalar::<bool>() {
            // In host memory a number costs nothing to read, and nothing need be computed.
            self.scale_after(&Tensor::ones([1], &norm.device()));
            return (model, norm);
        }
        let mut scale = if self.clip_norm > 0.0 {
            (norm.clone() + NORM_EPSILON)
                .recip()
                .mul_scalar(self.clip_norm)
                .clamp_max(1.0)
                / num_tokens
        } else {
            norm.zeros_like() + 1.0 / num_tokens
        };
        if let Some(unscale) = unscale {
            scale = scale * unscale;
            self.scale_after(
                skipped
                    .as_ref()
                    .unwrap_or(&Tensor::zeros([1], &norm.device())),
            );
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

    fn scale_after(&mut self, skipped: &Tensor<1, Bool>) {
        self.loss_scale = self.loss_scale.take().map(|scale| scale.after(skipped));
    }

    /// The gradients of each slot, with the length of their rows, from those of each parameter.
    fn join(&self, gradients: Vec<(Tensor<1>, usize)>) -> Vec<(Tensor<1>, usize)> {
        let mut gradients: Vec<_> = gradients.into_iter().map(Some).collect();
        let mut take = |index: usize| {
            gradients[index]
                .take()
                .expect("each parameter is in one slot")
        };
        let of_slot = |slot: &Slot| match &slot.members[..] {
            [only] => take(only.index),
            members => (
                joined(members.iter().map(|member| take(member.index).0).collect()),
                slot.row(),
            ),
        };
        self.slots.iter().map(of_slot).collect()
    }

    /// The state by name, for a checkpoint: `<part>.<parameter>`, as in `mean.encoder.norm.gamma`,
    /// in the parameters' order.
    pub fn state(&self) -> Vec<(String, TensorData)> {
        let mut all: Vec<_> = self
            .slots
            .iter()
            .flat_map(|slot| slot.read(&slot.state.iter().collect::<Vec<_>>()))
            .collect();
        all.sort_by_key(|(member, _)| member.index);
        let named = |(member, values): (&Member, Vec<TensorData>)| {
            let parts = self.rule.state(&member.name, &member.shape);
            parts
                .into_iter()
                .zip(values)
                .map(|((part, _), value)| (member.part(part), value))
                .collect::<Vec<_>>()
        };
        let of_scale = self.loss_scale.as_ref().map(LossScale::state);
        all.into_iter()
            .flat_map(named)
            .chain(of_scale.into_iter().flatten())
            .collect()
    }

    /// The exponential moving average of the weights by parameter name, in the parameters' shapes;
    /// empty unless `ema_decay` asks for it.
    pub fn ema(&self) -> Vec<(String, TensorData)> {
        let averages = self
            .slots
            .iter()
            .filter_map(|slot| Some((slot, slot.ema.as_ref()?)));
        let mut all: Vec<_> = averages.flat_map(|(slot, ema)| slot.read(&[ema])).collect();
        all.sort_by_key(|(member, _)| member.index);
        let named = |(member, mut values): (&Member, Vec<TensorData>)| {
            (
                member.name.clone(),
                reshape(values.remove(0), &member.shape),
            )
        };
        all.into_iter().map(named).collect()
    }

    /// Takes back what [`Self::state`] gave.
    ///
    /// # Errors
    /// The first error of `state`, which is asked for each name and its shape.
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

    /// Takes back what [`Self::ema`] gave.
    ///
    /// # Errors
    /// The first error of `ema`, which is asked for each name and its shape.
    pub fn restore_ema<E>(
        &mut self,
        device: &Device,
        mut ema: impl FnMut(&str, &[usize]) -> Result<TensorData, E>,
    ) -> Result<(), E> {
        for Slot {
            members, ema: kept, ..
        } in &mut self.slots
        {
            if let Some(kept) = kept {
                let mut read = |member: &Member| {
                    Ok(Tensor::from_data(
                        reshape(ema(&member.name, &member.shape)?, &[member.len()]),
                        device,
                    ))
                };
                *kept = joined(members.iter().map(&mut read).collect::<Result<_, E>>()?);
            }
        }
        Ok(())
    }
}

/// The same numbers in another shape.
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
    /// What the tensor is called, where tensors have names.
    tensor: Option<u64>,
    is_frozen: bool,
}

/// All parameters, in their order.
fn parameters(model: &impl Module) -> Vec<Parameter> {
    let mut found = Parameters::default();
    model.visit(&mut found);
    found.all
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
        let (name, shape, value) = (self.path.name(), param.dims().to_vec(), param.val());
        let (is_frozen, tensor) = (!value.is_require_grad(), polyglow_kernels::name(&value));
        self.all.push(Parameter {
            name,
            shape,
            value: value.inner().reshape([-1]),
            tensor,
            is_frozen,
        });
    }
}

/// The parts of a state, as many as the rule has.
fn parts<const N: usize>(state: Vec<Tensor<1>>) -> [Tensor<1>; N] {
    state
        .try_into()
        .expect("the state has the parts that its rule asked for")
}
