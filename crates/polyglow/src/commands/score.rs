//! `polyglow score`: log-probabilities of given translations.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use polyglow_data::lines::Lines;
use polyglow_data::pair::Pair;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_predict::group::Group;
use polyglow_predict::long_lines::LongLines;
use polyglow_predict::tasks::translation::teacher_forced;
use polyglow_predict::teacher_forcing::Forced;
use polyglow_train::run::runner;
use serde::Serialize;

use super::model::{LanguageArgs, ModelArgs};
use super::uses::check_translates;
use crate::activity::Activity;
use crate::failure::with_hint;

/// Pairs that are read, batched by length and scored together.
const PORTION: usize = 2048;

/// The arguments of `polyglow score`.
#[derive(Args)]
pub(crate) struct ScoreArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    languages: LanguageArgs,
    /// Source text, one sentence per line
    src: PathBuf,
    /// Its translations, as many lines
    tgt: PathBuf,
    /// Print one JSON object per line, with the log-probability of every token
    #[arg(long)]
    json: bool,
}

/// A line of JSON.
#[derive(Serialize)]
struct Record {
    line: usize,
    /// In nats.
    log_prob: f64,
    perplexity: f64,
    /// Whether a side is longer than the model, which has read its beginning.
    truncated: bool,
    /// Each token of the target, and EOS unless the target was truncated.
    tokens: Vec<TokenRecord>,
}

#[derive(Serialize)]
struct TokenRecord {
    /// As people read it; parts of a character stay apart, since each has its probability.
    token: String,
    /// Given the source and all tokens before it, in nats.
    log_prob: f32,
}

/// Prints the log-probability of each line of the target given its source, and on stderr the
/// perplexity of all. A pair that is longer than the model is marked, as what is printed is of its
/// beginning.
///
/// # Errors
/// There is no such run, checkpoint or device; a file cannot be read, or one has more lines than
/// the other (all pairs before that are scored), or both are empty.
pub(crate) fn run(args: &ScoreArgs, group: &Arc<dyn Group>) -> anyhow::Result<()> {
    let plan = args.model.open_for(&args.languages, Arc::clone(group))?;
    // Rank 0 reads for all: where a file is a pipe, it can be read once.
    let mut files = group
        .is_first()
        .then(|| anyhow::Ok((Lines::open(&args.src)?, Lines::open(&args.tgt)?)))
        .transpose()?;
    let models = args.model.load(&plan)?;
    check_translates(&models)?;
    let runner = runner(models, &plan)?;
    let mut out: Box<dyn Write> = if group.is_first() {
        Box::new(io::stdout().lock())
    } else {
        Box::new(io::sink())
    };
    let mut activity = Activity::new();
    let mut total = Total::default();
    let mut long = LongLines::default();
    loop {
        let (read, error) = match &mut files {
            Some((src, tgt)) => portion(src, tgt),
            None => (Vec::new(), Ok(())),
        };
        let pairs = group.share(|| Ok(read))?;
        for (pair, forced) in pairs.iter().zip(teacher_forced(&runner, &pairs)?) {
            total.add(&forced);
            let line = total.pairs;
            if args.json {
                let record = record(line, pair, &forced, &runner.tgt)?;
                writeln!(out, "{}", serde_json::to_string(&record)?)?;
            } else {
                let mark = if forced.truncated { "\ttruncated" } else { "" };
                writeln!(out, "{:.6}{mark}", forced.log_prob())?;
            }
            long.note(line as u64, forced.truncated);
        }
        out.flush()?;
        // The scores of the pairs before an error are printed first.
        error?;
        if pairs.is_empty() {
            break;
        }
        activity.show(format!("{} pairs scored", total.pairs));
    }
    drop(activity);
    if let Some(message) = long.message("pair", runner.longest, "scored") {
        tracing::warn!("`{}`: {message}", args.src.display());
    }
    if total.pairs == 0 {
        let error = anyhow!(
            "`{}` and `{}` are empty: there is nothing to score",
            args.src.display(),
            args.tgt.display()
        );
        return Err(with_hint(
            error,
            "give a file of sentences and a file of their translations",
        ));
    }
    total.report();
    Ok(())
}

/// The sums over all pairs.
#[derive(Default)]
struct Total {
    pairs: usize,
    /// Target tokens, with EOS.
    tokens: usize,
    log_prob: f64,
}

impl Total {
    fn add(&mut self, forced: &Forced) {
        self.pairs += 1;
        self.tokens += forced.log_probs.len();
        self.log_prob += forced.log_prob();
    }

    /// Logs the counts and the perplexity.
    fn report(&self) {
        let perplexity = (-self.log_prob / self.tokens as f64).exp();
        tracing::info!(
            "{} pairs, {} target tokens with end marks, perplexity {perplexity:.4}",
            self.pairs,
            self.tokens
        );
    }
}

/// The next pairs, and an error if the one after them cannot be read.
fn portion(src: &mut Lines, tgt: &mut Lines) -> (Vec<Pair>, anyhow::Result<()>) {
    let mut pairs = Vec::new();
    while pairs.len() < PORTION {
        match next_pair(src, tgt) {
            Ok(Some(pair)) => pairs.push(pair),
            Ok(None) => break,
            Err(error) => return (pairs, Err(error)),
        }
    }
    (pairs, Ok(()))
}

fn next_pair(src: &mut Lines, tgt: &mut Lines) -> anyhow::Result<Option<Pair>> {
    let left = src.next().transpose()?;
    let right = tgt.next().transpose()?;
    if left.is_some() != right.is_some() {
        let (ended, other) = if left.is_none() {
            (src, tgt)
        } else {
            (tgt, src)
        };
        let error = anyhow!(
            "`{}` ends after line {}, but `{}` has more lines",
            ended.path().display(),
            ended.line(),
            other.path().display()
        );
        return Err(with_hint(
            error,
            "line n of one file must translate line n of the other",
        ));
    }
    Ok(left.zip(right).map(|(src, tgt)| Pair { src, tgt }))
}

fn record(
    line: usize,
    pair: &Pair,
    forced: &Forced,
    tokenizer: &Tokenizer,
) -> anyhow::Result<Record> {
    let mut ids = tokenizer.encode(&pair.tgt)?;
    ids.push(tokenizer.special().eos);
    let tokens = ids
        .into_iter()
        .zip(&forced.log_probs)
        .map(|(id, &log_prob)| TokenRecord {
            token: tokenizer.shown(id),
            log_prob,
        });
    Ok(Record {
        line,
        log_prob: forced.log_prob(),
        perplexity: (-forced.log_prob() / forced.log_probs.len() as f64).exp(),
        truncated: forced.truncated,
        tokens: tokens.collect(),
    })
}
