//! `polyglow attention`: what a model looks at while it translates a sentence.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use polyglow_data::alignment::format_links;
use polyglow_data::corpus::Pair;

use super::model::ModelArgs;
use crate::alignment::align;
use crate::attention::{PairAttention, PictureFormat, Selection, draw, render};
use crate::failure::usage;
use crate::run_directory::{check_translates, translator};

/// What `polyglow attention` is asked to do.
#[derive(Clone, Debug)]
pub struct AttentionArgs {
    /// The model.
    pub model: ModelArgs,
    /// The source sentence.
    pub src: String,
    /// Its translation; the model's own when absent.
    pub tgt: Option<String>,
    /// The page or the picture to write.
    pub out: Option<PathBuf>,
    /// Which map a picture shows.
    pub selection: Selection,
    /// Whether to print a link for each target word.
    pub pharaoh: bool,
}

/// What is written to a file.
enum Kind {
    Page,
    Picture(PictureFormat),
}

impl Kind {
    /// What a file is to be, by its ending.
    fn of(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("html") => Ok(Self::Page),
            Some("png") => Ok(Self::Picture(PictureFormat::Png)),
            Some("svg") => Ok(Self::Picture(PictureFormat::Svg)),
            _ => Err(usage(anyhow!("`{}` ends neither in .html nor in .png or .svg", path.display()))),
        }
    }
}

/// Writes the attention weights on one pair as a page (`.html`, all of them) or as a picture (`.png`, `.svg`, one map),
/// and prints the hard alignment of its words if that is wanted.
///
/// # Errors
/// There is no such run, checkpoint or device; there is nothing to do, or no such layer or head (exit code 2); the file
/// cannot be written.
pub fn run(args: &AttentionArgs) -> anyhow::Result<()> {
    if args.out.is_none() && !args.pharaoh {
        return Err(usage(anyhow!("there is nothing to write: give `--out FILE` or `--pharaoh`")));
    }
    let out = args.out.as_deref().map(|path| Ok::<_, anyhow::Error>((path, Kind::of(path)?))).transpose()?;
    let (config, device) = args.model.open()?;
    let models = args.model.load(&device)?;
    check_translates(&models)?;
    let translator = translator(&models, &config, &device)?;
    args.selection.check(&models[0].model.shape())?;
    let tgt = match &args.tgt {
        Some(tgt) => tgt.clone(),
        None => translator.best(&[&args.src])?.swap_remove(0),
    };
    tracing::info!("{} -> {tgt}", args.src);
    if let Some((path, kind)) = out {
        let attention = PairAttention::new(&translator, &args.src, &tgt)?;
        match kind {
            Kind::Page => {
                let page = render(&attention, &args.src, &tgt)?;
                fs::write(path, page).with_context(|| format!("cannot write `{}`", path.display()))?;
            }
            Kind::Picture(format) => draw(&attention, args.selection, format, path)?,
        }
        tracing::info!("wrote `{}`", path.display());
    }
    if args.pharaoh {
        let links = align(&translator, &[Pair { src: args.src.clone(), tgt }])?;
        let last = links.first().and_then(|layers| layers.last());
        writeln!(io::stdout(), "{}", last.map_or_else(String::new, |links| format_links(links)))?;
    }
    Ok(())
}
