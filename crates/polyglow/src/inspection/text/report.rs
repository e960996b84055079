//! The statistics of a split of text or of images.

use std::collections::HashSet;
use std::sync::Arc;

use polyglow_data::config::Split;
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::example::{CorpusReport, Reason, SideReport};
use polyglow_data::image_set::ImageSet;
use polyglow_train::Plan;
use serde::Serialize;

use super::TextReport;
use super::reader::hash;

/// Statistics of one split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SplitReport {
    /// `train`, `valid`, or the name of a test set.
    pub(crate) name: String,
    /// Pairs read.
    pub(crate) pairs: u64,
    /// Pairs used; training leaves some out.
    pub(crate) kept: u64,
    /// Pairs with an empty side. Training leaves them out, as the two kinds that follow; of a
    /// held-out set they count.
    pub(crate) empty: u64,
    /// Pairs with a side that is longer than `data.max_len`.
    pub(crate) too_long: u64,
    /// Pairs whose lengths differ by more than `data.max_length_ratio`.
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
    /// Pairs whose target is also in the training text; `None` for that text itself.
    pub(crate) targets_in_train: Option<u64>,
    /// Correlation of the lengths of both sides, which is high where lines belong together; `None`
    /// where there are too few.
    pub(crate) length_correlation: Option<f64>,
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
    /// Tokens for each character; 0 where there are none.
    pub(crate) tokens_per_char: f64,
    /// Words that cleaning and normalization change before they are encoded.
    pub(crate) changed_words: u64,
}

impl SideStatistics {
    fn new(side: &SideReport, sentences: u64, chars: u64) -> Self {
        let tokens_per_char = if chars == 0 {
            0.0
        } else {
            side.tokens as f64 / chars as f64
        };
        Self {
            mean_len: side.mean_len(sentences),
            unknown_rate: side.unknown_rate(),
            tokens_per_char,
            changed_words: 0,
            side: side.clone(),
        }
    }
}

impl SplitReport {
    /// Makes the report of a split from the counts of its corpus and the characters of both sides
    /// of the pairs that are used; everything else is 0 or `None`.
    pub(super) fn new(name: &str, report: &CorpusReport, [src_chars, tgt_chars]: [u64; 2]) -> Self {
        let kept = report.kept;
        Self {
            name: name.to_owned(),
            pairs: report.pairs,
            kept,
            empty: report.count(Reason::EMPTY),
            too_long: report.count(Reason::TOO_LONG),
            ratio: report.count(Reason::RATIO),
            src: SideStatistics::new(&report.src, kept, src_chars),
            tgt: SideStatistics::new(&report.tgt, kept, tgt_chars),
            duplicates: 0,
            copies: 0,
            in_train: None,
            targets_in_train: None,
            length_correlation: None,
        }
    }

    /// Returns the number of pairs that are left out by their lengths; none of a held-out set, whose
    /// pairs are all scored.
    pub(crate) fn left_out_by_length(&self) -> u64 {
        let left_out = self.pairs - self.kept;
        left_out.min(self.empty + self.too_long + self.ratio)
    }

    /// The share of `pairs` that `count` is, 0 to 1.
    pub(crate) fn share(&self, count: u64) -> f64 {
        count as f64 / self.pairs.max(1) as f64
    }
}

/// Reads splits of images, which are counted as sources of as many tokens as they have bytes, and
/// their labels as targets.
pub(super) fn read_images(
    plan: &Plan,
    train: &Corpus,
    splits: &[(&str, Split)],
) -> Result<TextReport, DataError> {
    let training = train.training_images().map(|(images, _)| images);
    let (training, known) = count_images("train", training.as_slice(), None);
    let mut reports = vec![training];
    for &(name, split) in splits {
        let corpus = Corpus::open(&plan.config.data, plan.content, split)?;
        reports.push(count_images(name, &corpus.images().unwrap_or_default(), Some(&known)).0);
    }
    Ok(TextReport {
        splits: reports,
        findings: Vec::new(),
        warnings: Vec::new(),
    })
}

/// The numbers of sets of images, and the hashes of their pixels; `known` are those of the training
/// set.
fn count_images(
    name: &str,
    sets: &[Arc<ImageSet>],
    known: Option<&HashSet<u64>>,
) -> (SplitReport, HashSet<u64>) {
    let mut report = CorpusReport::default();
    let mut pixels = HashSet::new();
    let mut pairs = HashSet::new();
    let mut in_train = 0;
    let mut duplicates = 0;
    for image in sets
        .iter()
        .flat_map(|images| (0..images.len()).map(|index| images.example(index)))
    {
        report.pairs += 1;
        for (side, len) in [(&mut report.src, image.pixels.len()), (&mut report.tgt, 1)] {
            side.tokens += len as u64;
            side.longest = side.longest.max(len);
        }
        let hash_of_pixels = hash(&image.pixels);
        in_train += u64::from(known.is_some_and(|known| known.contains(&hash_of_pixels)));
        pixels.insert(hash_of_pixels);
        duplicates += u64::from(!pairs.insert(hash(&(image.pixels, image.label))));
    }
    report.kept = report.pairs;
    let in_train = known.map(|_| in_train);
    (
        SplitReport {
            duplicates,
            in_train,
            ..SplitReport::new(name, &report, [0, 0])
        },
        pixels,
    )
}
