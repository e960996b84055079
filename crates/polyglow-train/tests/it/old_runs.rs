//! Runs of versions whose states did not record the rules that select examples: they resume by the
//! rules of then.

use std::fs;
use std::path::Path;

use polyglow_data::batching::Selection;
use polyglow_data::config::{Content, Split};
use polyglow_data::corpus::Corpus;
use polyglow_train::config::Config;
use polyglow_train::run::{RunDirectory, TrainState};
use polyglow_train::train::{Stop, Training};
use polyglow_train::{Result, Silent};
use serde_json::Value;

/// Trains the run in a directory until this step, or to its end.
fn train(text: &str, run: &Path, max_steps: u64) -> Result<TrainState> {
    let config = Config::from_text(text, &[format!("train.max_steps={max_steps}")])?;
    let mut training = Training::prepare(config, run, &mut Silent)?;
    Ok(training.run(&Stop::default(), &mut Silent)?.1)
}

/// Makes the newest checkpoint one of before: without rules and checksum, and with this hash of the
/// training data.
fn make_old(run: &Path, train_hash: Option<&str>) {
    let path = run.join("checkpoints/last/state.json");
    let mut state: Value =
        serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("it is JSON");
    let fields = state.as_object_mut().expect("it is an object");
    assert_eq!(fields.remove("selection"), Some("v2".into()));
    fields.remove("checksum");
    if let Some(hash) = train_hash {
        fields["text"]["train"] = hash.into();
    }
    fs::write(path, state.to_string()).expect("it can be written");
}

#[test]
fn weighted_parts_are_rounded_as_before() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = "one two\n".repeat(10);
    for name in ["a.en", "a.de", "b.en", "b.de"] {
        fs::write(dir.path().join(name), &text).expect("it can be written");
    }
    // A pair has 3 tokens, so that each is a batch.
    let config = format!(
        "tokenizer.kind = 'word'
         data = {{ src = 'en', tgt = 'de', train = [{{ path = '{0}/a' }}, {{ path = '{0}/b', weight = 0.25 }}] }}
         model = {{ d_model = 8, d_ff = 8, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }}
         train = {{ max_tokens = 4, schedule = 'constant', warmup_steps = 0 }}",
        dir.path().display()
    );
    let [old, new] = ["old", "new"].map(|name| dir.path().join(name));
    // 2.5 of 10 pairs: an epoch of before always had 3, and now the first has 3 and the second 2.
    train(&config, &old, 1).expect("it trains");
    make_old(&old, None);
    for (run, selection, after) in [(&old, Selection::V1, (2, 0)), (&new, Selection::V2, (2, 1))] {
        for max_steps in [14, 26] {
            let state = train(&config, run, max_steps).expect("it trains");
            assert_eq!((state.step, state.selection), (max_steps, selection));
        }
        let state = RunDirectory::new(run)
            .checkpoints(1)
            .find("last")
            .expect("there is one")
            .state;
        assert_eq!((state.epoch, state.position), after, "{selection:?}");
    }
}

#[test]
fn the_first_images_are_trained_on_as_before() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = "data = { corpus = 'shapes', max_examples = 20 }
         model = { arch = 'vit', patch_size = 16, d_model = 8, d_ff = 8, num_heads = 2, num_encoder_layers = 1 }
         train = { max_tokens = 10_000, schedule = 'constant', warmup_steps = 0 }";
    let run = dir.path().join("run");
    train(config, &run, 1).expect("it trains");
    let parsed =
        Config::from_text(config, &["train.max_steps=2".to_owned()]).expect("it is a config");
    let first = Corpus::open(&parsed.data, Content::IMAGES, Split::Train).expect("it is embedded");
    let hash = first.content_hash().expect("it is in memory");
    let digits: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    make_old(&run, Some(&digits.concat()));
    let training = Training::prepare(parsed, &run, &mut Silent).expect("the data is the same");
    assert_eq!(training.plan.selection, Selection::V1);
    let (images, _) = training
        .text
        .train
        .training_images()
        .expect("there are images");
    assert_eq!(images, first.training_images().expect("there are images").0);
    drop(training);
    assert_eq!(
        train(config, &run, 2).expect("it trains").selection,
        Selection::V1
    );
}
