//! Argos Translate's packages, which LibreTranslate installs, too: a model of CTranslate2 and one of
//! SentencePiece in a zip archive.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use polyglow_model::registry::Named;
use polyglow_predict::error::{Context, Result, TrainError, failed, usage, with_hint};
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::TaskFacts;
use polyglow_train::Plan;
use serde_json::json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::card;
use super::ctranslate2::Ctranslate2;
use super::format::{Format, Writing};
use super::portable::Portable;

/// The version of packages; Argos installs a package of a newer version as an update.
const VERSION: &str = "1.0";
/// The oldest version of Argos Translate that reads the package.
const ARGOS: &str = "1.9.0";

/// The directory in which the model of CTranslate2 is written and verified, before it is packed.
const PARTS: &str = "model";

/// The format `argos`.
#[derive(Debug)]
pub(crate) struct Argos;

impl Named for Argos {
    fn name(&self) -> &'static str {
        "argos"
    }
}

impl Format for Argos {
    fn title(&self) -> &'static str {
        "Argos Translate"
    }

    fn library(&self) -> &'static str {
        "argostranslate"
    }

    fn usage(&self, _: &TaskFacts, _: bool) -> &'static str {
        include_str!("usage/argos.md")
    }

    fn needs_unigram(&self) -> bool {
        true
    }

    fn check(&self, model: &Portable) -> Result<()> {
        Ctranslate2.check(model)?;
        check_package(model)
    }

    fn write(&self, writing: &Writing, dir: &Path) -> Result<()> {
        check_package(writing.model)?;
        let parts = dir.join(PARTS);
        fs::create_dir(&parts).with_context(|| format!("cannot make `{}`", parts.display()))?;
        Ctranslate2.write(writing, &parts)
    }

    fn runners(&self, writing: &Writing, plan: &Plan, dir: &Path) -> Result<Option<[Runner; 2]>> {
        // Before it is packed, since an archive has no reader here.
        Ctranslate2.runners(writing, plan, &dir.join(PARTS))
    }

    fn finish(&self, model: &Portable, card: &str, dir: &Path) -> Result<()> {
        let parts = dir.join(PARTS);
        pack(model, card, &parts, dir)?;
        fs::remove_dir_all(&parts).with_context(|| format!("cannot remove `{}`", parts.display()))
    }
}

/// Checks that a model can become a package.
///
/// # Errors
/// Its languages are not known, or its tokenizer cannot become a unigram model of SentencePiece
/// (exit code 2).
fn check_package(model: &Portable) -> Result<()> {
    if card::languages(&model.config).is_none() {
        let error = usage(failed!(
            "a package of Argos names its languages, and the run's config has none"
        ));
        return Err(with_hint(
            error,
            "name them with `--set data.src=en --set data.tgt=de`",
        ));
    }
    if !model.tokenizers.is_shared() {
        let error = usage(failed!(
            "a package of Argos has one SentencePiece model, and this model has two tokenizers"
        ));
        return Err(with_hint(
            error,
            "train with `tokenizer.shared = true`, or take `--to ctranslate2`",
        ));
    }
    sentencepiece(model).map(drop)
}

fn sentencepiece(model: &Portable) -> Result<Vec<u8>> {
    let advice = "train with `tokenizer.kind = \"unigram\"`, or take `--to ctranslate2`";
    // Argos passes SentencePiece's pieces to the model, which are the tokens of its vocabulary with
    // unigram models only.
    model
        .tokenizers
        .src
        .to_unigram()
        .map_err(|error| with_hint(usage(error), advice))
}

/// Packs a model of CTranslate2, whose files are in `parts`, with its tokenizer and its `readme`
/// into an archive in `dir`.
///
/// # Errors
/// As [`check_package`]; the disk refuses.
fn pack(model: &Portable, readme: &str, parts: &Path, dir: &Path) -> Result<()> {
    let (src, tgt) = card::languages(&model.config).unwrap_or_default();
    let name = format!("translate-{src}_{tgt}-{}", VERSION.replace('.', "_"));
    let metadata = json!({
        "package_version": VERSION, "argos_version": ARGOS,
        "from_code": src, "from_name": language(&src), "to_code": tgt, "to_name": language(&tgt),
    });
    let path = dir.join(format!("{name}.argosmodel"));
    let context = || format!("cannot write `{}`", path.display());
    let texts = [
        ("metadata.json", metadata.to_string().into_bytes()),
        ("README.md", readme.as_bytes().to_vec()),
        (
            "sentencepiece.model",
            sentencepiece(model).with_context(context)?,
        ),
    ];
    write_archive(&path, &name, &texts, parts).with_context(context)
}

/// Writes an archive with some texts, and with the files of a model of CTranslate2.
fn write_archive(path: &Path, name: &str, texts: &[(&str, Vec<u8>)], parts: &Path) -> Result<()> {
    // Without compression, which saves little on weights. Entries are dated 1980: the same content
    // gives the same archive.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(true);
    let mut archive = ZipWriter::new(File::create(path)?);
    // All entries are in one folder, because Argos unpacks all archives into one directory.
    for (file, content) in texts {
        archive
            .start_file(format!("{name}/{file}"), options)
            .map_err(TrainError::from_any)?;
        archive.write_all(content)?;
    }
    for file in ["config.json", "model.bin", "shared_vocabulary.json"] {
        archive
            .start_file(format!("{name}/model/{file}"), options)
            .map_err(TrainError::from_any)?;
        io::copy(&mut File::open(parts.join(file))?, &mut archive)?;
    }
    let file = archive.finish().map_err(TrainError::from_any)?;
    Ok(file.sync_all()?)
}

/// The English name of a language, where it is a common one; its code otherwise.
fn language(code: &str) -> &str {
    const NAMES: [(&str, &str); 24] = [
        ("ar", "Arabic"),
        ("cs", "Czech"),
        ("da", "Danish"),
        ("de", "German"),
        ("el", "Greek"),
        ("en", "English"),
        ("es", "Spanish"),
        ("fi", "Finnish"),
        ("fr", "French"),
        ("he", "Hebrew"),
        ("hi", "Hindi"),
        ("hu", "Hungarian"),
        ("it", "Italian"),
        ("ja", "Japanese"),
        ("ko", "Korean"),
        ("nl", "Dutch"),
        ("pl", "Polish"),
        ("pt", "Portuguese"),
        ("ru", "Russian"),
        ("sv", "Swedish"),
        ("tr", "Turkish"),
        ("uk", "Ukrainian"),
        ("vi", "Vietnamese"),
        ("zh", "Chinese"),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == code)
        .map_or(code, |(_, name)| name)
}
