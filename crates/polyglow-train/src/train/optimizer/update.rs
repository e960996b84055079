//! The update of all parameters, or of none if the step is skipped.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Tensor};
use polyglow_kernels::joined;

use super::slot::{Left, Member, Slot};
use super::{Optimizer, Parameter, ParameterStep, parameters};

/// One step of an [`Optimizer`], slot by slot.
pub(super) struct Update<'a> {
    pub optimizer: &'a mut Optimizer,
    /// Of each slot.
    pub gradients: Vec<Tensor<1>>,
    pub scale: Tensor<1>,
    /// Whether everything stays as it is, `[1]`, where only the device knows.
    pub skipped: Option<Tensor<1, Bool>>,
    pub lr: f64,
    pub step: u64,
}

/// Gives every parameter its new value: one that is by itself is updated where it lies.
pub(super) struct Ready<'a> {
    update: Update<'a>,
    /// By the parameters' order.
    all: Vec<Part>,
    index: usize,
}

/// Where a parameter is, and its new value where that is known.
struct Part {
    slot: usize,
    place: usize,
    new: Option<Tensor<1>>,
}

impl<'a> Ready<'a> {
    pub(super) fn new(mut update: Update<'a>, model: &impl Module) -> Self {
        let is_joined = |slot: &Slot| slot.members.len() > 1;
        let any = update.optimizer.slots.iter().any(is_joined);
        let parameters = if any { parameters(model) } else { Vec::new() };
        let mut all = Vec::new();
        for slot in 0..update.optimizer.slots.len() {
            let members: Vec<usize> = update.optimizer.slots[slot]
                .members
                .iter()
                .map(|member| member.index)
                .collect();
            let parts = if members.len() > 1 {
                let old = update.optimizer.slots[slot].weights(&members, &parameters);
                let new = update.update(slot, old);
                let slot = &mut update.optimizer.slots[slot];
                slot.left = Some(Left {
                    values: new.clone(),
                    names: vec![None; members.len()],
                });
                slot.parts(&new).into_iter().map(Some).collect()
            } else {
                vec![None]
            };
            let parts = members.into_iter().zip(parts).enumerate();
            all.extend(parts.map(|(place, (index, new))| (index, Part { slot, place, new })));
        }
        all.sort_by_key(|(index, _)| *index);
        Self {
            update,
            all: all.into_iter().map(|(_, part)| part).collect(),
            index: 0,
        }
    }
}

impl Slot {
    /// The parameters one after the other: as the last update left them, unless somebody has
    /// changed one since.
    fn weights(&mut self, members: &[usize], parameters: &[Parameter]) -> Tensor<1> {
        let is_known = |(&index, name): (&usize, &Option<u64>)| {
            name.is_some() && parameters[index].tensor == *name
        };
        let left = self
            .left
            .take()
            .filter(|left| members.iter().zip(&left.names).all(is_known));
        left.map_or_else(
            || {
                joined(
                    members
                        .iter()
                        .map(|&index| parameters[index].value.clone())
                        .collect(),
                )
            },
            |left| left.values,
        )
    }
}

impl ModuleMapper for Ready<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let part = &mut self.all[self.index];
        let (slot, place, new) = (part.slot, part.place, part.new.take());
        self.index += 1;
        param.map(|value| {
            // Frozen.
            if !value.is_require_grad() {
                return value;
            }
            let shape = value.dims();
            let strategy = value.gradient_checkpointing_strategy();
            let new = new.unwrap_or_else(|| self.update.update(slot, value.inner().reshape([-1])));
            let updated = Tensor::from_inner(new.reshape(shape));
            let updated = match strategy {
                Some(strategy) => updated.with_gradient_checkpointing_strategy(strategy),
                None => updated,
            };
            if let Some(left) = &mut self.update.optimizer.slots[slot].left {
                left.names[place] = polyglow_kernels::name(&updated);
            }
            updated.require_grad()
        })
    }
}

impl Update<'_> {
    /// The new values of a slot; everything flat and outside the autodiff graph.
    fn update(&mut self, slot: usize, weight: Tensor<1>) -> Tensor<1> {
        let Optimizer {
            rule,
            weight_decay,
            ema_decay,
            slots,
            ..
        } = &mut *self.optimizer;
        let gradient = std::mem::replace(
            &mut self.gradients[slot],
            Tensor::empty([0], &weight.device()),
        );
        let Slot {
            members,
            state,
            ema,
            ..
        } = &mut slots[slot];
        let skipped = self.skipped.as_ref();
        // Taken out, so that nobody else holds them and they can be written where they lie.
        let old_state = std::mem::take(state);
        let old = skipped.map(|skipped| (skipped, weight.clone(), old_state.clone()));
        let Member { name, shape, .. } = &members[0];
        let weight_decay = if members[0].decays() {
            *weight_decay
        } else {
            0.0
        };
        let step = ParameterStep {
            name,
            shape,
            scale: &self.scale,
            lr: self.lr,
            step: self.step,
            weight_decay,
        };
        let (mut weight, mut new_state) = rule.update(weight, old_state, gradient, &step);
        if let Some((skipped, old_weight, old_state)) = old {
            weight = choose(skipped, old_weight, weight);
            new_state = old_state
                .into_iter()
                .zip(new_state)
                .map(|(old, new)| choose(skipped, old, new))
                .collect();
        }
        *state = new_state;
        if let Some(ema) = ema {
            let time = self.step as f64;
            // A young average forgets faster, so that it does not hold on to the initial weights.
            let decay = ema_decay.min((1.0 + time) / (10.0 + time));
            let new = ema.clone() * decay + weight.clone() * (1.0 - decay);
            *ema = match skipped {
                Some(skipped) => choose(skipped, ema.clone(), new),
                None => new,
            };
        }
        weight
    }
}

/// The bits of `old` if `skipped`, `[1]`, is true, else those of `new`. Not a sum of products: 0
/// times NaN is NaN.
fn choose(skipped: &Tensor<1, Bool>, old: Tensor<1>, new: Tensor<1>) -> Tensor<1> {
    let len = new.dims();
    new.mask_where(skipped.clone().expand(len), old)
}

/// Whether weight decay acts on a parameter: weight matrices, but not embeddings and positions.
/// `context.weight` are the vectors of words beside others, the second embedding of word vectors.
pub(super) fn decays(name: &str, rank: usize) -> bool {
    let embeds = ["embedding.weight", "position.weight"]
        .iter()
        .any(|ending| name.ends_with(ending));
    rank == 2 && !embeds && name != "context.weight"
}
