//! The measurements of `polyglow bench`: how fast each part of the program is on this machine. What
//! is public here is for `polyglow-bench`, which shares it.

mod args;
mod batches;
mod data;
mod machine;
mod material;
mod search;
mod step;
mod trace;

use std::io::{self, Write};

use serde::Serialize;

pub(crate) use args::ensure_writes_text;
pub use args::{ModelArgs, parse_shape, repetitions, vocab_sizes};
pub use batches::{Batches, VOCAB_SIZE};
pub(crate) use data::{DataReport, Operations, bench_data};
pub(crate) use machine::Machine;
pub use material::{RandomPairs, every_batch};
pub(crate) use search::{SearchReport, bench_search};
pub use step::StepTimes;
pub(crate) use step::{BucketReport, StepBench, StepReport};
pub use trace::Trace;

/// Prints a report to stdout, as JSON or as `text` writes it.
///
/// # Errors
/// Stdout cannot be written to.
pub fn print_report<R: Serialize>(
    as_json: bool,
    report: &R,
    text: fn(&mut dyn Write, &R) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        let json = serde_json::to_string_pretty(report)?;
        return Ok(writeln!(out, "{json}")?);
    }
    Ok(text(&mut out, report)?)
}

/// Times of repeated runs of the same work, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Half of them are below it.
    pub(crate) median: f64,
    /// The shortest.
    pub(crate) least: f64,
    /// The longest.
    pub(crate) most: f64,
}

impl Spread {
    /// The spread of these times; zeros if there are none.
    pub(crate) fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let [Some(shortest), Some(longest)] = [seconds.first(), seconds.last()] else {
            return Self::default();
        };
        // The median of an even count is the mean of the two in the middle.
        let last = seconds.len() - 1;
        Self {
            median: f64::midpoint(seconds[last / 2], seconds[last.div_ceil(2)]),
            least: *shortest,
            most: *longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_any_order() {
        assert_eq!(
            Spread::of(vec![3.0, 1.0, 2.0]),
            Spread {
                median: 2.0,
                least: 1.0,
                most: 3.0
            }
        );
        assert_eq!(
            Spread::of(vec![4.0, 1.0]),
            Spread {
                median: 2.5,
                least: 1.0,
                most: 4.0
            }
        );
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
