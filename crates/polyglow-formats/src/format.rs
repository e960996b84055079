//! The formats of other programs: the trait of a format, and the table of all.

use std::fmt::Debug;
use std::path::Path;

use polyglow_data::pair_tags::PairTags;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::registry::{Named, Table};
use polyglow_model::{Arch, ModelError};
use polyglow_predict::error::{Context, Result, failed, usage, with_hint};
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::{TaskFacts, facts};
use polyglow_train::Plan;
use polyglow_train::config::Config;

use crate::argos::Argos;
use crate::array::Arrays;
use crate::ctranslate2::Ctranslate2;
use crate::huggingface::Huggingface;
use crate::portable::Portable;
use crate::sentencepiece::Sentencepiece;
use crate::web::Web;
use crate::{Precision, folder, verify};

/// The format of another program, which runs are exported to, imported from, or both. Its
/// [name](Named::name) is what commands call it, as in `--to ctranslate2`.
///
/// A format of one's own is registered with [`register_format`]. This one has the weights alone,
/// as lines of text:
///
/// ```
/// use std::path::Path;
///
/// use polyglow_formats::{Format, Portable, Writing, register_format, write_file};
/// use polyglow_model::registry::Named;
/// use polyglow_predict::error::Result;
/// use polyglow_predict::tasks::TaskFacts;
///
/// #[derive(Debug)]
/// struct Listing;
///
/// impl Named for Listing {
///     fn name(&self) -> &'static str {
///         "listing"
///     }
/// }
///
/// impl Format for Listing {
///     fn title(&self) -> &'static str {
///         "people who read numbers"
///     }
///
///     fn usage(&self, _: &TaskFacts, _: bool) -> &'static str {
///         "`weights.txt` has a line for each array: its name, its shape, its values."
///     }
///
///     fn check(&self, _: &Portable) -> Result<()> {
///         Ok(())
///     }
///
///     fn write(&self, writing: &Writing, dir: &Path) -> Result<()> {
///         let mut lines = Vec::new();
///         for (name, array) in &writing.model.arrays.0 {
///             lines.push(format!("{name} {:?} {:?}\n", array.shape, array.values));
///         }
///         write_file(dir, "weights.txt", lines.concat().as_bytes())
///     }
/// }
///
/// register_format(Box::new(Listing))?;
/// # Ok::<(), polyglow_model::ModelError>(())
/// ```
pub trait Format: Named + Debug + Send {
    /// Returns the name of the format in a sentence.
    fn title(&self) -> &'static str;

    /// Returns the name of the library on a model hub.
    fn library(&self) -> &'static str {
        self.name()
    }

    /// Returns instructions for the exported model, in Markdown; `shared` says that both sides have
    /// one tokenizer.
    fn usage(&self, task: &TaskFacts, shared: bool) -> &'static str;

    /// Returns whether the format has room for weights, and not for tokenizers alone.
    fn has_weights(&self) -> bool {
        true
    }

    /// Returns instructions for a model whose texts begin with tags, in Markdown; `None` if models in this
    /// format cannot have any.
    fn tag_usage(&self, _tags: &PairTags) -> Option<String> {
        None
    }

    /// Returns whether its tokenizers must be unigram models of SentencePiece.
    fn needs_unigram(&self) -> bool {
        false
    }

    /// Returns the data type of weights where none was requested; `is_int8` says that the
    /// checkpoint has 8 bits.
    fn default_precision(&self, _arch: Arch, is_int8: bool) -> Precision {
        // Weights that were quantized gain nothing from more bits.
        if is_int8 {
            Precision::Int8
        } else {
            Precision::Float32
        }
    }

    /// Checks that a translation model can be exported to the format. It may have no weights yet:
    /// this is called before training, when another tokenizer is still a matter of one key.
    ///
    /// # Errors
    /// The format cannot represent the model (exit code 2).
    fn check(&self, model: &Portable) -> Result<()>;

    /// Checks what is to be written, before anything is.
    ///
    /// # Errors
    /// The format cannot represent the model or the data type of its weights, or something that
    /// it needs is missing (exit code 2).
    fn check_writing(&self, _writing: &Writing) -> Result<()> {
        Ok(())
    }

    /// Writes the files of a model into a directory.
    ///
    /// # Errors
    /// The format cannot represent the model (exit code 2); the disk refuses.
    fn write(&self, writing: &Writing, dir: &Path) -> Result<()>;

    /// Returns two models ready to translate: what was written into `dir`, and the original with its
    /// weights rounded in the same way. `None` if what was written cannot be read here, and so is
    /// not verified.
    ///
    /// # Errors
    /// The files cannot be read again.
    fn runners(&self, writing: &Writing, plan: &Plan, dir: &Path) -> Result<Option<[Runner; 2]>> {
        if self.files().is_none() {
            return Ok(None);
        }
        let written = self
            .read(dir)
            .context("what was written cannot be read again")?;
        verify::runners(&written, writing, plan).map(Some)
    }

    /// Completes a directory whose model has been verified, with its card, which is a text in
    /// Markdown.
    ///
    /// # Errors
    /// The disk refuses.
    fn finish(&self, _model: &Portable, card: &str, dir: &Path) -> Result<()> {
        folder::write_file(dir, "README.md", card.as_bytes())
    }

    /// Returns the files by which [`Self::is_in`] knows such a model, for a message: "`model.bin`
    /// (CTranslate2)". `None` if models of this format cannot be read.
    fn files(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether a directory holds a model of this format that can be read.
    fn is_in(&self, _dir: &Path) -> bool {
        false
    }

    /// Reads a model from a directory.
    ///
    /// # Errors
    /// A file is missing, damaged or too large, or the model has layers or options that no
    /// architecture here has.
    fn read(&self, _dir: &Path) -> Result<Portable> {
        Err(failed!("models for {} cannot be read", self.title()))
    }
}

/// The beginning of the instructions for a model with tags: see [`Format::tag_usage`].
pub(crate) const TAGS: &str = "Texts begin with tags, which are tokens of their own and no part of the text. An import does not know \
    them: add `data.src_tag` and `data.tgt_tag` to its `config.toml`.";

/// A model that is to be written, and how.
#[derive(Clone, Copy)]
pub struct Writing<'a> {
    /// The model.
    pub model: &'a Portable,
    /// The data type of its weights.
    pub precision: Precision,
    /// The directory of the package polyglow-web, which the format `web` needs.
    pub package: Option<&'a Path>,
}

/// The formats that are built in, in the order in which commands list them. To add one, add a row
/// and a file.
const BUILT_IN: [&(dyn Format + Sync); 5] =
    [&Ctranslate2, &Huggingface, &Argos, &Sentencepiece, &Web];

static TABLE: Table<dyn Format + Sync> = Table::new("the format", &BUILT_IN);

/// Returns all formats, those that are built in first.
pub fn formats() -> Vec<&'static dyn Format> {
    let mut formats: Vec<&'static dyn Format> = Vec::new();
    for format in TABLE.rows() {
        formats.push(format);
    }
    formats
}

/// Returns the format of a name.
pub fn format_named(name: &str) -> Option<&'static dyn Format> {
    formats().into_iter().find(|format| format.name() == name)
}

/// Adds a format, which `export --to` and, if it can be read, `import` then know.
///
/// # Errors
/// Its name is no word in lower case, or that of another format.
pub fn register_format(format: Box<dyn Format + Sync>) -> Result<(), ModelError> {
    TABLE.register(format)
}

/// Checks that a translation model with this config and these tokenizers can be exported to a
/// format, before it is trained.
///
/// # Errors
/// The format cannot represent the model, or the model does not translate text (exit code 2).
pub fn check_export(format: &dyn Format, config: &Config, tokenizers: &Tokenizers) -> Result<()> {
    if !facts(config.model.task()).translates() {
        return Err(usage(failed!(
            "only models that translate text are checked"
        )));
    }
    check_tags(format, config)?;
    format.check(&Portable {
        config: config.clone(),
        tokenizers: tokenizers.clone(),
        arrays: Arrays::default(),
    })
}

/// Checks that a format has a place for the tags with which a model's texts begin.
///
/// # Errors
/// It has none (exit code 2).
pub(crate) fn check_tags(format: &dyn Format, config: &Config) -> Result<()> {
    let tags = config.data.tags();
    if tags.is_empty() || !format.has_weights() || format.tag_usage(&tags).is_some() {
        return Ok(());
    }
    let tags: Vec<String> = tags
        .src
        .iter()
        .chain(&tags.tgt)
        .map(|tag| format!("`{tag}`"))
        .collect();
    let error = failed!(
        "texts of this model begin with {}, and {} has no place for that",
        tags.join(" and "),
        format.title()
    );
    Err(with_hint(
        usage(error),
        "`--to ctranslate2`, `huggingface` and `web` have; a model without `data.src_tag` and `data.tgt_tag` can go anywhere",
    ))
}

/// Reads a model that another program has written, from a directory in one of the formats that can
/// be read.
///
/// # Errors
/// It is in none of them; a file is missing, damaged or too large; the model has layers or options
/// that polyglow's Transformer lacks.
pub fn import(dir: &Path) -> Result<Portable> {
    let mut readable = Vec::new();
    for format in formats() {
        if format.is_in(dir) {
            return format.read(dir);
        }
        readable.extend(format.files());
    }
    let error = failed!(
        "`{}` holds no model that can be read: neither {}",
        dir.display(),
        readable.join(" nor ")
    );
    let hint = "give the directory that these files are in";
    Err(with_hint(usage(error), hint))
}
