//! Models in other programs' formats: export of runs, and import into runs.
//!
//! Each format is a module of this crate that implements [`Format`], and a row of the table in
//! `format.rs`. It is written from a [`Portable`], and read into one, so that an exported model can
//! be read again and tried before it is kept.

mod argos;
mod array;
mod card;
mod ctranslate2;
mod folder;
mod format;
mod huggingface;
mod part;
mod portable;
mod sentencepiece;
mod sinusoids;
mod verify;
mod vocabulary;
mod web;

use std::path::{Path, PathBuf};
use std::{fs, io};

use polyglow_predict::error::{Context, Result};
use polyglow_predict::tasks::facts;
use polyglow_train::Plan;
use polyglow_train::config::Config;
use polyglow_train::run::RunDirectory;

pub use self::array::{Array, Arrays};
use self::card::Card;
use self::folder::Folder;
pub use self::folder::write_file;
use self::format::check_tags;
pub use self::format::{
    Format, Writing, check_export, format_named, formats, import, register_format,
};
pub use self::portable::Portable;

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
    /// The format, by [`format_named`].
    pub format: &'static dyn Format,
    /// The checkpoint: `best`, `last`, `step-N`, `average`, `ema`, or the path of one.
    pub checkpoint: String,
    /// The data type of the weights; `None` is what suits the format and the checkpoint.
    pub precision: Option<Precision>,
    /// The number of lines that the exported model must translate as the run does, before it is
    /// kept; 0 skips the verification.
    pub verify: usize,
    /// The directory to create, which must not exist yet or be empty.
    pub out: PathBuf,
    /// The directory of the package polyglow-web, which the format `web` needs.
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
        let arch = plan.config.model.arch;
        let default = self.format.default_precision(arch, weights.is_int8());
        let has_weights = self.format.has_weights();
        let model = Portable {
            config: plan.config.clone(),
            tokenizers,
            arrays: if has_weights {
                Arrays::from_weights(weights)?
            } else {
                Arrays::default()
            },
        };
        let writing = Writing {
            model: &model,
            precision: self.precision.unwrap_or(default),
            package: self.package.as_deref(),
        };
        check_tags(self.format, &plan.config)?;
        self.format.check_writing(&writing)?;
        if has_weights {
            model
                .check(&plan.device)
                .context("the run's weights do not fit its config")?;
        }
        let card = Card::new(run, &self.checkpoint, &checkpoint)?;
        self.format.write(&writing, folder.path())?;
        let verified = self.verify(run, &writing, &plan, folder.path())?;
        let card = card.text(&model, self.format, writing.precision);
        self.format.finish(&model, &card, folder.path())?;
        let bytes = size(folder.path())
            .with_context(|| format!("cannot read `{}`", folder.path().display()))?;
        folder.commit()?;
        Ok(Exported {
            precision: writing.precision,
            bytes,
            verified,
        })
    }

    /// Translates lines with the model that was written into `dir` and with the run's, and returns
    /// the number of the lines.
    fn verify(
        &self,
        run: &RunDirectory,
        writing: &Writing,
        plan: &Plan,
        dir: &Path,
    ) -> Result<usize> {
        // Other models than translators have no reader here.
        if self.verify == 0 || !facts(writing.model.config.model.task()).translates() {
            return Ok(0);
        }
        let Some([written, original]) = self.format.runners(writing, plan, dir)? else {
            return Ok(0);
        };
        let lines = verify::lines(run, writing.model, self.verify)?;
        verify::equal(&lines, &written, &original)?;
        Ok(lines.len())
    }
}

/// The size of all files in a directory together, in bytes.
fn size(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
