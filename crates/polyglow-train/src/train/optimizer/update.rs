//! The update of all parameters, or of none if the step is skipped.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Tensor};
use polyglow_kernels::joined;

use super::slot::{Joined, Slot};
use super::{Optimizer, Parameter, ParameterStep, parameters};

/// One step of an [`Optimizer`], slot by slot.
pub(super) struct Update<'a> {
    pub optimizer: &'a mut Optimizer,
    /// The summed gradients of each slot.
    pub gradients: Vec<Tensor<1>>,
    /// See [`ParameterStep::scale`].
    pub scale: Tensor<1>,
    /// Whether everything stays as it is, `[1]`; `None` where that is already known not to be so.
    pub skipped: Option<Tensor<1, Bool>>,
    pub lr: f64,
    pub step: u64,
}

/// Maps every parameter of a model to its new value.
///
/// Joined parameters are updated before the visit, as they need the values of all members. Others
/// are updated during it, when the visit gives up its value: with one owner it is updated in place.
pub(super) struct Ready<'a> {
    update: Update<'a>,
    /// In the parameters' order.
    all: Vec<Part>,
    index: usize,
}

/// The slot of a parameter, and its new value where that is known.
struct Part {
    slot: usize,
    /// Its index in the slot.
    member: usize,
    new: Option<Tensor<1>>,
}

impl<'a> Ready<'a> {
    /// Updates the joined parameters of a model.
    pub(super) fn new(mut update: Update<'a>, model: &impl Module) -> Self {
        let joins = update.optimizer.slots.iter().any(is_joined);
        // Without joined parameters the visit below is the only one.
        let parameters = if joins { parameters(model) } else { Vec::new() };
        let mut all: Vec<(usize, Part)> = Vec::new();
        for slot in 0..update.optimizer.slots.len() {
            let new = update.update_joined(slot, &parameters);
            let members = &update.optimizer.slots[slot].members;
            for (member, new) in new.into_iter().enumerate() {
                let index = members[member].index;
                all.push((index, Part { slot, member, new }));
            }
        }
        all.sort_by_key(|(index, _)| *index);
        Self {
            update,
            all: all.into_iter().map(|(_, part)| part).collect(),
            index: 0,
        }
    }
}

fn is_joined(slot: &Slot) -> bool {
    slot.members.len() > 1
}

impl Slot {
    /// Returns the parameters one after the other: the result of the last update, unless the caller
    /// has replaced one since, as when it restores a checkpoint.
    fn weights(&mut self, parameters: &[Parameter]) -> Tensor<1> {
        if let Some(last) = self.updated.take()
            && self.is_current(&last, parameters)
        {
            return last.values;
        }
        let values = self
            .members
            .iter()
            .map(|member| parameters[member.index].value.clone());
        joined(values.collect())
    }

    /// Returns whether the tensors of the model are still those that `last` has given it.
    fn is_current(&self, last: &Joined, parameters: &[Parameter]) -> bool {
        let mut pairs = self.members.iter().zip(&last.names);
        pairs.all(|(member, name)| name.is_some() && parameters[member.index].tensor == *name)
    }
}

impl ModuleMapper for Ready<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let part = &mut self.all[self.index];
        let slot = part.slot;
        let member = part.member;
        let new = part.new.take();
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
            if let Some(joined) = &mut self.update.optimizer.slots[slot].updated {
                joined.names[member] = polyglow_kernels::name(&updated);
            }
            updated.require_grad()
        })
    }
}

impl Update<'_> {
    /// Updates the parameters of a slot if they are joined; returns the new value of each member,
    /// `None` for one by itself.
    fn update_joined(&mut self, slot: usize, parameters: &[Parameter]) -> Vec<Option<Tensor<1>>> {
        if !is_joined(&self.optimizer.slots[slot]) {
            return vec![None];
        }
        let old = self.optimizer.slots[slot].weights(parameters);
        let new = self.update(slot, old);
        let slot = &mut self.optimizer.slots[slot];
        slot.updated = Some(Joined {
            values: new.clone(),
            // Known once the model has its tensors.
            names: vec![None; slot.members.len()],
        });
        slot.parts(&new).into_iter().map(Some).collect()
    }

    /// Returns the new values of a slot; everything is flat and outside the autodiff graph.
    fn update(&mut self, slot: usize, weight: Tensor<1>) -> Tensor<1> {
        let optimizer = &mut *self.optimizer;
        let slot_state = &mut optimizer.slots[slot];
        let skipped = self.skipped.as_ref();
        // Both are moved out, so that they have one owner and the rule can write in place.
        let empty = Tensor::empty([0], &weight.device());
        let gradient = std::mem::replace(&mut self.gradients[slot], empty);
        let old_state = std::mem::take(&mut slot_state.state);
        // Where only the device knows whether the step is skipped, the old values are needed after
        // the update.
        let old = skipped.map(|skipped| (skipped, weight.clone(), old_state.clone()));
        // Those of a joined slot are all alike in what a rule for single elements may look at.
        let member = &slot_state.members[0];
        let step = ParameterStep {
            name: &member.name,
            shape: &member.shape,
            scale: &self.scale,
            lr: self.lr,
            step: self.step,
            weight_decay: if member.decays() {
                optimizer.weight_decay
            } else {
                0.0
            },
        };
        let (mut weight, mut new_state) = optimizer.rule.update(weight, old_state, gradient, &step);
        if let Some((skipped, old_weight, old_state)) = old {
            weight = choose(skipped, old_weight, weight);
            new_state = old_state
                .into_iter()
                .zip(new_state)
                .map(|(old, new)| choose(skipped, old, new))
                .collect();
        }
        slot_state.state = new_state;
        if let Some(ema) = &mut slot_state.ema {
            let time = self.step as f64;
            // A young average forgets faster, so that it does not hold on to the initial weights.
            let decay = optimizer.ema_decay.min((1.0 + time) / (10.0 + time));
            let new = ema.clone() * decay + weight.clone() * (1.0 - decay);
            *ema = match skipped {
                Some(skipped) => choose(skipped, ema.clone(), new),
                None => new,
            };
        }
        weight
    }
}

/// Returns the bits of `old` if `skipped`, `[1]`, is true, else those of `new`. It is not a sum of
/// products: 0 times NaN is NaN.
fn choose(skipped: &Tensor<1, Bool>, old: Tensor<1>, new: Tensor<1>) -> Tensor<1> {
    let len = new.dims();
    new.mask_where(skipped.clone().expand(len), old)
}

/// Returns whether weight decay acts on a parameter: on weight matrices, but not on embeddings and
/// positions. `context.weight` is the second embedding of word vectors, that of context words.
pub(super) fn decays(name: &str, rank: usize) -> bool {
    let embeds = ["embedding.weight", "position.weight"]
        .iter()
        .any(|ending| name.ends_with(ending));
    rank == 2 && !embeds && name != "context.weight"
}
