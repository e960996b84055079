//! The metrics of the server, in the format of Prometheus.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The buckets of seconds until an answer, each about three times the one before.
const SECONDS: [f64; 10] = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];
/// The buckets of lines of a batch, up to the largest batch.
const LINES: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// The paths that translate.
const TRANSLATING: [&str; 2] = ["/translate", "/v1/translations"];
/// The statuses that operators set alarms for.
const FAILURES: [u16; 3] = [500, 503, 504];

/// The labels of a count of requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    path: String,
    status: u16,
}

/// The label of a histogram. It has no status: each label multiplies the buckets that are stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabel {
    path: String,
}

/// The metrics, each under the name that it is registered by.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<PathLabel, Histogram>,
    in_work: Gauge,
    characters: Counter,
    batches: Histogram,
    busy: Counter<f64, std::sync::atomic::AtomicU64>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("polyglow");
        let requests = Family::<RequestLabels, Counter>::default();
        let seconds =
            Family::<PathLabel, Histogram>::new_with_constructor(|| Histogram::new(SECONDS));
        let batches = Histogram::new(LINES);
        let in_work = Gauge::default();
        let characters = Counter::default();
        let busy = Counter::default();
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
        // From 0: Prometheus sees no increase in a counter that first appears with the value 1, so
        // an alarm would miss the first failure.
        for path in TRANSLATING {
            for status in FAILURES {
                let _ = requests.get_or_create(&RequestLabels {
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

    /// Counts a request that has arrived.
    pub(crate) fn begin(&self) {
        self.in_work.inc();
    }

    /// Counts a request that has been answered, or whose client has disconnected, after `elapsed`.
    pub(crate) fn end(&self, path: &str, status: u16, elapsed: Duration) {
        self.in_work.dec();
        self.requests
            .get_or_create(&RequestLabels {
                path: path.to_owned(),
                status,
            })
            .inc();
        self.seconds
            .get_or_create(&PathLabel {
                path: path.to_owned(),
            })
            .observe(elapsed.as_secs_f64());
    }

    /// Counts the characters of texts that are to be translated.
    pub(crate) fn texts(&self, texts: &[String]) {
        let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
        self.characters.inc_by(characters as u64);
    }

    /// Counts a batch of lines that took `elapsed`.
    pub(crate) fn batch(&self, lines: usize, elapsed: Duration) {
        self.batches.observe(lines as f64);
        self.busy.inc_by(elapsed.as_secs_f64());
    }

    /// Returns the metrics as the text that Prometheus reads.
    ///
    /// # Errors
    /// There are none: writing to a text does not fail.
    pub(crate) fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
