//! An optimizer of one's own.

use std::fs;
use std::path::Path;

use burn::tensor::Tensor;
use polyglow_train::config::Config;
use polyglow_train::train::{ParameterStep, UpdateRule};
use polyglow_train::{Silent, Stop, Training};

const CONFIG: &str = r#"
[data]
corpus = "digits"
max_examples = 300
[tokenizer]
kind = "char"
[model]
d_model = 8
d_ff = 12
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
[train]
max_tokens = 256
lr = 0.05
schedule = "constant"
warmup_steps = 0
save_every = 3
"#;

/// Gradient descent with momentum for all but biases and norms, which move by the gradient alone.
#[derive(Debug)]
struct Momentum {
    keep: f64,
}

impl UpdateRule for Momentum {
    fn state(&self, name: &str, shape: &[usize]) -> Vec<(&'static str, usize)> {
        if name.ends_with("weight") {
            vec![("momentum", shape.iter().product())]
        } else {
            Vec::new()
        }
    }

    fn update(
        &self,
        weight: Tensor<1>,
        state: Vec<Tensor<1>>,
        gradient: Tensor<1>,
        step: &ParameterStep<'_>,
    ) -> (Tensor<1>, Vec<Tensor<1>>) {
        assert_eq!(
            state.len(),
            usize::from(step.name.ends_with("weight")),
            "{}",
            step.name
        );
        let gradient = gradient * step.scale.clone();
        let state: Vec<Tensor<1>> = state
            .into_iter()
            .map(|sum| sum * self.keep + gradient.clone())
            .collect();
        let direction = state.first().cloned().unwrap_or(gradient);
        (weight - direction * step.lr, state)
    }
}

fn train(run: &Path, keep: f64, max_steps: u64) -> polyglow_train::Result<()> {
    let config = Config::from_text(CONFIG, &[format!("train.max_steps={max_steps}")])?;
    let mut training = Training::prepare(config, run, &mut Silent)?
        .with_rule("momentum", move |_| Box::new(Momentum { keep }));
    training.run(&Stop::default(), &mut Silent).map(drop)
}

#[test]
fn a_training_moves_by_the_rule_that_it_is_given_and_resumes_with_its_state() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = |name: &str| dir.path().join(name);
    let train =
        |name: &str, keep, max_steps| train(&run(name), keep, max_steps).expect("nothing is wrong");
    train("straight", 0.9, 6);
    train("resumed", 0.9, 3);
    train("resumed", 0.9, 6);
    train("other", 0.0, 6);
    let path = |name: &str, file: &str| run(name).join("checkpoints/step-6").join(file);
    let read = |name: &str, file: &str| fs::read(path(name, file)).expect("it was written");
    for file in ["model.safetensors", "optimizer.safetensors"] {
        assert!(
            read("straight", file) == read("resumed", file),
            "`{file}` differs"
        );
    }
    assert!(
        read("straight", "model.safetensors") != read("other", "model.safetensors"),
        "the momentum counts"
    );

    let state = read("straight", "optimizer.safetensors");
    let header = String::from_utf8_lossy(&state);
    assert!(
        header.contains("\"momentum.encoder.") && !header.contains("bias"),
        "weights have a state, biases have none"
    );
}
