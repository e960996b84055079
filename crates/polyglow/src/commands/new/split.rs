//! Splits validation and test sets off a training text.

mod record;

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::file::{NewFile, remove_unfinished};
use polyglow_data::pair::Pair;
use polyglow_data::random::mix;
use sha2::{Digest, Sha256};

use crate::failure::{usage, with_hint};
use record::{Record, hexadecimal};

/// The largest set that is split off.
const MOST: usize = 1000;
/// The part of the text that a set has at most, as a divisor.
const PART: usize = 20;
/// Fewest pairs in a set.
const FEWEST: usize = 10;
/// Seed of the choice, so that the same text gives the same sets.
const SEED: u64 = 1;

/// Makes sure that `folder` has the sets of these names and, as `train`, what is left of the text
/// at `text` without them.
///
/// What was split off before is taken again, edited or not; of a text that was corrected since, it
/// is made anew, unless somebody has edited it.
///
/// # Errors
/// What is in the folder belongs to another text, or was not split off (exit code 2); as
/// [`split_off`].
pub(super) fn provide(
    text: &Path,
    languages: [&str; 2],
    names: &[&'static str],
    folder: &Path,
) -> anyhow::Result<()> {
    let sets = || std::iter::once("train").chain(names.iter().copied());
    let files = file_names(languages, names);
    let there: Vec<&String> = files
        .iter()
        .filter(|name| folder.join(name).symlink_metadata().is_ok())
        .collect();
    let is_whole = there.len() == files.len();
    let corpus = open(text, languages)?;
    let Some(record) = Record::read(folder)? else {
        return match there[..] {
            [] => split_off(&corpus, languages, names, folder, Record::default()),
            [first, ..] if !is_whole => Err(not_split_off(&folder.join(first))),
            _ => take_unrecorded(&corpus, text, languages, sets(), folder),
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
        let what = if is_same_text {
            "another split is needed"
        } else {
            "the text has changed since"
        };
        let (folder, edited) = (folder.display(), edited.join("`, `"));
        let error = usage(anyhow!(
            "`{edited}` in `{folder}` was edited after it was split off, and {what}"
        ));
        return Err(with_hint(
            error,
            format!("rename `{folder}` to keep it, and the text is split again"),
        ));
    }
    if has_all {
        check_count(&corpus, text, languages, sets(), folder)?;
    }
    let why = if !record.unfinished.is_empty() {
        "because the last split was not completed"
    } else if is_same_text {
        "into other sets"
    } else {
        "because it has changed since it was split"
    };
    tracing::info!("`{}` is split again, {why}", text.display());
    split_off(&corpus, languages, names, folder, record)
}

/// The names of the files of `train` and of the sets of these names.
fn file_names(languages: [&str; 2], names: &[&'static str]) -> Vec<String> {
    let sets = std::iter::once("train").chain(names.iter().copied());
    sets.flat_map(|set| languages.map(|side| format!("{set}.{side}")))
        .collect()
}

/// Takes sets that an earlier version split off, which kept no record, if they are the text.
fn take_unrecorded<'a>(
    corpus: &Corpus,
    text: &Path,
    languages: [&str; 2],
    sets: impl Iterator<Item = &'a str> + Clone,
    folder: &Path,
) -> anyhow::Result<()> {
    check_count(corpus, text, languages, sets.clone(), folder)?;
    let mut parts: u64 = 0;
    for set in sets {
        parts = parts.wrapping_add(sum(&open(&folder.join(set), languages)?)?);
    }
    if sum(corpus)? == parts {
        tracing::info!(
            "taking what was split off before, in `{}`",
            folder.display()
        );
        return Ok(());
    }
    let (text, folder) = (text.display(), folder.display());
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
fn check_count<'a>(
    corpus: &Corpus,
    text: &Path,
    languages: [&str; 2],
    sets: impl Iterator<Item = &'a str>,
    folder: &Path,
) -> anyhow::Result<()> {
    let whole = count(corpus)?;
    let mut parts = 0;
    for set in sets {
        parts += count(&open(&folder.join(set), languages)?)?;
    }
    if whole == parts {
        return Ok(());
    }
    let (text, folder) = (text.display(), folder.display());
    let error = usage(anyhow!(
        "`{folder}` was split off {parts} pairs, and `{text}` has {whole} now"
    ));
    Err(with_hint(
        error,
        format!("remove `{folder}`, and the text is split again"),
    ))
}

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

/// Opens the text of both languages at `text`.
///
/// # Errors
/// A file is missing.
pub(super) fn open(text: &Path, [src, tgt]: [&str; 2]) -> anyhow::Result<Corpus> {
    let config = DataConfig {
        train: Some(TrainFiles::One(text.to_owned())),
        src: Some(src.to_owned()),
        tgt: Some(tgt.to_owned()),
        ..DataConfig::default()
    };
    Ok(Corpus::open(&config, Content::PAIRS, Split::Train)?)
}

/// The number of pairs of a text.
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

/// A sum over all pairs that tells which pairs there are, in whatever order.
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

/// Splits sets of these names off a text, and writes them and what is left, as `train`, into
/// `folder`, with a record of both. Logs how many pairs each set has.
///
/// What is in the folder, of which `old` is the record, is there until all of the new sets are
/// written, beside it. A process that is killed while they are renamed leaves a record of both, by
/// which the next one splits again.
///
/// A pair is only taken if no other pair has its source or its target, whatever their case and
/// spaces, so that nothing of these sets is trained on.
///
/// # Errors
/// The text cannot be read, or is too small; a file cannot be written.
fn split_off(
    corpus: &Corpus,
    languages: [&str; 2],
    names: &[&'static str],
    folder: &Path,
    mut old: Record,
) -> anyhow::Result<()> {
    let chosen = choose(corpus, names.len())?;
    fs_err::create_dir_all(folder)?;
    let is_ours = |name: &str| {
        name == record::NAME || file_names(languages, names).iter().any(|file| file == name)
    };
    remove_unfinished(folder, is_ours)
        .with_context(|| format!("cannot clear `{}`", folder.display()))?;
    let mut outputs = write_sets(corpus, languages, names, &chosen, folder)?;
    let mut new = Record {
        text: hexadecimal(&corpus.content_hash()?),
        ..Record::default()
    };
    for output in &mut outputs {
        output.flush()?;
        new.files.insert(
            output.name.clone(),
            hexadecimal(&output.hash.clone().finalize()),
        );
    }
    old.adopt_unfinished(folder)?;
    old.unfinished.clone_from(&new.files);
    old.write(folder)?;
    outputs.into_iter().try_for_each(Output::finish)?;
    old.remove_files_except(&new.files, folder)?;
    new.write(folder)?;
    for (name, lines) in names.iter().zip(&chosen) {
        let (path, size) = (folder.join(name), lines.len());
        tracing::info!(
            "split {size} pairs off as `{}`; none of their sentences is in what is left",
            path.display()
        );
    }
    Ok(())
}

/// Writes the pairs on the chosen lines into the sets of these names, and all others into `train`,
/// beside their destinations.
fn write_sets(
    corpus: &Corpus,
    languages: [&str; 2],
    names: &[&'static str],
    chosen: &[BTreeSet<usize>],
    folder: &Path,
) -> anyhow::Result<Vec<Output>> {
    let mut sets: Vec<[Output; 2]> = Vec::new();
    for name in std::iter::once("train").chain(names.iter().copied()) {
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

/// The lines, counted from 0, of the pairs of each of `sets` sets.
fn choose(corpus: &Corpus, sets: usize) -> anyhow::Result<Vec<BTreeSet<usize>>> {
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
    let mut candidates = Vec::new();
    for (line, pair) in corpus.pairs().enumerate() {
        let pair = pair?;
        let usable =
            !pair.src.trim().is_empty() && !pair.tgt.trim().is_empty() && pair.src != pair.tgt;
        if usable && keys(&pair).iter().all(|key| counts[key] == 1) {
            candidates.push((mix(&[SEED, line as u64]), line));
        }
    }
    candidates.sort_unstable();
    let each = size.min(candidates.len() / (2 * sets));
    ensure!(
        each >= FEWEST,
        "only {} of {pairs} pairs have sentences that no other pair has, too few to split sets off",
        candidates.len()
    );
    Ok((0..sets)
        .map(|set| {
            candidates[set * each..][..each]
                .iter()
                .map(|(_, line)| *line)
                .collect()
        })
        .collect())
}

/// What both sides of a pair are compared by.
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

/// A file that appears when it is complete.
struct Output {
    name: String,
    path: PathBuf,
    file: NewFile,
    buffer: Vec<u8>,
    /// Of what was flushed.
    hash: Sha256,
}

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 16;

impl Output {
    fn create(folder: &Path, set: &str, ending: &str) -> anyhow::Result<Self> {
        let name = format!("{set}.{ending}");
        let path = folder.join(&name);
        let file =
            NewFile::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self {
            name,
            path,
            file,
            buffer: Vec::with_capacity(BUFFER),
            hash: Sha256::new(),
        })
    }

    fn write(&mut self, line: &str) -> anyhow::Result<()> {
        self.buffer.extend_from_slice(line.as_bytes());
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let mut file = self.file.file();
        file.write_all(&self.buffer)
            .with_context(|| format!("cannot write `{}`", self.path.display()))?;
        self.hash.update(&self.buffer);
        self.buffer.clear();
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        let Self { path, file, .. } = self;
        file.commit()
            .with_context(|| format!("cannot write `{}`", path.display()))
    }
}
