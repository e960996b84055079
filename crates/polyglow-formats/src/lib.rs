//! Models in other programs' formats: export of runs, and import into runs.
//!
//! Each format is a module of this crate, a variant of [`Target`], and a line in [`import`] if it
//! can be read. It is written from a [`Portable`], and read into one, so that an exported model can
//! be read again and tried before it is kept.

mod argos;
mod array;
mod card;
mod ctranslate2;
mod folder;
mod huggingface;
mod part;
mod portable;
mod sinusoids;
mod verify;
mod vocabulary;
mod web;

use std::path::{Path, PathBuf};
use std::{fs, io};

use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::Arch;
use polyglow_predict::error::{Context, Result, failed, usage, with_hint};
use polyglow_predict::tasks::{TaskFacts, facts};
use polyglow_train::Plan;
use polyglow_train::config::Config;
use polyglow_train::run::RunDirectory;

pub use self::array::{Array, Arrays};
use self::card::Card;
use self::folder::Folder;
pub use self::portable::Portable;

/// The formats that a run can be exported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A model of the library CTranslate2, for CPUs and GPUs.
    Ctranslate2,
    /// A folder for `from_pretrained` of Hugging Face's transformers, in Python.
    Huggingface,
    /// A package for Argos Translate and LibreTranslate.
    Argos,
    /// The tokenizers alone, as models of SentencePiece.
    Sentencepiece,
    /// A web page that translates in the browser, without a server.
    Web,
}

impl Target {
    /// All formats, in the order in which commands list them.
    pub const ALL: [Self; 5] = [
        Self::Ctranslate2,
        Self::Huggingface,
        Self::Argos,
        Self::Sentencepiece,
        Self::Web,
    ];

    /// Returns the name that commands have for the format, as in `--to ctranslate2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ctranslate2 => "ctranslate2",
            Self::Huggingface => "huggingface",
            Self::Argos => "argos",
            Self::Sentencepiece => "sentencepiece",
            Self::Web => "web",
        }
    }

    /// Checks that a translation model with this config and these tokenizers can be exported to the
    /// format. Call it before training, when another tokenizer is still a matter of one key.
    ///
    /// # Errors
    /// The format cannot represent the model, or the model does not translate text (exit code 2).
    pub fn check(self, config: &Config, tokenizers: &Tokenizers) -> Result<()> {
        let model = Portable {
            config: config.clone(),
            tokenizers: tokenizers.clone(),
            arrays: Arrays::default(),
        };
        if !facts(config.model.task()).translates() {
            return Err(usage(failed!(
                "only models that translate text are checked"
            )));
        }
        match self {
            Self::Ctranslate2 => model.transformer().map(drop),
            Self::Huggingface => huggingface::check(&model),
            Self::Argos => model.transformer().and_then(|_| argos::check(&model)),
            Self::Sentencepiece => {
                if !tokenizers.is_shared() {
                    tokenizers.src.to_sentencepiece().map_err(usage)?;
                }
                tokenizers.tgt.to_sentencepiece().map(drop).map_err(usage)
            }
            Self::Web => web::check_arch(config.model.arch),
        }
    }

    /// The name of the format in a sentence.
    fn title(self) -> &'static str {
        match self {
            Self::Ctranslate2 => "CTranslate2",
            Self::Huggingface => "Hugging Face's transformers",
            Self::Argos => "Argos Translate",
            Self::Sentencepiece => "SentencePiece",
            Self::Web => "a page",
        }
    }

    /// The name of the library on a model hub.
    fn library(self) -> &'static str {
        match self {
            Self::Ctranslate2 => "ctranslate2",
            Self::Huggingface => "transformers",
            Self::Argos => "argostranslate",
            Self::Sentencepiece => "sentencepiece",
            Self::Web => "polyglow",
        }
    }

    /// Instructions for the exported model, in Markdown; `shared` says that both sides have one
    /// tokenizer.
    fn usage(self, task: &TaskFacts, shared: bool) -> &'static str {
        match (self, shared) {
            (Self::Huggingface, _) if task.generates() => {
                include_str!("usage/huggingface-text.md")
            }
            (Self::Huggingface, _) if task.reads_images() => {
                include_str!("usage/huggingface-images.md")
            }
            (Self::Ctranslate2, true) => include_str!("usage/ctranslate2.md"),
            (Self::Ctranslate2, false) => include_str!("usage/ctranslate2-two.md"),
            (Self::Huggingface, _) => include_str!("usage/huggingface.md"),
            (Self::Argos, _) => include_str!("usage/argos.md"),
            (Self::Sentencepiece, _) => include_str!("usage/sentencepiece.md"),
            (Self::Web, _) => include_str!("usage/web.md"),
        }
    }
}

/// The data type in which weights are exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats, as checkpoints have them.
    #[default]
    Float32,
    /// 16-bit floats, half the size.
    Float16,
    /// Matrices as 8-bit integers with a scale for each output, a quarter of the size.
    Int8,
}

impl Precision {
    /// All data types, in the order in which commands list them.
    pub const ALL: [Self; 3] = [Self::Float32, Self::Float16, Self::Int8];

    /// Returns the name that commands have for the data type, as in `--precision int8`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Int8 => "int8",
        }
    }
}

/// A request to export a checkpoint of a run.
#[derive(Clone, Debug)]
pub struct Export {
    /// The format.
    pub target: Target,
    /// The checkpoint: `best`, `last`, `step-N`, `average`, `ema`, or the path of one.
    pub checkpoint: String,
    /// The data type of the weights; `None` is what suits the format and the checkpoint.
    pub precision: Option<Precision>,
    /// The number of lines that the exported model must translate as the run does, before it is
    /// kept; 0 skips the verification.
    pub verify: usize,
    /// The directory to create, which must not exist yet or be empty.
    pub out: PathBuf,
    /// The directory of the package polyglow-web, which [`Target::Web`] needs.
    pub package: Option<PathBuf>,
}

/// The result of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The data type of the exported weights.
    pub precision: Precision,
    /// The size of all files together, in bytes.
    pub bytes: u64,
    /// The number of lines that were translated to verify the export.
    pub verified: usize,
}

/// What an exported model is verified with.
struct Check {
    plan: Plan,
    /// Lines that it must translate as the run does; none if it is not verified.
    lines: Vec<String>,
}

impl Export {
    /// Exports a checkpoint of `run`. `config` is the run's own, but for its license, its data and
    /// its search, which may differ. The directory appears when everything is in it and has been
    /// verified, or not at all.
    ///
    /// # Errors
    /// The format cannot represent the model, or the directory exists already (exit code 2); there
    /// is no such checkpoint, or it is damaged; the exported model translates differently; the disk
    /// refuses.
    pub fn write(&self, run: &RunDirectory, config: Config) -> Result<Exported> {
        let folder = Folder::create(&self.out)?;
        let plan = Plan::new(config)?;
        let (checkpoint, weights) = run.weights(&self.checkpoint)?;
        let tokenizers = run.tokenizers()?;
        run.check_tokenizers(&checkpoint, &tokenizers)?;
        let precision = self.chosen_precision(plan.config.model.arch, weights.is_int8())?;
        let arrays = if self.target == Target::Sentencepiece {
            Arrays::default()
        } else {
            Arrays::from_weights(weights)?
        };
        let model = Portable {
            config: plan.config.clone(),
            tokenizers,
            arrays,
        };
        if self.target == Target::Web {
            web::check(&model, precision, self.package.as_deref())?;
        }
        if self.target != Target::Sentencepiece {
            model
                .check(&plan.device)
                .context("the run's weights do not fit its config")?;
        }
        let card = Card::new(run, &self.checkpoint, &checkpoint)?;
        let card = card.text(&model, self.target, precision);
        let lines = if self.verify > 0 && facts(model.config.model.task()).translates() {
            verify::lines(run, &model, self.verify)?
        } else {
            Vec::new()
        };
        let check = Check { plan, lines };
        let verified = self.fill(&model, precision, &card, &check, folder.path())?;
        let bytes = size(folder.path())
            .with_context(|| format!("cannot read `{}`", folder.path().display()))?;
        folder.commit()?;
        Ok(Exported {
            precision,
            bytes,
            verified,
        })
    }

    /// The requested data type, or the default of the format.
    ///
    /// # Errors
    /// The format has no such weights.
    fn chosen_precision(&self, arch: Arch, is_int8: bool) -> Result<Precision> {
        let precision = match self.precision {
            Some(precision) => precision,
            None if self.target == Target::Web => web::precision(arch),
            // Weights that were quantized gain nothing from more bits.
            None if is_int8 && self.target != Target::Huggingface => Precision::Int8,
            None => Precision::Float32,
        };
        if self.target == Target::Huggingface && precision != Precision::Float32 {
            let error = usage(failed!(
                "`--precision {}`: weights for Hugging Face are float32",
                precision.name()
            ));
            return Err(with_hint(
                error,
                "`from_pretrained(..., dtype=\"float16\")` rounds them as it loads them",
            ));
        }
        Ok(precision)
    }

    /// Writes everything into a directory, verifies it, and returns the number of lines that were
    /// translated to do so.
    fn fill(
        &self,
        model: &Portable,
        precision: Precision,
        card: &str,
        check: &Check,
        dir: &Path,
    ) -> Result<usize> {
        if self.target == Target::Argos {
            argos::check(model)?;
            // Verified before it is packed, since an archive has no reader here. The folder is
            // removed when it is dropped.
            let parts = Folder::create(&dir.join("model"))?;
            ctranslate2::write(model, precision, parts.path())?;
            let verified = self.verify(model, precision, check, parts.path())?;
            argos::pack(model, card, parts.path(), dir)?;
            return Ok(verified);
        }
        folder::write(dir, "README.md", card.as_bytes())?;
        match self.target {
            Target::Ctranslate2 | Target::Argos => ctranslate2::write(model, precision, dir)?,
            Target::Huggingface => huggingface::write(model, dir)?,
            Target::Web => {
                let package = self.package.as_deref().unwrap_or(Path::new(""));
                web::write(model, precision, package, dir)?;
            }
            // Tokenizers translate nothing.
            Target::Sentencepiece => {
                sentencepiece(&model.tokenizers, dir)?;
                return Ok(0);
            }
        }
        self.verify(model, precision, check, dir)
    }

    /// Translates lines with the exported model and with the run's, and returns their number.
    fn verify(
        &self,
        model: &Portable,
        precision: Precision,
        Check { plan, lines }: &Check,
        dir: &Path,
    ) -> Result<usize> {
        // The formats of other models have no reader here.
        if lines.is_empty() {
            return Ok(0);
        }
        if self.target == Target::Web {
            let [written, own] = web::runners(model, precision, plan, dir)?;
            verify::equal(lines, &own.best(lines)?, &written.best(lines)?)?;
            return Ok(lines.len());
        }
        let written = import(dir).context("what was written cannot be read again")?;
        verify::same(&written, &verify::rounded(model, precision), lines, plan)?;
        Ok(lines.len())
    }
}

/// Reads a model that another program has written, from a directory of CTranslate2 or of Hugging
/// Face's MarianMT or Pegasus.
///
/// # Errors
/// It is neither; a file is missing, damaged or too large; the model has layers or options that
/// polyglow's Transformer lacks.
pub fn import(dir: &Path) -> Result<Portable> {
    if ctranslate2::is_in(dir) {
        return ctranslate2::read(dir);
    }
    if huggingface::is_in(dir) {
        return huggingface::read(dir);
    }
    let error = failed!(
        "`{}` holds no model that can be read: neither `model.bin` (CTranslate2) nor `config.json` with `model.safetensors` or \
         `pytorch_model.bin` (Hugging Face)",
        dir.display()
    );
    Err(with_hint(
        usage(error),
        "give the directory that these files are in",
    ))
}

/// Writes the tokenizers as SentencePiece's models.
fn sentencepiece(tokenizers: &Tokenizers, dir: &Path) -> Result<()> {
    let Tokenizers { src, tgt } = tokenizers;
    if tokenizers.is_shared() {
        return folder::write(
            dir,
            "sentencepiece.model",
            &src.to_sentencepiece().map_err(usage)?,
        );
    }
    folder::write(dir, "source.spm", &src.to_sentencepiece().map_err(usage)?)?;
    folder::write(dir, "target.spm", &tgt.to_sentencepiece().map_err(usage)?)
}

/// The size of all files in a directory together, in bytes.
fn size(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
