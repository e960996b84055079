//! The choice of one map among all kinds, layers and heads.

use polyglow_model::ModelShape;
use polyglow_model::attention::AttentionKind;
use polyglow_predict::error::{usage, with_hint};
use polyglow_train::{Result, TrainError};

/// The map that a picture shows.
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
            let mut kinds = vec![
                ("cross", AttentionKind::Cross),
                ("encoder", AttentionKind::Encoder),
                ("decoder", AttentionKind::Decoder),
            ];
            kinds.retain(|(_, kind)| model.attention(*kind).0 > 0);
            let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
            if names.is_empty() {
                return Err(usage(TrainError::new(
                    "this model has no attention that could be drawn",
                )));
            }
            let error = usage(TrainError::new("this model has no attention of that kind"));
            return Err(with_hint(
                error,
                format!("`--kind` may be `{}`", names.join("`, `")),
            ));
        }
        for (name, asked, most) in [
            ("layer", self.layer, num_layers),
            ("head", self.head, num_heads),
        ] {
            if let Some(asked) = asked.filter(|asked| *asked > most) {
                return Err(usage(TrainError::new(format!(
                    "there is no {name} {asked}; the last is {most}"
                ))));
            }
        }
        Ok(())
    }
}
