//! The operations of Burn's graph: their names, and the floating-point operations of products.

use burn::backend::ir::{CustomOpIr, FloatOperationIr, ModuleOperationIr, OperationIr, TensorIr};
use burn::tensor::DType;

use super::ledger::Units;

/// Returns the name of an operation: that of its variant, or of a custom operation its own.
pub(super) fn name(operation: &OperationIr) -> String {
    if let OperationIr::Custom(custom) = operation {
        return custom.id.clone();
    }
    let text = format!("{operation:?}");
    let variants = text
        .split_once(" {")
        .map_or(&*text, |(variants, _)| variants);
    let mut variants = variants.rsplit('(');
    let structure = variants.next().unwrap_or_default();
    let variant = variants.next().unwrap_or(structure);
    variant.rsplit(", ").next().unwrap_or(variant).to_owned()
}

/// Counts the floating-point operations of a matrix product, with the units that compute them;
/// `None` for other operations.
pub(super) fn product(operation: &OperationIr) -> Option<(f64, Units)> {
    match operation {
        OperationIr::Float(_, FloatOperationIr::Matmul(product)) => {
            Some(matmul(&product.lhs, last(&product.lhs), &product.out))
        }
        OperationIr::Module(ModuleOperationIr::Linear(linear)) => {
            Some(matmul(&linear.x, last(&linear.x), &linear.out))
        }
        OperationIr::Module(ModuleOperationIr::LinearXBackward(linear)) => {
            let factor = &linear.output_grad;
            Some(matmul(factor, last(factor), &linear.out))
        }
        OperationIr::Module(ModuleOperationIr::LinearWeightBackward(linear)) => {
            // The gradient of the weights sums over all rows of the input.
            let rows = linear.x.shape.num_elements() / last(&linear.x).max(1);
            Some(matmul(&linear.x, rows, &linear.out))
        }
        OperationIr::Custom(custom) if custom.id == "product" => {
            let factor = custom.inputs.first()?;
            Some(matmul(factor, last(factor), custom.outputs.first()?))
        }
        OperationIr::Custom(custom) => attention(custom).map(|flops| (flops, Units::Lanes)),
        _ => None,
    }
}

/// Counts the floating-point operations of a product whose elements are sums of `inner` products; the
/// units follow from the type of `factor`.
fn matmul(factor: &TensorIr, inner: usize, out: &TensorIr) -> (f64, Units) {
    let units = if factor.dtype == DType::F32 {
        Units::F32
    } else {
        Units::Half
    };
    // A multiplication and an addition each.
    (2.0 * inner as f64 * out.shape.num_elements() as f64, units)
}

/// Counts the floating-point operations of attention; `None` for other operations. The forward pass
/// has two matrix products. The backward pass has five, of which two are computed twice if it is in
/// two kernels.
fn attention(operation: &CustomOpIr) -> Option<f64> {
    let products = match &*operation.id {
        "attention" => 2.0,
        "attention's gradients" => 5.0,
        "attention's gradients in blocks" => 7.0,
        _ => return None,
    };
    let [_, key_value, _, ..] = &*operation.inputs else {
        return None;
    };
    let output = if operation.inputs.len() > 3 {
        operation.inputs.get(3)?
    } else {
        operation.outputs.first()?
    };
    Some(products * 2.0 * (output.shape.num_elements() * key_value.shape[1]) as f64)
}

fn last(tensor: &TensorIr) -> usize {
    tensor.shape.last().copied().unwrap_or(1)
}
