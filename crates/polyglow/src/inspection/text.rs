//! The text of every split: sizes, unknown tokens, repetitions, and test sentences that training sees.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use polyglow_data::config::Split;
use polyglow_data::corpus::{Corpus, Pair};
use polyglow_data::error::DataError;
use polyglow_data::example::{CorpusReport, SideReport};
use polyglow_data::image_set::ImageSet;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_train::Plan;
use serde::Serialize;

/// Held-out pairs that are encoded together: enough to occupy all cores.
const PAIRS_PER_CHUNK: usize = 4096;

/// Statistics of one split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SplitReport {
    /// `train`, `valid`, or the name of a test set.
    pub(crate) name: String,
    /// Pairs read.
    pub(crate) pairs: u64,
    /// Pairs used; training leaves some out.
    pub(crate) kept: u64,
    /// Pairs left out because a side is empty.
    pub(crate) empty: u64,
    /// Pairs left out because a side is longer than `data.max_len`.
    pub(crate) too_long: u64,
    /// Pairs left out because their lengths differ by more than `data.max_length_ratio`.
    pub(crate) ratio: u64,
    /// Source sides of the pairs used.
    pub(crate) src: SideStatistics,
    /// Target sides of the pairs used.
    pub(crate) tgt: SideStatistics,
    /// Pairs that are the same, on both sides, as one before them.
    pub(crate) duplicates: u64,
    /// Pairs whose target is their source.
    pub(crate) copies: u64,
    /// Pairs whose source is also in the training text; `None` for that text itself.
    pub(crate) in_train: Option<u64>,
}

/// One side of a split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SideStatistics {
    /// Tokens, those that the vocabulary lacks, and the length of the longest sentence.
    #[serde(flatten)]
    pub(crate) side: SideReport,
    /// Mean length of a sentence, in tokens.
    pub(crate) mean_len: f64,
    /// The share of unknown tokens, 0 to 1.
    pub(crate) unknown_rate: f64,
}

impl SideStatistics {
    fn new(side: &SideReport, sentences: u64) -> Self {
        Self { mean_len: side.mean_len(sentences), unknown_rate: side.unknown_rate(), side: side.clone() }
    }
}

impl SplitReport {
    fn new(name: &str, report: &CorpusReport, repetitions: Repetitions, in_train: Option<u64>) -> Self {
        let &CorpusReport { pairs, kept, empty, too_long, ratio, ref src, ref tgt, .. } = report;
        let (src, tgt) = (SideStatistics::new(src, kept), SideStatistics::new(tgt, kept));
        let (name, copies, duplicates) = (name.to_owned(), repetitions.copies, repetitions.duplicates());
        Self { name, pairs, kept, empty, too_long, ratio, src, tgt, duplicates, copies, in_train }
    }

    /// Pairs left out, for whatever reason.
    pub(crate) fn left_out(&self) -> u64 {
        self.pairs - self.kept
    }

    /// The share of `pairs` that `count` is, 0 to 1.
    pub(crate) fn share(&self, count: u64) -> f64 {
        count as f64 / self.pairs.max(1) as f64
    }
}

/// Reads the held-out sets, then streams the training text past them.
///
/// `report` is the result of encoding `train`; `None` for images. Sentences are compared by 64-bit hashes: among 10 million pairs the
/// chance of a single false match is below one in 100 000.
///
/// # Errors
/// A set cannot be read, is missing or empty.
pub(super) fn read_splits(
    plan: &Plan,
    train: &Corpus,
    report: Option<&CorpusReport>,
    tokenizers: &Tokenizers,
) -> Result<Vec<SplitReport>, DataError> {
    let data = &plan.config.data;
    let valid = data.has_valid().then_some(("valid", Split::Valid));
    let tests = data.test_names().into_iter().map(|name| (name, Split::Test(name)));
    let read = |(name, split)| read_held_out(name, &Corpus::open(data, plan.content, split)?, tokenizers);
    let mut held_out: Vec<HeldOut> = valid.into_iter().chain(tests).map(read).collect::<Result<_, _>>()?;

    let watched: HashSet<u64> = held_out.iter().flat_map(|set| &set.sources).copied().collect();
    let mut found = HashSet::new();
    let mut watch = |source: u64| {
        if watched.contains(&source) {
            found.insert(source);
        }
    };
    let training = if let Some(report) = report {
        let mut repetitions = Repetitions { hashes: Vec::with_capacity(report.pairs as usize), copies: 0 };
        // Those that were encoded: no more than `data.max_examples`.
        for pair in train.pairs().take(report.pairs as usize) {
            let pair = pair?;
            repetitions.add(&pair);
            watch(hash(&read_side(&pair)));
        }
        SplitReport::new("train", report, repetitions, None)
    } else {
        let HeldOut { report, sources } = read_held_out("train", train, tokenizers)?;
        sources.into_iter().for_each(&mut watch);
        SplitReport { in_train: None, ..report }
    };
    for set in &mut held_out {
        set.report.in_train = Some(set.sources.iter().filter(|source| found.contains(source)).count() as u64);
    }
    let mut splits = vec![training];
    splits.extend(held_out.into_iter().map(|set| set.report));
    Ok(splits)
}

/// A validation or test set.
struct HeldOut {
    report: SplitReport,
    /// The hash of every source sentence, or of every line of a text of one side.
    sources: Vec<u64>,
}

/// Repeated pairs and copies of a split.
#[derive(Default)]
struct Repetitions {
    hashes: Vec<u64>,
    copies: u64,
}

impl Repetitions {
    fn add(&mut self, pair: &Pair) {
        // A blank line separates paragraphs and is not a repetition.
        if pair.src.is_empty() && pair.tgt.is_empty() {
            return;
        }
        self.hashes.push(hash(&(&pair.src, &pair.tgt)));
        self.copies += u64::from(pair.src == pair.tgt && !pair.src.is_empty());
    }

    fn duplicates(mut self) -> u64 {
        let pairs = self.hashes.len();
        self.hashes.sort_unstable();
        self.hashes.dedup();
        (pairs - self.hashes.len()) as u64
    }
}

fn read_held_out(name: &str, corpus: &Corpus, tokenizers: &Tokenizers) -> Result<HeldOut, DataError> {
    let mut report = CorpusReport::default();
    let (mut sources, mut repetitions) = (Vec::new(), Repetitions::default());
    if let Some(sets) = corpus.images() {
        for images in sets {
            let left = corpus.max_examples().map_or(usize::MAX, |most| most as usize).saturating_sub(sources.len());
            count_images(&mut report, &mut sources, &mut repetitions, &images, left);
        }
    } else {
        let mut pairs = corpus.pairs().peekable();
        while pairs.peek().is_some() {
            let chunk: Vec<Pair> = pairs.by_ref().take(PAIRS_PER_CHUNK).collect::<Result<_, _>>()?;
            count_tokens(&mut report.src, &tokenizers.src, chunk.iter().map(|pair| pair.src.as_str()))?;
            count_tokens(&mut report.tgt, &tokenizers.tgt, chunk.iter().map(|pair| pair.tgt.as_str()))?;
            for pair in &chunk {
                sources.push(hash(&read_side(pair)));
                repetitions.add(pair);
            }
        }
    }
    report.pairs = sources.len() as u64;
    report.kept = report.pairs;
    Ok(HeldOut { report: SplitReport::new(name, &report, repetitions, Some(0)), sources })
}

/// Counts images, at most so many, as sources of as many tokens as they have bytes, and their labels as targets.
fn count_images(
    report: &mut CorpusReport,
    sources: &mut Vec<u64>,
    repetitions: &mut Repetitions,
    images: &ImageSet,
    most: usize,
) {
    for index in 0..images.len().min(most) {
        let image = images.example(index);
        for (side, len) in [(&mut report.src, image.pixels.len()), (&mut report.tgt, 1)] {
            side.tokens += len as u64;
            side.longest = side.longest.max(len);
        }
        sources.push(hash(&image.pixels));
        repetitions.hashes.push(hash(&(image.pixels, image.label)));
    }
}

fn count_tokens<'a>(
    side: &mut SideReport,
    tokenizer: &Tokenizer,
    texts: impl Iterator<Item = &'a str>,
) -> Result<(), DataError> {
    let unknown = tokenizer.special().unk;
    for ids in tokenizer.encode_batch(&texts.collect::<Vec<_>>())? {
        side.tokens += ids.len() as u64;
        side.unknown += ids.iter().filter(|&&id| id == unknown).count() as u64;
        side.longest = side.longest.max(ids.len());
    }
    Ok(())
}

/// The side of a pair that a model reads: its source, or the text if it has one side only.
fn read_side(pair: &Pair) -> &str {
    if pair.src.is_empty() { &pair.tgt } else { &pair.src }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_a_duplicate_only_if_both_sides_are() {
        let mut repetitions = Repetitions::default();
        for (src, tgt) in [("a", "b"), ("a", "c"), ("a", "b"), ("ab", ""), ("a", "b"), ("d", "d"), ("", ""), ("", "")] {
            repetitions.add(&Pair { src: src.to_owned(), tgt: tgt.to_owned() });
        }
        assert_eq!(repetitions.copies, 1);
        assert_eq!(repetitions.duplicates(), 2);
    }
}
