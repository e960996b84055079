//! Images with captions: pairs of the name of an image and a sentence, from the layouts in which
//! such data is handed out.

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
use crate::toy::shapes::captioned::{Caption, CaptionedShapes};

/// Folders in which Flickr8k's images are, beside their captions, by its several packagers.
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
    /// [`DataError::Captions`] names the file and the line that cannot be read, or whose image is
    /// not there.
    pub(super) fn open_captions(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        let key = config.key(split);
        let parts =
            config
                .files(split)?
                .into_iter()
                .map(|WeightedPath { path, weight, .. }| {
                    let path = existing(&key, &path)?;
                    let pairs = Arc::new(read_captions(&path, config.image_folder.as_deref())?);
                    let source = Source::Captions { path, pairs };
                    Ok(Part {
                        source,
                        weight,
                        alignments: None,
                        is_text: false,
                    })
                });
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }
}

/// The captions of generated pictures; `None` if there is no such split.
pub(super) fn generated(shapes: CaptionedShapes, split: &str) -> Option<Vec<Pair>> {
    let of_picture = |(name, captions): (String, Vec<Caption>)| {
        captions
            .into_iter()
            .map(|caption| Pair {
                src: name.clone(),
                tgt: caption.text,
            })
            .collect::<Vec<_>>()
    };
    Some(
        shapes
            .split(split)?
            .into_iter()
            .flat_map(of_picture)
            .collect(),
    )
}

/// A caption, the name of its image as the file has it, and where that stands.
struct Named {
    line: u64,
    image: String,
    caption: String,
}

fn read_captions(path: &Path, folder: Option<&Path>) -> Result<Vec<Pair>, DataError> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let dir = path.parent().unwrap_or(Path::new("")).to_owned();
    let ending = path.extension().and_then(OsStr::to_str);
    let (captions, usual) = if is_tsv(path) {
        (of_tsv(path)?, dir)
    } else if ending == Some("json") {
        (of_coco(path)?, coco_folder(&dir, &name))
    } else if ending == Some("txt") {
        (of_flickr(path, &dir)?, flickr_folder(&dir))
    } else {
        let problem = "is in no layout that is known: `.tsv` (image and caption on each line), Flickr8k's `.txt`, COCO's `.json`";
        return Err(DataError::Captions {
            path: path.to_owned(),
            line: 0,
            problem: problem.to_owned(),
        });
    };
    if captions.is_empty() {
        return Err(DataError::Empty {
            path: path.to_owned(),
        });
    }
    let folder = folder.map_or(usual, Path::to_owned);
    let (mut pairs, mut found) = (Vec::with_capacity(captions.len()), HashMap::new());
    for Named {
        line,
        image,
        caption,
    } in captions
    {
        let src = if let Some(src) = found.get(&image) {
            String::clone(src)
        } else {
            let file = folder.join(&image);
            if !file.is_file() {
                let file = file.display();
                let problem = format!(
                    "there is no image `{file}`; `data.image_folder` may name another folder"
                );
                return Err(DataError::Captions {
                    path: path.to_owned(),
                    line,
                    problem,
                });
            }
            let Some(src) = file.to_str().map(str::to_owned) else {
                let problem = format!("the path of the image `{}` is not UTF-8", file.display());
                return Err(DataError::Captions {
                    path: path.to_owned(),
                    line,
                    problem,
                });
            };
            found.insert(image, src.clone());
            src
        };
        pairs.push(Pair { src, tgt: caption });
    }
    Ok(pairs)
}

/// `image<TAB>caption` on each line.
fn of_tsv(path: &Path) -> Result<Vec<Named>, DataError> {
    let mut lines = Lines::open(path)?;
    let mut captions = Vec::new();
    while let Some(text) = lines.next().transpose()? {
        let line = lines.line();
        let Some((image, caption)) = text
            .split_once('\t')
            .filter(|(_, caption)| !caption.contains('\t'))
        else {
            let problem = format!(
                "has {} columns, not `image<TAB>caption`",
                text.split('\t').count()
            );
            return Err(DataError::Captions {
                path: path.to_owned(),
                line,
                problem,
            });
        };
        captions.push(Named {
            line,
            image: image.to_owned(),
            caption: caption.to_owned(),
        });
    }
    Ok(captions)
}

/// Flickr8k's: captions, or the names of images, whose captions are in the file of all captions
/// beside them.
fn of_flickr(path: &Path, dir: &Path) -> Result<Vec<Named>, DataError> {
    let (mut captions, names) = captions_or_names(path)?;
    let Some((line, name)) = names.first() else {
        return Ok(captions);
    };
    let wrong = |line, problem: String| DataError::Captions {
        path: path.to_owned(),
        line,
        problem,
    };
    let all = dir.join(FLICKR_CAPTIONS);
    if path == all || !captions.is_empty() {
        return Err(wrong(
            *line,
            format!("has no caption of `{name}`: there is neither a tab nor a comma"),
        ));
    }
    if !all.is_file() {
        return Err(wrong(
            *line,
            format!(
                "has no caption, and there is no `{}` that could have it",
                all.display()
            ),
        ));
    }
    let mut of_image: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Named { image, caption, .. } in captions_or_names(&all)?.0 {
        of_image.entry(image).or_default().push(caption);
    }
    for (line, image) in names {
        let unknown = || {
            wrong(
                line,
                format!("`{}` has no caption of `{image}`", all.display()),
            )
        };
        for caption in of_image.get(&image).ok_or_else(unknown)? {
            captions.push(Named {
                line,
                image: image.clone(),
                caption: caption.clone(),
            });
        }
    }
    Ok(captions)
}

/// Names of images, each with its line.
type Names = Vec<(u64, String)>;

/// Lines with `name.jpg#0<TAB>caption`, or with `name.jpg,caption`, perhaps under a heading; and
/// those with a name alone.
fn captions_or_names(path: &Path) -> Result<(Vec<Named>, Names), DataError> {
    let mut lines = Lines::open(path)?;
    let (mut captions, mut names) = (Vec::new(), Vec::new());
    while let Some(text) = lines.next().transpose()? {
        let line = lines.line();
        if let Some((image, caption)) = text.split_once('\t') {
            let image = image.split_once('#').map_or(image, |(image, _)| image);
            captions.push(Named {
                line,
                image: image.to_owned(),
                caption: caption.trim().to_owned(),
            });
        } else if let Some((image, caption)) = text.split_once(',') {
            if !text.trim().eq_ignore_ascii_case(HEADING) {
                captions.push(Named {
                    line,
                    image: image.to_owned(),
                    caption: unquoted(caption),
                });
            }
        } else if !text.trim().is_empty() {
            names.push((line, text.trim().to_owned()));
        }
    }
    Ok((captions, names))
}

/// A field of a table with commas, which is in quotes if it has one itself.
fn unquoted(field: &str) -> String {
    let inside = field
        .trim()
        .strip_prefix('"')
        .and_then(|field| field.strip_suffix('"'));
    inside.map_or_else(
        || field.trim().to_owned(),
        |inside| inside.replace("\"\"", "\"").trim().to_owned(),
    )
}

fn flickr_folder(dir: &Path) -> PathBuf {
    let folders = FLICKR_FOLDERS
        .iter()
        .flat_map(|name| [dir.join(name), dir.join("..").join(name)]);
    folders
        .into_iter()
        .find(|folder| folder.is_dir())
        .unwrap_or_else(|| dir.to_owned())
}

/// What of COCO's file of captions is read.
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

fn of_coco(path: &Path) -> Result<Vec<Named>, DataError> {
    let file = BufReader::new(File::open(path).map_err(DataError::io(path))?);
    let wrong = |line, problem: String| DataError::Captions {
        path: path.to_owned(),
        line,
        problem,
    };
    let Coco {
        images,
        annotations,
    } = serde_json::from_reader(file).map_err(|error| {
        wrong(
            error.line() as u64,
            format!("is not a file of captions as COCO has them: {error}"),
        )
    })?;
    let names: HashMap<u64, String> = images
        .into_iter()
        .map(|image| (image.id, image.file_name))
        .collect();
    // The captions of an image stand apart, and belong together here.
    let mut of_image: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for CocoCaption { image_id, caption } in annotations {
        of_image
            .entry(image_id)
            .or_default()
            .push(caption.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let mut captions = Vec::new();
    for (id, found) in of_image {
        let image = names.get(&id).ok_or_else(|| {
            wrong(
                0,
                format!("has a caption of the image {id}, but no such image"),
            )
        })?;
        captions.extend(found.into_iter().map(|caption| Named {
            line: 0,
            image: image.clone(),
            caption,
        }));
    }
    Ok(captions)
}

/// `annotations/captions_train2017.json` has its images in `train2017/`.
fn coco_folder(dir: &Path, name: &str) -> PathBuf {
    let set = name
        .trim_end_matches(".json")
        .trim_start_matches("captions_");
    [dir.join("..").join(set), dir.join(set)]
        .into_iter()
        .find(|folder| folder.is_dir())
        .unwrap_or_else(|| dir.to_owned())
}
