//! The texts that a proof trains on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure};
use polyglow_data::clean::cleaning::Cleaning;
use polyglow_data::clean::filtered::Filtered;
use polyglow_data::clean::report::CleanReport;
use polyglow_data::config::{Content, FilterGroup, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::pair_files::PairFormat;
use polyglow_train::config::Config;

use super::super::files::{CleanFiles, Form};
use super::super::{Report, finish, show_progress};
use crate::commands::pairs::Pairs;
use crate::failure::{usage, with_hint};

/// The share of the pairs that a group has to change for a training without it.
const MIN_CHANGED_SHARE: f64 = 0.005;
/// The name of the cleaned text.
const CLEANED: &str = "cleaned";
/// The name of the text that nothing has cleaned.
const AS_IT_WAS: &str = "as-it-was";
/// The prefix of the names of texts that a group of filters has not touched.
pub(super) const WITHOUT: &str = "without-";

/// A text to train on.
pub(super) struct TrainingText {
    /// Its name in reports and that of its directory.
    pub(super) name: String,
    origin: Origin,
}

/// The origin of a text to train on.
enum Origin {
    /// It is the text of the config without some groups of filters.
    Without(Vec<FilterGroup>),
    /// Another program has cleaned it.
    External(PathBuf),
}

impl TrainingText {
    fn without(name: impl Into<String>, groups: impl IntoIterator<Item = FilterGroup>) -> Self {
        Self {
            name: name.into(),
            origin: Origin::Without(groups.into_iter().collect()),
        }
    }

    /// Returns the texts to train on: the cleaned one first, the one that nothing has cleaned, one
    /// without each group that changes enough pairs, and those of other programs. Of the second and
    /// the third kind only those that are requested by name, unless none is.
    ///
    /// # Errors
    /// Filters hardly change the text, or a text is requested that is none of these (exit code 2).
    pub(super) fn all(
        report: &Report,
        cleaning: &Cleaning,
        requested: &[String],
        external: &[PathBuf],
    ) -> anyhow::Result<Vec<Self>> {
        let changes_text = changes_enough(report, cleaning, proved_groups());
        ensure!(
            changes_text || !external.is_empty() || !requested.is_empty(),
            usage(anyhow!(
                "there is nothing to prove: filters change less than half a percent of this text"
            ))
        );
        let mut compared = vec![Self::without(AS_IT_WAS, proved_groups())];
        for group in proved_groups() {
            if !changes_enough(report, cleaning, [group]) {
                continue;
            }
            compared.push(Self::without(without_group(group), [group]));
        }
        let names: Vec<&str> = compared.iter().map(|text| &*text.name).collect();
        let is_unknown = |name: &&String| !names.contains(&name.as_str());
        if let Some(unknown) = requested.iter().find(is_unknown) {
            let error = anyhow!("`{unknown}` would hardly differ from the cleaned text");
            let hint = format!("the texts of this proof are {}", names.join(", "));
            return Err(with_hint(usage(error), hint));
        }
        if !requested.is_empty() {
            compared.retain(|text| requested.contains(&text.name));
        }
        let mut texts = vec![Self::without(CLEANED, [])];
        texts.append(&mut compared);
        for (number, prefix) in (1..).zip(external) {
            texts.push(Self {
                name: format!("external-{number}"),
                origin: Origin::External(prefix.clone()),
            });
        }
        Ok(texts)
    }

    /// Makes a text of a name, whatever it is made of.
    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self::without(name, [])
    }

    /// Returns the file that a text of another program was read from, as `data.train` names it.
    pub(super) fn prefix(&self) -> Option<&Path> {
        match &self.origin {
            Origin::Without(_) => None,
            Origin::External(prefix) => Some(prefix),
        }
    }

    /// Writes the text into a directory, unless it is there, and returns how many pairs it has.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(super) fn write(
        &self,
        dir: &Path,
        text: &Pairs,
        config: &Config,
        held_out: &[Corpus],
        cleaning: &Cleaning,
    ) -> anyhow::Result<u64> {
        match &self.origin {
            Origin::Without(groups) => {
                let filtered = cleaning.without(groups.iter().copied());
                write(dir, &text.corpus, &text.languages, &filtered)
            }
            Origin::External(prefix) => {
                let corpus = open_external(config, prefix)?;
                // What all proved groups would remove stays.
                let without = proved_groups().collect();
                let cleaning =
                    show_progress(|progress| Cleaning::of(&corpus, held_out, &without, progress))?;
                let filtered = cleaning.without(proved_groups());
                write(dir, &corpus, &text.languages, &filtered)
            }
        }
    }
}

/// Writes a text without what is removed from it, unless it is there, and returns how many pairs
/// stay.
///
/// # Errors
/// A file cannot be read or written.
fn write(
    dir: &Path,
    corpus: &Corpus,
    languages: &[String; 2],
    filtered: &Filtered,
) -> anyhow::Result<u64> {
    let pairs = filtered.report().kept;
    if CleanFiles::are_complete(dir)? {
        return Ok(pairs);
    }
    let form = Form {
        languages,
        format: PairFormat::default(),
    };
    let files = CleanFiles::begin(dir, &form)?;
    finish(filtered, corpus, Some(files))?;
    Ok(pairs)
}

/// Opens a text that another program has cleaned.
///
/// # Errors
/// It cannot be read.
pub(super) fn open_external(config: &Config, prefix: &Path) -> anyhow::Result<Corpus> {
    let mut data = config.data.clone();
    data.train = Some(TrainFiles::One(prefix.to_owned()));
    data.clean = None;
    Corpus::open(&data, Content::PAIRS, Split::Train).map_err(|error| name_option(error).into())
}

/// Names the option of a path in an error, which `data.train` stood for.
fn name_option(error: DataError) -> DataError {
    let key = "--compare".to_owned();
    match error {
        DataError::MissingFile { path, .. } => DataError::MissingFile { key, path },
        DataError::NoFile { path, what, .. } => DataError::NoFile { key, path, what },
        other => other,
    }
}

/// Reads the name of a text to compare with.
///
/// # Errors
/// There is no such text.
pub(super) fn parse_text_name(name: &str) -> Result<String, String> {
    let mut names = vec![AS_IT_WAS.to_owned()];
    names.extend(proved_groups().map(without_group));
    if names.iter().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    Err(format!("the texts are {}", names.join(", ")))
}

/// The name of the text that a group has not touched.
fn without_group(group: FilterGroup) -> String {
    format!("{WITHOUT}{}", group.name())
}

/// The groups of filters that a proof is about: all but those for held-out sentences, which are in no
/// text.
pub(super) fn proved_groups() -> impl Iterator<Item = FilterGroup> {
    FilterGroup::ALL
        .into_iter()
        .filter(|group| *group != FilterGroup::HeldOut)
}

/// Whether groups change enough pairs for a training without them: what other groups would take in
/// their place does not count. `report` is that of the whole cleaning.
fn changes_enough(
    report: &Report,
    cleaning: &Cleaning,
    groups: impl IntoIterator<Item = FilterGroup>,
) -> bool {
    let groups: BTreeSet<FilterGroup> = groups.into_iter().collect();
    let CleanReport {
        pairs,
        kept,
        repaired,
        ..
    } = &report.counts;
    let brought_back = cleaning.without(groups.iter().copied()).report().kept - kept;
    let repaired: u64 = repaired
        .iter()
        .filter(|(repair, _)| group_for_repair(repair).is_some_and(|group| groups.contains(&group)))
        .map(|(_, count)| count)
        .sum();
    (brought_back + repaired) as f64 >= MIN_CHANGED_SHARE * (*pairs).max(1) as f64
}

/// Returns the group that makes a repair; `None` of bytes that are read in another encoding, without which
/// there is no text.
fn group_for_repair(repair: &str) -> Option<FilterGroup> {
    match repair {
        "swapped" => Some(FilterGroup::Language),
        "encoding" => None,
        _ => Some(FilterGroup::Repairs),
    }
}
