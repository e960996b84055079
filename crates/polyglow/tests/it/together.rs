//! Two trainings in two threads of one process, and the same two in processes of their own.

use std::path::Path;
use std::sync::Barrier;
use std::{fs, thread};

use polyglow_train::Silent;
use polyglow_train::config::Config;
use polyglow_train::train::{Ending, Stop, Training};

use crate::program::{DIGITS, Sandbox};

/// Everything that draws random numbers or is saved with the weights.
const OVERRIDES: [&str; 4] = [
    "train.max_steps=8",
    "train.accumulate_steps=2",
    "train.ema_decay=0.9",
    "data.max_examples=300",
];
const SEEDS: [u64; 2] = [1, 2];

/// Prepares a training in `run`, waits until the others are there, too, and trains.
fn train(seed: u64, run: &Path, others: &Barrier) -> polyglow_train::Result<Ending> {
    let overrides: Vec<String> = OVERRIDES
        .iter()
        .map(ToString::to_string)
        .chain([format!("seed={seed}")])
        .collect();
    let training = Config::from_text(DIGITS, &overrides)
        .and_then(|config| Training::prepare(config, run, &mut Silent));
    others.wait();
    Ok(training?.run(&Stop::default(), &mut Silent)?.0)
}

#[test]
fn trainings_in_threads_end_in_the_bytes_of_processes() {
    let sandbox = Sandbox::with(DIGITS);
    let run = |name: &str, seed: u64| sandbox.path().join(format!("{name}-{seed}"));
    for seed in SEEDS {
        let seed_key = format!("seed={seed}");
        let overrides = [&OVERRIDES[..], &[seed_key.as_str()]].concat();
        sandbox.train(&format!("process-{seed}"), &overrides);
    }
    let barrier = Barrier::new(SEEDS.len());
    thread::scope(|scope| {
        let threads = SEEDS.map(|seed| {
            let (run, barrier) = (run("thread", seed), &barrier);
            scope.spawn(move || train(seed, &run, barrier))
        });
        for thread in threads {
            assert_eq!(
                thread.join().expect("no panic").expect("nothing is wrong"),
                Ending::Done
            );
        }
    });
    for file in [
        "model.safetensors",
        "optimizer.safetensors",
        "ema.safetensors",
    ] {
        let read = |name: &str, seed: u64| {
            fs::read(run(name, seed).join("checkpoints/step-8").join(file)).expect(file)
        };
        for seed in SEEDS {
            assert!(
                read("thread", seed) == read("process", seed),
                "`{file}` of seed {seed}"
            );
        }
        assert!(
            read("process", SEEDS[0]) != read("process", SEEDS[1]),
            "another seed is another training"
        );
    }
}
