//! Translating in several processes: rank 0 reads and writes, and all translate.
//!
//! In each round rank 0 reads a portion for every rank. While there are enough, each rank has one to itself, and nobody waits for
//! more than the slowest of them; what is left at the end all share, batch by batch. Portions are those of a single process, and
//! so are their batches, so that the same text comes out.

use std::io::Write;
use std::sync::Arc;

use polyglow_train::TrainError;
use polyglow_train::group::alone;
use polyglow_train::predict::runner::Runner;
use polyglow_train::predict::translate::Request;
use polyglow_train::predict::unknown_words::UnknownWords;

use super::Input;
use super::results::Results;
use crate::activity::{Activity, Pace};

/// The portions of a round, and the number of the first line; at the end none.
type Round = (Vec<Vec<Request>>, usize);

/// Reads to the end of the input, of which so many lines are done, and writes what all have translated.
pub(super) fn lead(runner: &Runner, mut input: Input, mut results: Results, done: usize) -> anyhow::Result<()> {
    let group = Arc::clone(&runner.group);
    let (mut first_line, mut unknown) = (done + 1, UnknownWords::default());
    let (mut activity, pace) = (Activity::new(), Pace::from(done as u64));
    loop {
        let mut portions = Vec::new();
        while portions.len() < group.size() {
            let Some(portion) = input.portion()? else { break };
            portions.push(portion);
        }
        let (portions, _): Round = group.share(|| Ok((portions, first_line)))?;
        if portions.is_empty() {
            break;
        }
        for text in translate(runner, &results, &portions, first_line)? {
            results.out.write_all(&text)?;
        }
        results.out.flush()?;
        for request in portions.iter().flatten() {
            unknown.look_at(&runner.members[0].src, &request.text);
        }
        first_line += portions.iter().map(Vec::len).sum::<usize>();
        let done = first_line - 1;
        activity.show(format!("translated {done} lines, {:.1} lines/s", pace.per_second(done as u64)));
    }
    unknown.warn();
    input.finish()
}

/// Tells those who would help that there is nothing to do.
pub(super) fn dismiss(runner: &Runner) -> anyhow::Result<()> {
    let _: Round = runner.group.share(|| Ok((Vec::new(), 1)))?;
    Ok(())
}

/// Translates for rank 0 as long as it asks for it.
pub(super) fn help(runner: &Runner, results: &Results) -> anyhow::Result<()> {
    loop {
        let (portions, first_line): Round = runner.group.share(|| Err(TrainError::new("rank 0 reads")))?;
        if portions.is_empty() {
            return Ok(());
        }
        translate(runner, results, &portions, first_line)?;
    }
}

/// What is to be written for each portion, in every rank.
fn translate(
    runner: &Runner,
    results: &Results,
    portions: &[Vec<Request>],
    first_line: usize,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let group = &runner.group;
    let starts = portions.iter().scan(first_line, |next, portion| {
        *next += portion.len();
        Some(*next - portion.len())
    });
    let everybody = portions.len() == group.size();
    let mut portions = portions.iter().zip(starts);
    if !everybody {
        return portions.map(|(portion, start)| results.text(runner, portion, start, &mut |_| {})).collect();
    }
    let by_itself = Runner { group: alone(), ..runner.clone() };
    let own = portions.nth(group.rank()).map(|(portion, start)| results.text(&by_itself, portion, start, &mut |_| {}));
    Ok(group.gather(own.transpose()?.unwrap_or_default())?)
}
