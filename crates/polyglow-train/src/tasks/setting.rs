//! What the built-in tasks are made from: the plan, the prepared data, and the held-out set.

use std::ops::Range;
use std::sync::Arc;

use polyglow_data::corpus::{Corpus, Part};
use polyglow_data::id_cache::IdCache;
use polyglow_data::image_set::ImageSet;
use polyglow_data::pair::Pair;
use polyglow_data::sources::CaptionImages;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_metrics::Tokenizer as BleuTokenizer;
use polyglow_model::Model;
use polyglow_predict::error::{Result, TrainError};
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::{Examples, LabeledImage};

use super::{Validation, evaluate};
use crate::plan::Plan;

/// The name of the span of all that is done with a held-out text, whose field `text` names its
/// files: so a subscriber can tell which text a warning about line 4 is about, and that an earlier
/// validation told it already.
pub const HELD_OUT: &str = "held_out";

/// Enters the span [`HELD_OUT`] with the names of the parts of a corpus.
pub fn held_out_span(corpus: &Corpus) -> tracing::Span {
    let names: Vec<String> = corpus.parts().iter().map(Part::name).collect();
    tracing::warn_span!(HELD_OUT, text = %names.join(", "))
}

/// Data that is not trained on.
#[derive(Clone, Debug)]
pub enum HeldOut {
    /// Text: pairs, lines, or texts with labels.
    Text(Vec<Pair>),
    /// Images with labels.
    Images(Arc<ImageSet>),
}

impl Default for HeldOut {
    fn default() -> Self {
        Self::Text(Vec::new())
    }
}

impl HeldOut {
    /// Reads a corpus as a whole. Warns of pairs with a blank side, which count in the scores.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(corpus: &Corpus) -> Result<Self> {
        if let Some(sets) = corpus.images() {
            return Ok(Self::Images(ImageSet::join(&sets)));
        }
        let mut all = Vec::new();
        for part in corpus.parts() {
            let start = all.len();
            for pair in part.pairs()? {
                all.push(pair?);
            }
            if corpus.content().is_parallel() {
                warn_of_blank_sides(&part.name(), &all[start..]);
            }
        }
        Ok(Self::Text(all))
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(pairs) => pairs.len(),
            Self::Images(images) => images.len(),
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pairs; none of images.
    pub fn pairs(&self) -> &[Pair] {
        match self {
            Self::Text(pairs) => pairs,
            Self::Images(_) => &[],
        }
    }

    /// Returns the examples, for the scores of a model.
    pub fn examples(&self) -> Examples<'_> {
        let images = match self {
            Self::Text(pairs) => return Examples::Text(pairs),
            Self::Images(images) => images,
        };
        let mut labeled = Vec::with_capacity(images.len());
        for index in 0..images.len() {
            let image = images.example(index);
            labeled.push(LabeledImage {
                pixels: image.pixels,
                label: &images.labels.names()[image.label as usize],
            });
        }
        Examples::Images(labeled)
    }
}

/// Tells of sentences and references that are blank: whatever is written for them counts in the
/// scores.
fn warn_of_blank_sides(file: &str, pairs: &[Pair]) {
    let is_blank = |side: &str| side.trim().is_empty();
    let blank: Vec<usize> = (0..pairs.len())
        .filter(|&pair| is_blank(&pairs[pair].src) || is_blank(&pairs[pair].tgt))
        .collect();
    let Some(first) = blank.first() else { return };
    let references = blank
        .iter()
        .filter(|&&pair| is_blank(&pairs[pair].tgt))
        .count();
    tracing::warn!(
        "`{file}`: {} of {} held-out pairs have a blank side, the first on line {}, and {references} have no reference: they \
         lower the scores; remove their lines from both sides",
        blank.len(),
        pairs.len(),
        first + 1
    );
}

/// What a built-in task takes from the plan and from the prepared data.
#[derive(Clone)]
pub struct Setting {
    /// What runs.
    pub plan: Plan,
    /// Both sides' tokenizers.
    pub tokenizers: Tokenizers,
    /// What training is watched on.
    pub valid: Arc<HeldOut>,
    /// How BLEU splits lines.
    pub bleu: BleuTokenizer,
    /// The most tokens of a side, without the end mark.
    pub longest: usize,
}

/// What is trained on.
#[derive(Clone)]
pub enum TrainingData {
    /// The ids of a text, on disk.
    Text(Arc<IdCache>),
    /// Images, in memory.
    Images {
        /// All of them.
        images: Arc<ImageSet>,
        /// The id of each one's label.
        labels: Arc<[i32]>,
        /// Which of them belong to each corpus, and how often an epoch holds each of these.
        parts: Vec<(Range<u32>, f64)>,
    },
    /// The ids of captions, on disk, and their images, in memory.
    Captions {
        /// The captions.
        cache: Arc<IdCache>,
        /// An image for each of them.
        images: Arc<CaptionImages>,
    },
}

impl TrainingData {
    /// The ids of a text, or of captions.
    ///
    /// # Errors
    /// These are images.
    pub fn text(&self) -> Result<&Arc<IdCache>> {
        match self {
            Self::Text(cache) | Self::Captions { cache, .. } => Ok(cache),
            Self::Images { .. } => Err(TrainError::new(
                "the training data are images, which have no ids",
            )),
        }
    }
}

impl Setting {
    /// What uses a model in a validation: greedy search.
    pub(crate) fn runner<M>(&self, model: M) -> Runner<M> {
        let Self {
            plan,
            tokenizers,
            longest,
            ..
        } = self;
        let options = plan.runner_options(plan.config.search.greedy(), *longest);
        Runner::new(model, tokenizers, options)
    }

    /// The cross-entropy of a model that finds all target tokens equally probable, in nats: `ln V`,
    /// smoothed or not.
    pub(super) fn uniform_loss(&self) -> f64 {
        (self.tokenizers.tgt.vocab_size() as f64).ln()
    }

    /// Scores the validation set with a built-in model.
    pub(super) fn validate(&self, model: Model) -> Result<Option<Validation>> {
        if self.valid.is_empty() {
            return Ok(None);
        }
        let options = self.bleu.clone().into();
        let evaluation = evaluate(&self.runner(model), &self.valid, &options)?;
        Ok(Some(Validation::new(evaluation, self.valid.pairs())))
    }
}
