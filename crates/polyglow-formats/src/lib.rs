//! Other programs' formats: what runs are written as, and what they are made from.
//!
//! A format is a file or a folder here, and a row in [`Target`] and in [`import`]. Each is written
//! from a [`Portable`], and read into one, so that what was written can be read again and tried
//! before it is kept.

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

use polyglow_data::tokenizer::Tokenizers;
use polyglow_predict::error::{Context, Result, failed, usage, with_hint};
use polyglow_predict::tasks::{TaskFacts, facts};
use polyglow_train::Plan;
use polyglow_train::config::Config;
use polyglow_train::run::RunDirectory;

pub use self::array::{Array, Arrays};
use self::card::Card;
use self::folder::Folder;
pub use self::portable::Portable;

/// What a run can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// For the library CTranslate2, on CPUs and GPUs.
    Ctranslate2,
    /// For transformers, in Python.
    Huggingface,
    /// For Argos Translate and LibreTranslate.
    Argos,
    /// The tokenizers alone, for SentencePiece.
    Sentencepiece,
    /// A page that translates by itself, in a browser.
    Web,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Ctranslate2,
        Self::Huggingface,
        Self::Argos,
        Self::Sentencepiece,
        Self::Web,
    ];

    /// The name in a command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ctranslate2 => "ctranslate2",
            Self::Huggingface => "huggingface",
            Self::Argos => "argos",
            Self::Sentencepiece => "sentencepiece",
            Self::Web => "web",
        }
    }

    /// Makes sure that a model that translates text can be written in this format, by its config
    /// and its tokenizers: before it is trained, when another tokenizer is still a matter of one
    /// key.
    ///
    /// # Errors
    /// The format has no place for the model, or the model translates no text (exit code 2).
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
                let sides = if tokenizers.is_shared() {
                    &[&tokenizers.tgt][..]
                } else {
                    &[&tokenizers.src, &tokenizers.tgt]
                };
                sides
                    .iter()
                    .try_for_each(|side| side.to_sentencepiece().map(drop).map_err(usage))
            }
            Self::Web => Ok(()),
        }
    }

    /// The name in a sentence.
    fn title(self) -> &'static str {
        match self {
            Self::Ctranslate2 => "CTranslate2",
            Self::Huggingface => "Hugging Face's transformers",
            Self::Argos => "Argos Translate",
            Self::Sentencepiece => "SentencePiece",
            Self::Web => "a page",
        }
    }

    /// The name that a model hub has for the library.
    fn library(self) -> &'static str {
        match self {
            Self::Ctranslate2 => "ctranslate2",
            Self::Huggingface => "transformers",
            Self::Argos => "argostranslate",
            Self::Sentencepiece => "sentencepiece",
            Self::Web => "polyglow",
        }
    }

    /// How to use what was written, in Markdown.
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

/// What numbers are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As they are.
    #[default]
    Float32,
    /// In 16 bits, half the size.
    Float16,
    /// Matrices in 8 bits with a scale for each output, a quarter of the size.
    Int8,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Float32, Self::Float16, Self::Int8];

    /// The name in a command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Int8 => "int8",
        }
    }
}

/// What is to be written, and where.
#[derive(Clone, Debug)]
pub struct Export {
    /// The format.
    pub target: Target,
    /// `best`, `last`, `step-N`, `average`, `ema`, or the path of a checkpoint.
    pub checkpoint: String,
    /// What numbers are written as; as the checkpoint has them if it is not said.
    pub precision: Option<Precision>,
    /// How many lines what was written must translate as the run does, before it is kept.
    pub verify: usize,
    /// The directory, which is not there yet.
    pub out: PathBuf,
    /// Where the package polyglow-web is, for [`Target::Web`].
    pub package: Option<PathBuf>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// What numbers were written as.
    pub precision: Precision,
    /// Size of all files together, in bytes.
    pub bytes: u64,
    /// Lines that were translated to verify it.
    pub verified: usize,
}

impl Export {
    /// Writes a checkpoint of a run with this config, which may differ from the run's own in its
    /// license, its data and its search. The directory appears when everything is in it and has
    /// been verified, or not at all.
    ///
    /// # Errors
    /// The format has no place for the model, or the directory is there already (exit code 2);
    /// there is no such checkpoint, or it is damaged; what was written translates otherwise; the
    /// disk refuses.
    pub fn write(&self, run: &RunDirectory, config: Config) -> Result<Exported> {
        let folder = Folder::create(&self.out)?;
        let plan = Plan::new(config)?;
        let (checkpoint, weights) = run.weights(&self.checkpoint)?;
        let tokenizers = run.tokenizers()?;
        run.check_tokenizers(&checkpoint, &tokenizers)?;
        let precision = match self.precision {
            Some(precision) => precision,
            None if self.target == Target::Web => web::precision(plan.config.model.arch),
            None if weights.is_int8() && self.target != Target::Huggingface => Precision::Int8,
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
        let arrays = if self.target == Target::Sentencepiece {
            Arrays::default()
        } else {
            Arrays::of(weights)?
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
        let card =
            Card::new(run, &self.checkpoint, &checkpoint)?.text(&model, self.target, precision);
        let verified = self.fill(&model, precision, &card, &plan, folder.place())?;
        let bytes = size(folder.place())?;
        folder.commit()?;
        Ok(Exported {
            precision,
            bytes,
            verified,
        })
    }

    /// Writes everything into a directory; gives the number of lines that verify it.
    fn fill(
        &self,
        model: &Portable,
        precision: Precision,
        card: &str,
        plan: &Plan,
        dir: &Path,
    ) -> Result<usize> {
        if self.target == Target::Argos {
            argos::check(model)?;
            let parts = Folder::create(&dir.join("model"))?;
            ctranslate2::write(model, precision, parts.place())?;
            let verified = self.verify(model, precision, plan, parts.place())?;
            argos::pack(model, card, parts.place(), dir)?;
            return Ok(verified);
        }
        folder::write(dir, "README.md", card.as_bytes())?;
        match self.target {
            Target::Ctranslate2 | Target::Argos => ctranslate2::write(model, precision, dir)?,
            Target::Huggingface => huggingface::write(model, dir)?,
            Target::Web => web::write(
                model,
                precision,
                self.package.as_deref().unwrap_or(Path::new("")),
                dir,
            )?,
            // Tokenizers translate nothing.
            Target::Sentencepiece => return sentencepiece(&model.tokenizers, dir).map(|()| 0),
        }
        self.verify(model, precision, plan, dir)
    }

    /// Translates lines with what was written; gives their number.
    fn verify(
        &self,
        model: &Portable,
        precision: Precision,
        plan: &Plan,
        dir: &Path,
    ) -> Result<usize> {
        // Only what translates is read again; what else is written has no reader here.
        if self.verify == 0 || !facts(model.config.model.task()).translates() {
            return Ok(0);
        }
        let lines = verify::lines(model, self.verify)?;
        if self.target == Target::Web {
            let [written, own] = web::runners(model, precision, plan, dir)?;
            verify::equal(&lines, &own.best(&lines)?, &written.best(&lines)?)?;
            return Ok(lines.len());
        }
        let written = import(dir).context("what was written cannot be read again")?;
        verify::same(&written, &verify::rounded(model, precision), &lines, plan)?;
        Ok(lines.len())
    }
}

/// Reads a model that another program has written: a folder of Hugging Face's MarianMT, or of
/// CTranslate2.
///
/// # Errors
/// It is neither; a file is missing, damaged or too large; the model has another mathematics than
/// ours.
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

/// The tokenizers as SentencePiece's models.
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

/// Bytes of all files in a directory.
fn size(dir: &Path) -> Result<u64> {
    let read = || {
        std::fs::read_dir(dir)?
            .map(|entry| Ok(entry?.metadata()?.len()))
            .sum::<std::io::Result<u64>>()
    };
    read().with_context(|| format!("cannot read `{}`", dir.display()))
}
