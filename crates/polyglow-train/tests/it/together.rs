//! Two trainings in one process.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use polyglow_train::Silent;
use polyglow_train::config::Config;
use polyglow_train::train::{Ending, Stop, Training};

const CONFIG: &str = r#"
[data]
corpus = "digits"
max_examples = 300
[tokenizer]
kind = "char"
[model]
d_model = 16
d_ff = 24
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.3
[train]
max_tokens = 256
max_steps = 8
warmup_steps = 2
accumulate_steps = 2
ema_decay = 0.9
log_every = 4
"#;
const SEEDS: [u64; 2] = [1, 2];

fn config(seed: u64) -> Config {
    Config::from_text(CONFIG, &[format!("seed={seed}")]).expect("it is a config")
}

/// Prepares a training in `run`, waits until the others are there, too, and trains.
fn train(seed: u64, run: &Path, others: &Barrier) -> polyglow_train::Result<Ending> {
    let training = Training::prepare(config(seed), run, &mut Silent);
    others.wait();
    Ok(training?.run(&Stop::default(), &mut Silent)?.0)
}

#[test]
fn trainings_at_once_are_the_same_as_one_after_the_other() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let run = |name: &str, seed: u64| place.path().join(format!("{name}-{seed}"));
    for seed in SEEDS {
        let ending = train(seed, &run("alone", seed), &Barrier::new(1)).expect("nothing is wrong");
        assert_eq!(ending, Ending::Done);
    }
    let barrier = Barrier::new(SEEDS.len());
    thread::scope(|scope| {
        let threads = SEEDS.map(|seed| {
            let (run, barrier) = (run("at-once", seed), &barrier);
            scope.spawn(move || train(seed, &run, barrier))
        });
        for thread in threads {
            assert_eq!(thread.join().expect("no panic").expect("nothing is wrong"), Ending::Done);
        }
    });
    let files = ["model.safetensors", "optimizer.safetensors", "ema.safetensors"];
    for file in files {
        let read = |name: &str, seed: u64| fs::read(run(name, seed).join("checkpoints/step-8").join(file)).expect(file);
        for seed in SEEDS {
            assert!(read("at-once", seed) == read("alone", seed), "`{file}` of seed {seed}");
        }
        assert!(read("alone", SEEDS[0]) != read("alone", SEEDS[1]), "another seed is another training");
    }
}
