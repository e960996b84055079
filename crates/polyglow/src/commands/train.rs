//! `polyglow train`: from a config to a trained model.

mod fork;
mod resume;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use burn::tensor::Device;
use polyglow_data::config::Split;
use polyglow_data::corpus::{Corpus, Pair};
use polyglow_data::example::Filter;
use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::{Stage, Tokenizers};
use polyglow_model::Task;

use crate::activity::Activity;
use crate::config::Config;
use crate::evaluation::{Evaluation, check_labels, evaluate};
use crate::failure::with_hint;
use crate::forced::check_words;
use crate::inspection::{Subject, find_max_tokens, inspect};
use crate::run_directory::{RunDirectory, check_beam, translator};
use crate::train::metrics::Metrics;
use crate::train::{self, Ending, MaxTokens, Screen, Setup, Stop, TextHashes};
use crate::{device, logging};

use fork::Origin;
use resume::{check_same_config, check_same_text, text_hashes};

/// Translations that are shown at the end.
const SAMPLES: usize = 5;

/// What `polyglow train` is asked to do.
#[derive(Clone, Debug)]
pub struct TrainArgs {
    /// The config file.
    pub config: PathBuf,
    /// Keys to override, as `section.key=value`.
    pub overrides: Vec<String>,
    /// Device to run on, in place of the config's.
    pub device: Option<String>,
    /// Directory of the run, in place of `runs/<name of the config>`.
    pub run: Option<PathBuf>,
    /// Directory of a new run that starts from the weights of `run`.
    pub fork: Option<PathBuf>,
    /// Which weights a fork starts from.
    pub checkpoint: String,
    /// Whether to show a dashboard in the terminal.
    pub tui: bool,
}

/// Prepares the data, trains to the end or until it is asked to stop, and tests the result.
///
/// The run's directory is made once everything that can be checked without training is known to be right. The same
/// command goes on where a run was stopped.
///
/// # Errors
/// The config is wrong (exit code 2) or another than the run's; the device is not there; the data cannot be read; the
/// disk fails; a loss is not finite.
pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let mut config = Config::load(&args.config, &args.overrides)?;
    if let Some(device) = &args.device {
        config.device.clone_from(device);
    }
    let screen = if args.tui { Screen::dashboard()? } else { Screen::Lines };
    let device = device::open(&config.device)?;
    train::training_device(&config, &device)?;
    let text = Text::open(&config)?;
    let named = RunDirectory::new(args.run.clone().unwrap_or_else(|| default_run(&args.config)));
    let run = args.fork.as_ref().map_or_else(|| named.clone(), RunDirectory::new);
    run.check_is_ours()?;
    let origin = match args.fork {
        Some(_) => Origin::find(&named, &args.checkpoint, &run, &config)?,
        None => fork::check_is_no_fork(&run).map(|()| None)?,
    };
    let lock = run.lock()?;
    check_leaves_nothing_behind(&run)?;
    settle_batches(&run, &mut config)?;
    check_same_config(&run, &config)?;
    let prepared = prepare(&run, origin.as_ref(), &config, &text)?;
    let Prepared { tokenizers, cache, hashes } = &prepared;
    if config.train.max_tokens == MaxTokens::Auto {
        let found = find_max_tokens(&config, tokenizers, cache, &device)?;
        tracing::info!(
            "train.max_tokens = {found}: what fits the memory of a GPU, or on a CPU the default; this run keeps it"
        );
        config.train.max_tokens = MaxTokens::Tokens(found);
        run.create(&config)?;
    }
    if run.checkpoints(1).steps()?.is_empty() {
        let subject = Subject { config: &config, train: &text.train, cache, tokenizers, device: &device };
        say_and_keep(&run, &subject)?;
        if let Some(origin) = origin {
            origin.plant(&run, &config, tokenizers, hashes, &device)?;
        }
    }
    let setup = Setup {
        config: &config,
        run: &run,
        lock: &lock,
        device: &device,
        tokenizers,
        cache,
        valid: &text.valid_pairs,
        text: hashes,
    };
    // Until here an interrupt simply ends the process: there is nothing to save that would not be made again.
    let (ending, state) = train::train(&setup, &Stop::on_signals()?, screen)?;
    match ending {
        Ending::Stopped => {
            tracing::info!("stopped after step {}; the same command goes on from there", state.step);
            return Ok(());
        }
        Ending::OutOfPatience => {
            tracing::info!("ended after step {}: nothing better in {} validations", state.step, config.train.patience);
        }
        Ending::Done => tracing::info!("trained {} steps on {} target tokens", state.step, state.tokens),
    }
    finish(&run, &config, &device)
}

/// The text that a config names.
struct Text {
    train: Corpus,
    valid: Option<Corpus>,
    valid_pairs: Vec<Pair>,
}

impl Text {
    /// Opens it, and makes sure that the test sets are there, which are only read at the end.
    fn open(config: &Config) -> anyhow::Result<Self> {
        let train = Corpus::open(&config.data, Split::Train)?;
        let has_valid = config.data.corpus.is_some() || config.data.valid.is_some();
        let valid = has_valid.then(|| Corpus::open(&config.data, Split::Valid)).transpose()?;
        let valid_pairs = valid.iter().flat_map(Corpus::pairs).collect::<Result<_, _>>()?;
        if config.data.corpus.is_none() {
            for name in config.data.test_names() {
                Corpus::open(&config.data, Split::Test(name))?;
            }
        }
        Ok(Self { train, valid, valid_pairs })
    }

    /// Makes sure that a run may go on with this text and these tokenizers; gives them back with their hashes.
    fn fit(&self, run: &RunDirectory, tokenizers: Tokenizers) -> anyhow::Result<(Tokenizers, TextHashes)> {
        let hashes = text_hashes(&self.train, self.valid.as_ref(), &tokenizers)?;
        check_same_text(run, &hashes)?;
        Ok((tokenizers, hashes))
    }
}

/// Makes sure that a training that would begin is not in the directory of one that has only weights left.
fn check_leaves_nothing_behind(run: &RunDirectory) -> anyhow::Result<()> {
    let checkpoints = run.checkpoints(1);
    let left = checkpoints.named()?;
    if !checkpoints.steps()?.is_empty() || left.is_empty() {
        return Ok(());
    }
    let (root, left) = (run.root().display(), left.join("`, `"));
    let error = anyhow!(
        "`{root}` has the checkpoint `{left}` and none to go on from, and a new training would replace its records"
    );
    Err(with_hint(error, "bring a checkpoint `step-N` back, or give the new training another directory with `--run`"))
}

/// What the text becomes before the first step.
struct Prepared {
    tokenizers: Tokenizers,
    cache: Arc<IdCache>,
    hashes: TextHashes,
}

/// Makes the run's directory, learns its tokenizers and encodes its text, as far as that has not been done; nothing is
/// written for a run that may not go on.
fn prepare(run: &RunDirectory, origin: Option<&Origin>, config: &Config, text: &Text) -> anyhow::Result<Prepared> {
    let begins = run.checkpoints(1).steps()?.is_empty();
    // Those of a training that came to nothing may be of other text.
    let known = if !begins && run.has_tokenizers() { Some(text.fit(run, run.tokenizers()?)?) } else { None };
    if let Some(origin) = origin {
        origin.mark(run)?;
    }
    run.create(config)?;
    logging::log_to_file(&run.log_path())?;
    tracing::info!("run directory: {}", run.root().display());
    let mut activity = Activity::new();
    let (tokenizers, hashes) = match (known, origin) {
        (Some(known), _) => known,
        (None, origin) => {
            let tokenizers = match origin {
                Some(origin) => origin.tokenizers(config, &text.train)?,
                None => learn(config, &text.train, &mut activity)?,
            };
            let fitting = text.fit(run, tokenizers)?;
            run.remove_tokenizers()?;
            fitting.0.save(run.root())?;
            fitting
        }
    };
    check_beam(&config.search, &tokenizers)?;
    if config.model.task().is_classification() {
        check_labels(&text.valid_pairs, &tokenizers.tgt).context("in the validation set")?;
    }
    if config.model.task() == Task::Words && !text.valid_pairs.is_empty() {
        check_words(&text.valid_pairs, &tokenizers.tgt).context("in the validation set")?;
    }
    let (path, filter) = (run.cache_path("train"), Filter::new(&config.data));
    let mut progress = |stage, count| preparing(&mut activity, stage, count);
    let (cache, report) = IdCache::open_or_build(&path, &text.train, &tokenizers, Some(&filter), &mut progress)?;
    drop(activity);
    tracing::info!("training text: {report}");
    if config.model.task().is_classification() && report.tgt.unknown > 0 {
        let error = anyhow!("the training set has labels that the model does not know");
        return Err(with_hint(error, "a fork of a classifier keeps its labels; begin anew, or fork what has none yet"));
    }
    Ok(Prepared { tokenizers, cache: Arc::new(cache), hashes })
}

fn learn(config: &Config, train: &Corpus, activity: &mut Activity) -> anyhow::Result<Tokenizers> {
    Ok(Tokenizers::train(&config.tokenizer, train, &mut |stage, count| preparing(activity, stage, count))?)
}

/// Says what `check` would, and keeps it in the run's directory.
fn say_and_keep(run: &RunDirectory, subject: &Subject<'_>) -> anyhow::Result<()> {
    let inspection = inspect(subject)?;
    tracing::info!("{}", inspection.to_string().trim_end());
    let path = run.inspection_path();
    fs::write(&path, serde_json::to_string_pretty(&inspection)? + "\n")
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    for warning in inspection.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// `runs/<name of the config>`.
fn default_run(config: &Path) -> PathBuf {
    Path::new("runs").join(config.file_stem().unwrap_or_default())
}

/// Writes down what padded lengths are multiples of, and takes over a size of batches that was found before: the order of
/// the data depends on both, and a run that goes on keeps them on any device.
fn settle_batches(run: &RunDirectory, config: &mut Config) -> anyhow::Result<()> {
    let old = if run.config_path().is_file() { Some(run.config()?.train) } else { None };
    if config.train.max_tokens == MaxTokens::Auto {
        config.train.max_tokens = old.as_ref().map_or(MaxTokens::Auto, |old| old.max_tokens);
    }
    if config.train.pad_multiple.is_none() {
        let old = old.and_then(|old| old.pad_multiple);
        config.train.pad_multiple = Some(old.unwrap_or_else(|| train::pad_multiple(config)));
    }
    Ok(())
}

fn preparing(activity: &mut Activity, stage: Stage, count: u64) {
    if stage == Stage::LearningVocabulary {
        tracing::info!("learning a vocabulary of {count} tokens");
    }
    activity.show(match stage {
        Stage::CountingWords => format!("counting words: {count} lines"),
        Stage::LearningVocabulary => "learning a vocabulary".to_owned(),
        Stage::Encoding => format!("encoding: {count} pairs"),
    });
}

/// Tests the best checkpoint on every test set, shows some translations, and says how to go on.
fn finish(run: &RunDirectory, config: &Config, device: &Device) -> anyhow::Result<()> {
    let trained = [run.load("best", device)?];
    let translator = translator(&trained, config, device)?;
    let checkpoint = &trained[0].checkpoint;
    let step = checkpoint.state.step;
    let mut metrics = Metrics::open(&run.metrics_path(), u64::MAX)?;
    let mut out = io::stdout().lock();
    let (path, beam_size, task) = (checkpoint.path.display(), config.search.beam_size, translator.task());
    let test_names = config.data.test_names();
    if !test_names.is_empty() {
        let how = if task == Task::Translation { format!(", with beam {beam_size}") } else { String::new() };
        writeln!(out, "testing `{path}`, of step {step}{how}")?;
    }
    for &name in &test_names {
        let pairs: Vec<Pair> = Corpus::open(&config.data, Split::Test(name))?.pairs().collect::<Result<_, _>>()?;
        let mut activity = Activity::new();
        activity.show(format!("testing on {name}: {} examples", pairs.len()));
        let Evaluation { scores, hypotheses, .. } = evaluate(&translator, &pairs, config.train.tokenize)?;
        drop(activity);
        metrics.write_scores("test", name, step, &scores)?;
        let what = if task.is_classification() { "examples" } else { "sentences" };
        writeln!(out, "{name}: {} {what}  {scores}", pairs.len())?;
        if name == "test" {
            for (pair, hypothesis) in pairs.iter().zip(&hypotheses).take(SAMPLES) {
                writeln!(out, "  {}\n    -> {hypothesis}", pair.src)?;
                if *hypothesis != pair.tgt {
                    writeln!(out, "       {} (reference)", pair.tgt)?;
                }
            }
        }
    }
    metrics.flush()?;
    let (program, root) = (program(), run.root().display());
    writeln!(out, "\nnext:")?;
    let wider = match task {
        Task::Translation => {
            writeln!(out, "  {program} translate {root}      then type sentences, one a line")?;
            " --beam-size 8"
        }
        Task::Language => {
            writeln!(out, "  {program} generate {root}")?;
            ""
        }
        Task::Words => {
            writeln!(out, "  {program} embeddings {root} plot --out words.html")?;
            ""
        }
        Task::Labels => {
            writeln!(out, "  {program} classify {root}      then type sentences, one a line")?;
            ""
        }
        Task::Images => {
            writeln!(out, "  {program} classify {root} IMAGE.png")?;
            ""
        }
        Task::Masked => {
            writeln!(out, "  {program} train CONFIG --run {root} --fork NEW_RUN      to teach it labels")?;
            ""
        }
    };
    match test_names.first() {
        Some(&"test") => writeln!(out, "  {program} evaluate {root}{wider}")?,
        Some(name) => writeln!(out, "  {program} evaluate {root} --split {name}{wider}")?,
        None if config.data.valid.is_some() => writeln!(out, "  {program} evaluate {root} --split valid")?,
        None => {}
    }
    writeln!(out, "  {program} info {root}")?;
    Ok(())
}

/// How this program was called, so that what is printed can be typed: `target/release/polyglow` under `cargo run`.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "polyglow".to_owned())
}
