//! What a model was trained for.

use std::num::NonZeroUsize;

use polyglow_data::config::{Content, DataConfig, ImageConfig};
use polyglow_data::skip_gram::SkipGrams;
use polyglow_model::{ModelConfig, Task as TaskKind};

/// What is learned, with the settings that only this task has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskPlan {
    /// The target, given the source.
    Translation,
    /// The next token of a text.
    Language {
        /// Positions of the windows in which the text is read as a stream; line by line without it.
        context_len: Option<NonZeroUsize>,
    },
    /// Which words stand beside a word.
    Words(SkipGrams),
    /// The label of a text.
    Labels,
    /// The label of an image.
    Images(ImageConfig),
    /// The description of an image.
    Captions {
        /// How images are read.
        images: ImageConfig,
        /// Patches that an image is cut into: the positions that it takes up in a batch.
        num_patches: usize,
    },
    /// The tokens that are hidden in a text.
    Masked,
}

impl TaskPlan {
    /// Returns the task of a model with this `[model]` table, on data with this `[data]` table.
    pub fn new(model: &ModelConfig, data: &DataConfig) -> Self {
        match model.task() {
            TaskKind::Translation => Self::Translation,
            TaskKind::Language => Self::Language {
                context_len: data.context_len,
            },
            TaskKind::Words => Self::Words(data.words()),
            TaskKind::Labels => Self::Labels,
            TaskKind::Images => Self::Images(data.images()),
            TaskKind::Captions => {
                let images = data.images();
                // Patches that do not divide the images are refused with the model.
                let patch_size = model.patch_size.unwrap_or(1).max(1);
                let num_patches = images.size.iter().map(|side| side / patch_size).product();
                Self::Captions {
                    images,
                    num_patches,
                }
            }
            TaskKind::Masked => Self::Masked,
        }
    }

    /// Returns the task without its settings.
    pub fn kind(&self) -> TaskKind {
        match self {
            Self::Translation => TaskKind::Translation,
            Self::Language { .. } => TaskKind::Language,
            Self::Words(_) => TaskKind::Words,
            Self::Labels => TaskKind::Labels,
            Self::Images(_) => TaskKind::Images,
            Self::Captions { .. } => TaskKind::Captions,
            Self::Masked => TaskKind::Masked,
        }
    }
}

/// Returns what a corpus is made of, for a task.
pub fn content(task: TaskKind) -> Content {
    match task {
        TaskKind::Translation => Content::Pairs,
        TaskKind::Language | TaskKind::Words | TaskKind::Masked => Content::Text,
        TaskKind::Labels => Content::LabeledText,
        TaskKind::Images => Content::Images,
        TaskKind::Captions => Content::Captions,
    }
}
