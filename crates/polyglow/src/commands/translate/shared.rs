//! Translating in several processes: rank 0 reads and writes, and all translate.
//!
//! In each round rank 0 reads a portion for every rank. While there are enough, each rank has one
//! to itself, and waits for no more than the slowest of them; the rest at the end all
//! share, batch by batch. Portions are those of a single process, and so are their batches, so that
//! the same text comes out.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use polyglow_predict::group::alone;
use polyglow_predict::runner::Runner;
use polyglow_predict::translate::Request;
use polyglow_predict::unknown_words::UnknownWords;
use polyglow_train::{Result, TrainError};

use super::input::Input;
use super::results::Results;
use super::sentences::SeveralSentences;
use crate::activity::{Activity, Pace};

/// The portions of a round, and the number of the first line; at the end none.
type Round = (Vec<Vec<Request>>, usize);

/// Reads to the end of the input, after the `done` lines of an earlier command, and writes what all
/// have translated.
pub(super) fn lead(
    runner: &Runner,
    mut input: Input,
    mut results: Results,
    mut several: SeveralSentences,
    done: usize,
) -> anyhow::Result<()> {
    let group = Arc::clone(&runner.group);
    let mut first_line = done + 1;
    let mut unknown = UnknownWords::default();
    let mut activity = Activity::new();
    let pace = Pace::from(done as u64);
    loop {
        // The lines before one that cannot be read are translated before the error is reported.
        let mut portions = Vec::new();
        let mut failed = None;
        while portions.len() < group.size() && failed.is_none() {
            match input.portion() {
                Ok(Some(portion)) => portions.push(portion),
                Ok(None) => break,
                Err(error) => failed = Some(error),
            }
        }
        let (portions, _): Round = group.share(|| Ok((portions, first_line)))?;
        for text in translate(runner, &results, &portions, first_line)? {
            results.out.write_all(&text?)?;
            results.out.flush()?;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if portions.is_empty() {
            break;
        }
        for request in portions.iter().flatten() {
            unknown.look_at(&runner.members[0].src, &request.text);
        }
        for portion in &portions {
            several.look_at(portion, first_line);
            first_line += portion.len();
        }
        let done = first_line - 1;
        activity.show(format!(
            "translated {done} lines, {:.1} lines/s",
            pace.per_second(done as u64)
        ));
    }
    unknown.warn();
    several.warn(input.lines.path());
    input.finish()
}

/// Translates for rank 0 as long as it asks for it.
pub(super) fn help(runner: &Runner, results: &Results) -> anyhow::Result<()> {
    loop {
        // Rank 0 may read from a pipe, whose next lines may take any time to come.
        let limit = runner.group.wait_at_most(Duration::MAX);
        let (portions, first_line): Round = runner
            .group
            .share(|| Err(TrainError::new("rank 0 reads")))?;
        runner.group.wait_at_most(limit);
        translate(runner, results, &portions, first_line)?;
        if portions.is_empty() {
            return Ok(());
        }
    }
}

/// Returns the text to write for each portion, or why it cannot be made, in every rank.
fn translate(
    runner: &Runner,
    results: &Results,
    portions: &[Vec<Request>],
    first_line: usize,
) -> Result<Vec<Result<Vec<u8>>>> {
    let group = &runner.group;
    let starts = portions.iter().scan(first_line, |next, portion| {
        *next += portion.len();
        Some(*next - portion.len())
    });
    let mut portions_at = portions.iter().zip(starts);
    if portions.len() < group.size() {
        return Ok(portions_at
            .map(|(portion, start)| results.text(runner, portion, start, &mut |_| {}))
            .collect());
    }
    let mut by_itself = runner.clone();
    by_itself.group = alone();
    let own = portions_at.nth(group.rank());
    let text = own.map(|(portion, start)| results.text(&by_itself, portion, start, &mut |_| {}));
    group.gather_results(text.unwrap_or_else(|| Ok(Vec::new())))
}
