//! Several ranks that train one model, here in threads: the bytes of one process.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use polyglow_model::Precision;
use polyglow_train::config::Config;
use polyglow_train::group::{Group, Times, alone};
use polyglow_train::run::TrainState;
use polyglow_train::train::{Ending, Stop, Training};
use polyglow_train::{ErrorKind, Observer, Result, Silent, Wish};
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

/// What threads of one process tell each other.
#[derive(Debug)]
struct Table {
    told: Mutex<Vec<Vec<u8>>>,
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
    let table = Arc::new(Table { told: Mutex::new(vec![Vec::new(); size]), all: Barrier::new(size) });
    (0..size).map(|rank| Arc::new(Seat { rank, size, table: Arc::clone(&table) }) as Arc<dyn Group>).collect()
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
        self.table.told.lock().expect("no panic")[self.rank] = own;
        self.table.all.wait();
        let told = self.table.told.lock().expect("no panic").clone();
        self.table.all.wait();
        Ok(told)
    }

    fn broadcast(&self, own: Vec<u8>) -> Result<Vec<u8>> {
        Ok(self.all_gather(own)?.swap_remove(0))
    }

    fn sum(&self, values: &mut [f32], precision: Precision) -> Result<()> {
        assert_eq!(precision, Precision::F32, "nothing else is asked for");
        let own = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let told = self.all_gather(own)?;
        for (place, value) in values.iter_mut().enumerate() {
            let of = |told: &Vec<u8>| f32::from_le_bytes(*told[4 * place..].first_chunk().expect("as long as ours"));
            *value = told[1..].iter().fold(of(&told[0]), |sum, told| sum + of(told));
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

    fn wish(&self) -> Wish {
        if self.1 >= self.0 { Wish::Stop } else { Wish::GoOn }
    }
}

/// Trains in `size` ranks, of which one alone is asked to end after step `until`.
fn train(run: &Path, size: usize, window: usize, until: u64) -> (Ending, TrainState) {
    let overrides = [format!("train.accumulate_steps={window}")];
    let one = |group: Arc<dyn Group>| {
        let asked = if group.rank() + 1 == size { until } else { u64::MAX };
        let config = Config::from_text(CONFIG, &overrides)?;
        let mut training = Training::prepare_among(&group, config, None, run, &mut Silent)?;
        training.run(&Stop::default(), &mut Until(asked, 0))
    };
    let groups = if size == 1 { vec![alone()] } else { seats(size) };
    thread::scope(|scope| {
        let threads: Vec<_> = groups.into_iter().map(|group| scope.spawn(|| one(group))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("no panic").expect("nothing is wrong"));
        let ended: Vec<_> = ended.collect();
        assert!(ended.iter().all(|end| *end == ended[0]), "all ranks stand at the same place");
        ended.into_iter().next().expect("there is a rank")
    })
}

fn read(run: &Path, file: &str) -> Vec<u8> {
    fs::read(run.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The records of a run without times and ranks.
fn records(run: &Path) -> Vec<Value> {
    let text = String::from_utf8(read(run, "metrics.jsonl")).expect("records are text");
    let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    records.retain(|record| record["kind"] != "ranks");
    for key in ["seconds", "tokens_per_second", "ranks", "wait_seconds", "exchange_seconds"] {
        records.iter_mut().filter_map(Value::as_object_mut).for_each(|record| drop(record.remove(key)));
    }
    records
}

#[test]
fn as_many_ranks_as_micro_batches_write_the_bytes_of_one_process() {
    let place = tempfile::tempdir().expect("a temporary directory");
    // The last step of an epoch of 38 micro-batches leaves none, one and two ranks without work.
    for (window, end) in [(2, (1, 2)), (3, (1, 21)), (8, (4, 0))] {
        let [one, many] = ["one", "many"].map(|name| place.path().join(format!("{name}-{window}")));
        let (ending, alone) = train(&one, 1, window, u64::MAX);
        let (also, together) = train(&many, window, window, u64::MAX);
        assert_eq!((ending, also), (Ending::Done, Ending::Done));
        assert_eq!(alone, together);
        assert_eq!((alone.epoch, alone.position), end);
        for file in ["model.safetensors", "optimizer.safetensors", "ema.safetensors", "state.json"] {
            let of = |run: &Path| read(run, &format!("checkpoints/step-20/{file}"));
            assert!(of(&one) == of(&many), "{window} ranks: `{file}`");
        }
        assert_eq!(records(&one), records(&many));
        assert_eq!(read(&one, "validation/step-20.txt"), read(&many, "validation/step-20.txt"));
    }
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let [straight, mixed] = ["straight", "mixed"].map(|name| place.path().join(name));
    train(&straight, 1, 4, u64::MAX);
    for (size, until, step) in [(3, 6, 6), (1, 9, 9), (4, 13, 13), (2, u64::MAX, 20)] {
        let (ending, state) = train(&mixed, size, 4, until);
        let expected = if until == u64::MAX { Ending::Done } else { Ending::Stopped };
        assert_eq!((ending, state.step), (expected, step));
    }
    let (straight, mixed) = (records(&straight), records(&mixed));
    assert_eq!(straight.len(), mixed.len());
    for (one, other) in straight.iter().zip(&mixed) {
        assert_eq!((&one["kind"], &one["step"], &one["tokens"]), (&other["kind"], &other["step"], &other["tokens"]));
        let [one, other] = [one, other].map(|record| record["loss"].as_f64().expect("a loss"));
        // Gradients are added in another order: 2e-7 of each sum, some steps long.
        assert!((one - other).abs() < 1e-5 * one, "{one} and {other}");
    }
}

#[test]
fn ranks_without_work_are_refused() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let config = || Config::from_text(CONFIG, &["train.accumulate_steps=2".to_owned()]).expect("it is a config");
    for group in seats(3) {
        let run = place.path().join("run");
        let error = Training::prepare_among(&group, config(), None, run, &mut Silent).map(drop).expect_err("3 of 2");
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.hint().is_some_and(|hint| hint.contains("set it to 3")), "{error}");
    }
}
