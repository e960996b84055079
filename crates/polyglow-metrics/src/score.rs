//! How a score is written down.

use std::fmt;

use crate::signature::Signature;
use crate::significance::Confidence;

/// A number that a metric gives, with the name and the details that sacreBLEU prints around it.
pub trait Score: fmt::Display {
    /// What the metric is called with these options, such as `BLEU` or `chrF2++`.
    fn name(&self) -> String;

    /// The score itself, usually between 0 and 100.
    fn value(&self) -> f64;

    /// What the score is made of, in sacreBLEU's words; empty where it prints nothing.
    fn details(&self) -> String {
        String::new()
    }

    /// One line as sacreBLEU prints it, `name|signature = score details`, with `width` decimals.
    fn line(&self, signature: &Signature, width: usize) -> String {
        join_line(self, signature, &format!("{:.width$}", self.value()))
    }

    /// The same line with a confidence interval: `name|signature = score (μ = mean ± half width) details`.
    fn line_with_confidence(&self, signature: &Signature, confidence: &Confidence, width: usize) -> String {
        let value = format!("{:.width$} ({confidence:.width$})", self.value());
        join_line(self, signature, &value)
    }
}

fn join_line(score: &(impl Score + ?Sized), signature: &Signature, value: &str) -> String {
    let line = format!("{}|{signature} = {value} {}", score.name(), score.details());
    line.trim_end().to_owned()
}

/// Writes `name = score details`, with two decimals if the format string does not ask for another precision.
pub(crate) fn write_score(score: &impl Score, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let width = formatter.precision().unwrap_or(2);
    write!(formatter, "{} = {:.width$}", score.name(), score.value())?;
    match score.details().as_str() {
        "" => Ok(()),
        details => write!(formatter, " {details}"),
    }
}
