//! Kernels beside those of flex: values and gradients, with the same dropout masks.

use anyhow::{Context, Result, ensure};
use burn::tensor::{Bool, Device, Distribution, Tensor, TensorData};
use polyglow_kernels::{
    Activation, Dropped, Factors, Layout, Packed, Targets, activated_linear, add_dropped,
    cross_attention, dropout, layer_norm, linear, linear_transposed, projected_cross_entropy,
    residual_norm, self_attention, widened,
};
use polyglow_model::Precision;

use super::{Check, Compared, are_near, values};

const DROPPED: [Option<Dropped>; 2] = [
    None,
    Some(Dropped {
        keep: 0.7,
        key: 0x1234_5678_9abc_def0,
    }),
];

/// Every comparison, and what it compares.
pub(super) const CHECKS: [Check; 11] = [
    ("attention of a sequence to itself", self_attentions),
    ("attention to another sequence", cross_attentions),
    ("rows that may attend to nothing", rows_without_keys),
    ("norms, and norms of sums", norms),
    ("dropout on the way into a sum", dropouts),
    ("the middle of a feed-forward block", middles),
    ("the loss of hidden states", losses),
    ("products", products),
    ("linear maps of many rows", long_linear_maps),
    ("linear maps of large matrices", large_linear_maps),
    ("linear maps of rounded factors", rounded_linear_maps),
];

/// The largest difference of a value, relative to the largest value of its tensor, where every sum is of f32.
const EXACT: f32 = 1e-5;

/// Compares the output of an operation, and the gradients of its inputs under random gradients of
/// the output, on the GPU and on flex.
///
/// # Errors
/// A value differs by more than `bound` of the largest.
fn equals_flex(
    gpu: &Compared,
    bound: f32,
    shapes: &[[usize; 3]],
    operation: impl Fn(&[Tensor<3>]) -> Tensor<3>,
) -> Result<()> {
    let random = |shape: [usize; 3]| {
        Tensor::<3>::random(shape, Distribution::Default, &Device::flex()).into_data()
    };
    let data: Vec<_> = shapes.iter().map(|shape| random(*shape)).collect();
    let mut output_gradient = None;
    let mut run = |device: &Device| {
        let device = device.clone().autodiff();
        let leaf = |data: &TensorData| {
            (Tensor::<3>::from_data(data.clone(), &device) * 4.0 - 2.0)
                .detach()
                .require_grad()
        };
        let leaves: Vec<Tensor<3>> = data.iter().map(leaf).collect();
        let output = operation(&leaves);
        let output_gradient = output_gradient
            .get_or_insert_with(|| random(output.dims()))
            .clone();
        let gradients = (output.clone() * (Tensor::from_data(output_gradient, &device) - 0.3))
            .sum()
            .backward();
        let mut all = vec![values(output)];
        all.extend(
            leaves
                .iter()
                .map(|leaf| values(leaf.grad(&gradients).expect("the output depends on it"))),
        );
        all
    };
    let expected = run(&Device::flex());
    let actual = run(&gpu.device);
    for (index, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
        are_near(expected, actual, bound)
            .with_context(|| format!("inputs of {shapes:?}: result {index}"))?;
    }
    Ok(())
}

/// The padding mask of `rows` sentences, the first of length `len` and the others shorter.
fn padding(rows: usize, len: usize, device: &Device) -> Tensor<4, Bool> {
    let forbidden =
        |row: usize| (0..len).map(move |position| position >= len - row * len / (rows + 1));
    let flat: Vec<bool> = (0..rows).flat_map(forbidden).collect();
    Tensor::<1, Bool>::from_data(&flat[..], device).reshape([rows, 1, 1, len])
}

fn future(rows: usize, len: usize, device: &Device) -> Tensor<4, Bool> {
    let later: Vec<bool> = (0..len)
        .flat_map(|position| (0..len).map(move |key| key > position))
        .collect();
    let later = Tensor::<1, Bool>::from_data(&later[..], device).reshape([1, 1, len, len]);
    later
        .expand([rows, 1, len, len])
        .bool_or(padding(rows, len, device).expand([rows, 1, len, len]))
}

fn self_attentions(gpu: &Compared) -> Result<()> {
    // One block of keys, several; widths of heads that are whole vectors, and one that is not.
    for (rows, len, heads, head_dim) in [
        (3, 5, 2, 4),
        (2, 32, 1, 8),
        (2, 70, 2, 16),
        (1, 37, 2, 64),
        (3, 24, 2, 64),
        (2, 6, 3, 5),
    ] {
        for dropped in DROPPED {
            for causal in [false, true] {
                equals_flex(gpu, EXACT, &[[rows, len, 3 * heads * head_dim]], |leaves| {
                    let device = &leaves[0].device();
                    let mask = if causal {
                        future(rows, len, device)
                    } else {
                        padding(rows, len, device)
                    };
                    self_attention(&leaves[0], &mask, heads, dropped).expect("both have a kernel")
                })?;
            }
        }
    }
    Ok(())
}

fn cross_attentions(gpu: &Compared) -> Result<()> {
    for (rows, len, other_len, heads, head_dim) in [
        (3, 5, 7, 2, 4),
        (2, 40, 9, 2, 8),
        (2, 9, 40, 2, 8),
        (1, 1, 65, 1, 32),
        (2, 24, 17, 2, 64),
    ] {
        for dropped in DROPPED {
            let d_model = heads * head_dim;
            equals_flex(
                gpu,
                EXACT,
                &[[rows, len, d_model], [rows, other_len, 2 * d_model]],
                |leaves| {
                    let mask = padding(rows, other_len, &leaves[0].device());
                    cross_attention(&leaves[0], &leaves[1], &mask, heads, dropped)
                        .expect("both have a kernel")
                },
            )?;
        }
    }
    Ok(())
}

/// A row that may attend to no key attends to all keys equally.
fn rows_without_keys(gpu: &Compared) -> Result<()> {
    for len in [6, 40] {
        equals_flex(gpu, EXACT, &[[2, len, 24]], |leaves| {
            let all = Tensor::<1, Bool>::from_data(&vec![true; 2 * len][..], &leaves[0].device());
            self_attention(&leaves[0], &all.reshape([2, 1, 1, len]), 2, None)
                .expect("both have a kernel")
        })?;
    }
    Ok(())
}

fn flat(leaf: &Tensor<3>) -> Tensor<2> {
    leaf.clone().flatten(0, 1)
}

/// A tensor of one row, which gives a parameter.
fn row(leaf: &Tensor<3>) -> Tensor<1> {
    leaf.clone().flatten(0, 2)
}

fn norms(gpu: &Compared) -> Result<()> {
    // Fewer vectors than a row has units, more, and more rows than all cubes have at once.
    for shape in [[2, 3, 8], [3, 7, 5], [5, 11, 200], [90, 50, 6]] {
        let parameter = [1, 1, shape[2]];
        equals_flex(gpu, EXACT, &[shape, parameter, parameter], |leaves| {
            layer_norm(flat(&leaves[0]), row(&leaves[1]), row(&leaves[2]), 1e-5).unsqueeze()
        })?;
        for dropped in DROPPED {
            equals_flex(
                gpu,
                EXACT,
                &[shape, shape, parameter, parameter],
                |leaves| {
                    let [residual, input, gamma, beta] = leaves else {
                        unreachable!("there are four")
                    };
                    residual_norm(
                        &flat(residual),
                        &flat(input),
                        row(gamma),
                        row(beta),
                        1e-5,
                        dropped,
                    )
                    .expect("both have kernels")
                    .unsqueeze()
                },
            )?;
        }
    }
    Ok(())
}

fn dropouts(gpu: &Compared) -> Result<()> {
    let dropped = Dropped { keep: 0.8, key: 77 };
    // Of less than a part of a mask, of more, and of no whole number of vectors.
    for shape in [[2, 3, 8], [3, 41, 100], [3, 3, 3]] {
        equals_flex(gpu, EXACT, &[shape, shape], |leaves| {
            add_dropped(&flat(&leaves[0]), &flat(&leaves[1]), dropped)
                .expect("both have a kernel")
                .unsqueeze()
        })?;
    }
    // By itself it is the same mask, which flex has no kernel for.
    let device = gpu.device.clone().autodiff();
    let ones = Tensor::<2>::ones([123, 100], &device).require_grad();
    let sum = values(add_dropped(&ones.zeros_like(), &ones, dropped).expect("there is a kernel"));
    let output = dropout(&ones, dropped).expect("there is a kernel");
    ensure!(values(output.clone()) == sum, "alone it has another mask");
    let gradient = ones
        .grad(&output.sum().backward())
        .expect("the output depends on it");
    ensure!(values(gradient) == sum, "the gradient has another mask");
    // And as a product with Burn's own gradients.
    let again = Tensor::<2>::ones([123, 100], &device.gradient_checkpointing());
    ensure!(
        values(dropout(&again, dropped).expect("there is a kernel")) == sum,
        "with Burn's own gradients it has another mask"
    );
    Ok(())
}

fn middles(gpu: &Compared) -> Result<()> {
    let shapes = [[1, 70, 24], [1, 24, 36], [1, 1, 36]];
    let dropped = Dropped { keep: 0.8, key: 78 };
    let middle = |leaves: &[Tensor<3>], dropped| {
        let input = flat(&leaves[0]);
        let weight = flat(&leaves[1]);
        activated_linear(
            &input,
            &weight,
            &row(&leaves[2]),
            Activation::Relu,
            dropped,
            Factors::F32,
            &Packed::default(),
        )
        .expect("both have a kernel")
    };
    equals_flex(gpu, gpu.products(), &shapes, |leaves| {
        middle(leaves, None).unsqueeze()
    })?;
    // Flex drops by rows, so that its masks are different: on GPUs it is dropout of what comes out
    // without it.
    let device = gpu.device.clone().autodiff();
    let random = |shape| {
        Tensor::<3>::random(shape, Distribution::Uniform(-1.0, 1.0), &device).require_grad()
    };
    let leaves = shapes.map(random);
    let outputs = [
        middle(&leaves, Some(dropped)),
        dropout(&middle(&leaves, None), dropped).expect("there is a kernel"),
    ];
    let [actual, expected] = outputs.map(|output| {
        let gradients = (output.clone() * output.clone()).sum().backward();
        let input_gradients = leaves
            .each_ref()
            .map(|leaf| values(leaf.grad(&gradients).expect("the output depends on it")));
        [vec![values(output)], input_gradients.to_vec()].concat()
    });
    for (actual, expected) in actual.iter().zip(&expected) {
        are_near(expected, actual, gpu.products()).context("dropped in the product's kernel")?;
    }
    Ok(())
}

/// The loss, the loss without smoothing, and the gradients, with targets that are padding among the
/// others.
fn losses(gpu: &Compared) -> Result<()> {
    // Vocabularies that are multiples of a vector, and that are not; enough rows of padding that
    // some are left out; and more rows than a chunk has.
    for (rows, d_model, vocab_size) in [(5, 8, 12), (70, 16, 1003), (3, 4, 5000), (700, 4, 12)] {
        for layout in [Layout::InOut, Layout::OutIn] {
            let weight = match layout {
                Layout::InOut => [1, d_model, vocab_size],
                Layout::OutIn => [1, vocab_size, d_model],
            };
            equals_flex(
                gpu,
                gpu.products(),
                &[[1, rows, d_model], weight],
                |leaves| {
                    let device = &leaves[0].device();
                    let target = |row: usize| {
                        if row % 3 == 1 {
                            0
                        } else {
                            row * 37 % vocab_size % (row + 1)
                        }
                    };
                    let targets = (0..rows).map(|row| target(row) as i32).collect();
                    let targets = Targets::without_padding(targets, 0, device);
                    let hidden = flat(&leaves[0]);
                    let weight = flat(&leaves[1]);
                    let loss = projected_cross_entropy(
                        hidden,
                        weight,
                        layout,
                        targets,
                        0.1,
                        0,
                        Factors::F32,
                    );
                    // The second has no gradients.
                    Tensor::cat(vec![loss.loss_sum, loss.nll_sum], 0).unsqueeze()
                },
            )?;
        }
    }
    Ok(())
}

/// Products alone, of shapes whose rows are whole vectors or not, with a second factor in both orders:
/// where a library computes them, nothing else is launched.
fn products(gpu: &Compared) -> Result<()> {
    let random = |rows: usize, columns: usize| {
        Tensor::<2>::random([rows, columns], Distribution::Default, &Device::flex())
    };
    for [rows, terms, columns] in [[5, 8, 6], [64, 32, 40], [1, 16, 3], [7, 1, 9], [9, 12, 1]] {
        let there = |matrix: &Tensor<2>| {
            let device = gpu.device.clone().autodiff();
            Tensor::<2>::from_data(matrix.clone().into_data(), &device)
        };
        let (left, right) = (random(rows, terms), random(terms, columns));
        let transposed = random(columns, terms);
        let product = linear(there(&left), there(&right), None, Factors::F32);
        let other = linear_transposed(there(&left), there(&transposed), Factors::F32);
        for (expected, actual) in [
            (left.clone().matmul(right), product),
            (left.matmul(transposed.transpose()), other),
        ] {
            are_near(&values(expected), &values(actual), gpu.products())
                .with_context(|| format!("{rows}x{terms} by {terms}x{columns}"))?;
        }
    }
    Ok(())
}

/// A gradient of a weight is a sum over all rows, which GPUs split into parts if there are enough of
/// them.
fn long_linear_maps(gpu: &Compared) -> Result<()> {
    for rows in [4096, 1030, 520] {
        let shapes = [[1, rows, 24], [1, 24, 36], [1, 1, 36]];
        equals_flex(gpu, gpu.products(), &shapes, |leaves| {
            let bias = Some(row(&leaves[2]));
            linear(flat(&leaves[0]), flat(&leaves[1]), bias, Factors::F32).unsqueeze()
        })?;
    }
    Ok(())
}

/// Large enough that the fastest kernel is looked for, in each format. With `CUBECL_AUTOTUNE_LEVEL=full`
/// it is looked for in the other comparisons, too.
fn large_linear_maps(gpu: &Compared) -> Result<()> {
    if gpu.is_software {
        gpu.note("left out: it would take minutes on the CPU".to_owned());
        return Ok(());
    }
    let shapes = [[1, 4096, 512], [1, 512, 512], [1, 1, 512]];
    equals_flex(gpu, gpu.products(), &shapes, |leaves| {
        let bias = Some(row(&leaves[2]));
        linear(flat(&leaves[0]), flat(&leaves[1]), bias, Factors::F32).unsqueeze()
    })?;
    rounded(gpu, |factors, bound| {
        rounded_linear_map(gpu, shapes, factors, false, bound)
    })
}

/// Products of rounded factors: their results are rounded, and sums of gradients are not.
fn rounded_linear_maps(gpu: &Compared) -> Result<()> {
    let shapes = [[1, 70, 24], [1, 24, 36], [1, 1, 36]];
    rounded(gpu, |factors, bound| {
        for relu in [false, true] {
            rounded_linear_map(gpu, shapes, factors, relu, bound)?;
        }
        Ok(())
    })
}

/// Makes a comparison in each format that the device has, with the largest difference that is allowed.
fn rounded(gpu: &Compared, compare: impl Fn(Factors, f32) -> Result<()>) -> Result<()> {
    // A rounding changes a value by half of its last bit at most, and each has had three.
    let formats = [
        (Precision::F16, Factors::F16, 3.0 / 2048.0),
        (Precision::Bf16, Factors::Bf16, 3.0 / 256.0),
    ];
    for (precision, factors, bound) in formats {
        if precision.is_supported(&gpu.device) {
            compare(factors, bound).context(precision.name())?;
        } else {
            gpu.note(format!(
                "not compared: the device has no {}",
                precision.name()
            ));
        }
    }
    Ok(())
}

fn rounded_linear_map(
    gpu: &Compared,
    shapes: [[usize; 3]; 3],
    factors: Factors,
    relu: bool,
    bound: f32,
) -> Result<()> {
    let random = |shape| {
        Tensor::<3>::random(shape, Distribution::Uniform(-1.0, 1.0), &Device::flex()).into_data()
    };
    let data = shapes.map(random);
    let run = |device: &Device| {
        let device = device.clone().autodiff();
        let leaves = data
            .each_ref()
            .map(|data| Tensor::<3>::from_data(data.clone(), &device).require_grad());
        let input = flat(&leaves[0]);
        let weight = flat(&leaves[1]);
        let output = if relu {
            activated_linear(
                &input,
                &weight,
                &row(&leaves[2]),
                Activation::Relu,
                None,
                factors,
                &Packed::default(),
            )
            .expect("both have a kernel")
        } else {
            linear(input, weight, Some(row(&leaves[2])), factors)
        };
        let wide: Tensor<2> = widened(output);
        let gradients = (wide.clone() * wide.clone()).sum().backward();
        let input_gradients = leaves
            .each_ref()
            .map(|leaf| values(leaf.grad(&gradients).expect("the output depends on it")));
        [vec![values(wide)], input_gradients.to_vec()].concat()
    };
    for (expected, actual) in run(&Device::flex()).iter().zip(&run(&gpu.device)) {
        are_near(expected, actual, bound)?;
    }
    Ok(())
}
