//! The setting of a training, from which the built-in tasks are made: the plan, the prepared data,
//! and the held-out set.

use std::ops::Range;
use std::sync::Arc;

use polyglow_data::augmentation::Augmentation;
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

/// The name of the span in which a held-out text is read and scored. Its field `text` names the
/// files, so that a subscriber can tell which text a warning about line 4 is about, and drop the
/// warnings that an earlier validation gave already.
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

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(pairs) => pairs.len(),
            Self::Images(images) => images.len(),
        }
    }

    /// Returns whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pairs; of images there are none.
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

/// Warns of sentences and references that are blank: the output for them counts in the scores.
fn warn_of_blank_sides(file: &str, pairs: &[Pair]) {
    let mut first = None;
    let mut num_blank = 0;
    let mut num_without_reference = 0;
    for (line, pair) in (1..).zip(pairs) {
        let has_reference = !is_blank(&pair.tgt);
        if is_blank(&pair.src) || !has_reference {
            first.get_or_insert(line);
            num_blank += 1;
            num_without_reference += usize::from(!has_reference);
        }
    }
    if let Some(first) = first {
        tracing::warn!(
            "`{file}`: {num_blank} of {} held-out pairs have a blank side, the first on line {first}, and \
             {num_without_reference} have no reference: they lower the scores; remove their lines from both sides",
            pairs.len()
        );
    }
}

fn is_blank(side: &str) -> bool {
    side.trim().is_empty()
}

/// The plan of a training, and the parts of its prepared data that every built-in task needs.
#[derive(Clone)]
pub struct Setting {
    /// The plan of the training.
    pub plan: Plan,
    /// Both sides' tokenizers.
    pub tokenizers: Tokenizers,
    /// The validation set; empty if there is none.
    pub valid: Arc<HeldOut>,
    /// The tokenizer of BLEU.
    pub bleu: BleuTokenizer,
    /// The most tokens of a side, without EOS.
    pub longest: usize,
}

/// The data that is trained on.
#[derive(Clone)]
pub enum TrainingData {
    /// The ids of a text, on disk.
    Text(Arc<IdCache>),
    /// Images, in memory.
    Images {
        /// The images of all corpora.
        images: Arc<ImageSet>,
        /// The id of the label of each image.
        labels: Arc<[i32]>,
        /// The indices of the images of each corpus, and how often an epoch holds each of these.
        parts: Vec<(Range<u32>, f64)>,
    },
    /// The ids of captions, on disk, and their images, in memory.
    Captions {
        /// The captions.
        cache: Arc<IdCache>,
        /// An image for each caption.
        images: Arc<CaptionImages>,
    },
}

impl TrainingData {
    /// Returns the ids of a text, or of captions.
    ///
    /// # Errors
    /// The data are images with labels.
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
    /// Makes the runner of a model in a validation, which searches greedily.
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

    /// Returns the augmentation that the config chooses, if it chooses one.
    pub fn augmentation(&self) -> Option<Augmentation> {
        let chosen = self.plan.config.train.augmentation?;
        Some(chosen.0.make())
    }

    /// Returns the cross-entropy of a model that gives all target tokens the same probability, in
    /// nats: `ln V`, smoothed or not.
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
