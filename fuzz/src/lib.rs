//! What the fuzz targets share.

use burn::tensor::Device;
use polyglow_data::config::Split;
use polyglow_data::corpus::Corpus;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_predict::runner::{Options, Runner};
use polyglow_train::Plan;
use polyglow_train::config::Config;

/// Stands between the parts of an input, so that its seeds can be read and written by people.
const SEPARATOR: &[u8] = b"\n=====\n";

/// The parts of an input that is several files; missing ones are empty.
pub fn parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut rest = Some(input);
    [(); N].map(|()| {
        let Some(bytes) = rest else { return &[][..] };
        match bytes
            .windows(SEPARATOR.len())
            .position(|window| window == SEPARATOR)
        {
            Some(end) => {
                rest = Some(&bytes[end + SEPARATOR.len()..]);
                &bytes[..end]
            }
            None => {
                rest = None;
                bytes
            }
        }
    })
}

/// The same, as text.
pub fn texts<const N: usize>(input: &str) -> [&str; N] {
    parts(input.as_bytes())
        .map(|part| str::from_utf8(part).expect("the separator is text, so what it cuts is text"))
}

const CONFIG: &str = r#"
data.corpus = "digits"
data.max_len = 12
tokenizer.vocab_size = 300
search.beam_size = 2
[model]
d_model = 8
d_ff = 8
num_heads = 1
num_encoder_layers = 1
num_decoder_layers = 1
[train]
max_steps = 1
"#;

/// A small translator that has learned nothing.
pub fn runner() -> Runner {
    let config = Config::from_text(CONFIG, &[]).expect("it is right");
    let plan = Plan::on(config, Device::flex(), None);
    let corpus =
        Corpus::open(&plan.config.data, plan.content, Split::Train).expect("it is embedded");
    let tokenizers =
        Tokenizers::train(&plan.config.tokenizer, &corpus, &mut |_, _| {}).expect("there is text");
    let shape = plan.model_shape(&tokenizers).expect("the sizes fit");
    let model = shape.init(1, &plan.device);
    let longest = model.vocabulary().max_len - 1;
    let options = Options {
        max_tokens: 256,
        ..plan.runner_options(plan.config.search.clone(), longest)
    };
    Runner::new(model, &tokenizers, options)
}
