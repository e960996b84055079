//! The report of a cleaning: counts, some pairs of each reason, and how they are printed.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::ensure;
use polyglow_data::clean::filtered::{Cleaned, Filtered};
use polyglow_data::clean::findings::{Place, escaped};
use polyglow_data::clean::reasons::reasons;
use polyglow_data::clean::report::CleanReport;
use polyglow_data::config::FilterGroup;
use polyglow_data::corpus::Corpus;
use polyglow_data::example::Reason;
use polyglow_data::pair::Pair;
use polyglow_data::raw_bytes::without_raw_bytes;
use polyglow_predict::wording::counted;
use polyglow_view::cleaning::{RemovedPair, RepairedPair};
use serde::Serialize;

use super::files::CleanFiles;
use crate::activity::Activity;

/// Samples of each reason in the report.
const SAMPLES: usize = 20;
/// Words of a side without a partner that are printed.
const LISTED_WORDS: usize = 20;
/// Samples of each reason that are printed.
const PRINTED: usize = 3;

/// The counts of a cleaning, and examples.
#[derive(Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(super) counts: CleanReport,
    /// Files that end too early, of which what stands before was read (`--lenient`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cuts: Vec<String>,
    /// The first pairs of each reason.
    pub(super) samples: BTreeMap<&'static str, Vec<RemovedPair>>,
    /// The first pairs of each repair.
    pub(super) repaired_samples: BTreeMap<&'static str, Vec<RepairedPair>>,
}

/// Writes what stays of a corpus to files, if there are some, and returns what was done.
///
/// # Errors
/// The corpus cannot be read, or a file cannot be written.
pub(super) fn finish(
    filtered: &Filtered,
    corpus: &Corpus,
    mut output: Option<CleanFiles>,
) -> anyhow::Result<Report> {
    let mut activity = Activity::new();
    activity.show("writing".to_owned());
    let report = write(filtered, corpus, output.as_mut())?;
    if let Some(files) = output {
        files.commit(&report)?;
    }
    Ok(report)
}

/// Writes all pairs, and returns what was done, with some pairs of each reason.
fn write(
    filtered: &Filtered,
    train: &Corpus,
    mut output: Option<&mut CleanFiles>,
) -> anyhow::Result<Report> {
    let mut counts = filtered.report();
    counts.files = train
        .pair_files()
        .map(|path| path.display().to_string())
        .collect();
    let mut samples = Samples::default();
    let mut indices = 0..;
    for part in train.parts() {
        let file = part.name();
        for ((line, pair), index) in (1..).zip(part.pairs()?).zip(indices.by_ref()) {
            let pair = pair?;
            ensure!(
                index < counts.pairs,
                "the text has changed while it was read"
            );
            let place = Place { file: &file, line };
            let cleaned = filtered.cleaned(index, &pair);
            if let Some(reason) = cleaned.removed {
                if let Some(files) = &mut output {
                    files.remove(reason.key, &file, line, &pair)?;
                }
                samples.add_removed(reason, place, &pair, &cleaned);
                continue;
            }
            counts.count_repairs(&cleaned);
            let names: Vec<&'static str> = cleaned.repair_names().collect();
            if let Some(files) = &mut output {
                files.keep(&cleaned.pair)?;
                if !names.is_empty() {
                    files.repair(&names.join(","), &file, line, [&pair, &cleaned.pair])?;
                }
            }
            samples.add_repaired(&names, place, &pair, &cleaned);
        }
    }
    ensure!(
        indices.next() == Some(counts.pairs),
        "the text has changed while it was read"
    );
    samples.mark_words(filtered);
    Ok(Report {
        counts,
        cuts: train.cuts(),
        samples: samples.removed,
        repaired_samples: samples.repaired,
    })
}

/// The first pairs of each reason and of each repair.
#[derive(Default)]
struct Samples {
    removed: BTreeMap<&'static str, Vec<RemovedPair>>,
    repaired: BTreeMap<&'static str, Vec<RepairedPair>>,
    /// Removed pairs whose words without a partner are to be marked: the key of the reason, and the
    /// position among its samples.
    unmarked: Vec<(&'static str, usize)>,
}

impl Samples {
    /// Adds a pair that is removed for a reason, unless there are enough for it.
    fn add_removed(&mut self, reason: Reason, place: Place, pair: &Pair, cleaned: &Cleaned) {
        let samples = self.removed.entry(reason.key).or_default();
        if samples.len() == SAMPLES {
            return;
        }
        // Samples show pairs as they were; what was repaired or swapped has no words to mark.
        if FilterGroup::for_reason(reason) == FilterGroup::Meaning && cleaned.pair == *pair {
            self.unmarked.push((reason.key, samples.len()));
        }
        samples.push(RemovedPair {
            file: place.file.to_owned(),
            line: place.line,
            src: without_raw_bytes(&pair.src).into_owned(),
            tgt: without_raw_bytes(&pair.tgt).into_owned(),
            without_partner: Default::default(),
        });
    }

    /// Adds a pair that stays, to each of its repairs for which there are not enough.
    fn add_repaired(
        &mut self,
        names: &[&'static str],
        place: Place,
        pair: &Pair,
        cleaned: &Cleaned,
    ) {
        for name in names {
            let samples = self.repaired.entry(name).or_default();
            if samples.len() < SAMPLES {
                samples.push(RepairedPair {
                    file: place.file.to_owned(),
                    line: place.line,
                    before: [&pair.src, &pair.tgt].map(|side| without_raw_bytes(side).into_owned()),
                    after: [cleaned.pair.src.clone(), cleaned.pair.tgt.clone()],
                });
            }
        }
    }

    /// Marks the words without a partner of the pairs that are removed because of what they mean.
    fn mark_words(&mut self, filtered: &Filtered) {
        let pairs: Vec<Pair> = self
            .unmarked
            .iter()
            .map(|(key, position)| {
                let RemovedPair { src, tgt, .. } = &self.removed[key][*position];
                Pair::new(src, tgt)
            })
            .collect();
        let links = filtered.link(&pairs.iter().collect::<Vec<_>>());
        for ((key, position), links) in self.unmarked.drain(..).zip(links) {
            let samples = self.removed.get_mut(key).expect("it has samples");
            samples[position].without_partner = links.unlinked;
        }
    }
}

/// Prints the counts, with some pairs of each reason.
pub(crate) fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let Report {
        counts, samples, ..
    } = report;
    let share = |count: u64| 100.0 * count as f64 / counts.pairs.max(1) as f64;
    let CleanReport { pairs, kept, .. } = counts;
    writeln!(
        out,
        "{kept} of {} stay ({:.2} %)",
        counted(*pairs, "pair"),
        share(*kept)
    )?;
    for gap in &counts.gaps {
        writeln!(out, "note: {gap}")?;
    }
    for (name, count) in &counts.repaired {
        writeln!(out, "  {count} of them were repaired: {name}")?;
    }
    for (key, estimate) in counts.shown_estimates() {
        let percent = 100.0 * estimate;
        writeln!(out, "about {percent:.1} % of the pairs look {key}")?;
    }
    for reason in reasons() {
        let Some(&count) = counts.removed.get(reason.key) else {
            continue;
        };
        let key = reason.key;
        let title = reason.title;
        writeln!(out, "{key}: {count} ({:.2} %), pairs {title}", share(count))?;
        for sample in samples[key].iter().take(PRINTED) {
            let RemovedPair {
                file,
                line,
                src,
                tgt,
                ..
            } = sample;
            let [src, tgt] = [src, tgt].map(|side| escaped(side));
            writeln!(out, "  {file}:{line}  {src} | {tgt}")?;
            let sides = sample.words_without_partner().into_iter();
            for (mut words, other) in sides.zip(["target", "source"]) {
                if words.is_empty() {
                    continue;
                }
                if words.len() > LISTED_WORDS {
                    words.truncate(LISTED_WORDS);
                    words.push("…");
                }
                writeln!(out, "    no partner in the {other}: {}", words.join(", "))?;
            }
        }
    }
    Ok(())
}
