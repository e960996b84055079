//! Trainings that are killed again and again end with the bytes of one that never was.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{DIGITS, Sandbox};

/// The options of each kind of run: together they cover everything that a checkpoint must have.
const VARIANTS: [(&str, &[&str]); 6] = [
    (
        "accumulation, a moving average, tags and noise",
        &[
            "train.accumulate_steps=2",
            "train.ema_decay=0.9",
            "data.src_tag=<en>",
            "data.tgt_tag=<de>",
            "data.noise={ typos = 0.3, dropped_words = 0.2 }",
        ],
    ),
    (
        "a checkpoint at every step, of which three are kept",
        &["train.save_every=1", "train.keep_last=3"],
    ),
    (
        "a learned vocabulary with dropout",
        &[
            "tokenizer.kind=bpe",
            "tokenizer.vocab_size=300",
            "tokenizer.dropout=0.1",
        ],
    ),
    (
        "a vocabulary whose pieces are drawn",
        &[
            "tokenizer.kind=unigram",
            "tokenizer.vocab_size=300",
            "tokenizer.sampling_alpha=0.2",
        ],
    ),
    (
        "a fork with two vocabularies",
        &[
            FORK,
            "tokenizer.shared=false",
            "model.tie_embeddings=decoder",
        ],
    ),
    (
        "an early end",
        &[
            "train.lr=1e-30",
            "train.patience=2",
            "train.validate_every=3",
            "train.save_every=2",
        ],
    ),
];

/// Stands among overrides for a run that starts from the weights of another.
const FORK: &str = "train.weight_decay=0.01";

/// The moment at which a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    LearningTheVocabulary,
    BuildingTheCache,
    WritingACheckpoint,
    Validating,
    /// Milliseconds after the start.
    After(u64),
}

impl Moment {
    fn name(self) -> &'static str {
        match self {
            Self::LearningTheVocabulary => "learning the vocabulary",
            Self::BuildingTheCache => "building the cache",
            Self::WritingACheckpoint => "writing a checkpoint",
            Self::Validating => "validating",
            Self::After(_) => "at a random time",
        }
    }

    /// Whether it has come for a process that trains in `run`.
    fn has_come(self, run: &Path, start: &mut Start) -> bool {
        match self {
            Self::LearningTheVocabulary => {
                run.join("cache").exists() && !run.join("tokenizer.json").exists()
            }
            Self::BuildingTheCache | Self::WritingACheckpoint => {
                let name = if self == Self::BuildingTheCache {
                    "cache"
                } else {
                    "checkpoints"
                };
                let unfinished = has_unfinished(&run.join(name));
                // What an earlier kill left there is removed first.
                start.leftover &= unfinished;
                unfinished && !start.leftover
            }
            Self::Validating => {
                let log = fs::read(run.join("train.log")).unwrap_or_default();
                let new =
                    String::from_utf8_lossy(&log[start.log_bytes.min(log.len())..]).into_owned();
                new.lines()
                    .last()
                    .is_some_and(|line| line.contains("validating after step"))
            }
            Self::After(milliseconds) => start.time.elapsed() > Duration::from_millis(milliseconds),
        }
    }
}

/// The state of a run when a process starts.
struct Start {
    time: Instant,
    /// Bytes of the log.
    log_bytes: usize,
    /// Whether an unfinished file is where the moment is awaited.
    leftover: bool,
}

/// Whether something in `dir` is being written that will be renamed when it is complete.
fn has_unfinished(dir: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(dir) else {
        return false;
    };
    entries.any(|entry| {
        entry.is_ok_and(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "tmp")
        })
    })
}

/// A training that is killed, in a directory of its own.
struct Training {
    sandbox: Sandbox,
    overrides: &'static [&'static str],
}

impl Training {
    fn new(overrides: &'static [&'static str]) -> Self {
        let sandbox = Sandbox::with(DIGITS);
        if overrides.contains(&FORK) {
            sandbox.train("origin", &[&["train.max_steps=5"], overrides].concat());
        }
        Self { sandbox, overrides }
    }

    fn run(&self) -> PathBuf {
        self.sandbox.path().join("run")
    }

    fn train(&self) -> Child {
        let fork = self.overrides.contains(&FORK);
        let run: &[&str] = if fork {
            &["origin", "--fork", "run"]
        } else {
            &["run"]
        };
        let mut command = self.sandbox.command(&["train", "tiny.toml", "--run"]);
        command
            .args(run)
            .args(self.overrides.iter().flat_map(|set| ["--set", set]));
        command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    }

    fn succeed(child: Child) {
        let output = child.wait_with_output().expect("it ends");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Trains to the end, and averages.
    fn finish(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        Self::succeed(self.train());
        self.sandbox.succeed(&["average", "run", "--last", "3"]);
        content(&self.run())
    }

    /// Starts the training and kills it at that moment; false if it ended before.
    fn kill_at(&self, moment: Moment) -> bool {
        let log_bytes = fs::read(self.run().join("train.log")).map_or(0, |log| log.len());
        let leftover = ["cache", "checkpoints"]
            .iter()
            .any(|name| has_unfinished(&self.run().join(name)));
        let mut child = self.train();
        let mut start = Start {
            time: Instant::now(),
            log_bytes,
            leftover,
        };
        while !moment.has_come(&self.run(), &mut start) {
            if child.try_wait().expect("it is ours").is_some() {
                Self::succeed(child);
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        child.kill().expect("it is ours");
        child.wait().expect("it is ours").signal() == Some(9)
    }
}

/// Every file of a run, but for what must differ: times, the number of the process, and where a
/// fork comes from.
fn content(run: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![run.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).expect("it can be read") {
            let path = entry.expect("it can be read").path();
            let name = path
                .strip_prefix(run)
                .expect("it lies in the run")
                .to_owned();
            if path.is_symlink() {
                files.insert(
                    name,
                    fs::read_link(&path)
                        .expect("a link")
                        .to_string_lossy()
                        .into_owned()
                        .into_bytes(),
                );
            } else if path.is_dir() {
                open.push(path);
            } else if name == Path::new("metrics.jsonl") {
                files.insert(name, records(&path));
            } else if !["train.log", "lock", "inspection.json", "origin.json"]
                .iter()
                .any(|other| name == Path::new(other))
            {
                files.insert(name, fs::read(&path).expect("it can be read"));
            }
        }
    }
    files
}

/// The records of a run without what depends on the clock.
fn records(path: &Path) -> Vec<u8> {
    let text = fs::read_to_string(path).expect("it was written");
    let parse = |line: &str| {
        let mut record: Value = serde_json::from_str(line).expect("every line is JSON");
        let fields = record.as_object_mut().expect("every line is an object");
        fields.remove("seconds");
        fields.remove("tokens_per_second");
        record.to_string() + "\n"
    };
    text.lines().map(parse).collect::<String>().into_bytes()
}

/// Kills runs of these variants, each at least `kills` times, and compares them with straight ones.
/// Returns the number of kills at each kind of moment.
fn kill(
    variants: &[(&str, &'static [&'static str])],
    kills: usize,
) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for &(name, overrides) in variants {
        let straight = Training::new(overrides);
        let started = Instant::now();
        let expected = straight.finish();
        let duration = started.elapsed().as_millis() as u64;
        assert_eq!(content(&straight.run()), expected);
        let mut killed = 0;
        while killed < kills {
            let training = Training::new(overrides);
            let before = killed;
            // Some moments come only in a run that has just begun, the others in any.
            let first = [Moment::LearningTheVocabulary, Moment::BuildingTheCache];
            let later = (0..kills - before).map(move |index| match index % 3 {
                0 => Moment::WritingACheckpoint,
                1 => Moment::Validating,
                _ => Moment::After((index as u64 * 7919 + before as u64 * 104_729) % duration),
            });
            for moment in first.into_iter().chain(later) {
                if training.kill_at(moment) {
                    *counts.entry(moment.name()).or_insert(0) += 1;
                    killed += 1;
                }
            }
            assert!(killed > before, "{name}: no kill came in time");
            let actual = training.finish();
            let files =
                |content: &BTreeMap<PathBuf, Vec<u8>>| content.keys().cloned().collect::<Vec<_>>();
            assert_eq!(files(&actual), files(&expected), "{name}");
            for (file, bytes) in &expected {
                assert!(
                    actual[file] == *bytes,
                    "{name}: `{}` differs after {killed} kills",
                    file.display()
                );
            }
        }
    }
    counts
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_with_the_bytes_of_a_straight_one() {
    let counts = kill(&VARIANTS[..2], 5);
    assert!(counts.values().sum::<usize>() >= 10, "{counts:?}");
    assert!(counts.contains_key("writing a checkpoint"), "{counts:?}");
}

/// The long form: `cargo test --workspace --test it -- --ignored --nocapture fifty_kills`.
#[test]
#[ignore = "takes minutes"]
fn fifty_kills_change_no_byte() {
    let counts = kill(&VARIANTS, 16);
    println!(
        "{counts:#?}, {} kills in all",
        counts.values().sum::<usize>()
    );
    assert!(counts.values().sum::<usize>() >= 50);
    for moment in [
        "learning the vocabulary",
        "building the cache",
        "writing a checkpoint",
        "validating",
    ] {
        assert!(
            counts.contains_key(moment),
            "no kill came while {moment}: {counts:?}"
        );
    }
}
