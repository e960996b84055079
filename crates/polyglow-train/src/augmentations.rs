//! The changes of examples that a program has registered, by the names that configs give them.

use polyglow_data::augmentation::Augmentation;
use polyglow_data::example::Example;
use polyglow_data::random::Random;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::ModelError;
use polyglow_model::registry::{Named, Row, Table};

/// Changes an example before it is trained on, by random numbers that follow from the seed of the
/// run, the epoch and the example ([`Augmentation`]).
pub type Augment = fn(example: &mut Example, random: &mut Random, tokenizers: &Tokenizers);

/// A row of the table of augmentations.
pub struct AugmentationRow {
    name: &'static str,
    augment: Augment,
}

/// There are none but those that a program adds: the built-in ones have keys of their own,
/// `tokenizer.dropout`, `tokenizer.sampling_alpha` and `data.images.augment`.
static TABLE: Table<AugmentationRow> = Table::new("train.augmentation", &[]);

impl Named for AugmentationRow {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Row for AugmentationRow {
    fn table() -> &'static Table<Self> {
        &TABLE
    }
}

impl AugmentationRow {
    /// Makes the augmentation.
    pub(crate) fn make(&self) -> Augmentation {
        Augmentation::new(self.name, self.augment)
    }
}

/// Registers an augmentation, which a config chooses by `train.augmentation = "NAME"`, for
/// translation, language models that read line by line, and labels of texts.
///
/// ```
/// use polyglow_train::{Config, register_augmentation};
///
/// // Swaps two neighboring tokens of the source.
/// register_augmentation("swap", |example, random, _| {
///     if example.src.len() > 1 {
///         let first = random.below(example.src.len() - 1);
///         example.src.swap(first, first + 1);
///     }
/// })?;
/// let text = "data.corpus = 'digits'\ntrain = { max_steps = 2, augmentation = 'swap' }";
/// Config::from_text(text, &[])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The name is no word in lower case, or that of another augmentation.
pub fn register_augmentation(name: &'static str, augment: Augment) -> Result<(), ModelError> {
    TABLE.register(Box::new(AugmentationRow { name, augment }))
}
