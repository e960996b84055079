//! Any bytes as the input of `translate`: as many lines come out as go in, none with a line break in it.

#![no_main]

use std::io::Cursor;
use std::path::Path;
use std::sync::LazyLock;

use burn::tensor::Device;
use libfuzzer_sys::fuzz_target;
use polyglow_train::config::Config;
use polyglow_train::run::model_shape;
use polyglow_train::predict::translate::{Member, Request, Translator};
use polyglow_data::config::Split;
use polyglow_data::corpus::Corpus;
use polyglow_data::lines::Lines;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_fuzz::parts;
use polyglow_model::Model;

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

struct Setup {
    config: Config,
    tokenizers: Tokenizers,
    model: Model,
    device: Device,
}

static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let config = Config::parse(CONFIG).expect("it is right").resolve();
    config.validate().expect("it is right");
    let corpus = Corpus::open(&config.data, Split::Train).expect("it is embedded");
    let tokenizers = Tokenizers::train(&config.tokenizer, &corpus, &mut |_, _| {}).expect("there is text");
    let device = Device::flex();
    let shape = model_shape(&config, &tokenizers).expect("the sizes fit");
    let model = shape.init(1, &device);
    Setup { config, tokenizers, model, device }
});

fuzz_target!(|input: &[u8]| {
    let [bytes, prefix, constraint] = parts(input);
    let Setup { config, tokenizers, model, device } = &*SETUP;
    let translator = Translator {
        members: vec![Member { model, src: &tokenizers.src }],
        tgt: &tokenizers.tgt,
        search: &config.search,
        device,
        max_tokens: 256,
        pad_multiple: 1,
        framing: config.framing(),
    };
    let Ok(lines) = Lines::from_reader(Cursor::new(bytes.to_vec()), Path::new("input")) else { return };
    let Ok(lines) = lines.take(100).collect::<Result<Vec<String>, _>>() else { return };
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    let best = translator.best(&texts).expect("any text can be translated");
    assert_eq!(best.len(), lines.len());
    assert!(best.iter().all(|line| !line.contains(['\n', '\r'])));
    assert!(texts.iter().zip(&best).all(|(line, best)| !line.trim().is_empty() || best.is_empty()));
    let wish = Request {
        text: texts.first().copied().unwrap_or("1 2").to_owned(),
        prefix: String::from_utf8_lossy(prefix).into_owned(),
        constraints: vec![String::from_utf8_lossy(constraint).into_owned()],
    };
    // A wish that cannot be fulfilled is an error.
    let _ = translator.translate(&[wish], 1);
});
