//! Several ranks that train one model, here in threads: the bytes of one process.

use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::{fs, thread};

use polyglow_data::image_set::ImageSet;
use polyglow_data::labeled::LabelSet;
use polyglow_model::Precision;
use polyglow_predict::group::{Group, Times, alone};
use polyglow_train::config::Config;
use polyglow_train::run::TrainState;
use polyglow_train::train::{Ending, Stop, Training};
use polyglow_train::{ErrorKind, Observer, Result, Silent, StopRequest};
use serde_json::Value;

const CONFIG: &str = r#"
[data]
corpus = "digits"
max_examples = 300
[tokenizer]
kind = "word"
[model]
d_model = 16
d_ff = 24
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.2
[train]
max_tokens = 64
max_steps = 20
warmup_steps = 4
validate_every = 10
save_every = 5
log_every = 5
ema_decay = 0.9
"#;

/// The messages between threads of one process.
#[derive(Debug)]
struct Table {
    messages: Mutex<Vec<Vec<u8>>>,
    all: Barrier,
}

/// A rank in a thread.
#[derive(Debug)]
struct Seat {
    rank: usize,
    size: usize,
    table: Arc<Table>,
}

/// A group of threads.
fn seats(size: usize) -> Vec<Arc<dyn Group>> {
    let table = Arc::new(Table {
        messages: Mutex::new(vec![Vec::new(); size]),
        all: Barrier::new(size),
    });
    (0..size)
        .map(|rank| {
            Arc::new(Seat {
                rank,
                size,
                table: Arc::clone(&table),
            }) as Arc<dyn Group>
        })
        .collect()
}

impl Group for Seat {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn local_rank(&self) -> usize {
        self.rank
    }

    fn local_size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        self.table.messages.lock().expect("no panic")[self.rank] = own;
        self.table.all.wait();
        let messages = self.table.messages.lock().expect("no panic").clone();
        self.table.all.wait();
        Ok(messages)
    }

    fn broadcast(&self, own: Vec<u8>) -> Result<Vec<u8>> {
        Ok(self.all_gather(own)?.swap_remove(0))
    }

    fn sum(&self, values: &mut [f32], precision: Precision) -> Result<()> {
        assert_eq!(precision, Precision::F32, "no other precision is requested");
        let own = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let messages = self.all_gather(own)?;
        for (index, value) in values.iter_mut().enumerate() {
            let value_of = |message: &Vec<u8>| {
                f32::from_le_bytes(*message[4 * index..].first_chunk().expect("as long as ours"))
            };
            *value = messages[1..]
                .iter()
                .fold(value_of(&messages[0]), |sum, message| {
                    sum + value_of(message)
                });
        }
        Ok(())
    }

    fn hosts(&self) -> &[String] {
        &[]
    }

    fn take_times(&self) -> Times {
        Times::default()
    }
}

/// Asks for the end after a step.
struct Until(u64, u64);

impl Observer for Until {
    fn step(&mut self, step: u64) {
        self.1 = step;
    }

    fn stop_request(&self) -> StopRequest {
        if self.1 >= self.0 {
            StopRequest::Stop
        } else {
            StopRequest::None
        }
    }
}

/// Trains in `size` ranks, of which only one is told to end after step `until`.
fn train(run: &Path, size: usize, window: usize, until: u64) -> (Ending, TrainState) {
    let overrides = [format!("train.accumulate_steps={window}")];
    let one = |group: Arc<dyn Group>| {
        let own_until = if group.rank() + 1 == size {
            until
        } else {
            u64::MAX
        };
        let config = Config::from_text(CONFIG, &overrides)?;
        let mut training = Training::prepare_among(&group, config, None, run, &mut Silent)?;
        training.run(&Stop::default(), &mut Until(own_until, 0))
    };
    let groups = if size == 1 {
        vec![alone()]
    } else {
        seats(size)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = groups
            .into_iter()
            .map(|group| scope.spawn(|| one(group)))
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic").expect("nothing is wrong"));
        let ended: Vec<_> = ended.collect();
        assert!(
            ended.iter().all(|end| *end == ended[0]),
            "all ranks are at the same step"
        );
        ended.into_iter().next().expect("there is a rank")
    })
}

fn read(run: &Path, file: &str) -> Vec<u8> {
    fs::read(run.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The records of a run without times and ranks.
fn records(run: &Path) -> Vec<Value> {
    let text = String::from_utf8(read(run, "metrics.jsonl")).expect("records are text");
    let mut records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    records.retain(|record| record["kind"] != "ranks");
    for key in [
        "seconds",
        "tokens_per_second",
        "ranks",
        "wait_seconds",
        "exchange_seconds",
    ] {
        records
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|record| drop(record.remove(key)));
    }
    records
}

#[test]
fn as_many_ranks_as_micro_batches_write_the_bytes_of_one_process() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // The last step of an epoch of 38 micro-batches leaves none, one and two ranks without work.
    for (window, end) in [(2, (1, 2)), (3, (1, 21)), (8, (4, 0))] {
        let [one, many] = ["one", "many"].map(|name| dir.path().join(format!("{name}-{window}")));
        let (ending, alone) = train(&one, 1, window, u64::MAX);
        let (also, together) = train(&many, window, window, u64::MAX);
        assert_eq!((ending, also), (Ending::Done, Ending::Done));
        assert_eq!(alone, together);
        assert_eq!((alone.epoch, alone.position), end);
        for file in [
            "model.safetensors",
            "optimizer.safetensors",
            "ema.safetensors",
            "state.json",
        ] {
            let content = |run: &Path| read(run, &format!("checkpoints/step-20/{file}"));
            assert!(content(&one) == content(&many), "{window} ranks: `{file}`");
        }
        assert_eq!(records(&one), records(&many));
        assert_eq!(
            read(&one, "validation/step-20.txt"),
            read(&many, "validation/step-20.txt")
        );
    }
}

#[test]
fn a_run_is_resumed_with_another_number_of_ranks() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [straight, mixed] = ["straight", "mixed"].map(|name| dir.path().join(name));
    train(&straight, 1, 4, u64::MAX);
    for (size, until, step) in [(3, 6, 6), (1, 9, 9), (4, 13, 13), (2, u64::MAX, 20)] {
        let (ending, state) = train(&mixed, size, 4, until);
        let expected = if until == u64::MAX {
            Ending::Done
        } else {
            Ending::Stopped
        };
        assert_eq!((ending, state.step), (expected, step));
    }
    let (straight, mixed) = (records(&straight), records(&mixed));
    assert_eq!(straight.len(), mixed.len());
    for (one, other) in straight.iter().zip(&mixed) {
        assert_eq!(
            (&one["kind"], &one["step"], &one["tokens"]),
            (&other["kind"], &other["step"], &other["tokens"])
        );
        let [one, other] = [one, other].map(|record| record["loss"].as_f64().expect("a loss"));
        // Gradients are added in another order: 2e-7 of each sum, some steps long.
        assert!((one - other).abs() < 1e-5 * one, "{one} and {other}");
    }
}

#[test]
fn ranks_without_work_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = dir.path().join("run");
    for error in errors_of(&run, vec![config(&[]); 3]) {
        let error = error.expect("3 of 2");
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(
            error
                .hint()
                .is_some_and(|hint| hint.contains("set it to 3")),
            "{error}"
        );
    }
    // Another config is a reason that comes first.
    for configs in [
        [config(&[]), config(&["train.accumulate_steps=1"])],
        [config(&["train.accumulate_steps=1"]), config(&[])],
    ] {
        for error in errors_of(&run, configs.to_vec()) {
            let message = error.expect("they differ").to_string();
            assert!(
                message.contains("rank 1 has `train.accumulate_steps = "),
                "{message}"
            );
        }
    }
    assert!(!run.exists(), "nothing was written");
}

fn config(overrides: &[&str]) -> Config {
    let all = ["train.accumulate_steps=2"]
        .iter()
        .chain(overrides)
        .map(|set| (*set).to_owned());
    Config::from_text(CONFIG, &all.collect::<Vec<_>>()).expect("it is a config")
}

/// The errors of the ranks of a group when each has a config of its own.
fn errors_of(run: &Path, configs: Vec<Config>) -> Vec<Option<polyglow_train::TrainError>> {
    let groups = seats(configs.len());
    thread::scope(|scope| {
        let prepare = |(group, config): (Arc<dyn Group>, Config)| {
            scope.spawn(move || {
                Training::prepare_among(&group, config, None, run, &mut Silent)
                    .map(drop)
                    .err()
            })
        };
        let threads: Vec<_> = groups.into_iter().zip(configs).map(prepare).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

#[test]
fn another_config_is_refused_in_every_rank_with_its_keys_and_values() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = dir.path().join("run");
    let cases = [
        ("seed=7", "`seed = 7` (rank 0: `"),
        ("train.lr=0.25", "`train.lr = 0.25` (rank 0: `"),
        (
            "train.accumulate_steps=4",
            "`train.accumulate_steps = 4` (rank 0: `2`)",
        ),
        (
            "train.max_tokens=32",
            "`train.max_tokens = 32` (rank 0: `64`)",
        ),
        ("train.save_every=3", "`train.save_every = 3` (rank 0: `5`)"),
        (
            "train.max_steps=10",
            "`train.max_steps = 10` (rank 0: `20`)",
        ),
        ("model.d_model=32", "`model.d_model = 32` (rank 0: `16`)"),
        (
            "data.max_examples=299",
            "`data.max_examples = 299` (rank 0: `300`)",
        ),
        ("search.beam_size=2", "`search.beam_size = 2` (rank 0: `"),
    ];
    for (set, expected) in cases {
        for error in errors_of(&run, vec![config(&[]), config(&[set])]) {
            let error = error.unwrap_or_else(|| panic!("{set} is another config"));
            let message = error.to_string();
            assert!(
                message.contains("rank 1 has ") && message.contains(expected),
                "{set}: {message}"
            );
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(
                error
                    .hint()
                    .is_some_and(|hint| hint.contains("config of rank 0")),
                "{set}"
            );
        }
    }
    let config_of_three = |set: &str| config(&["train.accumulate_steps=3", "train.lr=0.25", set]);
    let mut third = config_of_three("seed=2");
    third.train.accumulate_steps = 6;
    let errors = errors_of(
        &run,
        vec![config_of_three("seed=1"), config_of_three("seed=1"), third],
    );
    let message = errors[0].as_ref().expect("they differ").to_string();
    let expected =
        "rank 2 has `seed = 2` (rank 0: `1`), `train.accumulate_steps = 6` (rank 0: `3`)";
    assert!(message.contains(expected), "{message}");
    assert!(!message.contains("rank 1 has"), "{message}");
    assert!(!run.exists(), "nothing was written");
}

#[test]
fn a_value_that_is_wrong_in_one_rank_alone_ends_all() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut wrong = config(&[]);
    wrong.model.num_heads = Some(3);
    for error in errors_of(&dir.path().join("run"), vec![config(&[]), wrong]) {
        let message = error.expect("3 heads do not divide 16").to_string();
        assert!(
            message.contains("`model.num_heads = 3` (rank 0: `2`)"),
            "{message}"
        );
    }
}

#[test]
fn devices_and_the_paths_of_the_same_text_may_differ() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let corpus = |name: &str, text: &str| {
        let dir = temp.path().join(name);
        fs::create_dir(&dir).expect("a directory");
        for file in ["train.en", "train.de"] {
            fs::write(dir.join(file), text).expect("it can be written");
        }
        let path = dir.join("train");
        let data = format!(
            "[data]\ntrain = \"{}\"\nsrc = \"en\"\ntgt = \"de\"\n",
            path.display()
        );
        Config {
            data: Config::parse(&data).expect("it is a config").data,
            ..config(&[])
        }
    };
    let text = "one two three\nfour five\n".repeat(20);
    let (first, same, other) = (
        corpus("a", &text),
        corpus("b", &text),
        corpus("c", &text.to_uppercase()),
    );
    let message = |errors: Vec<Option<polyglow_train::TrainError>>| {
        errors[0].as_ref().map(ToString::to_string)
    };
    assert_eq!(
        message(errors_of(
            &temp.path().join("run"),
            vec![first.clone(), same]
        )),
        None
    );
    let message = message(errors_of(&temp.path().join("other"), vec![first, other]))
        .expect("the text differs");
    assert!(
        message.contains("rank 1 reads another training text"),
        "{message}"
    );
}

#[test]
fn images_with_captions_are_the_same_in_all_ranks() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let folder = |name: &str, shade: u8| {
        let dir = temp.path().join(name);
        fs::create_dir(&dir).expect("a directory");
        // Pictures of one shade are files of one size.
        let shades = [0, 10, 20, 30, 40, shade, 60, 70];
        let pixels = shades.iter().flat_map(|&shade| [shade; 48]).collect();
        let labels = LabelSet::new(["shades".to_owned()]);
        let images = ImageSet {
            height: 4,
            width: 4,
            channels: 3,
            labels,
            pixels,
            label_ids: vec![0; 8],
        };
        images.write(&dir).expect("it can be written");
        let captions: Vec<String> = (0..8)
            .map(|index| format!("shades/{index:05}.png\tshade {index}\n"))
            .collect();
        fs::write(dir.join("train.tsv"), captions.concat()).expect("it can be written");
        let data = format!(
            "data = {{ train = \"{}\", images = {{ size = [4, 4] }} }}\n[model]\narch = \"captioner\"\npatch_size = 2\n",
            dir.join("train.tsv").display()
        );
        let parsed = Config::parse(&data).expect("it is a config");
        let mut config = config(&[]);
        config.data = parsed.data;
        config.model.arch = parsed.model.arch;
        config.model.patch_size = parsed.model.patch_size;
        config
    };
    let (first, same, other) = (folder("a", 50), folder("b", 50), folder("c", 51));
    let messages = |errors: Vec<Option<polyglow_train::TrainError>>| {
        errors
            .into_iter()
            .map(|error| error.map(|error| error.to_string()))
            .collect::<Vec<_>>()
    };
    let errors = messages(errors_of(
        &temp.path().join("run"),
        vec![first.clone(), same],
    ));
    assert_eq!(errors, [None, None]);
    for message in messages(errors_of(&temp.path().join("other"), vec![first, other])) {
        let message = message.expect("an image differs");
        assert!(
            message.contains("rank 1 reads other images of the same captions than rank 0"),
            "{message}"
        );
    }
}
