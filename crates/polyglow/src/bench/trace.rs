//! A timeline of the parts of a measurement, in the trace event format that Perfetto and Chrome's
//! `about:tracing` open.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use polyglow_data::file;
use serde::Serialize;

/// A timeline: the parts of a measurement, each with its begin and its length.
#[derive(Debug)]
pub struct Trace {
    origin: Instant,
    events: Vec<Event>,
}

/// One part: a complete event.
#[derive(Debug, Serialize)]
struct Event {
    name: &'static str,
    ph: &'static str,
    /// Microseconds since the origin.
    ts: f64,
    /// Microseconds.
    dur: f64,
    pid: u32,
    tid: u32,
    args: Arguments,
}

/// Details that a viewer shows of an event.
#[derive(Debug, Serialize)]
struct Arguments {
    batch: String,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            events: Vec::new(),
        }
    }
}

impl Trace {
    /// Adds a part that lasted from `begin` to `end`, on a batch of that shape.
    pub(crate) fn add(
        &mut self,
        name: &'static str,
        begin: Instant,
        end: Instant,
        batch: &impl ToString,
    ) {
        let ts = self.micros(begin);
        let args = Arguments {
            batch: batch.to_string(),
        };
        self.events.push(Event {
            name,
            ph: "X",
            ts,
            dur: self.micros(end) - ts,
            pid: 1,
            tid: 1,
            args,
        });
    }

    /// Returns the microseconds from the origin to a time.
    fn micros(&self, time: Instant) -> f64 {
        time.duration_since(self.origin).as_secs_f64() * 1e6
    }

    /// Writes the timeline.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string(
            &serde_json::json!({ "traceEvents": self.events, "displayTimeUnit": "ms" }),
        )?;
        file::write(path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))
    }
}
