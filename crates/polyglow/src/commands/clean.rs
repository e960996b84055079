//! `polyglow clean`: training text without what is no translation.

mod explain;
pub(super) mod files;
mod mark;
mod prove;
mod report;
mod scores;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use polyglow_data::clean::cleaning::{Cleaning, Reading};
use polyglow_data::clean::language::Profile;
use polyglow_data::clean::lexical::MISALIGNED;
use polyglow_data::config::{CleanConfig, Content, FilterGroup};
use polyglow_data::corpus::{Corpus, SCORES, held_out};
use polyglow_data::error::DataError;
use polyglow_data::pair_files::PairFormat;
use polyglow_predict::wording::counted;
use polyglow_train::config::Config;

use super::pairs::{Pairs, PairsArgs};
use super::share;
use crate::activity::Activity;
use crate::allocator::give_back_freed_memory;
use crate::failure::{usage, with_hint};
use crate::inspection::{Warning, language_warnings};
use explain::LinePosition;
use files::{CleanFiles, Form, STEM};
use prove::{Preparation, ProveArgs};
use report::finish;
pub(super) use report::{Report, print};
use scores::{ScoreSource, Scores, Scoring};

/// Pairs up to which [`preview`] looks at a text, which takes about a minute then.
const MOST_PREVIEWED: u64 = 1_000_000;
/// The share of misaligned pairs from which the lines of a text are probably in another order.
const MOST_MISALIGNED: f64 = 0.4;
/// Pairs of each corpus by which the languages of its sides are guessed.
pub(super) const PROFILED: usize = 20_000;

/// The arguments of `polyglow clean`.
#[derive(Args)]
pub(crate) struct CleanArgs {
    #[command(flatten)]
    text: PairsArgs,
    /// Directory to write to, which is empty or not there yet: `train` with the endings of the
    /// languages, `removed.tsv`, `repaired.tsv`, `report.json` and `report.html`; with `--prove` a folder with these
    /// and runs for each text. Needed unless `--dry-run` or `--explain` is given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The form of the files to write: `lines`, `tsv` or `tmx`, each also with `.gz` or `.zst` behind
    /// it, or `zip`, an archive as OPUS has them
    #[arg(long, value_name = "FORM", default_value = "lines", requires = "out")]
    #[arg(conflicts_with = "prove")]
    format: PairFormat,
    /// Keep what stands before the place where a file in TMX, or a compressed one, ends too early, as a
    /// download that was cut off; otherwise that is an error
    #[arg(long, conflicts_with = "prove")]
    lenient: bool,
    /// Write nothing, and say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Write nothing, and say what becomes of the pair in this line, and why: `17`, or
    /// `data/train.en:17` as reports name it; may be repeated
    #[arg(long, value_name = "LINE", value_parser = LinePosition::parse)]
    #[arg(conflicts_with_all = ["out", "dry_run", "json"])]
    explain: Vec<LinePosition>,
    /// File with a score for each line of the text, the higher the better, as another program gives
    /// them; `--keep` says how many pairs stay
    #[arg(long, value_name = "FILE", conflicts_with = "score")]
    scores: Option<PathBuf>,
    /// Run of a model that translates in this direction: a pair's score is the mean log-probability
    /// of its target's tokens; `--keep` says how many pairs stay
    #[arg(long, value_name = "RUN")]
    score: Option<PathBuf>,
    /// Share of the pairs to keep of those that nothing else removes, the best by their scores [default: the
    /// config's `data.clean.keep`]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    keep: Option<f64>,
    /// Leave out a group of filters: `repairs`, `rules`, `held-out`, `duplicates`, `language`,
    /// `meaning` or `scores`; several with commas between them. In place of the config's
    /// `data.clean.without`
    #[arg(long, value_name = "GROUP", value_parser = group, value_delimiter = ',')]
    without: Vec<FilterGroup>,
    #[command(flatten)]
    proof: ProveArgs,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl CleanArgs {
    /// Returns the scores of the command line, or else those of a config, if there are any.
    ///
    /// # Errors
    /// There is a share to keep and no score, or no share (exit code 2); there is no such file.
    fn scoring<'a>(&'a self, settings: &'a CleanConfig) -> anyhow::Result<Option<Scoring<'a>>> {
        let source = match (&self.scores, &self.score, &settings.scores) {
            (Some(path), _, _) => ScoreSource::file("--scores", path)?,
            (None, None, Some(path)) => ScoreSource::file(SCORES, path)?,
            (None, Some(run), _) => ScoreSource::Run(run),
            (None, None, None) if self.keep.is_none() => return Ok(None),
            (None, None, None) => {
                let error = anyhow!("`--keep` is a share by scores, and there are none");
                return Err(with_hint(
                    usage(error),
                    "add `--scores FILE` or `--score RUN`",
                ));
            }
        };
        let Some(keep) = self.keep.or(settings.keep) else {
            let error = anyhow!("there are scores, and no share of the pairs to keep by them");
            return Err(with_hint(usage(error), "add `--keep SHARE`"));
        };
        Ok(Some(Scoring { source, keep }))
    }
}

/// Repairs the pairs of the training text that a config names, removes those that are no
/// translations, that repeat others or that are in a held-out set, and writes the rest; or proves what
/// that is worth. Returns the exit code.
///
/// # Errors
/// The config is wrong, its text has no pairs or none that stays, scores do not fit it, there is no `--out`
/// where one is needed, or something is there already (exit code 2); a file cannot be read or written.
pub(crate) fn run(args: &CleanArgs) -> anyhow::Result<u8> {
    if args.out.is_none() && !args.dry_run && args.explain.is_empty() {
        let error = anyhow!("no directory to write to");
        let hint = "`--out DIR` names one; `--dry-run` and `--explain LINE` write nothing";
        return Err(with_hint(usage(error), hint));
    }
    let uses_model = args.proof.prove || args.score.is_some();
    if !uses_model {
        give_back_freed_memory();
    }
    let (mut text, settings) = args.text.open_uncleaned("clean")?;
    if args.lenient {
        text.corpus = text.corpus.ending_at_cuts();
    }
    check_languages(&text)?;
    let config = text.config.as_ref();
    if config.is_some_and(|config| config.data.max_examples.is_some()) {
        tracing::warn!("`data.max_examples` limits trainings: all of the text is cleaned");
    }
    let mut without: BTreeSet<FilterGroup> = args.without.iter().copied().collect();
    if args.proof.prove && !settings.without.is_empty() {
        // So that it can be read again once its result stands in the config.
        tracing::info!("a proof compares all groups, also those of `data.clean.without`");
    } else if without.is_empty() {
        without.clone_from(&settings.without);
    }
    let scoring = args.scoring(&settings)?;
    let out = args.out.as_deref().filter(|_| !args.dry_run);
    let lines = explain::find(&text.corpus, &args.explain)?;
    let form = Form {
        languages: &text.languages,
        format: args.format,
    };
    if let Some(dir) = out.filter(|_| !args.proof.prove) {
        // Before the work.
        CleanFiles::clear_unfinished(dir, &form)?;
    }
    let held_out = match &text.config {
        Some(config) => held_out(&config.data, Content::PAIRS)?,
        None => Vec::new(),
    };
    let proof = match out.filter(|_| args.proof.prove) {
        Some(dir) => {
            let scores = match &scoring {
                Some(scoring) => scoring.identity()?,
                None => "none".to_owned(),
            };
            Some(Preparation::new(
                &args.proof,
                dir,
                &text,
                &held_out,
                &scores,
            )?)
        }
        None => None,
    };
    warn_of_languages(&text.corpus, &text.languages)?;
    // An explanation has the evidence of all groups.
    let skipped = if lines.is_empty() {
        without.clone()
    } else {
        BTreeSet::new()
    };
    let mut cleaning = look(&text.corpus, &held_out, &skipped)?;
    for cut in text.corpus.cuts() {
        tracing::warn!("{cut}, which are kept (`--lenient`)");
    }
    let mut scores: Option<Scores> = None;
    if let Some(scoring) = &scoring {
        let filtered = cleaning.without(without.iter().copied());
        let of_pairs = scoring.scores(&text, &filtered)?;
        let keep = scoring.keep;
        let limit = cleaning.keep_best(&of_pairs, keep, &without);
        if let Some(num_tied) = limit.map(|limit| limit.num_tied).filter(|&tied| tied > 0) {
            tracing::warn!(
                "`--keep {keep}` keeps {} whose score equals the lowest within that share",
                counted(num_tied as u64, "more pair")
            );
        }
        scores = Some(Scores {
            values: of_pairs,
            limit: limit.filter(|_| !without.contains(&FilterGroup::Scores)),
        });
    }
    let filtered = cleaning.without(without.iter().copied());
    if !lines.is_empty() {
        let mut stdout = io::stdout().lock();
        explain::print(
            &mut stdout,
            &filtered,
            &text.corpus,
            scores.as_ref(),
            &lines,
        )?;
        return Ok(0);
    }
    if let Some(proof) = proof {
        return proof.prove(&text, &held_out, &cleaning, args.json);
    }
    if out.is_some() {
        filtered.report().check_not_empty().map_err(usage)?;
    }
    let output = out.map(|dir| CleanFiles::begin(dir, &form)).transpose()?;
    let report = finish(&filtered, &text.corpus, output)?;
    let mut stdout = io::stdout().lock();
    if args.json {
        let text = serde_json::to_string_pretty(&report)?;
        writeln!(stdout, "{text}")?;
        return Ok(0);
    }
    print(&mut stdout, &report)?;
    if let Some(dir) = out {
        let path = dir.join(args.format.config_name(STEM));
        // A config that cleans its text would clean it again.
        let once = match &text.config {
            Some(_) => " --set data.clean=false",
            None => "",
        };
        tracing::info!("train on it: --set data.train={}{once}", path.display());
    }
    Ok(0)
}

/// Reads the name of a group of filters.
///
/// # Errors
/// There is no such group.
fn group(name: &str) -> Result<FilterGroup, String> {
    FilterGroup::from_name(name.trim()).ok_or_else(|| {
        let names: Vec<&str> = FilterGroup::ALL
            .into_iter()
            .map(FilterGroup::name)
            .collect();
        format!("the groups are {}", names.join(", "))
    })
}

/// Warns of sides that are in another language than they are named after: cleaning learns the language of
/// a side from the side itself, and the sentences of held-out sets are looked for on the side of the same
/// name.
///
/// # Errors
/// The text cannot be read.
pub(super) fn warn_of_languages(corpus: &Corpus, languages: &[String; 2]) -> anyhow::Result<()> {
    for part in corpus.parts() {
        let mut profiles = [Profile::default(), Profile::default()];
        for pair in part.pairs()?.take(PROFILED) {
            let pair = pair?;
            for (profile, side) in profiles.iter_mut().zip([&pair.src, &pair.tgt]) {
                profile.add(side);
            }
        }
        for warning in language_warnings(&part.name(), &profiles, languages) {
            tracing::warn!("{warning}");
        }
    }
    Ok(())
}

/// Cleans a corpus, also of sentences of `held_out`, by all filters but those of the groups `without`,
/// and writes it to files.
///
/// # Errors
/// A file cannot be read or written; nothing stays.
pub(super) fn clean(
    corpus: &Corpus,
    held_out: &[Corpus],
    without: &BTreeSet<FilterGroup>,
    output: CleanFiles,
) -> anyhow::Result<Report> {
    let cleaning = look(corpus, held_out, without)?;
    let filtered = cleaning.without(without.iter().copied());
    filtered.report().check_not_empty()?;
    finish(&filtered, corpus, Some(output))
}

/// Looks at all pairs of a corpus, as [`Cleaning::of`] does, and shows how far it is. Warns if [`MOST_MISALIGNED`] of them look
/// misaligned: right pairs cannot be told then.
///
/// # Errors
/// The corpora cannot be read.
pub(super) fn look(
    corpus: &Corpus,
    held_out: &[Corpus],
    without: &BTreeSet<FilterGroup>,
) -> anyhow::Result<Cleaning> {
    let cleaning = show_progress(|progress| Cleaning::of(corpus, held_out, without, progress))?;
    let report = cleaning.by_all_filters().report();
    let misaligned = report.estimates.get(MISALIGNED.key).copied();
    if let Some(share) = misaligned.filter(|share| *share >= MOST_MISALIGNED) {
        let message = format!(
            "about {:.0} % of the pairs look misaligned, too many to tell which are right",
            100.0 * share
        );
        let hint = "look whether both sides have their lines in the same order";
        tracing::warn!("{}", Warning::new(message, hint));
    }
    Ok(cleaning)
}

/// Shows how far the readings of a text are.
///
/// # Errors
/// Any error of `read`.
fn show_progress(
    read: impl FnOnce(&mut dyn FnMut(Reading, u64)) -> Result<Cleaning, DataError>,
) -> anyhow::Result<Cleaning> {
    let mut activity = Activity::new();
    Ok(read(&mut |reading, pairs| {
        // What is learned of a sample first takes long, too.
        let count = if pairs > 0 {
            format!(": {pairs} pairs")
        } else {
            String::new()
        };
        activity.show(title(reading).to_owned() + &count);
    })?)
}

/// Says what a reading of the text looks at.
fn title(reading: Reading) -> &'static str {
    match reading {
        Reading::Rules => "looking at each pair",
        Reading::Languages => "looking at languages",
        Reading::Meanings => "looking for misaligned, cut and joined pairs",
    }
}

/// Says what cleaning would do to the training text of a config, with some pairs of each reason; `None`
/// if the config cleans it, or it cannot be cleaned, or looking at its `num_pairs` pairs would take long.
///
/// # Errors
/// The text cannot be read.
pub(super) fn preview(
    config: &Config,
    train: &Corpus,
    num_pairs: u64,
) -> anyhow::Result<Option<Report>> {
    let Config { data, .. } = config;
    if data.clean.is_some()
        || config.content() != Content::PAIRS
        || data.has_several_languages()
        || num_pairs > MOST_PREVIEWED
    {
        return Ok(None);
    }
    let cleaning = look(train, &held_out(data, Content::PAIRS)?, &BTreeSet::new())?;
    Ok(Some(finish(&cleaning.by_all_filters(), train, None)?))
}

/// Makes sure that a text is of one pair of languages.
///
/// # Errors
/// It is of several (exit code 2).
fn check_languages(text: &Pairs) -> anyhow::Result<()> {
    let config = text.config.as_ref();
    if !config.is_some_and(|config| config.data.has_several_languages()) {
        return Ok(());
    }
    let error = anyhow!("`clean` learns one language of each side, and this text has several");
    let hint =
        "clean each pair of languages by itself: `polyglow clean --src FILE --tgt FILE --out DIR`";
    Err(with_hint(usage(error), hint))
}
