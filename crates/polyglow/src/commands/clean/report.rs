//! The report of a cleaning: counts, some pairs of each reason, and how they are printed.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::ensure;
use polyglow_data::clean::filtered::Filtered;
use polyglow_data::clean::findings::escaped;
use polyglow_data::clean::reasons::reasons;
use polyglow_data::clean::report::CleanReport;
use polyglow_data::config::FilterGroup;
use polyglow_data::corpus::Corpus;
use polyglow_data::raw_bytes::without_raw_bytes;
use polyglow_predict::wording::counted;
use polyglow_view::cleaning::{RemovedPair, RepairedPair};
use serde::Serialize;

use super::files::CleanFiles;
use crate::activity::Activity;

/// Samples of each reason in the report.
const SAMPLES: usize = 20;
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
    let mut samples: BTreeMap<&'static str, Vec<RemovedPair>> = BTreeMap::new();
    let mut repaired_samples: BTreeMap<&'static str, Vec<RepairedPair>> = BTreeMap::new();
    let mut indices = 0..;
    for part in train.parts() {
        let file = part.name();
        for ((line, pair), index) in (1..).zip(part.pairs()?).zip(indices.by_ref()) {
            let pair = pair?;
            ensure!(
                index < counts.pairs,
                "the text has changed while it was read"
            );
            let cleaned = filtered.cleaned(index, &pair);
            let Some(reason) = cleaned.removed else {
                counts.count_repairs(&cleaned);
                let names: Vec<&'static str> = cleaned.repair_names().collect();
                if let Some(files) = &mut output {
                    files.keep(&cleaned.pair)?;
                    if !names.is_empty() {
                        files.repair(&names.join(","), &file, line, [&pair, &cleaned.pair])?;
                    }
                }
                for name in names {
                    let samples_of_repair = repaired_samples.entry(name).or_default();
                    if samples_of_repair.len() < SAMPLES {
                        samples_of_repair.push(RepairedPair {
                            file: file.clone(),
                            line,
                            before: [&pair.src, &pair.tgt]
                                .map(|side| without_raw_bytes(side).into_owned()),
                            after: [cleaned.pair.src.clone(), cleaned.pair.tgt.clone()],
                        });
                    }
                }
                continue;
            };
            if let Some(files) = &mut output {
                files.remove(reason.key, &file, line, &pair)?;
            }
            let of_reason = samples.entry(reason.key).or_default();
            if of_reason.len() < SAMPLES {
                // Samples show pairs as they were; what was repaired or swapped has no words to mark.
                let is_as_it_was = cleaned.pair == pair;
                let without_partner = match FilterGroup::for_reason(reason) {
                    FilterGroup::Meaning if is_as_it_was => {
                        filtered.words_without_partner(index, &pair)
                    }
                    _ => Default::default(),
                };
                of_reason.push(RemovedPair {
                    file: file.clone(),
                    line,
                    src: without_raw_bytes(&pair.src).into_owned(),
                    tgt: without_raw_bytes(&pair.tgt).into_owned(),
                    without_partner,
                });
            }
        }
    }
    ensure!(
        indices.next() == Some(counts.pairs),
        "the text has changed while it was read"
    );
    Ok(Report {
        counts,
        cuts: train.cuts(),
        samples,
        repaired_samples,
    })
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
        }
    }
    Ok(())
}
