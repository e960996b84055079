//! Parts that a program has registered, and that a config chooses by name: in a process of their own,
//! since the tables of names belong to a process.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Once};

use burn::tensor::{Device, Tensor};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::example::{Candidate, Filter, LengthFilter, Reason};
use polyglow_data::pair::Pair as SentencePair;
use polyglow_data::sources::{BatchSource, StreamedSource};
use polyglow_metrics::Measure;
use polyglow_model::embedding::Embedding;
use polyglow_model::init::ParamInit;
use polyglow_model::linear::Linear;
use polyglow_model::registry::{self, Architecture};
use polyglow_model::{Inspect, Model, Pair, Task, Vocabulary};
use polyglow_predict::measures::{register_metric, title};
use polyglow_train::run::{RunDirectory, records};
use polyglow_train::tasks::translation::Translation;
use polyglow_train::train::{
    ParameterStep, Text, UpdateRule, register_optimizer, register_schedule,
};
use polyglow_train::{
    Config, Result, Silent, Stop, Training, load_runner, register_augmentation, register_filter,
};
use serde::{Deserialize, Serialize};

use self::bigram::Bigram;

#[path = "it/bigram.rs"]
mod bigram;

const CONFIG: &str = r#"
data = { corpus = "digits", max_examples = 300 }
tokenizer.kind = "char"
model = { arch = "bigram", bigram = { width = 12 } }
[train]
max_tokens = 256
save_every = 2
log_every = 1
validate_every = 2
max_steps = 4
schedule = "countdown"
optimizer = "sign"
best_metric = "brevity"
"#;

/// The table `[model.bigram]`.
#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BigramConfig {
    width: usize,
}

impl Default for BigramConfig {
    fn default() -> Self {
        Self { width: 8 }
    }
}

impl Architecture for Bigram {
    type Config = BigramConfig;
    const TASK: Task = Task::Translation;

    fn new(config: &BigramConfig, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self {
        Self {
            embedding: Embedding::new(vocabulary.tgt_size, config.width, init),
            output: Linear::new(config.width, vocabulary.tgt_size, init),
        }
    }

    fn d_model(config: &BigramConfig) -> usize {
        config.width
    }
}

impl Inspect for Bigram {
    type Inputs = Pair;
}

/// The table of names belongs to the process, so each part is registered once.
fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        registry::register::<Bigram>("bigram").expect("the name is free");
        register_schedule("countdown", |setting, step| {
            setting.lr * (setting.last_step + 1 - step) as f64
        })
        .expect("the name is free");
        register_optimizer("sign", |_| Box::new(Sign)).expect("the name is free");
        register_metric(BREVITY, |outputs, _| {
            let len: usize = outputs.iter().map(|output| output.len()).sum();
            len as f64 / outputs.len() as f64
        })
        .expect("the name is free");
        register_augmentation("drop-first", |example, random, _| {
            if random.uniform() < 0.5 && example.src.len() > 1 {
                example.src.remove(0);
            }
        })
        .expect("the name is free");
        register_filter("no-zero", NoZero).expect("the name is free");
    });
}

/// Leaves out pairs that begin with a zero.
struct NoZero;

impl Filter for NoZero {
    fn reject(&self, candidate: &Candidate) -> Option<Reason> {
        let zero = Reason {
            key: "zero",
            title: "with a zero at the start",
        };
        candidate.pair.src.starts_with('0').then_some(zero)
    }

    fn settings(&self) -> String {
        "source".to_owned()
    }
}

const BREVITY: Measure = Measure {
    key: "brevity",
    title: "bytes per output",
    higher_is_better: false,
    decimals: 2,
};

/// Changes each weight by the learning rate, against the sign of its gradient.
#[derive(Debug)]
struct Sign;

impl UpdateRule for Sign {
    fn state(&self, _: &str, _: &[usize]) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    fn update(
        &self,
        weight: Tensor<1>,
        state: Vec<Tensor<1>>,
        gradient: Tensor<1>,
        step: &ParameterStep<'_>,
    ) -> (Tensor<1>, Vec<Tensor<1>>) {
        (weight - gradient.sign() * step.lr, state)
    }
}

fn train(run: &Path, overrides: &[&str]) -> Result<()> {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let config = Config::from_text(CONFIG, &overrides)?;
    Training::prepare(config, run, &mut Silent)?
        .run(&Stop::default(), &mut Silent)
        .map(drop)
}

fn weights(run: &Path) -> Vec<u8> {
    fs::read(run.join("checkpoints/step-4/model.safetensors")).expect("there is a checkpoint")
}

#[test]
fn a_config_trains_with_parts_that_were_registered_and_resumes_to_the_same_bytes() {
    register();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let straight = dir.path().join("straight");
    train(&straight, &[]).expect("it trains");
    let run = RunDirectory::existing(&straight).expect("it is a run");

    let records = records::read(&run.metrics_path()).expect("there are records");
    let of_kind = |kind: &'static str| records.iter().filter(move |record| record["kind"] == kind);
    let rates: Vec<Option<f64>> = of_kind("train")
        .map(|record| record["lr"].as_f64())
        .collect();
    assert_eq!(rates, [4e-3, 3e-3, 2e-3, 1e-3].map(Some));
    let lens: Vec<f64> = of_kind("valid")
        .map(|record| record["brevity"].as_f64().expect("it is recorded"))
        .collect();
    assert_eq!(lens.len(), 2);
    let best = run.checkpoints(1).find("best").expect("there is a best");
    let best = best.state.best.expect("it has a score");
    assert_eq!(best.score.to_bits(), lens[0].min(lens[1]).to_bits());
    assert_eq!(title("brevity"), "bytes per output");

    // The copy in the run names every part, and reads back to the same config.
    let copy = fs::read_to_string(straight.join("config.toml")).expect("it is there");
    for line in [
        "[model]\narch = \"bigram\"\n\n[model.bigram]\nwidth = 12\n",
        "schedule = \"countdown\"",
        "optimizer = \"sign\"",
        "best_metric = \"brevity\"",
    ] {
        assert!(copy.contains(line), "{line} is not in {copy}");
    }
    let overrides = ["data.corpus='digits'".to_owned()];
    let again = Config::from_text(&copy, &overrides).expect("it reads back");
    assert_eq!(again, run.config().expect("it is there"));

    let resumed = dir.path().join("resumed");
    train(&resumed, &[]).expect("it trains");
    fs::remove_dir_all(resumed.join("checkpoints/step-4")).expect("it is there");
    fs::remove_file(resumed.join("checkpoints/last")).expect("it is a link");
    train(&resumed, &[]).expect("it resumes");
    assert!(weights(&resumed) == weights(&straight), "they differ");

    let device = Device::flex();
    let runner = load_runner(&straight, &device).expect("the model is registered");
    assert_eq!(runner.best(&["1 2 3"]).expect("it writes").len(), 1);
}

#[test]
fn another_registered_part_is_refused_on_resume_by_its_key() {
    register();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = dir.path().join("run");
    train(&run, &[]).expect("it trains");
    for (key, expected) in [
        ("model.bigram.width=8", "`model.bigram.width = 12`, now `8`"),
        (
            "train.schedule=constant",
            "`train.schedule = \"countdown\"`, now `\"constant\"`",
        ),
        (
            "train.optimizer=adam",
            "`train.optimizer = \"sign\"`, now `\"adam\"`",
        ),
        (
            "train.best_metric=bleu",
            "`train.best_metric = \"brevity\"`, now `\"bleu\"`",
        ),
    ] {
        let mut keys = vec![key];
        if key.contains("constant") {
            keys.push("train.warmup_steps=1");
        }
        let error = train(&run, &keys).expect_err("it is another part");
        assert!(error.to_string().contains(expected), "{key}: {error}");
    }
}

#[test]
fn names_that_are_taken_or_are_no_words_are_refused() {
    register();
    for name in ["rnn", "norm", "d_ff", "", "Grouped", "a b"] {
        let error = registry::register::<Bigram>(name).expect_err(name);
        assert!(error.to_string().starts_with("`model.arch = "), "{error}");
    }
    let error = register_schedule("cosine", |_, _| 0.1).expect_err("it is built in");
    assert_eq!(
        error.to_string(),
        "`train.schedule = \"cosine\"`: there is one of this name already"
    );
    assert!(register_schedule("countdown", |_, _| 0.1).is_err());
    assert!(register_optimizer("adam", |_| Box::new(Sign)).is_err());
    let bleu = Measure {
        key: "bleu",
        ..BREVITY
    };
    assert!(register_metric(bleu, |_, _| 0.0).is_err());
    let error = Config::from_text("train.schedule = 'countdwn'", &[]).expect_err("misspelt");
    let error = format!("{error:?}");
    assert!(error.contains("unknown variant `countdwn`"), "{error}");
    assert!(error.contains("did you mean `countdown`?"), "{error}");
}

#[test]
fn a_score_that_the_task_does_not_give_is_refused_before_anything_is_trained() {
    register();
    for metric in ["span_f1", "accuracy", "bits_per_byte"] {
        let overrides = [format!("train.best_metric={metric}")];
        let error = Config::from_text(CONFIG, &overrides).expect_err("a translator has none");
        assert_eq!(
            error.to_string(),
            format!(
                "`train.best_metric = \"{metric}\"`: `model.arch = \"bigram\"` has no such score"
            )
        );
        let scores = error.hint().expect("it says which there are");
        assert!(scores.contains("`exact_match`"), "{scores}");
    }
    let language = ["model.arch=lm", "train.best_metric=brevity"].map(str::to_owned);
    let text = "data.train = 'a'\ntrain.max_steps = 9";
    assert!(
        Config::from_text(text, &language).is_err(),
        "it writes nothing for a source"
    );
}

#[test]
fn a_metric_that_is_no_number_ends_the_first_validation_with_its_name() {
    register();
    let place = tempfile::tempdir().expect("a temporary directory");
    let measure = Measure {
        key: "broken",
        title: "broken",
        ..BREVITY
    };
    // Only of the text of this test, so that the other tests of this process train.
    register_metric(
        measure,
        |_, references| {
            if references.len() == 7 { f64::NAN } else { 0.0 }
        },
    )
    .expect("the name is free");
    let text = |name: &str, num_lines: usize| {
        let path = place.path().join(name);
        fs::write(&path, "1 2\t2 1\n".repeat(num_lines)).expect("it can be written");
        path
    };
    let files = format!(
        "train = {:?}, valid = {:?}, src = \"a\", tgt = \"b\"",
        text("train.tsv", 300),
        text("valid.tsv", 7)
    );
    let config = CONFIG.replace("corpus = \"digits\", max_examples = 300", &files);
    let overrides = ["train.best_metric=broken".to_owned()];
    let run = place.path().join("run");
    let result = Config::from_text(&config, &overrides)
        .and_then(|config| Training::prepare(config, &run, &mut Silent))
        .and_then(|mut training| training.run(&Stop::default(), &mut Silent));
    let error = result.expect_err("NaN is no score").to_string();
    assert_eq!(
        error,
        "the metric `broken` of 7 outputs is NaN; it must be finite for every set of outputs"
    );
}

#[test]
fn keys_of_records_are_no_metrics() {
    for key in ["step", "kind", "split", "truncated"] {
        let measure = Measure { key, ..BREVITY };
        assert!(register_metric(measure, |_, _| 0.0).is_err(), "{key}");
    }
}

#[test]
fn an_augmentation_changes_what_is_trained_on_and_is_exact_on_resume() {
    register();
    let dir = tempfile::tempdir().expect("a temporary directory");
    // A recurrent model reads the source; dropout would hide that the sources differ.
    let rnn = [
        "model={ arch = 'rnn', d_model = 16, num_encoder_layers = 1, num_decoder_layers = 1 }",
        "train.schedule=constant",
        "train.optimizer=adam",
        "train.best_metric=bleu",
    ];
    let augmented = [&rnn[..], &["train.augmentation=drop-first"]].concat();
    let plain = dir.path().join("plain");
    train(&plain, &rnn).expect("it trains");
    let straight = dir.path().join("straight");
    train(&straight, &augmented).expect("it trains");
    assert!(weights(&straight) != weights(&plain), "nothing was changed");

    let resumed = dir.path().join("resumed");
    let half = [&augmented[..], &["train.max_steps=2"]].concat();
    train(&resumed, &half).expect("it trains");
    train(&resumed, &augmented).expect("it resumes");
    assert!(weights(&resumed) == weights(&straight), "they differ");
    let error = train(&resumed, &rnn)
        .expect_err("it was augmented")
        .to_string();
    let expected = "`train.augmentation = \"drop-first\"`, now `unset`";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn an_augmentation_of_a_program_is_a_part_that_the_run_keeps() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = "data.corpus = 'digits'\ntokenizer.kind = 'word'\n\
        model = { d_model = 8, d_ff = 8, num_heads = 1, num_encoder_layers = 1, num_decoder_layers = 1 }\n\
        train = { max_steps = 1, max_tokens = 64 }";
    let train = |name: &str| {
        let config = Config::from_text(text, &[])?;
        let training = Training::prepare(config, dir.path(), &mut Silent)?;
        let cache = Arc::clone(training.data.text()?);
        let task = Translation::<Model>::new(training.setting()?, cache)?;
        let task = task.augmented(name, |example, _| example.src.truncate(1));
        let shape = training.plan.model_shape(&training.tokenizers)?;
        let model = |device: &Device| shape.init(1, device);
        training.run_with(&task, model, &Stop::default(), &mut Silent)
    };
    train("first token").expect("it trains");
    train("first token").expect("it has ended");
    let error = train("last token").expect_err("it is another part");
    let expected = "the task `Translation with first token`, now with the task \
        `Translation with last token`";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn filters_leave_pairs_out_under_their_own_reasons_and_are_kept_by_the_run() {
    register();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = dir.path().join("run");
    let filtered = ["data.filters=['no-zero']"];
    train(&run, &filtered).expect("it trains");
    let config = RunDirectory::existing(&run).and_then(|run| run.config());
    let training = Training::prepare(config.expect("it is there"), &run, &mut Silent);
    let training = training.expect("it is the same config");
    let report = training.data.text().expect("it is text").report();
    let zeros = training
        .text
        .train
        .pairs()
        .take(300)
        .filter(|pair| pair.as_ref().is_ok_and(|pair| pair.src.starts_with('0')))
        .count();
    assert!(zeros > 10, "{zeros}");
    assert_eq!(report.left_out["zero"], zeros as u64);
    assert_eq!(report.kept, 300 - zeros as u64);
    drop(training);

    let state = fs::read_to_string(run.join("checkpoints/step-4/state.json")).expect("it is there");
    assert!(
        state.contains("\"filters\": \"no-zero (source)\""),
        "{state}"
    );
    let error = train(&run, &["data.filters=['no-zeros']"]).expect_err("it is unknown");
    let expected = "`data.filters`: there is no filter `no-zeros`, but `no-zero`";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(error.hint().as_deref(), Some("did you mean `no-zero`?"));
}

/// Numbers below 500, drawn anew in each epoch, with their digits in the other order.
fn stream(epoch: u64) -> impl Iterator<Item = std::result::Result<SentencePair, DataError>> {
    (0..40).map(move |index| {
        let number = polyglow_data::random::mix(&[epoch, index]) % 500;
        let digits: Vec<String> = number.to_string().chars().map(String::from).collect();
        let reversed: Vec<String> = digits.iter().rev().cloned().collect();
        Ok(SentencePair {
            src: digits.join(" "),
            tgt: reversed.join(" "),
        })
    })
}

#[test]
fn a_stream_without_an_end_is_trained_on_and_resumed_in_the_middle_of_an_epoch() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = "tokenizer.kind = 'word'\n\
        model = { d_model = 8, d_ff = 8, num_heads = 1, num_encoder_layers = 1, num_decoder_layers = 1 }\n\
        train = { max_steps = 12, max_tokens = 64, save_every = 5, schedule = 'constant', warmup_steps = 1 }";
    let train = |run: &Path, steps: u64| {
        let config = Config::for_memory(text, &[format!("train.max_steps={steps}")])?;
        let sample: Vec<SentencePair> = stream(0).filter_map(std::result::Result::ok).collect();
        let data = Text::new(Corpus::from_pairs("sample", sample), None)?;
        let training = Training::prepare_with(config, data, run, &mut Silent)?;
        let filter = LengthFilter {
            max_len: 8,
            max_length_ratio: 9.0,
        };
        let batching = training.plan.batching();
        let source = StreamedSource::new(training.tokenizers.clone(), batching, filter, stream)?;
        let epoch_len = source.plan(0)?.len();
        let task = Translation::<Model, _>::from_source(training.setting()?, source);
        let shape = training.plan.model_shape(&training.tokenizers)?;
        let model = |device: &Device| shape.init(1, device);
        let (_, state) = training.run_with(&task, model, &Stop::default(), &mut Silent)?;
        Ok::<_, polyglow_train::TrainError>((epoch_len, state))
    };
    let straight = dir.path().join("straight");
    let (epoch_len, state) = train(&straight, 12).expect("it trains");
    // Five steps end in an epoch, and twelve behind several.
    assert!(epoch_len > 1 && 5 % epoch_len != 0, "{epoch_len}");
    assert!(state.epoch >= 2, "{}", state.epoch);
    let resumed = dir.path().join("resumed");
    train(&resumed, 5).expect("it trains");
    train(&resumed, 12).expect("it resumes");
    let weights = |run: &Path| fs::read(run.join("checkpoints/last/model.safetensors"));
    let weights = |run: &Path| weights(run).expect("there is a checkpoint");
    assert!(weights(&resumed) == weights(&straight), "they differ");
}
