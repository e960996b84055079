//! Splits validation and test sets off a training text.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::{Corpus, Pair};
use polyglow_data::file::NewFile;
use polyglow_data::random::mix;

/// The largest set that is split off.
const MOST: usize = 1000;
/// The part of the text that a set has at most, as a divisor.
const PART: usize = 20;
/// Fewest pairs in a set.
const FEWEST: usize = 10;
/// Seed of the choice, so that the same text gives the same sets.
const SEED: u64 = 1;

/// Splits sets of these names off the text at `text`, and writes them and what is left, as `train`, into `folder`; returns
/// how many pairs each set has.
///
/// A pair is only taken if no other pair has its source or its target, whatever their case and spaces, so that nothing of
/// these sets is trained on.
///
/// # Errors
/// The text cannot be read, or is too small; a file cannot be written.
pub(super) fn split_off(
    text: &Path,
    [src, tgt]: [&str; 2],
    names: &[&'static str],
    folder: &Path,
) -> anyhow::Result<Vec<usize>> {
    let config = DataConfig {
        train: Some(TrainFiles::One(text.to_owned())),
        src: Some(src.to_owned()),
        tgt: Some(tgt.to_owned()),
        ..DataConfig::default()
    };
    let corpus = Corpus::open(&config, Content::Pairs, Split::Train)?;
    let chosen = choose(&corpus, names.len())?;
    fs_err::create_dir_all(folder)?;
    let names: Vec<&str> = std::iter::once("train").chain(names.iter().copied()).collect();
    let mut sets: Vec<[Output; 2]> = names
        .iter()
        .map(|name| Ok([Output::create(folder, name, src)?, Output::create(folder, name, tgt)?]))
        .collect::<anyhow::Result<_>>()?;
    for (line, pair) in corpus.pairs().enumerate() {
        let pair = pair?;
        let set = chosen.iter().position(|lines| lines.contains(&line)).map_or(0, |set| set + 1);
        for (output, text) in sets[set].iter_mut().zip([&pair.src, &pair.tgt]) {
            output.write(text)?;
        }
    }
    sets.into_iter().flatten().try_for_each(Output::finish)?;
    Ok(chosen.iter().map(BTreeSet::len).collect())
}

/// The places of the pairs of so many sets.
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
        let usable = !pair.src.trim().is_empty() && !pair.tgt.trim().is_empty() && pair.src != pair.tgt;
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
    Ok((0..sets).map(|set| candidates[set * each..][..each].iter().map(|(_, line)| *line).collect()).collect())
}

/// What both sides of a pair are compared by.
fn keys(pair: &Pair) -> [u64; 2] {
    [(0, &pair.src), (1, &pair.tgt)].map(|(side, text)| {
        let mut hasher = DefaultHasher::new();
        side.hash(&mut hasher);
        text.to_lowercase().split_whitespace().for_each(|word| word.hash(&mut hasher));
        hasher.finish()
    })
}

/// A file that appears when it is complete.
struct Output {
    path: PathBuf,
    file: NewFile,
    buffer: Vec<u8>,
}

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 16;

impl Output {
    fn create(folder: &Path, name: &str, ending: &str) -> anyhow::Result<Self> {
        let path = folder.join(format!("{name}.{ending}"));
        let file = NewFile::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self { path, file, buffer: Vec::with_capacity(BUFFER) })
    }

    fn write(&mut self, line: &str) -> anyhow::Result<()> {
        self.buffer.extend_from_slice(line.as_bytes());
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let mut file = self.file.file();
        file.write_all(&self.buffer).with_context(|| format!("cannot write `{}`", self.path.display()))?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.flush()?;
        let Self { path, file, .. } = self;
        file.commit().with_context(|| format!("cannot write `{}`", path.display()))
    }
}
