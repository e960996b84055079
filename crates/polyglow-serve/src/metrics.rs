//! What the server counts, as Prometheus reads it.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Seconds of an answer, in steps of about three.
const SECONDS: [f64; 10] = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];
/// Lines of a batch.
const LINES: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Paths that translate, and the statuses of an alarm.
const TRANSLATING: [&str; 2] = ["/translate", "/v1/translations"];
const FAILURES: [u16; 3] = [500, 503, 504];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    path: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Path {
    path: String,
}

/// All counts.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Path, Histogram>,
    in_work: Gauge,
    characters: Counter,
    batches: Histogram,
    busy: Counter<f64, std::sync::atomic::AtomicU64>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("polyglow");
        let requests = Family::<Answered, Counter>::default();
        let seconds = Family::<Path, Histogram>::new_with_constructor(|| Histogram::new(SECONDS));
        let batches = Histogram::new(LINES);
        let (in_work, characters, busy) =
            (Gauge::default(), Counter::default(), Counter::default());
        registry.register(
            "requests",
            "Requests that were answered, by path and status",
            requests.clone(),
        );
        registry.register(
            "request_seconds",
            "Time until a request was answered, by path",
            seconds.clone(),
        );
        registry.register(
            "requests_in_work",
            "Requests that are not answered yet",
            in_work.clone(),
        );
        registry.register(
            "characters",
            "Characters that were asked to be translated",
            characters.clone(),
        );
        registry.register(
            "batch_lines",
            "Sentences that were translated together",
            batches.clone(),
        );
        registry.register(
            "busy_seconds",
            "Time in which the models translated",
            busy.clone(),
        );
        // From 0: a count that begins with the first failure has not risen.
        for path in TRANSLATING {
            for status in FAILURES {
                let _ = requests.get_or_create(&Answered {
                    path: path.to_owned(),
                    status,
                });
            }
        }
        Self {
            registry,
            requests,
            seconds,
            in_work,
            characters,
            batches,
            busy,
        }
    }

    /// A request has come.
    pub(crate) fn begin(&self) {
        self.in_work.inc();
    }

    /// A request has been answered.
    pub(crate) fn end(&self, path: &str, status: u16, elapsed: Duration) {
        self.in_work.dec();
        self.requests
            .get_or_create(&Answered {
                path: path.to_owned(),
                status,
            })
            .inc();
        self.seconds
            .get_or_create(&Path {
                path: path.to_owned(),
            })
            .observe(elapsed.as_secs_f64());
    }

    /// So much text is to be translated.
    pub(crate) fn text(&self, characters: usize) {
        self.characters.inc_by(characters as u64);
    }

    /// So many sentences were translated together.
    pub(crate) fn batch(&self, lines: usize, elapsed: Duration) {
        self.batches.observe(lines as f64);
        self.busy.inc_by(elapsed.as_secs_f64());
    }

    /// The text that Prometheus reads.
    ///
    /// # Errors
    /// None: a text takes everything.
    pub(crate) fn text_format(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
