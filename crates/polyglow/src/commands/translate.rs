//! `polyglow translate`: lines in, as many lines out.

mod input;
mod interactive;
mod output;
mod partial;
mod results;
mod sentences;
mod shared;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use polyglow_model::search::SearchRequest;
use polyglow_predict::group::Group;
use polyglow_predict::runner::Runner;
use polyglow_predict::unknown_words::UnknownWords;
use polyglow_train::Plan;
use polyglow_train::run::{TrainedModel, runner, sha256};

use super::counts;
use super::model::{LanguageArgs, ModelArgs};
use super::uses::{check_attends, check_translates};
use crate::activity::{Activity, Pace};
use crate::failure::{usage, with_hint};
use input::Input;
use output::Output;
use results::Results;
use sentences::SeveralSentences;

/// Lines that are read, batched by length and translated together.
const PORTION: usize = 2048;

/// The arguments of `polyglow translate`.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line, independent of the others"
)]
#[derive(Args)]
pub(crate) struct TranslateArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    languages: LanguageArgs,
    /// File to translate, one sentence per line [default: stdin]; for a single sentence:
    /// `echo '...' | polyglow translate RUN`
    file: Option<PathBuf>,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Go on where the output of the same command with the same input ended that was killed, and
    /// keep what is written if this one is: needs `--output`, whose file has another name until it
    /// is complete
    #[arg(long, requires = "output")]
    resume: bool,
    /// Translations per line, at most the beam size
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = counts())]
    n_best: usize,
    /// `text`: the translations alone; `tsv`: line, rank, score, log-probability, text; `jsonl`:
    /// one JSON object per line
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// File with the beginning of each translation, one line per input line; blank for none
    #[arg(long, value_name = "FILE")]
    prefix: Option<PathBuf>,
    /// File with phrases that each translation must contain, separated by tabs, one line per input
    /// line; blank for none
    #[arg(long, value_name = "FILE")]
    constraints: Option<PathBuf>,
    /// Replace each unknown word of a translation by the source word with the most attention
    #[arg(long)]
    replace_unknown: bool,
    /// Translate each sentence of a line by itself; what is between sentences stays, and as many
    /// lines come out as go in
    #[arg(long, conflicts_with_all = ["prefix", "constraints"])]
    split_sentences: bool,
    /// Read lines from the terminal, with line editing and a history
    #[arg(short, long, conflicts_with_all = ["file", "output", "prefix", "constraints"])]
    interactive: bool,
}

impl TranslateArgs {
    /// The translation of a file into a table, in the form of `--format tsv`, which continues where
    /// an earlier one was ended.
    pub(super) fn resumed_table(
        model: ModelArgs,
        languages: LanguageArgs,
        file: PathBuf,
        table: PathBuf,
    ) -> Self {
        Self {
            model,
            languages,
            file: Some(file),
            output: Some(table),
            resume: true,
            n_best: 1,
            format: Format::Tsv,
            prefix: None,
            constraints: None,
            replace_unknown: false,
            split_sentences: false,
            interactive: false,
        }
    }

    /// Whether translations go to standard output.
    pub(crate) fn prints_results(&self) -> bool {
        self.output.is_none()
    }
}

/// The format of translations. The help of `--format` says what each one holds.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Tsv,
    Jsonl,
}

/// Checks that the models can do what the options request.
fn check(args: &TranslateArgs, models: &[TrainedModel]) -> anyhow::Result<()> {
    check_translates(models)?;
    if args.replace_unknown {
        check_attends(&models[0])?;
    }
    Ok(())
}

/// Translates every line of the input and writes as many results, in their order.
///
/// # Errors
/// There is no such run, checkpoint or device; the input cannot be read or is not UTF-8; a prefix
/// or a constraint cannot be met; the output cannot be written.
pub(crate) fn run(args: &TranslateArgs, group: &Arc<dyn Group>) -> anyhow::Result<()> {
    let plan = args.model.open_for(&args.languages, Arc::clone(group))?;
    let search = SearchRequest {
        scores: args.format != Format::Text,
        ..args.model.search(&plan, args.n_best)?
    };
    let language = plan
        .config
        .data
        .languages()
        .map_or("", |(src, _)| src)
        .to_owned();
    if args.interactive {
        check_alone(&**group)?;
        let models = args.model.load(&plan)?;
        check(args, &models)?;
        let runner = runner(models, &plan)?;
        let mut results = Results::new(Box::new(io::stdout()), args, search, &language);
        return interactive::run(&runner, &mut results, plan.config.data.languages()?.0);
    }
    if !group.is_first() {
        let models = args.model.load(&plan)?;
        check(args, &models)?;
        return shared::help(
            &runner(models, &plan)?,
            &Results::new(Box::new(io::sink()), args, search, &language),
        );
    }
    let mut input = Input::open(args)?;
    if input.typed {
        tracing::info!("reading from the terminal, one sentence per line; Ctrl-D ends");
    }
    let models = args.model.load(&plan)?;
    check(args, &models)?;
    let decided_by = if args.resume {
        decided_by(args, &plan, &search, &models)?
    } else {
        String::new()
    };
    let runner = runner(models, &plan)?;
    if args.output.is_some() {
        input.probe()?;
    }
    let output = Output::create(args, &decided_by)?;
    if output.lines() > 0 {
        tracing::info!(
            "{} lines are translated; continuing after them",
            output.lines()
        );
        input.skip(output.lines())?;
    }
    let shown = matches!(output, Output::Stdout) && io::stdout().is_terminal();
    let results = Results::new(output.writer()?, args, search, &language);
    let several = SeveralSentences::new(&args.model.run, &language, args.split_sentences);
    let translated = if group.is_alone() {
        translate(&runner, input, results, several, shown, output.lines())
    } else {
        shared::lead(&runner, input, results, several, output.lines())
    };
    match translated {
        Ok(()) => output.finish(),
        Err(error) => Err(output.keep(error)),
    }
}

/// Refuses several processes, of which only one has the terminal.
///
/// # Errors
/// A launcher has started several (exit code 2).
fn check_alone(group: &dyn Group) -> anyhow::Result<()> {
    if group.is_alone() {
        return Ok(());
    }
    let error = usage(anyhow!(
        "`--interactive` is for one process, and a launcher has started {}",
        group.size()
    ));
    Err(with_hint(error, "leave `mpirun` out"))
}

/// Returns a short name of all that output depends on besides the input: the weights, the search,
/// the batches, the format.
fn decided_by(
    args: &TranslateArgs,
    plan: &Plan,
    search: &SearchRequest,
    models: &[TrainedModel],
) -> anyhow::Result<String> {
    let weights: Vec<_> = models
        .iter()
        .map(|model| (model.checkpoint.model_hash(), model.checkpoint.state.step))
        .collect();
    let files = [&args.prefix, &args.constraints];
    let replace_and_split = (args.replace_unknown, args.split_sentences);
    let options = (
        args.format as usize,
        args.n_best,
        replace_and_split,
        &args.model.checkpoint,
        files,
    );
    let decided_by = (
        weights,
        plan.config.search.for_request(search, usize::MAX)?,
        plan.max_tokens,
        plan.config.seed,
        options,
    );
    let mut bytes = serde_json::to_vec(&decided_by)?;
    let tags = plan.config.data.tags();
    if !tags.is_empty() {
        bytes.extend(serde_json::to_vec(&tags)?);
    }
    let mut hash = sha256(&bytes);
    hash.truncate(8);
    Ok(hash)
}

/// Translates to the end of the input, after the `done` lines that an earlier command translated.
/// If `shown`, translations are printed to a terminal, and no other progress is.
fn translate(
    runner: &Runner,
    mut input: Input,
    mut results: Results,
    mut several: SeveralSentences,
    shown: bool,
    done: usize,
) -> anyhow::Result<()> {
    let mut watch = (!input.typed && io::stderr().is_terminal() && !shown)
        .then(|| Watch::new(input.count(), done));
    let mut first_line = done + 1;
    let mut unknown = UnknownWords::default();
    while let Some(requests) = input.portion()? {
        let before = first_line - 1;
        results.write(runner, &requests, first_line, &mut |done| {
            if let Some(watch) = &mut watch {
                watch.show(before + done);
            }
        })?;
        for request in &requests {
            unknown.look_at(&runner.members[0].src, &request.text);
        }
        several.look_at(&requests, first_line);
        if input.typed {
            unknown.warn();
            several.warn(input.lines.path());
        }
        first_line += requests.len();
    }
    drop(watch);
    unknown.warn();
    several.warn(input.lines.path());
    if first_line == 1 && !input.typed {
        tracing::warn!(
            "`{}` is empty: 0 lines translated",
            input.lines.path().display()
        );
    }
    input.finish()
}

/// The progress of a translation, on stderr.
struct Watch {
    activity: Activity,
    pace: Pace,
    /// The lines of the input, where they could be counted.
    all: Option<usize>,
}

impl Watch {
    fn new(all: Option<usize>, done: usize) -> Self {
        Self {
            activity: Activity::new(),
            pace: Pace::from(done as u64),
            all,
        }
    }

    fn show(&mut self, done: usize) {
        self.activity.show(self.words(done));
    }

    fn words(&self, done: usize) -> String {
        let rate = self.pace.per_second(done as u64);
        match self.all {
            Some(all) => {
                let left = self.pace.time_left(done as u64, all as u64);
                format!("translated {done} of {all} lines, {rate:.1} lines/s, left {left}")
            }
            None => format!("translated {done} lines, {rate:.1} lines/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_the_rate_and_the_time_left() {
        let words = Watch::new(Some(60), 0).words(20);
        assert!(
            words.starts_with("translated 20 of 60 lines, ") && words.contains(" lines/s, left 0s"),
            "{words}"
        );
        let words = Watch::new(None, 0).words(20);
        assert!(
            words.starts_with("translated 20 lines, ") && words.ends_with(" lines/s"),
            "{words}"
        );
    }
}
