//! The variants of recurrent models.

use serde::{Deserialize, Serialize};

/// The kind of recurrent cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// The tanh network (Elman, 1990), `torch.nn.RNN`; it has no gates, so it forgets soon.
    Tanh,
    /// Gated recurrent unit (Cho et al., 2014), in the form of cuDNN and PyTorch.
    #[default]
    Gru,
    /// Long short-term memory (Hochreiter and Schmidhuber, 1997), with a forget gate.
    Lstm,
}

impl Cell {
    /// Number of gates: blocks of the state's width in a projection.
    pub(crate) fn gates(self) -> usize {
        self.kernel().gates()
    }

    /// The same cell for kernels.
    pub(crate) fn kernel(self) -> polyglow_kernels::Cell {
        match self {
            Self::Tanh => polyglow_kernels::Cell::Tanh,
            Self::Gru => polyglow_kernels::Cell::Gru,
            Self::Lstm => polyglow_kernels::Cell::Lstm,
        }
    }
}

/// When a recurrent decoder attends to the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attend {
    /// After the step, from its new state; the output is computed from state and context (Luong et
    /// al., 2015).
    #[default]
    After,
    /// Before the step, from the old state; the context is an input of the step, and the output is
    /// computed from the new state, the previous token and the context (Bahdanau et al., 2015,
    /// equation 4).
    Before,
}

/// The score of a source position, from the decoder's state `q` and the encoder's output `m` there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// `vᵀ tanh(W q + U m + b)` (Bahdanau et al., 2015).
    #[default]
    #[serde(alias = "bahdanau")]
    Additive,
    /// `qᵀ m` (Luong et al., 2015).
    #[serde(alias = "luong")]
    Dot,
    /// `qᵀ W m` (Luong et al., 2015).
    #[serde(alias = "luong_general")]
    General,
    /// No attention: the decoder sees the encoder's last state and nothing else (Sutskever et al.,
    /// 2014).
    None,
}
