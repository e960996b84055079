//! Every backward pass compared with central differences of its forward pass:
//! `d loss / d x ≈ (loss(x + h) - loss(x - h)) / 2 h` for every element of every argument.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use polyglow_kernels::{
    Activation, Cell, Direction, Dropped, Factors, Layout, Packed, activated_linear, add_dropped,
    additive_weights, cross_attention, cross_entropy, embedding, gated, layer_norm, linear,
    linear_transposed, projected_cross_entropy, recurrent_layer, recurrent_step, self_attention,
    tanh,
};

/// The step `h` of a difference: a power of two, so that adding it to a value rounds little.
const STEP: f32 = 1.0 / 256.0;
/// Rounding leaves an error of about 1e-7 over [`STEP`], and the third derivative one of about its
/// square.
const TOLERANCE: f64 = 1e-3;

const DROPPED: Option<Dropped> = Some(Dropped { keep: 0.7, key: 12 });

/// Values between -1 and 1 without visible order, which follow from `seed`.
fn pseudo_random(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|index| ((index * 37 + seed * 101 + 1) as f64 * 0.618_034).fract() as f32 * 2.0 - 1.0)
        .collect()
}

fn tensor<const D: usize>(flat: &Tensor<1>, shape: [usize; D]) -> Tensor<D> {
    flat.clone().reshape(shape)
}

/// Flat tensors of these values, which get gradients.
fn arguments(values: &[Vec<f32>]) -> Vec<Tensor<1>> {
    let device = Device::flex().autodiff();
    values
        .iter()
        .map(|values| Tensor::<1>::from_data(values.as_slice(), &device).require_grad())
        .collect()
}

/// The weighted sum of an output, in double precision, so that differences keep their digits.
fn loss(output: Tensor<1>, weights: &[f32]) -> f64 {
    output
        .into_data()
        .iter::<f64>()
        .zip(weights)
        .map(|(value, weight)| value * f64::from(*weight))
        .sum()
}

/// Checks the gradients of all arguments of `function`, which have these lengths.
fn assert_gradients(name: &str, lens: &[usize], function: impl Fn(&[Tensor<1>]) -> Tensor<1>) {
    let values: Vec<Vec<f32>> = lens
        .iter()
        .enumerate()
        .map(|(index, len)| pseudo_random(*len, index))
        .collect();
    let tracked = arguments(&values);
    let output = function(&tracked);
    let weights = pseudo_random(output.dims()[0], 99);
    let upstream = Tensor::<1>::from_data(weights.as_slice(), &Device::flex().autodiff());
    let gradients = (output * upstream).sum().backward();
    for (argument, tensor) in tracked.iter().enumerate() {
        let gradient = tensor.grad(&gradients).expect("it is tracked").into_data();
        let gradient: Vec<f64> = gradient.iter::<f64>().collect();
        assert!(
            gradient.iter().any(|grad| grad.abs() > 10.0 * TOLERANCE),
            "{name}: argument {argument} has no gradient"
        );
        for (element, grad) in gradient.iter().enumerate() {
            let shifted_loss = |shift: f32| {
                let mut values = values.clone();
                values[argument][element] += shift;
                loss(function(&arguments(&values)), &weights)
            };
            let difference = (shifted_loss(STEP) - shifted_loss(-STEP)) / f64::from(2.0 * STEP);
            assert!(
                (difference - grad).abs() <= TOLERANCE * grad.abs().max(1.0),
                "{name}: argument {argument}, element {element}: the gradient is {grad}, and the \
                 difference {difference}"
            );
        }
    }
}

#[test]
fn linear_maps_match_differences() {
    let rows = 5;
    let d_in = 4;
    let d_out = 7;
    let lens = [rows * d_in, d_in * d_out, d_out];
    assert_gradients("linear", &lens, |x| {
        linear(
            tensor(&x[0], [rows, d_in]),
            tensor(&x[1], [d_in, d_out]),
            Some(x[2].clone()),
            Factors::F32,
        )
        .flatten(0, 1)
    });
    assert_gradients("linear without a bias", &lens[..2], |x| {
        linear(
            tensor(&x[0], [rows, d_in]),
            tensor(&x[1], [d_in, d_out]),
            None,
            Factors::F32,
        )
        .flatten(0, 1)
    });
    assert_gradients("linear_transposed", &lens[..2], |x| {
        linear_transposed(
            tensor(&x[0], [rows, d_in]),
            tensor(&x[1], [d_out, d_in]),
            Factors::F32,
        )
        .flatten(0, 1)
    });
}

#[test]
fn activations_match_differences() {
    let rows = 5;
    let d_in = 4;
    let d_out = 7;
    for activation in [Activation::Relu, Activation::Gelu, Activation::Swish] {
        for dropped in [None, DROPPED] {
            assert_gradients(
                &format!("{activation:?} {dropped:?}"),
                &[rows * d_in, d_in * d_out, d_out],
                |x| {
                    let input = tensor(&x[0], [rows, d_in]);
                    let weight = tensor(&x[1], [d_in, d_out]);
                    activated_linear(
                        &input,
                        &weight,
                        &x[2],
                        activation,
                        dropped,
                        Factors::F32,
                        &Packed::default(),
                    )
                    .expect("on flex")
                    .flatten(0, 1)
                },
            );
        }
    }
    for dropped in [None, DROPPED] {
        assert_gradients(&format!("gated {dropped:?}"), &[30, 30], |x| {
            let [gate, inner] = [0, 1].map(|side| tensor(&x[side], [6, 5]) * 3.0);
            gated(&gate, &inner, dropped)
                .expect("on flex")
                .flatten(0, 1)
        });
    }
}

/// A mask of `[batch, 1, rows, columns]`, given which batch row, row and column is forbidden.
fn mask(
    [batch, rows, columns]: [usize; 3],
    forbidden: fn(usize, usize, usize) -> bool,
) -> Tensor<4, Bool> {
    let mut values = Vec::new();
    for batch_row in 0..batch {
        for row in 0..rows {
            for column in 0..columns {
                values.push(forbidden(batch_row, row, column));
            }
        }
    }
    Tensor::from_data(
        TensorData::new(values, [batch, 1, rows, columns]),
        &Device::flex().autodiff(),
    )
}

#[test]
fn attention_matches_differences() {
    let batch = 2;
    let len = 4;
    let other_len = 5;
    let d_model = 6;
    let heads = 2;
    let future = mask([batch, len, len], |_, row, column| column > row);
    let padding = mask([batch, 1, other_len], |batch_row, _, column| {
        batch_row == 1 && column > 2
    });
    for dropped in [None, DROPPED] {
        assert_gradients(
            &format!("self_attention {dropped:?}"),
            &[batch * len * 3 * d_model],
            |x| {
                let qkv = tensor(&x[0], [batch, len, 3 * d_model]) * 2.0;
                self_attention(&qkv, &future, heads, dropped)
                    .expect("on flex")
                    .flatten(0, 2)
            },
        );
        let lens = [batch * len * d_model, batch * other_len * 2 * d_model];
        assert_gradients(&format!("cross_attention {dropped:?}"), &lens, |x| {
            let query = tensor(&x[0], [batch, len, d_model]);
            let both = tensor(&x[1], [batch, other_len, 2 * d_model]);
            cross_attention(&(query * 2.0), &both, &padding, heads, dropped)
                .expect("on flex")
                .flatten(0, 2)
        });
    }
}

#[test]
fn norms_and_residual_sums_match_differences() {
    let shape = [6, 8];
    assert_gradients("layer_norm", &[48, 8, 8], |x| {
        layer_norm(tensor(&x[0], shape), x[1].clone(), x[2].clone(), 1e-5).flatten(0, 1)
    });
    assert_gradients("add_dropped", &[48, 48], |x| {
        let dropped = Dropped { keep: 0.7, key: 12 };
        add_dropped(&tensor(&x[0], shape), &tensor(&x[1], shape), dropped)
            .expect("on flex")
            .flatten(0, 1)
    });
}

#[test]
fn embeddings_and_losses_match_differences() {
    let device = Device::flex().autodiff();
    let ids = Tensor::<2, Int>::from_data([[3, 1, 3], [0, 3, 2]], &device);
    assert_gradients("embedding", &[5 * 4], |x| {
        embedding(tensor(&x[0], [5, 4]), ids.clone(), 2.0).flatten(0, 2)
    });
    // The second row is padding, and none of its logits has a gradient.
    let targets = Tensor::<1, Int>::from_data([3, 0, 8, 1], &device);
    for smoothing in [0.0, 0.1] {
        assert_gradients(&format!("cross_entropy {smoothing}"), &[4 * 9], |x| {
            cross_entropy(tensor(&x[0], [4, 9]) * 4.0, targets.clone(), smoothing, 0).loss_sum
        });
        for (layout, shape) in [(Layout::InOut, [5, 9]), (Layout::OutIn, [9, 5])] {
            assert_gradients(
                &format!("projected_cross_entropy {layout:?} {smoothing}"),
                &[4 * 5, 5 * 9],
                |x| {
                    let hidden = tensor(&x[0], [4, 5]) * 2.0;
                    let weight = tensor(&x[1], shape);
                    projected_cross_entropy(
                        hidden,
                        weight,
                        layout,
                        targets.clone().into(),
                        smoothing,
                        0,
                        Factors::F32,
                    )
                    .loss_sum
                },
            );
        }
    }
}

#[test]
fn recurrent_layers_and_additive_attention_match_differences() {
    let batch = 2;
    let len = 3;
    let width = 5;
    let device = Device::flex().autodiff();
    let padding = |values: [[bool; 3]; 2]| Tensor::<2, Bool>::from_data(values, &device);
    let layers = [
        (Cell::Tanh, Direction::Backward),
        (Cell::Gru, Direction::Forward),
        (Cell::Lstm, Direction::Backward),
    ];
    for (cell, direction) in layers {
        let sums = cell.gates() * width;
        let state = cell.states() * width;
        let lens = [batch * sums, batch * sums, batch * state];
        // A tanh network's state counts through its product with the weights alone.
        let direct = if cell == Cell::Tanh { 2 } else { 3 };
        assert_gradients(&format!("recurrent_step {cell:?}"), &lens[..direct], |x| {
            let projected = tensor(&x[0], [batch, sums]);
            let recurrent = tensor(&x[1], [batch, sums]);
            let state = x
                .get(2)
                .map_or(Tensor::zeros([batch, state], &device), |x| {
                    tensor(x, [batch, state])
                });
            recurrent_step(cell, projected, recurrent, state).flatten(0, 1)
        });
        let lens = [batch * len * sums, width * sums, sums, batch * state];
        for padding in [None, Some(padding([[false; 3], [false, true, true]]))] {
            assert_gradients(
                &format!("recurrent_layer {cell:?} {direction:?}"),
                &lens,
                |x| {
                    let projected = tensor(&x[0], [batch, len, sums]);
                    let weight = tensor(&x[1], [width, sums]);
                    let start = tensor(&x[3], [batch, state]);
                    recurrent_layer(
                        cell,
                        direction,
                        &projected,
                        &weight,
                        &x[2],
                        &start,
                        padding.as_ref(),
                    )
                    .expect("on flex")
                    .flatten(0, 2)
                },
            );
        }
    }
    let mask = padding([[false; 3], [false, false, true]]).unsqueeze_dim(1);
    assert_gradients(
        "additive_weights",
        &[batch * 2 * width, batch * len * width, width],
        |x| {
            let queries = tensor(&x[0], [batch, 2, width]);
            let keys = tensor(&x[1], [batch, len, width]);
            additive_weights(&queries, &keys, &tensor(&x[2], [width, 1]), &mask)
                .expect("on flex")
                .flatten(0, 2)
        },
    );
    assert_gradients("tanh", &[30], |x| tanh(x[0].clone() * 2.0));
}
