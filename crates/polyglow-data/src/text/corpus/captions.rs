//! Images with captions: pairs of the name of an image and a sentence, from the layouts in which
//! such data is published.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::{Corpus, Part, Source, existing, is_tsv};
use crate::config::{DataConfig, Split, WeightedPath};
use crate::error::DataError;
use crate::lines::Lines;
use crate::pair::Pair;
use crate::toy::shapes::captioned::CaptionedShapes;

/// Folders in which several packagers of Flickr8k keep its images, next to the captions.
const FLICKR_FOLDERS: [&str; 3] = ["Images", "Flicker8k_Dataset", "Flickr8k_Dataset"];
/// The captions of all images of Flickr8k; a file of its splits names the images alone.
const FLICKR_CAPTIONS: &str = "Flickr8k.token.txt";
/// The first line of Kaggle's captions of Flickr8k.
const HEADING: &str = "image,caption";

impl Corpus {
    /// Reads the captions of a split, and makes sure that there is an image for each.
    ///
    /// # Errors
    /// [`DataError::MissingFile`]; [`DataError::Config`] for a split that the configuration lacks;
    /// [`DataError::Captions`] names the file and the line that cannot be read, or whose image does
    /// not exist.
    pub(super) fn open_captions(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        let key = config.key(split);
        let mut parts = Vec::new();
        for WeightedPath { path, weight, .. } in config.files(split)? {
            let path = existing(&key, &path)?;
            let pairs = Arc::new(read_captions(&path, config.image_folder.as_deref())?);
            parts.push(Part::new(Source::Captions { path, pairs }, weight));
        }
        Ok(Self::from_parts(parts))
    }
}

/// Returns the captions of generated pictures; `None` if there is no such split.
pub(super) fn generated(shapes: CaptionedShapes, split: &str) -> Option<Vec<Pair>> {
    let mut pairs = Vec::new();
    for (name, captions) in shapes.split(split)? {
        pairs.extend(captions.into_iter().map(|caption| Pair {
            src: name.clone(),
            tgt: caption.text,
        }));
    }
    Some(pairs)
}

/// A caption with the name of its image, as the file spells it.
struct NamedCaption {
    /// The line of the file, counted from 1; 0 in a layout without lines.
    line: u64,
    image: String,
    caption: String,
}

/// A layout of captions, which the name of their file tells.
#[derive(Clone, Copy)]
enum Layout {
    /// `image<TAB>caption` on each line.
    Tsv,
    /// COCO's JSON.
    Coco,
    /// The text files of Flickr8k.
    Flickr,
}

impl Layout {
    /// Returns the layout of a file by the ending of its name.
    fn from_path(path: &Path) -> Option<Self> {
        if is_tsv(path) {
            return Some(Self::Tsv);
        }
        match path.extension().and_then(OsStr::to_str) {
            Some("json") => Some(Self::Coco),
            Some("txt") => Some(Self::Flickr),
            _ => None,
        }
    }

    /// Reads all captions of a file in this layout, in their order.
    fn read(self, path: &Path) -> Result<Vec<NamedCaption>, DataError> {
        match self {
            Self::Tsv => read_tsv(path),
            Self::Coco => read_coco(path),
            Self::Flickr => read_flickr(path),
        }
    }

    /// Returns the folder in which this layout usually has the images of a file of captions.
    fn image_folder(self, path: &Path) -> PathBuf {
        match self {
            Self::Tsv => directory(path).to_owned(),
            Self::Coco => coco_folder(path),
            Self::Flickr => flickr_folder(directory(path)),
        }
    }
}

/// Reads a file of captions as pairs of the path of an image and a caption; the images are in
/// `folder`, or where the layout usually has them.
fn read_captions(path: &Path, folder: Option<&Path>) -> Result<Vec<Pair>, DataError> {
    let Some(layout) = Layout::from_path(path) else {
        let problem = "is in no layout that is known: `.tsv` (image and caption on each line), Flickr8k's `.txt`, COCO's `.json`";
        return Err(captions_error(path, 0, problem));
    };
    let captions = layout.read(path)?;
    if captions.is_empty() {
        return Err(DataError::Empty {
            path: path.to_owned(),
        });
    }
    let folder = folder.map_or_else(|| layout.image_folder(path), Path::to_owned);
    let mut pairs = Vec::with_capacity(captions.len());
    // An image usually has several captions, and its file is checked once.
    let mut image_paths: HashMap<String, String> = HashMap::new();
    for NamedCaption {
        line,
        image,
        caption,
    } in captions
    {
        let src = if let Some(known) = image_paths.get(&image) {
            known.clone()
        } else {
            let image_path = image_path(&folder, &image)
                .map_err(|problem| captions_error(path, line, problem))?;
            image_paths.insert(image, image_path.clone());
            image_path
        };
        pairs.push(Pair { src, tgt: caption });
    }
    Ok(pairs)
}

/// Returns the path of the image `name` in `folder`, or what is wrong with it.
fn image_path(folder: &Path, name: &str) -> Result<String, String> {
    let path = folder.join(name);
    if !path.is_file() {
        return Err(format!(
            "there is no image `{}`; `data.image_folder` may name another folder",
            path.display()
        ));
    }
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(format!(
            "the path of the image `{}` is not UTF-8",
            path.display()
        )),
    }
}

/// Makes the error that `line` of the file at `path` is wrong, or with 0 the file as a whole.
fn captions_error(path: &Path, line: u64, problem: impl Into<String>) -> DataError {
    DataError::Captions {
        path: path.to_owned(),
        line,
        problem: problem.into(),
    }
}

/// Returns the directory of a file.
fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Reads `image<TAB>caption` from each line.
fn read_tsv(path: &Path) -> Result<Vec<NamedCaption>, DataError> {
    let mut lines = Lines::open(path)?;
    let mut captions = Vec::new();
    while let Some(text) = lines.next().transpose()? {
        let line = lines.line();
        let [image, caption] = *text.split('\t').collect::<Vec<_>>() else {
            let problem = format!(
                "has {} columns, not `image<TAB>caption`",
                text.split('\t').count()
            );
            return Err(captions_error(path, line, problem));
        };
        captions.push(NamedCaption {
            line,
            image: image.to_owned(),
            caption: caption.to_owned(),
        });
    }
    Ok(captions)
}

/// Reads a file of Flickr8k: captions, or the names of the images of a split, whose captions are in
/// the file of all captions next to it.
fn read_flickr(path: &Path) -> Result<Vec<NamedCaption>, DataError> {
    let FlickrLines { captions, names } = read_flickr_lines(path)?;
    let Some((line, name)) = names.first() else {
        return Ok(captions);
    };
    let all = directory(path).join(FLICKR_CAPTIONS);
    if path == all || !captions.is_empty() {
        let problem = format!("has no caption of `{name}`: there is neither a tab nor a comma");
        return Err(captions_error(path, *line, problem));
    }
    if !all.is_file() {
        let problem = format!(
            "has no caption, and there is no `{}` that could have it",
            all.display()
        );
        return Err(captions_error(path, *line, problem));
    }
    captions_of_names(path, names, &all)
}

/// Returns the captions that the file `all` has of the images that the file `path` names.
fn captions_of_names(
    path: &Path,
    names: Vec<(u64, String)>,
    all: &Path,
) -> Result<Vec<NamedCaption>, DataError> {
    let mut by_image: HashMap<String, Vec<String>> = HashMap::new();
    for NamedCaption { image, caption, .. } in read_flickr_lines(all)?.captions {
        by_image.entry(image).or_default().push(caption);
    }
    let mut captions = Vec::new();
    for (line, image) in names {
        let Some(texts) = by_image.get(&image) else {
            let problem = format!("`{}` has no caption of `{image}`", all.display());
            return Err(captions_error(path, line, problem));
        };
        for caption in texts {
            captions.push(NamedCaption {
                line,
                image: image.clone(),
                caption: caption.clone(),
            });
        }
    }
    Ok(captions)
}

/// The lines of a file of Flickr8k that are not blank.
#[derive(Default)]
struct FlickrLines {
    captions: Vec<NamedCaption>,
    /// The lines with a name alone: their numbers, and the names.
    names: Vec<(u64, String)>,
}

/// Reads lines with `name.jpg#0<TAB>caption`, or with `name.jpg,caption`, perhaps under a heading;
/// and those with a name alone.
fn read_flickr_lines(path: &Path) -> Result<FlickrLines, DataError> {
    let mut lines = Lines::open(path)?;
    let mut read = FlickrLines::default();
    while let Some(text) = lines.next().transpose()? {
        let line = lines.line();
        if let Some((image, caption)) = text.split_once('\t') {
            // `#0` to `#4` number the captions of an image.
            let image = image.split_once('#').map_or(image, |(image, _)| image);
            read.captions.push(NamedCaption {
                line,
                image: image.to_owned(),
                caption: caption.trim().to_owned(),
            });
        } else if let Some((image, caption)) = text.split_once(',') {
            if !text.trim().eq_ignore_ascii_case(HEADING) {
                read.captions.push(NamedCaption {
                    line,
                    image: image.to_owned(),
                    caption: unquoted(caption),
                });
            }
        } else if !text.trim().is_empty() {
            read.names.push((line, text.trim().to_owned()));
        }
    }
    Ok(read)
}

/// Returns the text of a field of a table with commas, which is in quotes if it has a comma itself.
fn unquoted(field: &str) -> String {
    let field = field.trim();
    let quoted = field
        .strip_prefix('"')
        .and_then(|field| field.strip_suffix('"'));
    match quoted {
        Some(inside) => inside.replace("\"\"", "\"").trim().to_owned(),
        None => field.to_owned(),
    }
}

/// Returns the folder of Flickr8k's images, here or one folder up; `dir` if there is none.
fn flickr_folder(dir: &Path) -> PathBuf {
    FLICKR_FOLDERS
        .into_iter()
        .flat_map(|name| [dir.join(name), dir.join("..").join(name)])
        .find(|folder| folder.is_dir())
        .unwrap_or_else(|| dir.to_owned())
}

/// The parts of COCO's file of captions that are read.
#[derive(Deserialize)]
struct Coco {
    images: Vec<CocoImage>,
    annotations: Vec<CocoCaption>,
}

#[derive(Deserialize)]
struct CocoImage {
    id: u64,
    file_name: String,
}

#[derive(Deserialize)]
struct CocoCaption {
    image_id: u64,
    caption: String,
}

/// Reads COCO's captions, in the order of the ids of their images.
fn read_coco(path: &Path) -> Result<Vec<NamedCaption>, DataError> {
    let file = BufReader::new(File::open(path).map_err(DataError::io(path))?);
    let coco: Coco = serde_json::from_reader(file).map_err(|error| {
        let problem = format!("is not a file of captions as COCO has them: {error}");
        captions_error(path, error.line() as u64, problem)
    })?;
    let mut names: HashMap<u64, String> = HashMap::new();
    for CocoImage { id, file_name } in coco.images {
        names.insert(id, file_name);
    }
    // The captions of an image are scattered over the file, and belong together here.
    let mut by_image: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for CocoCaption { image_id, caption } in coco.annotations {
        let words: Vec<&str> = caption.split_whitespace().collect();
        by_image.entry(image_id).or_default().push(words.join(" "));
    }
    let mut captions = Vec::new();
    for (id, texts) in by_image {
        let Some(image) = names.get(&id) else {
            let problem = format!("has a caption of the image {id}, but no such image");
            return Err(captions_error(path, 0, problem));
        };
        captions.extend(texts.into_iter().map(|caption| NamedCaption {
            line: 0,
            image: image.clone(),
            caption,
        }));
    }
    Ok(captions)
}

/// Returns `train2017/`, here or one folder up, for `annotations/captions_train2017.json`.
fn coco_folder(path: &Path) -> PathBuf {
    let dir = directory(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let set = name
        .trim_end_matches(".json")
        .trim_start_matches("captions_");
    [dir.join("..").join(set), dir.join(set)]
        .into_iter()
        .find(|folder| folder.is_dir())
        .unwrap_or_else(|| dir.to_owned())
}
