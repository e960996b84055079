//! Adam and `AdamW` over all parameters, with one global gradient norm, and the moving average of the weights.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use polyglow_kernels::{AdamState, AdamStep, WeightDecay, adam};
use polyglow_model::parameter::ParamPath;

use crate::config::{OptimizerKind, TrainConfig};

use crate::error::Result;

/// Keeps the division by the norm finite where all gradients are zero; PyTorch's value.
const NORM_EPSILON: f64 = 1e-6;

/// The gradients of a whole accumulation window, by the parameters' order, each flat.
#[derive(Debug, Default)]
pub struct GradientSum {
    parts: Vec<Tensor<1>>,
    /// Length of the last axis, by which sums are grouped.
    rows: Vec<usize>,
}

impl GradientSum {
    /// Adds the gradients that one backward pass left for `model`.
    ///
    /// A parameter without a gradient counts as zero.
    pub fn add(&mut self, model: &impl Module, grads: Gradients) {
        let mut collector = Collector { sum: self, grads, index: 0 };
        model.visit(&mut collector);
    }

    /// The Euclidean norm over all parameters together, `[1]`.
    ///
    /// Rows are summed first and then their sums, in an order that does not depend on the number of threads.
    pub fn norm(&self) -> Tensor<1> {
        let square = |(part, &row): (&Tensor<1>, &usize)| {
            let square: Tensor<1> = part.clone() * part.clone();
            square.reshape([-1, row as i32]).sum_dim(1).sum()
        };
        let squares: Vec<Tensor<1>> = self.parts.iter().zip(&self.rows).map(square).collect();
        Tensor::cat(squares, 0).sum().sqrt()
    }
}

struct Collector<'a> {
    sum: &'a mut GradientSum,
    grads: Gradients,
    index: usize,
}

impl ModuleVisitor for Collector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        let dims = value.dims();
        let grad = value.grad_remove(&mut self.grads).unwrap_or_else(|| value.clone().inner().zeros_like());
        let grad: Tensor<1> = grad.reshape([-1]);
        if self.index < self.sum.parts.len() {
            let sum = &mut self.sum.parts[self.index];
            *sum = sum.clone() + grad;
        } else {
            self.sum.parts.push(grad);
            self.sum.rows.push(dims[D - 1]);
        }
        self.index += 1;
    }
}

/// Running means of one parameter's gradient and of its square, flat.
#[derive(Clone, Debug)]
struct Moments {
    mean: Tensor<1>,
    square: Tensor<1>,
}

/// Adam (Kingma and Ba, 2015) with its state, and the moving average of the weights if one is asked for.
#[derive(Debug)]
pub struct Optimizer {
    kind: OptimizerKind,
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
    clip_norm: f64,
    ema_decay: f64,
    names: Vec<String>,
    shapes: Vec<Vec<usize>>,
    moments: Vec<Moments>,
    average: Vec<Tensor<1>>,
}

impl Optimizer {
    /// An optimizer that has seen nothing yet.
    pub fn new(config: &TrainConfig, model: &impl Module) -> Self {
        let mut start = Start { path: ParamPath::default(), names: Vec::new(), shapes: Vec::new(), values: Vec::new() };
        model.visit(&mut start);
        let zero = |value: &Tensor<1>| Moments { mean: value.zeros_like(), square: value.zeros_like() };
        Self {
            kind: config.optimizer,
            betas: config.betas,
            eps: config.eps,
            weight_decay: config.weight_decay,
            clip_norm: config.clip_norm,
            ema_decay: config.ema_decay,
            moments: start.values.iter().map(zero).collect(),
            average: if config.ema_decay > 0.0 { start.values } else { Vec::new() },
            names: start.names,
            shapes: start.shapes,
        }
    }

    /// Moves every weight once; returns the model and the norm of the mean gradient before clipping, `[1]`.
    ///
    /// `gradients` are sums over `num_tokens` target tokens, and this is where they are divided. Nothing is read from
    /// the device. `step` counts from 1.
    ///
    /// `m = β₁ m + (1 - β₁) g`, `v = β₂ v + (1 - β₂) g²`, `w -= lr (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + ε)`; weight
    /// decay acts on weight matrices, not on embeddings, biases and norms: `adam` adds `λ w` to the gradient, `adamw`
    /// takes `lr λ w` off the weight (Loshchilov and Hutter, 2019).
    pub fn step<M: Module>(
        &mut self,
        model: M,
        gradients: GradientSum,
        num_tokens: usize,
        lr: f64,
        step: u64,
    ) -> (M, Tensor<1>) {
        let norm = gradients.norm() / num_tokens as f64;
        let scale = if self.clip_norm > 0.0 {
            (norm.clone() + NORM_EPSILON).recip().mul_scalar(self.clip_norm).clamp_max(1.0) / num_tokens as f64
        } else {
            norm.zeros_like() + 1.0 / num_tokens as f64
        };
        let mut update = Update { optimizer: self, gradients: gradients.parts, scale, lr, step, index: 0 };
        let model = model.map(&mut update);
        (model, norm)
    }

    /// The state by name, for a checkpoint: `mean.<parameter>` and `square.<parameter>`, in the parameters' order.
    pub fn state(&self) -> Vec<(String, TensorData)> {
        let of = |(name, moments): (&String, &Moments)| {
            [
                (format!("mean.{name}"), moments.mean.clone().into_data()),
                (format!("square.{name}"), moments.square.clone().into_data()),
            ]
        };
        self.names.iter().zip(&self.moments).flat_map(of).collect()
    }

    /// The moving average of the weights by parameter name, in the parameters' shapes; empty unless `ema_decay` asks for it.
    pub fn average(&self) -> Vec<(String, TensorData)> {
        let values = self.average.iter().map(|value| value.clone().into_data());
        let shaped = values.zip(&self.shapes).map(|(data, shape)| reshape(data, shape));
        self.names.iter().cloned().zip(shaped).collect()
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
        for (name, moments) in self.names.iter().zip(&mut self.moments) {
            let shape = moments.mean.dims();
            moments.mean = Tensor::from_data(state(&format!("mean.{name}"), &shape)?, device);
            moments.square = Tensor::from_data(state(&format!("square.{name}"), &shape)?, device);
        }
        Ok(())
    }

    /// Takes back what [`Self::average`] gave.
    ///
    /// # Errors
    /// The first error of `average`, which is asked for each name and its shape.
    pub fn restore_average<E>(
        &mut self,
        device: &Device,
        mut average: impl FnMut(&str, &[usize]) -> Result<TensorData, E>,
    ) -> Result<(), E> {
        for ((name, shape), value) in self.names.iter().zip(&self.shapes).zip(&mut self.average) {
            let data = average(name, shape)?;
            *value = Tensor::from_data(reshape(data, &[shape.iter().product()]), device);
        }
        Ok(())
    }
}

/// The same numbers in another shape.
fn reshape(data: TensorData, shape: &[usize]) -> TensorData {
    let dtype = data.dtype();
    TensorData::from_bytes(data.into_bytes(), shape.to_vec(), dtype)
}

/// The names, shapes and flat values of all parameters.
struct Start {
    path: ParamPath,
    names: Vec<String>,
    shapes: Vec<Vec<usize>>,
    values: Vec<Tensor<1>>,
}

impl ModuleVisitor for Start {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.names.push(self.path.name());
        self.shapes.push(param.dims().to_vec());
        self.values.push(param.val().inner().reshape([-1]));
    }
}

struct Update<'a> {
    optimizer: &'a mut Optimizer,
    gradients: Vec<Tensor<1>>,
    scale: Tensor<1>,
    lr: f64,
    step: u64,
    index: usize,
}

impl ModuleMapper for Update<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let index = self.index;
        self.index += 1;
        param.map(|value| {
            let shape = value.dims();
            let strategy = value.gradient_checkpointing_strategy();
            let updated = Tensor::from_inner(self.update(index, value.inner().reshape([-1]), D).reshape(shape));
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
    fn update(&mut self, index: usize, weight: Tensor<1>, rank: usize) -> Tensor<1> {
        let optimizer = &mut *self.optimizer;
        let decay = match optimizer.kind {
            _ if optimizer.weight_decay == 0.0 || !decays(&optimizer.names[index], rank) => WeightDecay::None,
            OptimizerKind::Adam => WeightDecay::Coupled(optimizer.weight_decay),
            OptimizerKind::Adamw => WeightDecay::Decoupled(optimizer.weight_decay),
        };
        let step = AdamStep { betas: optimizer.betas, eps: optimizer.eps, lr: self.lr, step: self.step, decay };
        // Taken out, so that nobody else holds them and they can be written where they lie.
        let nothing = Tensor::empty([0], &weight.device());
        let mean = std::mem::replace(&mut optimizer.moments[index].mean, nothing.clone());
        let square = std::mem::replace(&mut optimizer.moments[index].square, nothing.clone());
        let gradient = std::mem::replace(&mut self.gradients[index], nothing);
        let AdamState { weight, mean, square } = adam(AdamState { weight, mean, square }, gradient, &self.scale, step);
        optimizer.moments[index] = Moments { mean, square };
        let time = self.step as f64;
        if let Some(average) = optimizer.average.get_mut(index) {
            // A young average forgets faster, so that it does not hold on to the initial weights.
            let decay = optimizer.ema_decay.min((1.0 + time) / (10.0 + time));
            *average = average.clone() * decay + weight.clone() * (1.0 - decay);
        }
        weight
    }
}

/// Whether weight decay acts on a parameter: weight matrices, but not embeddings and positions.
fn decays(name: &str, rank: usize) -> bool {
    rank == 2 && !name.ends_with("embedding.weight") && !name.ends_with("position.weight")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Golden {
        start: Array,
        grads: Vec<Array>,
        adam: Run,
        adamw: Run,
    }

    #[derive(Deserialize)]
    struct Run {
        weight_decay: f64,
        lr: f64,
        betas: [f64; 2],
        eps: f64,
        params_after_step: Vec<Array>,
    }

    #[derive(Deserialize)]
    struct Array {
        data: Vec<f32>,
    }

    /// One weight matrix, as the golden values have.
    #[derive(Module, Debug)]
    struct Matrix {
        weight: Param<Tensor<2>>,
    }

    fn golden() -> Golden {
        serde_json::from_str(include_str!("../../tests/golden/adam.json")).expect("the golden file is JSON")
    }

    fn check(run: &Run, kind: OptimizerKind, golden: &Golden) {
        let device = Device::flex().autodiff();
        let config = TrainConfig {
            optimizer: kind,
            betas: run.betas,
            eps: run.eps,
            weight_decay: run.weight_decay,
            clip_norm: 0.0,
            ..TrainConfig::default()
        };
        let start = TensorData::new(golden.start.data.clone(), [2, 3]);
        let mut model = Matrix { weight: Param::from_tensor(Tensor::from_data(start, &device)) };
        let mut optimizer = Optimizer::new(&config, &model);
        let num_tokens = 4;
        for (step, (grad, expected)) in golden.grads.iter().zip(&run.params_after_step).enumerate() {
            // Sums over tokens: the optimizer divides.
            let sums: Vec<f32> = grad.data.iter().map(|value| value * num_tokens as f32).collect();
            let grad = Tensor::<2>::from_data(TensorData::new(sums, [2, 3]), &device);
            let grads = (model.weight.val() * grad).sum().backward();
            let mut sum = GradientSum::default();
            sum.add(&model, grads);
            model = optimizer.step(model, sum, num_tokens, run.lr, step as u64 + 1).0;
            for (found, expected) in model.weight.val().into_data().iter::<f32>().zip(&expected.data) {
                assert!((found - expected).abs() < 1e-6, "step {step}: {found} {expected}");
            }
        }
    }

    #[test]
    fn adam_and_adamw_are_pytorchs() {
        let golden = golden();
        assert!(golden.adamw.weight_decay > 0.0);
        check(&golden.adam, OptimizerKind::Adam, &golden);
        check(&golden.adamw, OptimizerKind::Adamw, &golden);
    }

    #[test]
    fn decay_spares_embeddings_biases_and_norms() {
        assert!(decays("encoder.layers.0.feed_forward.inner.weight", 2));
        assert!(!decays("src_embedding.weight", 2));
        assert!(!decays("tgt_position.weight", 2));
        assert!(!decays("encoder.layers.0.feed_forward.inner.bias", 1));
        assert!(!decays("encoder.norm.gamma", 1));
    }
}
