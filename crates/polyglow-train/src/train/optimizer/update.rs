//! The update of every parameter in turn, or of none if the step is skipped.

use burn::module::{ModuleMapper, Param};
use burn::tensor::{Bool, Tensor};

use super::{Optimizer, ParameterStep, Slot};

/// One step of an [`Optimizer`], parameter by parameter.
pub(super) struct Update<'a> {
    pub optimizer: &'a mut Optimizer,
    pub gradients: Vec<Tensor<1>>,
    pub scale: Tensor<1>,
    /// Whether everything stays as it is, `[1]`, where only the device knows.
    pub skipped: Option<Tensor<1, Bool>>,
    pub lr: f64,
    pub step: u64,
    pub index: usize,
}

impl ModuleMapper for Update<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let index = self.index;
        self.index += 1;
        param.map(|value| {
            // Frozen.
            if !value.is_require_grad() {
                return value;
            }
            let shape = value.dims();
            let strategy = value.gradient_checkpointing_strategy();
            let updated = Tensor::from_inner(self.update(index, value.inner().reshape([-1])).reshape(shape));
            let updated = match strategy {
                Some(strategy) => updated.with_gradient_checkpointing_strategy(strategy),
                None => updated,
            };
            updated.require_grad()
        })
    }
}

impl Update<'_> {
    /// The new value of parameter `index`; everything flat and outside the autodiff graph.
    fn update(&mut self, index: usize, weight: Tensor<1>) -> Tensor<1> {
        let Optimizer { rule, weight_decay, ema_decay, slots, .. } = &mut *self.optimizer;
        let Slot { name, shape, state, ema } = &mut slots[index];
        let skipped = self.skipped.as_ref();
        // Taken out, so that nobody else holds them and they can be written where they lie.
        let old_state = std::mem::take(state);
        let gradient = std::mem::replace(&mut self.gradients[index], Tensor::empty([0], &weight.device()));
        let old = skipped.map(|skipped| (skipped, weight.clone(), old_state.clone()));
        let weight_decay = if decays(name, shape.len()) { *weight_decay } else { 0.0 };
        let step = ParameterStep { name, shape, scale: &self.scale, lr: self.lr, step: self.step, weight_decay };
        let (mut weight, mut new_state) = rule.update(weight, old_state, gradient, &step);
        if let Some((skipped, old_weight, old_state)) = old {
            weight = choose(skipped, old_weight, weight);
            new_state = old_state.into_iter().zip(new_state).map(|(old, new)| choose(skipped, old, new)).collect();
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

/// The bits of `old` if `skipped`, `[1]`, is true, else those of `new`. Not a sum of products: 0 times NaN is NaN.
fn choose(skipped: &Tensor<1, Bool>, old: Tensor<1>, new: Tensor<1>) -> Tensor<1> {
    let len = new.dims();
    new.mask_where(skipped.clone().expand(len), old)
}

/// Whether weight decay acts on a parameter: weight matrices, but not embeddings and positions. `context.weight` are the
/// vectors of words beside others, the second embedding of word vectors.
pub(super) fn decays(name: &str, rank: usize) -> bool {
    let embeds = ["embedding.weight", "position.weight"].iter().any(|ending| name.ends_with(ending));
    rank == 2 && !embeds && name != "context.weight"
}
