//! The trait of all scores, and how they are printed.

use std::fmt;

/// A score with the name and the details that sacreBLEU prints around it.
///
/// `Display` writes `name = score details`, with two decimals unless the format string gives a
/// precision.
pub trait Score: fmt::Display {
    /// Returns the metric's title with its options, such as `BLEU` or `chrF2++`.
    fn name(&self) -> String;

    /// Returns the score itself: 0 to 100, and more for TER.
    fn value(&self) -> f64;

    /// Returns the numbers that the score is computed from, in sacreBLEU's words; empty if it prints
    /// none.
    fn details(&self) -> String {
        String::new()
    }
}

/// The `Display` of every score.
pub(crate) fn write_score(score: &impl Score, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let width = formatter.precision().unwrap_or(2);
    write!(formatter, "{} = {:.width$}", score.name(), score.value())?;
    match score.details().as_str() {
        "" => Ok(()),
        details => write!(formatter, " {details}"),
    }
}
