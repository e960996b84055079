//! Keys of `[model]` that several architectures have in common.

/// Those of all.
pub(super) const SIZES: &[&str] = &["preset", "d_model"];

/// Those of layers of self-attention.
pub(super) const SELF_ATTENTION: &[&str] = &[
    "d_ff",
    "num_heads",
    "attention_dropout",
    "activation_dropout",
    "activation",
    "norm",
];

/// Those of models that write text.
pub(super) const DECODER: &[&str] = &["num_decoder_layers", "tie_embeddings"];

/// Those of recurrent layers.
pub(super) const CELLS: &[&str] = &["cell", "cell_size", "bias"];

/// Those of recurrent decoders that may attend to a source.
pub(super) const RECURRENT_DECODER: &[&str] = &["attention", "attend", "input_feeding"];
