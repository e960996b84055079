//! The `[model]` section: an architecture, its sizes and variants, and the presets they start from.

mod arch;
mod own_table;
mod preset;
pub(crate) mod recurrent;
mod shape;
mod shapes;
mod task;

use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::registry::RegisteredConfig;

pub use arch::{Arch, ArchRow};
pub(crate) use own_table::OwnTable;
pub use preset::Preset;
use preset::Sizes;
use recurrent::{Attend, Cell, Score};
pub use shape::ModelShape;
pub(crate) use shape::Shape;
pub use shapes::*;
pub use task::Task;

/// The non-linearity inside the feed-forward block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// `max(0, x)`, the paper's choice.
    #[default]
    Relu,
    /// `x Φ(x)` with the exact normal distribution function (Hendrycks and Gimpel, 2016).
    Gelu,
    /// `silu(x W_gate) * (x W_inner)`: a third matrix of the same size (Shazeer, 2020).
    Swiglu,
    /// `silu(x) = x σ(x)` without a gate (Ramachandran et al., 2017), the choice of many models of
    /// Marian.
    Swish,
}

/// The position of layer normalization around each sublayer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// `norm(x + sublayer(x))`, as in the paper; needs a warm-up.
    #[default]
    Post,
    /// `x + sublayer(norm(x))` with one more norm after the last layer; trains more easily (Xiong
    /// et al., 2020).
    Pre,
}

/// The encoding of a token's position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Position {
    /// Fixed sines and cosines, added to the embedding (Vaswani et al., 2017, section 3.5).
    #[default]
    Sinusoidal,
    /// A trained vector per position, added to the embedding; at most `max_len` positions.
    Learned,
    /// Queries and keys of self-attention are rotated by their position (Su et al., 2021).
    Rotary,
    /// No encoding: an encoder sees a bag of words; a decoder can infer the order from the causal
    /// mask.
    None,
}

/// The embedding matrices that share one parameter (Press and Wolf, 2017).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TieEmbeddings {
    /// Source embedding, target embedding and output projection are three matrices.
    None,
    /// Target embedding and output projection are one matrix.
    Decoder,
    /// All three are one matrix, as in the paper; needs a shared vocabulary.
    #[default]
    All,
}

/// The `[model]` section as the user writes it: a preset, and keys that override its values.
///
/// A registered architecture has a table of its own in place of these keys: `[model.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
// Of all keys but the table of a registered architecture, which `own_table` adds.
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct ModelConfig {
    /// The architecture: `"transformer"`, `"rnn"`, `"lm"`, `"rnn-lm"`, `"skipgram"`, `"encoder"`,
    /// `"vit"` or `"captioner"`, or one that this program has registered; default `"transformer"`.
    pub arch: Arch,
    /// Sizes to start from: `"tiny"`, `"small"`, `"base"` or `"big"`; default `"small"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Width of every hidden state; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_model: Option<usize>,
    /// Width inside the feed-forward block; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_ff: Option<usize>,
    /// Attention heads, a divisor of `d_model`; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_heads: Option<usize>,
    /// Layers of the encoder; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_encoder_layers: Option<usize>,
    /// Layers of the decoder; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_decoder_layers: Option<usize>,
    /// Probability of dropping an element of a sublayer's output or of an embedding; default by
    /// preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Probability of dropping an attention weight; default 0.
    pub attention_dropout: f64,
    /// Probability of dropping an element after the feed-forward activation; default 0.
    pub activation_dropout: f64,
    /// Feed-forward non-linearity: `"relu"`, `"gelu"`, `"swiglu"` or `"swish"`; default `"relu"`.
    pub activation: Activation,
    /// Position of layer normalization: `"post"` or `"pre"`; default `"post"`.
    pub norm: Norm,
    /// Positions: `"sinusoidal"`, `"learned"`, `"rotary"` or `"none"`; default `"sinusoidal"`.
    pub position: Position,
    /// Shared embedding matrices: `"none"`, `"decoder"` or `"all"`; default `"all"` (`"decoder"`
    /// suits separate vocabularies).
    pub tie_embeddings: TieEmbeddings,
    /// Whether the output projection has a bias, a trained value for each target token; default
    /// false. Only for `arch = "transformer"`.
    #[serde(skip_serializing_if = "is_false")]
    pub output_bias: bool,
    /// The decoder of captions: `"transformer"` or `"rnn"`; default `"transformer"`. Only for
    /// `arch = "captioner"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder: Option<CaptionDecoder>,
    /// The kind of recurrent cell: `"tanh"`, `"gru"` or `"lstm"`; default `"gru"`. Only for
    /// `arch = "rnn"`, `"rnn-lm"`, recurrent encoders of text and recurrent decoders of captions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// Width of an LSTM's memory where it is more than `d_model`, to which its output is projected;
    /// default `d_model`. Only where there is `cell`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell_size: Option<usize>,
    /// Whether recurrent layers have biases; default true. Only where there is `cell`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias: Option<bool>,
    /// Attention of a recurrent decoder to the source: `"additive"`, `"dot"`, `"general"` or
    /// `"none"`; default `"additive"`. Only for `arch = "rnn"` and recurrent decoders of captions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<Score>,
    /// When a recurrent decoder attends: `"after"` its step, from the new state (Luong), or
    /// `"before"` it, from the old one, with the context as an input of the step (Bahdanau);
    /// default `"after"`. Only for `arch = "rnn"` and recurrent decoders of captions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attend: Option<Attend>,
    /// Whether the attended output is fed to the next position; default true with attention
    /// after the step. Only for
    /// `arch = "rnn"` and recurrent decoders of captions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_feeding: Option<bool>,
    /// The layers of an encoder of text: `"transformer"` or `"rnn"`; default `"transformer"`. Only
    /// for `arch = "encoder"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// The head of an encoder of text: `"classification"` or `"masked_lm"`; default
    /// `"classification"`. Only for `arch = "encoder"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Pooling of the states of all positions: `"mean"`, `"class"`, or for recurrent layers
    /// `"mean"` or `"last"`; default `"mean"`, or `"last"`. Only for `arch = "encoder"` and
    /// `"vit"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// Height and width of a patch, in pixels; default 4. Only for `arch = "vit"` and
    /// `"captioner"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_size: Option<usize>,
    /// The table of a registered architecture; `None` for its defaults, and for built-in ones.
    #[serde(skip)]
    pub own: Option<RegisteredConfig>,
}

/// The sizes and ids that the data decides: vocabularies, padding, the longest sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Number of source token ids.
    pub src_size: usize,
    /// Number of target token ids.
    pub tgt_size: usize,
    /// Whether source and target ids mean the same tokens.
    pub shared: bool,
    /// The id that pads short source rows.
    pub src_pad_id: u32,
    /// The id that pads short target rows.
    pub tgt_pad_id: u32,
    /// Longest sequence with EOS, in tokens.
    pub max_len: usize,
    /// The size of the images; `None` for text.
    pub image: Option<ImageShape>,
}

impl Vocabulary {
    /// The smaller of both sizes.
    pub fn smaller(&self) -> usize {
        self.src_size.min(self.tgt_size)
    }
}

impl ModelConfig {
    fn sizes(&self) -> Sizes {
        self.preset.unwrap_or(Preset::Small).sizes(self.arch)
    }

    /// Checks every value that does not depend on the data.
    ///
    /// # Errors
    /// [`ModelError::Config`] names the key, its value and the reason.
    pub fn validate(&self) -> Result<(), ModelError> {
        let vocabulary = Vocabulary {
            src_size: 8,
            tgt_size: 8,
            shared: true,
            src_pad_id: 0,
            tgt_pad_id: 0,
            max_len: 8,
            image: None,
        };
        self.shape(vocabulary).map(|_| ())
    }

    /// Returns the keys that were given a value, apart from the architecture and its own table.
    fn given_keys(&self) -> Vec<&'static str> {
        let default = Self::default();
        let keys = [
            ("preset", self.preset.is_some()),
            ("d_model", self.d_model.is_some()),
            ("d_ff", self.d_ff.is_some()),
            ("num_heads", self.num_heads.is_some()),
            ("num_encoder_layers", self.num_encoder_layers.is_some()),
            ("num_decoder_layers", self.num_decoder_layers.is_some()),
            ("dropout", self.dropout.is_some()),
            ("attention_dropout", self.attention_dropout > 0.0),
            ("activation_dropout", self.activation_dropout > 0.0),
            ("activation", self.activation != default.activation),
            ("norm", self.norm != default.norm),
            ("position", self.position != default.position),
            (
                "tie_embeddings",
                self.tie_embeddings != default.tie_embeddings,
            ),
            ("output_bias", self.output_bias),
            ("decoder", self.decoder.is_some()),
            ("cell", self.cell.is_some()),
            ("cell_size", self.cell_size.is_some()),
            ("bias", self.bias.is_some()),
            ("attention", self.attention.is_some()),
            ("attend", self.attend.is_some()),
            ("input_feeding", self.input_feeding.is_some()),
            ("body", self.body.is_some()),
            ("head", self.head.is_some()),
            ("pooling", self.pooling.is_some()),
            ("patch_size", self.patch_size.is_some()),
        ];
        let given = keys.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(key, _)| key).collect()
    }
}

/// Leaves a key that is not set out of written configs, so that those of runs from before the key
/// existed stay the same.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

/// Checks that a size is from 1 to `most`.
pub(crate) fn check_size(key: &'static str, value: usize, most: usize) -> Result<(), ModelError> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(ModelError::config(
        key,
        value,
        format!("must be from 1 to {most}"),
    ))
}

/// Checks that a dropout probability is at least 0 and below 1.
pub(crate) fn check_dropout(key: &'static str, value: f64) -> Result<(), ModelError> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    Err(ModelError::config(
        key,
        value,
        "must be a probability, at least 0 and below 1",
    ))
}

/// The largest width of a hidden state.
pub(crate) const WIDEST: usize = 1 << 16;
/// The most layers of a stack.
const DEEPEST: usize = 1024;
