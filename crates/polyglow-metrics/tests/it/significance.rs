//! Paired tests against sacreBLEU's, digit for digit.

use std::fs;
use std::path::Path;

use polyglow_metrics::significance::{
    Comparison, Confidence, baseline_confidence, bootstrap_confidence, paired_bootstrap,
    paired_randomization,
};
use polyglow_metrics::{Metric, Score, Statistics, corpus_score, segment_statistics};
use serde::Deserialize;

use crate::arguments::{BleuArguments, ChrfArguments, TerArguments};
use crate::golden::assert_close;

/// A baseline and a system, with what sacreBLEU's tests say about them.
#[derive(Deserialize)]
pub(crate) struct GoldenTests {
    systems: [Vec<String>; 2],
    references: Vec<Vec<String>>,
    num_samples: usize,
    num_trials: usize,
    seed: u64,
    tests: Vec<GoldenTest>,
}

#[derive(Deserialize)]
struct GoldenTest {
    #[serde(flatten)]
    arguments: Arguments,
    line: String,
    bootstrap: Outcome,
    randomization: Outcome,
}

#[derive(Deserialize)]
#[serde(tag = "metric", content = "options", rename_all = "lowercase")]
enum Arguments {
    Bleu(BleuArguments),
    Chrf(ChrfArguments),
    Ter(TerArguments),
}

#[derive(Deserialize)]
struct Outcome {
    signature: String,
    results: [Expected; 2],
}

/// The fields of sacreBLEU's `Result`.
#[derive(Deserialize)]
struct Expected {
    score: f64,
    p_value: Option<f64>,
    mean: f64,
    ci: f64,
}

impl GoldenTests {
    /// Compares every p-value, interval, signature and line with ours.
    pub(crate) fn check(&self, name: &str) {
        for test in &self.tests {
            match &test.arguments {
                Arguments::Bleu(bleu) => self.check_metric(name, &bleu.options(), test),
                Arguments::Chrf(chrf) => self.check_metric(name, &chrf.options(), test),
                Arguments::Ter(ter) => self.check_metric(name, &ter.options(), test),
            }
        }
    }

    fn check_metric(&self, name: &str, metric: &impl Metric, test: &GoldenTest) {
        let (num_samples, num_trials, seed) = (self.num_samples, self.num_trials, self.seed);
        let signature = metric.signature(self.references.len());
        let signature = signature.resampled(Some(num_samples), None, seed);
        let context = format!("{name}: {signature}");
        let count = |lines: &Vec<String>| {
            segment_statistics(metric, lines, &self.references).expect("valid input")
        };
        let [baseline, system] = self.systems.each_ref().map(count);

        let line = self.line_with_confidence(metric, &baseline);
        assert_eq!(without_version(&line), test.line, "{context}");

        let outcome = &test.bootstrap;
        assert_eq!(without_version(&signature.to_string()), outcome.signature);
        let confidence = baseline_confidence(metric, &baseline, num_samples, seed);
        assert_confidence(
            confidence.expect("valid input"),
            &outcome.results[0],
            &context,
        );
        let comparison = paired_bootstrap(metric, &baseline, &system, num_samples, seed);
        assert_comparison(
            comparison.expect("valid input"),
            &outcome.results[1],
            &context,
        );

        let outcome = &test.randomization;
        let signature = metric.signature(self.references.len()).resampled(
            Some(num_samples),
            Some(num_trials),
            seed,
        );
        let context = format!("{name}: {signature}");
        assert_eq!(without_version(&signature.to_string()), outcome.signature);
        let resamples = Some(num_samples);
        let comparison =
            paired_randomization(metric, &baseline, &system, num_trials, resamples, seed);
        assert_comparison(
            comparison.expect("valid input"),
            &outcome.results[1],
            &context,
        );
    }

    /// The line that `sacrebleu --confidence` prints.
    fn line_with_confidence(&self, metric: &impl Metric, baseline: &Statistics) -> String {
        let confidence = bootstrap_confidence(metric, baseline, self.num_samples, self.seed);
        let signature = metric.signature(self.references.len()).resampled(
            Some(self.num_samples),
            None,
            self.seed,
        );
        let score = corpus_score(metric, &self.systems[0], &self.references).expect("valid input");
        let confidence = confidence.expect("valid input");
        let line = format!(
            "{}|{signature} = {:.6} ({confidence:.6}) {}",
            score.name(),
            score.value(),
            score.details()
        );
        line.trim_end().to_owned()
    }
}

fn without_version(text: &str) -> String {
    let version = format!("|version:polyglow-metrics-{}", env!("CARGO_PKG_VERSION"));
    text.replace(&version, "")
}

fn assert_comparison(ours: Comparison, theirs: &Expected, context: &str) {
    assert_close(ours.score, theirs.score, context);
    assert_eq!(Some(ours.p_value), theirs.p_value, "{context}");
    assert_confidence(
        ours.confidence.expect("resamples were drawn"),
        theirs,
        context,
    );
}

fn assert_confidence(ours: Confidence, theirs: &Expected, context: &str) {
    assert_close(ours.mean, theirs.mean, context);
    assert_close(ours.half_width, theirs.ci, context);
}

#[test]
fn every_committed_test_has_the_p_values_of_sacrebleu() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/significance");
    for name in ["english", "random"] {
        let file = fs::read(folder.join(format!("{name}.json"))).unwrap();
        let tests: GoldenTests = serde_json::from_slice(&file).unwrap();
        assert_eq!(tests.tests.len(), 6);
        tests.check(name);
    }
}
