//! The arguments of `polyglow attention`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use polyglow_model::attention::AttentionKind;

use super::counts;
use super::model::Model;
use crate::commands::attention::AttentionArgs;

#[derive(Args)]
pub(super) struct Attention {
    #[command(flatten)]
    model: Model,
    /// The source sentence; for a Vision Transformer the file of an image
    sentence: String,
    /// Its translation [default: the model's]
    #[arg(long, value_name = "SENTENCE")]
    tgt: Option<String>,
    /// The file to write: `.html` holds all maps, `.png` and `.svg` one
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Which attention a picture shows [default: cross, or of an encoder its own]
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Which layer a picture shows, counted from 1 [default: the last]
    #[arg(long, value_name = "N", value_parser = counts())]
    layer: Option<usize>,
    /// Which head a picture shows, counted from 1 [default: the mean of all]
    #[arg(long, value_name = "N", value_parser = counts())]
    head: Option<usize>,
    /// Print the source word with the most attention for each target word, as `source-target` counted from 0
    #[arg(long)]
    pharaoh: bool,
}

/// Which attention.
#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Target positions look at the source
    Cross,
    /// Source positions look at the source
    Encoder,
    /// Target positions look at the target
    Decoder,
}

impl From<Kind> for AttentionKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Cross => Self::Cross,
            Kind::Encoder => Self::Encoder,
            Kind::Decoder => Self::Decoder,
        }
    }
}

impl From<Attention> for AttentionArgs {
    fn from(arguments: Attention) -> Self {
        let Attention { model, sentence, tgt, out, kind, layer, head, pharaoh } = arguments;
        let (model, kind) = (model.into(), kind.map(Into::into));
        Self { model, src: sentence, tgt, out, kind, layer, head, pharaoh }
    }
}
