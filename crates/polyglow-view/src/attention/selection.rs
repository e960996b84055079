//! The choice of one head among all kinds, layers and heads of attention.

use polyglow_model::ModelShape;
use polyglow_model::attention::AttentionKind;
use polyglow_predict::attention::head_or_mean;
use polyglow_predict::error::{usage, with_hint};
use polyglow_train::{Result, TrainError};

/// The kinds of attention by the names that the option `--kind` has.
const KINDS: [(&str, AttentionKind); 3] = [
    ("cross", AttentionKind::Cross),
    ("encoder", AttentionKind::Encoder),
    ("decoder", AttentionKind::Decoder),
];

/// The attention that a picture shows. Pages show all of it.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The kind of attention.
    pub kind: AttentionKind,
    /// The layer, counted from 1; `None` is the last.
    pub layer: Option<usize>,
    /// The head, counted from 1; `None` is the mean of all heads.
    pub head: Option<usize>,
}

impl Selection {
    /// Checks that a model has this attention, layer and head.
    ///
    /// # Errors
    /// It does not, which is a usage error; the hint names the kinds that it has.
    pub fn check(&self, model: &ModelShape) -> Result<()> {
        let (num_layers, num_heads) = model.attention(self.kind);
        if num_layers == 0 {
            return Err(no_such_kind(model));
        }
        check_number("layer", self.layer, num_layers)?;
        check_number("head", self.head, num_heads)
    }

    /// The selected weights among those of all layers and heads, `[layer][head]`.
    ///
    /// # Panics
    /// There is no such layer or head.
    pub(super) fn head_weights(&self, weights: &[Vec<Vec<f32>>]) -> Vec<f32> {
        let layer = self.layer.unwrap_or(weights.len()) - 1;
        head_or_mean(&weights[layer], self.head.map(|head| head - 1))
    }
}

fn no_such_kind(model: &ModelShape) -> TrainError {
    let mut names = Vec::new();
    for (name, kind) in KINDS {
        let (num_layers, _) = model.attention(kind);
        if num_layers > 0 {
            names.push(name);
        }
    }
    if names.is_empty() {
        return usage(TrainError::new(
            "this model has no attention that could be drawn",
        ));
    }
    with_hint(
        usage(TrainError::new("this model has no attention of that kind")),
        format!("`--kind` may be `{}`", names.join("`, `")),
    )
}

/// Checks a requested layer or head, counted from 1, against the last one.
fn check_number(name: &str, requested: Option<usize>, last: usize) -> Result<()> {
    match requested {
        Some(number) if number > last => Err(usage(TrainError::new(format!(
            "there is no {name} {number}; the last is {last}"
        )))),
        _ => Ok(()),
    }
}
