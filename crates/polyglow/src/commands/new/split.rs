//! Splits validation and test sets off a training text.

mod output;
mod record;

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::file::remove_unfinished;
use polyglow_data::pair::Pair;
use polyglow_data::random::mix;

use super::super::clean::look;
use super::files::training_text;
use crate::failure::{usage, with_hint};
use crate::inspection::Warning;
use output::Output;
use record::{Record, hexadecimal};

/// The most pairs of a set.
const MOST: usize = 1000;
/// The divisor of the text's pairs for the size of a set: one pair in twenty at most.
const PART: usize = 20;
/// Fewest pairs in a set.
const FEWEST: usize = 10;
/// Seed of the choice, so that the same text gives the same sets.
const SEED: u64 = 1;

/// Makes sure that `folder` has the sets of these names and, as `train`, the rest of the text at
/// `text`. No pair that has a sentence of `held_out`, or nearly, gets into a set.
///
/// An earlier split of the same text is taken again, edited or not; that of a text that was
/// corrected since is made anew, unless one of its files was edited.
///
/// # Errors
/// The folder has files that belong to another text, or were not split off (exit code 2); as
/// [`split_off`].
pub(super) fn provide(
    text: &Path,
    languages: [&str; 2],
    names: &[&'static str],
    held_out: &[Corpus],
    folder: &Path,
) -> anyhow::Result<()> {
    let files = file_names(languages, names);
    let there: Vec<&String> = files
        .iter()
        .filter(|name| folder.join(name).symlink_metadata().is_ok())
        .collect();
    let is_whole = there.len() == files.len();
    let corpus = open(text, languages)?;
    let Some(record) = Record::read(folder)? else {
        return match there[..] {
            [] => split_off(
                &corpus,
                languages,
                names,
                held_out,
                folder,
                Record::default(),
            ),
            [first, ..] if !is_whole => Err(not_split_off(&folder.join(first))),
            _ => take_unrecorded(&corpus, text, languages, names, folder),
        };
    };
    let edited = record.edited(folder)?;
    let has_all = is_whole && record.is_split_into(&files);
    let is_same_text = record.text == hexadecimal(&corpus.content_hash()?);
    if is_same_text && has_all {
        if !edited.is_empty() {
            tracing::warn!(
                "`{}` in `{}` was edited, and is taken as it is",
                edited.join("`, `"),
                folder.display()
            );
        }
        tracing::info!(
            "taking what was split off before, in `{}`",
            folder.display()
        );
        return Ok(());
    }
    if let Some(foreign) = there.iter().find(|name| !record.has(name)) {
        return Err(not_split_off(&folder.join(foreign)));
    }
    if !edited.is_empty() {
        return Err(edited_since(&edited, folder, is_same_text));
    }
    if has_all {
        check_count(&corpus, text, languages, names, folder)?;
    }
    let why = if !record.unfinished.is_empty() {
        "because the last split was not completed"
    } else if is_same_text {
        "into other sets"
    } else {
        "because it has changed since it was split"
    };
    tracing::info!("`{}` is split again, {why}", text.display());
    split_off(&corpus, languages, names, held_out, folder, record)
}

/// Warns of a config whose training text is the rest of a split, if the text that was split has
/// changed since: `new` would split it again.
///
/// # Errors
/// The record of the split or the text cannot be read.
pub(in crate::commands) fn warn_of_stale(data: &DataConfig) -> anyhow::Result<Option<Warning>> {
    let Some(TrainFiles::One(train)) = &data.train else {
        return Ok(None);
    };
    let (Some(folder), Ok((src, tgt))) = (train.parent(), data.languages()) else {
        return Ok(None);
    };
    let Some(record) = Record::read(folder)? else {
        return Ok(None);
    };
    // The record has no path, so that a folder may be moved: the text is where `new` looks for it.
    let text = folder
        .parent()
        .and_then(|data| training_text(data, src, tgt));
    let Some(text) = text else {
        return Ok(None);
    };
    let corpus = open(&text, [src, tgt])?;
    if record.text == hexadecimal(&corpus.content_hash()?) {
        return Ok(None);
    }
    let message = format!(
        "`{}` was split off an earlier version of `{}`, which has changed since",
        folder.display(),
        text.display()
    );
    let hint = "`polyglow new` with the options in the first line of the config splits it again";
    Ok(Some(Warning::new(message, hint)))
}

/// Lists `train`, which has the rest of the text, and the names of the sets.
fn with_train<'a>(names: &'a [&'static str]) -> impl Iterator<Item = &'static str> + 'a {
    std::iter::once("train").chain(names.iter().copied())
}

/// Lists the files of `train` and of the sets of these names.
fn file_names(languages: [&str; 2], names: &[&'static str]) -> Vec<String> {
    with_train(names)
        .flat_map(|set| languages.map(|side| format!("{set}.{side}")))
        .collect()
}

/// Takes sets without a record, as earlier versions wrote them, if all of them together have the
/// pairs of the text.
fn take_unrecorded(
    corpus: &Corpus,
    text: &Path,
    languages: [&str; 2],
    names: &[&'static str],
    folder: &Path,
) -> anyhow::Result<()> {
    check_count(corpus, text, languages, names, folder)?;
    let mut parts: u64 = 0;
    for set in with_train(names) {
        parts = parts.wrapping_add(sum(&open(&folder.join(set), languages)?)?);
    }
    if sum(corpus)? == parts {
        tracing::info!(
            "taking what was split off before, in `{}`",
            folder.display()
        );
        return Ok(());
    }
    let text = text.display();
    let folder = folder.display();
    let error = usage(anyhow!(
        "`{folder}` has other pairs than `{text}`: one of them has changed since the split"
    ));
    Err(with_hint(
        error,
        format!("rename `{folder}` to keep it, or remove it, and the text is split again"),
    ))
}

/// Makes sure that the sets have as many pairs as the text: a text of another length may be another
/// text.
fn check_count(
    corpus: &Corpus,
    text: &Path,
    languages: [&str; 2],
    names: &[&'static str],
    folder: &Path,
) -> anyhow::Result<()> {
    let whole = count(corpus)?;
    let mut parts = 0;
    for set in with_train(names) {
        parts += count(&open(&folder.join(set), languages)?)?;
    }
    if whole == parts {
        return Ok(());
    }
    let text = text.display();
    let folder = folder.display();
    let error = usage(anyhow!(
        "`{folder}` was split off {parts} pairs, and `{text}` has {whole} now"
    ));
    Err(with_hint(
        error,
        format!("rename `{folder}` to keep it, or remove it, and the text is split again"),
    ))
}

/// The error of files that were edited where another split has to be written. `is_same_text` says
/// that other sets are requested, not that the text has changed.
fn edited_since(edited: &[&str], folder: &Path, is_same_text: bool) -> anyhow::Error {
    let why = if is_same_text {
        "another split is needed"
    } else {
        "the text has changed since"
    };
    let folder = folder.display();
    let error = usage(anyhow!(
        "`{}` in `{folder}` was edited after it was split off, and {why}",
        edited.join("`, `")
    ));
    with_hint(
        error,
        format!("rename `{folder}` to keep it, and the text is split again"),
    )
}

/// The error of a file that is no part of a split, where one has to be written.
fn not_split_off(path: &Path) -> anyhow::Error {
    let error = usage(anyhow!(
        "`{}` is there already, and was not split off by this command",
        path.display()
    ));
    with_hint(
        error,
        "rename or remove it: validation and test sets are split off into that folder",
    )
}

/// Opens the text of both languages at `text`, which may have bytes that are no UTF-8: cleaning reads or
/// removes them.
///
/// # Errors
/// A file is missing.
pub(super) fn open(text: &Path, languages: [&str; 2]) -> anyhow::Result<Corpus> {
    Ok(open_utf8(text, languages)?.for_cleaning())
}

/// Opens the text of both languages at `text`, in which bytes that are no UTF-8 are an error.
///
/// # Errors
/// A file is missing.
pub(super) fn open_utf8(text: &Path, [src, tgt]: [&str; 2]) -> anyhow::Result<Corpus> {
    let config = DataConfig {
        train: Some(TrainFiles::One(text.to_owned())),
        src: Some(src.to_owned()),
        tgt: Some(tgt.to_owned()),
        ..DataConfig::default()
    };
    Ok(Corpus::open(&config, Content::PAIRS, Split::Train)?)
}

/// Counts the pairs of a text.
///
/// # Errors
/// It cannot be read.
pub(super) fn count(corpus: &Corpus) -> anyhow::Result<u64> {
    let mut pairs = 0;
    for pair in corpus.pairs() {
        pair?;
        pairs += 1;
    }
    Ok(pairs)
}

/// Adds up the hashes of all pairs: equal for texts of the same pairs, in any order.
fn sum(corpus: &Corpus) -> anyhow::Result<u64> {
    let mut sum: u64 = 0;
    for pair in corpus.pairs() {
        let mut hasher = DefaultHasher::new();
        let Pair { src, tgt } = pair?;
        (src, tgt).hash(&mut hasher);
        sum = sum.wrapping_add(hasher.finish());
    }
    Ok(sum)
}

/// Splits sets of these names off a text, and writes them and the rest, as `train`, into `folder`,
/// with a record of all files. Logs the size of each set.
///
/// The files of an earlier split, of which `old` is the record, stay until all new ones are written
/// under temporary names. A process that is killed while these are renamed leaves a record of both
/// splits, by which the next one splits again.
///
/// A pair is only taken if cleaning leaves it as it is, so that models are not tested on noise or on
/// what they are validated on, and if no other pair has its source or its target, whatever their
/// case and spaces, so that nothing of these sets is trained on.
///
/// # Errors
/// The text cannot be read, or is too small; a file cannot be written.
fn split_off(
    corpus: &Corpus,
    languages: [&str; 2],
    names: &[&'static str],
    held_out: &[Corpus],
    folder: &Path,
    mut old: Record,
) -> anyhow::Result<()> {
    let text = corpus.content_hash()?;
    let chosen = choose(corpus, held_out, names.len())?;
    fs_err::create_dir_all(folder)?;
    let mut own_files = file_names(languages, names);
    own_files.push(record::NAME.to_owned());
    remove_unfinished(folder, |name: &str| {
        own_files.iter().any(|file| file == name)
    })
    .with_context(|| format!("cannot clear `{}`", folder.display()))?;
    let mut outputs = write_sets(corpus, languages, names, &chosen, folder)?;
    ensure!(
        corpus.content_hash()? == text,
        "the text has changed while it was split: run the same command again"
    );
    let mut new = Record {
        text: hexadecimal(&text),
        ..Record::default()
    };
    for output in &mut outputs {
        output.flush()?;
        new.files.insert(output.name().to_owned(), output.hash());
    }
    old.adopt_unfinished(folder)?;
    old.unfinished.clone_from(&new.files);
    old.write(folder)?;
    outputs.into_iter().try_for_each(Output::finish)?;
    old.remove_files_except(&new.files, folder)?;
    new.write(folder)?;
    for (name, lines) in names.iter().zip(&chosen) {
        tracing::info!(
            "split {} pairs off as `{}`; none of their sentences is in what is left",
            lines.len(),
            folder.join(name).display()
        );
    }
    Ok(())
}

/// Writes the pairs on the chosen lines into the sets of these names, and all others into `train`,
/// each under a temporary name in `folder`.
fn write_sets(
    corpus: &Corpus,
    languages: [&str; 2],
    names: &[&'static str],
    chosen: &[BTreeSet<usize>],
    folder: &Path,
) -> anyhow::Result<Vec<Output>> {
    let mut sets: Vec<[Output; 2]> = Vec::new();
    for name in with_train(names) {
        let [src, tgt] = languages.map(|side| Output::create(folder, name, side));
        sets.push([src?, tgt?]);
    }
    for (line, pair) in corpus.pairs().enumerate() {
        let pair = pair?;
        let set = chosen
            .iter()
            .position(|lines| lines.contains(&line))
            .map_or(0, |set| set + 1);
        for (output, text) in sets[set].iter_mut().zip([&pair.src, &pair.tgt]) {
            output.write(text)?;
        }
    }
    Ok(sets.into_iter().flatten().collect())
}

/// Chooses the pairs of each of `sets` sets, as [`split_off`] says; returns their lines, counted
/// from 0.
fn choose(
    corpus: &Corpus,
    held_out: &[Corpus],
    sets: usize,
) -> anyhow::Result<Vec<BTreeSet<usize>>> {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    let mut pairs = 0;
    for pair in corpus.pairs() {
        for key in keys(&pair?) {
            *counts.entry(key).or_default() += 1;
        }
        pairs += 1;
    }
    let size = (pairs / PART).min(MOST);
    ensure!(
        size >= FEWEST,
        "the training text has {pairs} pairs, too few to split sets off it: {} are needed",
        FEWEST * PART
    );
    let cleaning = look(corpus, held_out, &BTreeSet::new())?.without_evidence();
    let filtered = cleaning.by_all_filters();
    for gap in filtered.report().gaps {
        tracing::info!("for the sets to split off, {gap}");
    }
    let mut candidates = Vec::new();
    for (line, pair) in corpus.pairs().take(pairs).enumerate() {
        let pair = pair?;
        let is_clean = filtered.leaves_unchanged(line as u64, &pair) && pair.src != pair.tgt;
        // A sentence that another pair has, too, would be tested on after it was trained on.
        if is_clean && keys(&pair).iter().all(|key| counts.get(key) == Some(&1)) {
            candidates.push((mix(&[SEED, line as u64]), line));
        }
    }
    candidates.sort_unstable();
    // At least half of the candidates stay in the training text, which has rare sentences then,
    // too.
    let each = size.min(candidates.len() / (2 * sets));
    if each < FEWEST {
        let error = anyhow!(
            "only {} of {pairs} pairs need no cleaning and have sentences that no other pair has, too \
             few to split sets off",
            candidates.len()
        );
        let hint =
            "`polyglow clean --src FILE --tgt FILE --dry-run` says what is wrong with the others";
        return Err(with_hint(error, hint));
    }
    let chosen = candidates.chunks(each).take(sets);
    Ok(chosen
        .map(|set| set.iter().map(|(_, line)| *line).collect())
        .collect())
}

/// Hashes both sides of a pair, without case and repeated spaces; equal sentences of different
/// sides have different hashes.
fn keys(pair: &Pair) -> [u64; 2] {
    [(0, &pair.src), (1, &pair.tgt)].map(|(side, text)| {
        let mut hasher = DefaultHasher::new();
        side.hash(&mut hasher);
        text.to_lowercase()
            .split_whitespace()
            .for_each(|word| word.hash(&mut hasher));
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_text(folder: &Path, ending: &str) {
        for side in ["en", "fr"] {
            // In letters: lines that differ in digits alone would be a template.
            let word = |line: u32| {
                line.to_string()
                    .bytes()
                    .map(|digit| char::from(digit + b'A' - b'0'))
                    .collect::<String>()
            };
            let lines = (0..300).map(|line| format!("{side} {}{ending}\n", word(line)));
            let path = folder.join(format!("talks.{side}"));
            std::fs::write(path, lines.collect::<String>()).expect("it can be written");
        }
    }

    #[test]
    fn a_split_of_a_text_that_has_changed_is_stale_until_it_is_made_again() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let text = folder.path().join("talks");
        let split = folder.path().join("split");
        let data = DataConfig {
            train: Some(TrainFiles::One(split.join("train"))),
            src: Some("en".to_owned()),
            tgt: Some("fr".to_owned()),
            ..DataConfig::default()
        };
        let is_stale = || {
            let warning = warn_of_stale(&data).expect("the text is readable");
            warning.is_some_and(|warning| warning.message.ends_with("has changed since"))
        };
        write_text(folder.path(), "");
        assert!(!is_stale(), "there is no split");
        provide(&text, ["en", "fr"], &["valid"], &[], &split).expect("it is large enough");
        assert!(!is_stale());
        write_text(folder.path(), ".");
        assert!(is_stale());
        provide(&text, ["en", "fr"], &["valid"], &[], &split).expect("it was not edited");
        assert!(!is_stale());
    }
}
