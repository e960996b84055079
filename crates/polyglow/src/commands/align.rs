//! `polyglow align`: which words of parallel text translate each other.

mod gold;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use polyglow_data::align::{
    AlignOptions, AlignProgress, Aligner, Bitext, LinkCounts, MAX_WORDS, Marginals, SavedChains,
    ScoredLink, Symmetrization,
};
use polyglow_data::alignment::{GoldLinks, Link, format_links};
use polyglow_data::corpus::Corpus;
use polyglow_data::file;
use polyglow_train::train::available_memory;

use super::pairs::{Pairs, PairsArgs};
use super::{check_output, counts};
use crate::activity::{Activity, Pace};
use crate::failure::{STOPPED, usage, with_hint};
use crate::signals::Signals;
use gold::{print, read_gold};

/// Pairs between two messages while a text is read.
const PAIRS_PER_MESSAGE: usize = 10_000;

/// The arguments of `polyglow align`.
#[derive(Args)]
pub(crate) struct AlignArgs {
    #[command(flatten)]
    text: PairsArgs,
    /// The file to write: the links of each pair on a line, `0-0 1-2`. `FILE.state` beside it has
    /// the work so far, until it is done
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Also write the probability of each link, in the same order
    #[arg(long, value_name = "FILE")]
    probabilities: Option<PathBuf>,
    /// Score the links against those of people, of which there is a line for each of the first
    /// pairs: `0-0` for sure, `1p2` for possible; or `gold` for an embedded corpus
    #[arg(long, value_name = "FILE")]
    gold: Option<PathBuf>,
    /// How the links of both directions become one alignment
    #[arg(long, value_name = "METHOD", value_enum, default_value_t)]
    symmetrize: Method,
    /// How probable a link must be; 0.5 for links that are right, at the price of some [default:
    /// 0.35]
    #[arg(long, value_name = "SHARE")]
    threshold: Option<f64>,
    /// How probable it is, before the text is looked at, that a word has no partner; 0.2 for free
    /// translations
    #[arg(long, value_name = "SHARE", default_value_t = AlignOptions::default().null)]
    null: f64,
    /// Chains in each direction, 1 to 100, whose probabilities are averaged
    #[arg(long, value_name = "N", default_value_t = AlignOptions::default().chains, value_parser = chains())]
    chains: usize,
    /// The seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = AlignOptions::default().seed)]
    seed: u64,
    /// Threads; the links are the same with any number [default: one per core]
    #[arg(long, value_name = "N", value_parser = counts())]
    threads: Option<usize>,
}

/// Numbers of chains.
fn chains() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=100)
}

/// The symmetrization of two directions.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Links whose mean probability is above the threshold
    #[default]
    Posterior,
    /// Links of both directions, and those of one beside them or between free words
    GrowDiagFinalAnd,
    /// Links of both directions
    Intersection,
}

impl AlignArgs {
    /// Whether results go to standard output.
    pub(crate) fn prints_results(&self) -> bool {
        self.gold.is_some()
    }
}

/// Aligns the words of a text, writes the links, and scores them if there are gold ones; returns
/// the exit code.
///
/// # Errors
/// The config or an option is wrong, the text has no pairs, or `FILE.state` is of another alignment
/// (exit code 2); a file cannot be read or written.
pub(crate) fn run(args: &AlignArgs) -> anyhow::Result<u8> {
    let symmetrization = symmetrization(args)?;
    let options = options(args)?;
    let pairs = args.text.open("align")?;
    check_outputs(args, &pairs)?;
    let started = Instant::now();
    let mut activity = Activity::new();
    let text = read_text(&pairs.corpus, &mut activity)?;
    // Before the work of which the score is the end.
    let gold = match &args.gold {
        Some(path) => read_gold(path, pairs.config.as_ref(), &text)?,
        None => Vec::new(),
    };
    warn_of_pages(&text);
    let signals = Signals::install()?;
    let aligner = Aligner::new(&text, options);
    let state = state_path(&args.out);
    let saved = SavedChains::open(&state, &aligner).map_err(usage)?;
    signals.save_from_now_on();
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.unwrap_or_else(cores);
    warn_of_memory(aligner.memory(threads));
    let pace = Pace::from(0);
    let flag = signals.stop.flag();
    let on_progress = |progress| activity.show(describe(progress, &pace, text.len()));
    let Some(marginals) = saved.align(&aligner, threads, &flag, on_progress)? else {
        tracing::info!(
            "stopped; the same command continues, by `{}`",
            state.display()
        );
        return Ok(STOPPED);
    };
    signals.end_process_from_now_on();
    activity.show("writing links".to_owned());
    let summary = write_links(args, &marginals, text.len(), symmetrization, &gold)?;
    saved.remove()?;
    drop(activity);
    report(args, &text, &summary, started);
    if !gold.is_empty() {
        print(&summary.scored.score(), gold.len())?;
    }
    Ok(0)
}

/// Makes sure that outputs can be written, and that none is an input, or the other output.
///
/// # Errors
/// One is a directory, or in none that is there; one is an input or the other output (exit code 2).
fn check_outputs(args: &AlignArgs, pairs: &Pairs) -> anyhow::Result<()> {
    let outputs: Vec<&Path> = [Some(&args.out), args.probabilities.as_ref()]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    let gold = args.gold.as_deref();
    for output in &outputs {
        check_output(output)?;
    }
    let mut inputs: Vec<&Path> = pairs.corpus.pair_files().collect();
    inputs.extend(gold.into_iter().chain(args.text.config()));
    let cleaned = pairs
        .config
        .as_ref()
        .and_then(|config| config.data.clean.as_ref());
    inputs.extend(cleaned.and_then(|settings| settings.scores.as_deref()));
    for output in &outputs {
        if let Some(input) = inputs.iter().find(|input| file::is_same(input, output)) {
            let error = anyhow!("`{}` is read, and would be overwritten", input.display());
            return Err(with_hint(usage(error), "give another file to write to"));
        }
    }
    if let [out, probabilities] = outputs[..]
        && (out == probabilities || file::is_same(out, probabilities))
    {
        return Err(usage(anyhow!(
            "`--out` and `--probabilities` are both `{}`",
            out.display()
        )));
    }
    Ok(())
}

/// Returns how links are chosen.
///
/// # Errors
/// The threshold is no probability, or is given without need (exit code 2).
fn symmetrization(args: &AlignArgs) -> anyhow::Result<Symmetrization> {
    if args.threshold.is_some() && args.symmetrize != Method::Posterior {
        let error = usage(anyhow!("`--threshold` is for `--symmetrize posterior`"));
        return Err(with_hint(error, "leave one of them out"));
    }
    match (args.symmetrize, args.threshold) {
        (Method::GrowDiagFinalAnd, _) => Ok(Symmetrization::GrowDiagFinalAnd),
        (Method::Intersection, _) => Ok(Symmetrization::Intersection),
        (Method::Posterior, None) => Ok(Symmetrization::default()),
        (Method::Posterior, Some(threshold)) if (0.0..1.0).contains(&threshold) => {
            Ok(Symmetrization::Posterior { threshold })
        }
        (Method::Posterior, Some(threshold)) => Err(usage(anyhow!(
            "`--threshold {threshold}`: must be at least 0 and less than 1"
        ))),
    }
}

/// Returns what decides the probabilities.
///
/// # Errors
/// The prior is no probability (exit code 2).
fn options(args: &AlignArgs) -> anyhow::Result<AlignOptions> {
    let null = args.null;
    // Written so that NaN is refused, too.
    if !(null > 0.0 && null < 1.0) {
        return Err(usage(anyhow!("`--null {null}`: must lie between 0 and 1")));
    }
    Ok(AlignOptions {
        chains: args.chains,
        null,
        seed: args.seed,
    })
}

/// Reads the text that is aligned.
///
/// # Errors
/// It cannot be read, or has no pair with words on both sides.
fn read_text(corpus: &Corpus, activity: &mut Activity) -> anyhow::Result<Bitext> {
    let most = corpus
        .max_examples()
        .map_or(usize::MAX, |most| most as usize);
    let mut text = Bitext::default();
    for pair in corpus.pairs().take(most) {
        let pair = pair?;
        text.push(&pair.src, &pair.tgt);
        if text.len() % PAIRS_PER_MESSAGE == 0 {
            activity.show(format!("reading: {} pairs", text.len()));
        }
    }
    if text.num_cells() == 0 {
        return Err(anyhow!("the text has no pair with words on both sides"));
    }
    Ok(text)
}

/// Warns of pairs that get no links because they are too long.
fn warn_of_pages(text: &Bitext) {
    let count = text.too_long();
    if count > 0 {
        tracing::warn!(
            "{count} pairs get no links: more than {MAX_WORDS} words on a side, which is no sentence"
        );
    }
}

/// Warns if an alignment takes more memory than is free.
fn warn_of_memory(bytes: usize) {
    if let Some(free) = available_memory().filter(|free| *free < bytes as u64) {
        tracing::warn!(
            "aligning takes about {:.1} GB of memory, and {:.1} GB are free: align a part of the text, \
             or use fewer threads",
            bytes as f64 / 1e9,
            free as f64 / 1e9
        );
    }
}

/// The directory of the work so far.
fn state_path(out: &Path) -> PathBuf {
    let mut path = out.as_os_str().to_owned();
    path.push(".state");
    path.into()
}

/// Says how far an alignment has come, how fast it is and how long it will take.
fn describe(progress: AlignProgress, pace: &Pace, pairs: usize) -> String {
    let AlignProgress {
        done,
        restored,
        all,
    } = progress;
    let percent = done * 100 / all;
    let left = pace.time_left(done - restored, all - restored);
    let rate = pace.per_second(done - restored) / all as f64 * pairs as f64;
    format!("aligning {pairs} pairs: {percent} %, {rate:.0} pairs a second, {left} left")
}

/// Counts of the written links.
#[derive(Default)]
struct Summary {
    links: usize,
    /// Pairs without links.
    without: usize,
    scored: LinkCounts,
}

/// Writes the links of all pairs, and their probabilities if they are requested.
fn write_links(
    args: &AlignArgs,
    marginals: &Marginals<'_>,
    pairs: usize,
    symmetrization: Symmetrization,
    gold: &[GoldLinks],
) -> anyhow::Result<Summary> {
    let mut summary = Summary::default();
    let mut write = |out: &mut dyn Write, mut probabilities: Option<&mut dyn Write>| {
        for pair in 0..pairs {
            let scored = marginals.links(pair, symmetrization);
            let links: Vec<Link> = scored.iter().map(|link| link.link).collect();
            writeln!(out, "{}", format_links(&links))?;
            if let Some(out) = &mut probabilities {
                writeln!(out, "{}", format_probabilities(&scored))?;
            }
            summary.links += links.len();
            summary.without += usize::from(links.is_empty());
            if let Some(gold) = gold.get(pair) {
                summary.scored.add(&links, gold);
            }
        }
        io::Result::Ok(())
    };
    let out = args.out.display();
    let Some(path) = &args.probabilities else {
        file::write_with(&args.out, |out| write(out, None))
            .with_context(|| format!("cannot write `{out}`"))?;
        return Ok(summary);
    };
    let written = file::write_with(&args.out, |out| {
        file::write_with(path, |probabilities| write(out, Some(probabilities)))
    });
    written.with_context(|| format!("cannot write `{out}` or `{}`", path.display()))?;
    Ok(summary)
}

/// Formats the probabilities of links as one line, without its end.
fn format_probabilities(links: &[ScoredLink]) -> String {
    let probabilities: Vec<String> = links
        .iter()
        .map(|link| format!("{:.4}", link.probability))
        .collect();
    probabilities.join(" ")
}

/// Logs what was written, and how long it took.
fn report(args: &AlignArgs, text: &Bitext, summary: &Summary, started: Instant) {
    let Summary { links, without, .. } = summary;
    let pairs = text.len();
    let seconds = started.elapsed().as_secs_f64();
    let out = args.out.display();
    tracing::info!("wrote {links} links of {pairs} pairs to `{out}` in {seconds:.0} s");
    if let Some(path) = &args.probabilities {
        tracing::info!("wrote their probabilities to `{}`", path.display());
    }
    if *without > 0 {
        tracing::info!("{without} pairs have no links");
    }
}
