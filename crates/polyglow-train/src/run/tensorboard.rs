//! TensorBoard's event files, written from the records of a run.
//!
//! A file is a sequence of protocol buffers (TensorFlow's `event.proto` and `summary.proto`), each
//! framed by its length and by checksums (`record_writer.cc`).

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use polyglow_data::file;
use polyglow_predict::error::{Context, Result};
use prost::Message;
use serde_json::Value as Json;

use super::RunDirectory;

/// Translations of the validation set that are shown with its scores.
const SAMPLES: usize = 5;
/// The name of the file. Other programs put the time in place of the zeros; a run has one file, which
/// a resumed run writes anew.
pub(super) const NAME: &str = "events.out.tfevents.0000000000.polyglow";
/// The version that the first event of a file names.
const VERSION: &str = "brain.Event:2";
/// Bytes of a length and of its checksum.
const HEAD: usize = 12;
/// A bound on the bytes of the first event, so that a damaged length does not allocate much.
const MOST_FIRST: usize = 256;

/// The events of a run in a file, open for more.
#[derive(Debug)]
pub struct EventFile {
    run: RunDirectory,
    path: PathBuf,
    file: File,
    /// The time when the run began, in seconds since 1970, plus the time of training since then.
    time: f64,
}

impl EventFile {
    /// Writes the events of records into a directory, in place of a file that was written there
    /// before.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn create<'a>(
        run: &RunDirectory,
        dir: &Path,
        records: impl IntoIterator<Item = &'a Json>,
    ) -> Result<Self> {
        let path = dir.join(NAME);
        let mut records = records.into_iter().peekable();
        // In a run that begins again, the old events are those of another training.
        let resumes = records.peek().is_some();
        let mut time = first_time(&run.root().join(NAME))
            .filter(|_| resumes)
            .unwrap_or_else(|| began(run));
        let version = Event {
            time,
            version: Some(VERSION.to_owned()),
            ..Event::default()
        };
        let mut bytes = version.framed();
        for record in records {
            bytes.extend(event(run, record, &mut time).framed());
        }
        let file = replace_and_open(&path, &bytes)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self {
            run: run.clone(),
            path,
            file,
            time,
        })
    }

    /// Adds the event of a record.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn add(&mut self, record: &Json) -> Result<()> {
        let event = event(&self.run, record, &mut self.time);
        self.file
            .write_all(&event.framed())
            .with_context(|| format!("cannot write `{}`", self.path.display()))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes a file, and its directory if there is none; returns it open, to append to.
fn replace_and_open(path: &Path, bytes: &[u8]) -> Result<File> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    file::replace(path, bytes)?;
    Ok(OpenOptions::new().append(true).open(path)?)
}

/// Returns the time when a run began, in seconds since 1970: that of the oldest of the files that it
/// begins with. The config alone would not do, since a resumed run writes it again.
fn began(run: &RunDirectory) -> f64 {
    let mut oldest = None;
    for name in ["config.toml", "tokenizer.json", "tokenizer.src.json"] {
        let metadata = fs::metadata(run.root().join(name));
        if let Ok(written) = metadata.and_then(|metadata| metadata.modified()) {
            oldest = Some(oldest.map_or(written, |oldest| written.min(oldest)));
        }
    }
    let since_1970 = oldest.and_then(|time: SystemTime| time.duration_since(UNIX_EPOCH).ok());
    since_1970.map_or(0.0, |time| time.as_secs_f64())
}

/// Reads the time of the first event in a file; returns `None` if there is no such file, or another
/// program wrote it.
fn first_time(path: &Path) -> Option<f64> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; HEAD];
    file.read_exact(&mut head).ok()?;
    let len = u64::from_le_bytes(*head.first_chunk()?);
    let mut content = vec![0; usize::try_from(len).ok().filter(|len| *len < MOST_FIRST)?];
    file.read_exact(&mut content).ok()?;
    let event = Event::decode(&content[..]).ok()?;
    (event.version.as_deref() == Some(VERSION)).then_some(event.time)
}

/// Makes the event of a record: its numbers, named as `train/loss`, `valid/bleu` or `test_deep/chrf`,
/// and for a validation some translations. Adds the seconds of the record to `time`.
fn event(run: &RunDirectory, record: &Json, time: &mut f64) -> Event {
    *time += record["seconds"].as_f64().unwrap_or_default();
    let step = record["step"].as_u64().unwrap_or_default();
    let name = record["split"]
        .as_str()
        .or(record["kind"].as_str())
        .unwrap_or("train");
    let mut values = Vec::new();
    for (key, value) in record.as_object().into_iter().flatten() {
        // The event has a step and a time of its own.
        let is_position = ["step", "seconds"].contains(&key.as_str());
        if let Some(number) = value.as_f64().filter(|_| !is_position) {
            values.push(Value::scalar(format!("{name}/{key}"), number as f32));
        }
    }
    if record["kind"] == "valid"
        && let Ok(text) = fs::read_to_string(run.validation_path(step))
    {
        let lines: Vec<&str> = text.lines().take(SAMPLES).collect();
        values.push(Value::text(
            format!("{name}/translations"),
            lines.join("\n\n"),
        ));
    }
    Event {
        time: *time,
        step: step.cast_signed(),
        version: None,
        summary: Some(Summary { values }),
    }
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    /// The time in seconds since 1970.
    #[prost(double, tag = "1")]
    time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    number: Option<f32>,
    #[prost(message, optional, tag = "8")]
    tensor: Option<Tensor>,
    #[prost(message, optional, tag = "9")]
    metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
    #[prost(string, repeated, tag = "8")]
    texts: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "2")]
    axes: Vec<Axis>,
}

#[derive(Clone, PartialEq, Message)]
struct Axis {
    #[prost(int64, tag = "1")]
    size: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(message, optional, tag = "1")]
    plugin: Option<Plugin>,
}

#[derive(Clone, PartialEq, Message)]
struct Plugin {
    #[prost(string, tag = "1")]
    name: String,
}

impl Event {
    /// Encodes the event as a file has it: its length, the checksum of that, its content, the checksum
    /// of that.
    fn framed(&self) -> Vec<u8> {
        let content = self.encode_to_vec();
        let length = (content.len() as u64).to_le_bytes();
        let mut record = length.to_vec();
        record.extend(masked(&length).to_le_bytes());
        record.extend(&content);
        record.extend(masked(&content).to_le_bytes());
        record
    }
}

impl Value {
    fn scalar(tag: String, number: f32) -> Self {
        Self {
            tag,
            number: Some(number),
            ..Self::default()
        }
    }

    /// Makes a value that TensorBoard shows as Markdown.
    fn text(tag: String, text: String) -> Self {
        // `DT_STRING` of TensorFlow's `types.proto`.
        const STRINGS: i32 = 7;
        let tensor = Tensor {
            dtype: STRINGS,
            shape: Some(Shape {
                axes: vec![Axis { size: 1 }],
            }),
            texts: vec![text],
        };
        let metadata = Metadata {
            plugin: Some(Plugin {
                name: "text".to_owned(),
            }),
        };
        Self {
            tag,
            number: None,
            tensor: Some(tensor),
            metadata: Some(metadata),
        }
    }
}

/// Returns the masked checksum: CRC-32C, rotated and with a constant added, since a CRC of bytes that
/// hold their own CRC would be weak.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// The events of a file, whose checksums are right.
    fn read(path: &Path) -> Vec<Event> {
        let bytes = fs::read(path).expect("it is there");
        let mut events = Vec::new();
        let mut position = 0;
        while position < bytes.len() {
            let (length, rest) = bytes[position..]
                .split_first_chunk::<8>()
                .expect("a length");
            let (sum, rest) = rest.split_first_chunk::<4>().expect("a checksum");
            assert_eq!(u32::from_le_bytes(*sum), masked(length));
            let len = u64::from_le_bytes(*length) as usize;
            assert_eq!(rest[len..len + 4], masked(&rest[..len]).to_le_bytes());
            events.push(Event::decode(&rest[..len]).expect("an event"));
            // A length of 8 bytes, and two checksums of 4.
            position += len + 16;
        }
        events
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        // RFC 3720, B.4.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn the_clock_stays_when_a_run_resumes_and_writes_its_config_again() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let run = RunDirectory::new(dir.path());
        let write = |name: &str, seconds: u64| {
            fs::write(dir.path().join(name), "").expect("there is room");
            let file = File::options()
                .append(true)
                .open(dir.path().join(name))
                .expect("it is there");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds))
                .expect("it is ours");
        };
        let record = json!({"kind": "train", "step": 10, "loss": 2.5, "seconds": 3.0});
        let times = |dir: &Path| {
            let file = EventFile::create(&run, dir, [&record]).expect("there is room");
            read(file.path())
                .iter()
                .map(|event| event.time)
                .collect::<Vec<_>>()
        };
        write("tokenizer.json", 1000);
        write("config.toml", 1001);
        assert_eq!(times(dir.path()), [1000.0, 1003.0]);
        write("config.toml", 5000);
        assert_eq!(times(dir.path()), [1000.0, 1003.0]);
        assert_eq!(
            times(&dir.path().join("elsewhere")),
            [1000.0, 1003.0],
            "as `report --tensorboard` writes it"
        );
        // As after a copy, which is newer: the old events tell.
        write("tokenizer.json", 6000);
        assert_eq!(times(dir.path()), [1000.0, 1003.0]);
        fs::remove_file(dir.path().join(NAME)).expect("it is there");
        assert_eq!(times(dir.path()), [5000.0, 5003.0]);
        let began_again = EventFile::create(&run, dir.path(), []).expect("there is room");
        write("config.toml", 7000);
        assert_eq!(
            read(began_again.path())[0].time.to_bits(),
            5000_f64.to_bits()
        );
        let began_again = EventFile::create(&run, dir.path(), []).expect("there is room");
        assert_eq!(
            read(began_again.path())[0].time.to_bits(),
            6000_f64.to_bits(),
            "its records are another training's"
        );
    }

    #[test]
    fn records_become_events_and_a_file_that_is_made_anew_has_each_once() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let run = RunDirectory::new(dir.path());
        fs::create_dir(dir.path().join("validation")).expect("there is room");
        fs::write(run.validation_path(20), "a dog\na cat\n").expect("there is room");
        let train = json!({"kind": "train", "step": 10, "loss": 2.5, "lr": 0.5, "seconds": 3.0});
        let valid = json!({"kind": "valid", "split": "valid", "step": 20, "bleu": 12.5, "signatures": {"bleu": "nrefs:1"}});
        for _ in 0..2 {
            let mut file = EventFile::create(&run, dir.path(), [&train]).expect("there is room");
            file.add(&valid).expect("there is room");
            let events = read(file.path());
            assert_eq!(
                events.iter().map(|event| event.step).collect::<Vec<_>>(),
                [0, 10, 20]
            );
            assert_eq!(events[0].version.as_deref(), Some("brain.Event:2"));
            assert!((events[1].time - 3.0).abs() < 1e-9 && (events[2].time - 3.0).abs() < 1e-9);
            let values = |event: &Event| event.summary.clone().expect("it has values").values;
            let numbers = [("train/loss", 2.5), ("train/lr", 0.5)];
            assert_eq!(
                values(&events[1]),
                numbers.map(|(tag, number)| Value::scalar(tag.to_owned(), number))
            );
            let text = Value::text("valid/translations".to_owned(), "a dog\n\na cat".to_owned());
            assert_eq!(
                values(&events[2]),
                [Value::scalar("valid/bleu".to_owned(), 12.5), text]
            );
        }
    }
}
