//! Any bytes as the input of `translate`: as many lines come out as go in, none with a line break in it.

#![no_main]

use std::io::Cursor;
use std::path::Path;
use std::sync::LazyLock;

use burn::tensor::Device;
use libfuzzer_sys::fuzz_target;
use polyglow_data::config::Split;
use polyglow_data::corpus::Corpus;
use polyglow_data::lines::Lines;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_fuzz::parts;
use polyglow_train::Plan;
use polyglow_train::config::Config;
use polyglow_train::predict::runner::{Member, Runner};
use polyglow_train::predict::model::model_shape;
use polyglow_train::predict::translate::Request;

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

static RUNNER: LazyLock<Runner> = LazyLock::new(|| {
    let config = Config::from_text(CONFIG, &[]).expect("it is right");
    let plan = Plan::on(config, Device::flex(), None);
    let corpus = Corpus::open(&plan.config.data, plan.content, Split::Train).expect("it is embedded");
    let tokenizers = Tokenizers::train(&plan.config.tokenizer, &corpus, &mut |_, _| {}).expect("there is text");
    let shape = model_shape(&plan, &tokenizers).expect("the sizes fit");
    let model = shape.init(1, &plan.device);
    Runner {
        longest: model.vocabulary().max_len - 1,
        members: vec![Member { model, src: tokenizers.src }],
        tgt: tokenizers.tgt,
        task: plan.task,
        search: plan.config.search.clone(),
        max_tokens: 256,
        pad_multiple: 1,
        device: plan.device,
    }
});

fuzz_target!(|input: &[u8]| {
    let [bytes, prefix, constraint] = parts(input);
    let Ok(lines) = Lines::from_reader(Cursor::new(bytes.to_vec()), Path::new("input")) else { return };
    let Ok(lines) = lines.take(100).collect::<Result<Vec<String>, _>>() else { return };
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    let best = RUNNER.best(&texts).expect("any text can be translated");
    assert_eq!(best.len(), lines.len());
    assert!(best.iter().all(|line| !line.contains(['\n', '\r'])));
    assert!(texts.iter().zip(&best).all(|(line, best)| !line.trim().is_empty() || best.is_empty()));
    let wish = Request {
        text: texts.first().copied().unwrap_or("1 2").to_owned(),
        prefix: String::from_utf8_lossy(prefix).into_owned(),
        constraints: vec![String::from_utf8_lossy(constraint).into_owned()],
    };
    // A wish that cannot be fulfilled is an error.
    let _ = RUNNER.translate(&[wish], 1);
});
