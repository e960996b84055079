//! The layers of GPT-2 and `ViT`, with norms before the sublayers: checks and names that both share.

use polyglow_model::{Activation, Norm, TransformerShape};
use polyglow_predict::error::{Result, TrainError, failed, usage};

use crate::array::Arrays;

/// Checks that a class of transformers has such layers.
///
/// # Errors
/// It has not (exit code 2).
pub(super) fn check(stack: &TransformerShape, class: &str) -> Result<()> {
    if stack.norm != Norm::Pre {
        return Err(refused(
            class,
            "its norms are behind the sublayers (`norm = \"post\"`)",
        ));
    }
    if stack.activation == Activation::Swiglu {
        return Err(refused(
            class,
            "its feed-forward blocks are gated (`\"swiglu\"`)",
        ));
    }
    Ok(())
}

/// The error of a model that a class of transformers cannot represent.
pub(super) fn refused(class: &str, reason: &str) -> TrainError {
    usage(failed!(
        "Hugging Face has no class for this model: {reason}, and {class} does not have that"
    ))
}

/// Copies a norm from our name for it to theirs.
pub(super) fn copy_norm(ours: &Arrays, theirs: &mut Arrays, from: &str, to: &str) -> Result<()> {
    let gamma = ours.get(&format!("{from}.gamma"))?.clone();
    let beta = ours.get(&format!("{from}.beta"))?.clone();
    theirs.put(format!("{to}.weight"), gamma);
    theirs.put(format!("{to}.bias"), beta);
    Ok(())
}
