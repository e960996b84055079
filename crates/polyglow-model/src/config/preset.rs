//! Named sizes.

use serde::{Deserialize, Serialize};

use super::Arch;

/// A named set of sizes; every single one can be overridden by its own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// 4+4 layers, `d_model` 128, `d_ff` 256, 4 heads, dropout 0.3 (Wu et al., 2021, for Multi30k).
    Tiny,
    /// 3+3 layers, `d_model` 256, `d_ff` 1024, 4 heads, dropout 0.1.
    Small,
    /// 6+6 layers, `d_model` 512, `d_ff` 2048, 8 heads, dropout 0.1 (*base* of Vaswani et al.,
    /// 2017, table 3).
    Base,
    /// 6+6 layers, `d_model` 1024, `d_ff` 4096, 16 heads, dropout 0.3 (*big* of Vaswani et al.,
    /// 2017, table 3).
    Big,
}

/// The values that a preset decides.
pub(super) struct Sizes {
    pub(super) num_layers: usize,
    pub(super) d_model: usize,
    pub(super) d_ff: usize,
    pub(super) num_heads: usize,
    pub(super) dropout: f64,
}

impl Preset {
    /// The sizes for an architecture; decoders have as many layers as encoders.
    pub(super) fn sizes(self, arch: Arch) -> Sizes {
        let (num_layers, d_model, d_ff, num_heads, dropout) = match self {
            Self::Tiny => (4, 128, 256, 4, 0.3),
            Self::Small => (3, 256, 1024, 4, 0.1),
            Self::Base => (6, 512, 2048, 8, 0.1),
            Self::Big => (6, 1024, 4096, 16, 0.3),
        };
        Sizes {
            num_layers: (arch.0.num_layers)(num_layers),
            d_model,
            d_ff,
            num_heads,
            dropout,
        }
    }
}
