//! Keys of `[model]` that several architectures have in common.

/// The keys of all architectures.
pub(super) const SIZES: &[&str] = &["preset", "d_model"];

/// The keys of layers of self-attention.
pub(super) const SELF_ATTENTION: &[&str] = &[
    "d_ff",
    "num_heads",
    "attention_dropout",
    "activation_dropout",
    "activation",
    "norm",
];

/// The keys of models that write text.
pub(super) const DECODER: &[&str] = &["num_decoder_layers", "tie_embeddings"];

/// The keys of recurrent layers.
pub(super) const CELLS: &[&str] = &["cell", "cell_size", "bias"];

/// The keys of recurrent decoders that may attend to a source.
pub(super) const RECURRENT_DECODER: &[&str] = &["attention", "attend", "input_feeding"];
