//! A run knows which parts came from the program that trained it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use polyglow_model::Model;
use polyglow_model::embedding::Embedding;
use polyglow_model::init::ParamInit;
use polyglow_model::linear::Linear;
use polyglow_train::tasks::translation::Translation;
use polyglow_train::tasks::{BatchOf, BatchSize, Loss};
use polyglow_train::{Config, ErrorKind, Result, Silent, Stop, Task, Training, load_runner};

use crate::bigram::Bigram;

const CONFIG: &str = r#"
data = { corpus = "digits", max_examples = 300 }
tokenizer.kind = "char"
model = { d_model = 8, d_ff = 12, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
train = { max_tokens = 256, save_every = 2 }
"#;

fn prepare(run: &Path, max_steps: u64) -> Training {
    let config = Config::from_text(CONFIG, &[format!("train.max_steps={max_steps}")])
        .expect("it is a config");
    Training::prepare(config, run, &mut Silent).expect("it can be prepared")
}

fn train_bigram(run: &Path, max_steps: u64) -> Result<()> {
    let training = prepare(run, max_steps);
    let data = Arc::clone(training.data.text()?);
    let task = Translation::<Bigram>::new(training.setting()?, data)?;
    let vocab_size = training.tokenizers.tgt.vocab_size();
    let model = |device: &Device| {
        let init = &mut ParamInit::new(1, device);
        Bigram {
            embedding: Embedding::new(vocab_size, 8, init),
            output: Linear::new(8, vocab_size, init),
        }
    };
    training
        .run_with(&task, model, &Stop::default(), &mut Silent)
        .map(drop)
}

/// Translation with half of its loss.
pub(crate) struct Half(pub(crate) Translation<Model>);

impl Task for Half {
    type Model = Model;
    type Source = <Translation<Model> as Task>::Source;
    type Inputs = <Translation<Model> as Task>::Inputs;

    fn source(&self) -> &Arc<Self::Source> {
        self.0.source()
    }

    fn size(&self, batch: &BatchOf<Self>) -> BatchSize {
        self.0.size(batch)
    }

    fn upload(&self, batch: &BatchOf<Self>, device: &Device) -> Self::Inputs {
        self.0.upload(batch, device)
    }

    fn loss(&self, model: &Model, inputs: Self::Inputs) -> Loss {
        let loss = self.0.loss(model, inputs);
        Loss {
            minimized: loss.minimized * 0.5,
            ..loss
        }
    }
}

fn train_half(run: &Path, max_steps: u64) -> Result<()> {
    let training = prepare(run, max_steps);
    let data = Arc::clone(training.data.text()?);
    let task = Half(Translation::new(training.setting()?, data)?);
    let shape = training.plan.model_shape(&training.tokenizers)?;
    let model = |device: &Device| shape.init(1, device);
    training
        .run_with(&task, model, &Stop::default(), &mut Silent)
        .map(drop)
}

/// Trains as the command `polyglow train` does.
fn train_plainly(run: &Path, max_steps: u64) -> Result<()> {
    prepare(run, max_steps)
        .run(&Stop::default(), &mut Silent)
        .map(drop)
}

#[test]
fn a_run_is_resumed_with_its_own_model_and_task_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, train, part) in [
        (
            "model",
            train_bigram as fn(&Path, u64) -> Result<()>,
            "the model `Bigram`",
        ),
        ("task", train_half, "the task `Half`"),
    ] {
        let run = dir.path().join(name);
        train(&run, 2).expect("it trains");
        let error = train_plainly(&run, 4).expect_err("it is another");
        assert_eq!(error.kind(), ErrorKind::Usage);
        let expected =
            format!("the run was trained with {part}, now with the {name} of its config");
        assert!(error.to_string().contains(&expected), "{error}");
        train(&run, 4).expect("it resumes");
    }
    // And the other way round.
    let run = dir.path().join("plain");
    train_plainly(&run, 2).expect("it trains");
    let error = train_half(&run, 4).expect_err("it is another");
    let expected = "trained with the task of its config, now with the task `Half`";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_run_of_before_whose_parts_have_no_names_is_resumed_with_any() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    train_bigram(dir.path(), 2).expect("it trains");
    let path = dir.path().join("checkpoints/step-2/state.json");
    let text = fs::read_to_string(&path).expect("it is there");
    let mut state: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&text).expect("it is JSON");
    state.remove("parts").expect("it names them");
    // The oldest checkpoints had no checksum of the state, either.
    state.remove("checksum").expect("it has one");
    let text = serde_json::to_string(&state).expect("it is JSON");
    fs::write(&path, text).expect("it can be written");
    train_bigram(dir.path(), 4).expect("it resumes");
}

#[test]
fn built_in_parts_are_the_same_from_every_caller() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    train_plainly(dir.path(), 2).expect("it trains");
    let training = prepare(dir.path(), 4);
    let data = Arc::clone(training.data.text().expect("it is text"));
    let setting = training.setting().expect("it fits");
    let task = Translation::<Model>::new(setting, data).expect("it fits");
    let shape = training
        .plan
        .model_shape(&training.tokenizers)
        .expect("it fits");
    training
        .run_with(
            &task,
            |device| shape.init(1, device),
            &Stop::default(),
            &mut Silent,
        )
        .expect("it resumes");
}

#[test]
fn a_program_without_the_model_of_a_run_says_which_it_lacks() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    train_bigram(dir.path(), 2).expect("it trains");
    let Err(error) = load_runner(dir.path(), &Device::flex()) else {
        panic!("a model was loaded that this program does not have");
    };
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(
        error
            .to_string()
            .contains("the model of this run is `Bigram`"),
        "{error}"
    );
}
