//! Embedded toy corpora: small tasks that are generated instead of downloaded.

use std::fs;
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};

use image::{ExtendedColorType, ImageFormat};

use crate::alignment::{Link, format_links};
use crate::config::{Content, SourceKind};
use crate::error::DataError;
use crate::file::{self, NewFile};

mod digits;
pub mod labels;
mod mini_en_de;
mod mini_tags;
mod random;
pub mod shapes;

use labels::LabeledToy;
pub use mini_tags::MiniTags;
use shapes::Shapes;
use shapes::captioned::CaptionedShapes;

/// A generated parallel corpus with gold word alignments.
///
/// Its text is a pure function of fixed seeds: every machine generates the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Toy {
    /// English to German from a small grammar with gender, case, adjective endings, separable verbs
    /// and verb-final clauses. `test_comp` holds word pairs that training never combines,
    /// `test_deep` nests deeper.
    MiniEnDe,
    /// A string of digits and its reverse. `test_long` is longer than anything in training. Strings
    /// of one to three digits repeat: 121 of the 500 in `test` are also in training.
    Digits,
}

/// Any generated corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedded {
    /// Pairs of sentences.
    Pairs(Toy),
    /// Texts with labels.
    Texts(LabeledToy),
    /// Sentences with a tag for each word.
    Tags(MiniTags),
    /// Images with labels.
    Images(Shapes),
    /// Images with captions.
    Captions(CaptionedShapes),
}

impl Embedded {
    /// Every corpus.
    pub fn all() -> impl Iterator<Item = Self> {
        let pairs = Toy::ALL.into_iter().map(Self::Pairs);
        let texts = LabeledToy::ALL.into_iter().map(Self::Texts);
        let images = Shapes::ALL.into_iter().map(Self::Images);
        pairs
            .chain(texts)
            .chain([Self::Tags(MiniTags)])
            .chain(images)
            .chain([Self::Captions(CaptionedShapes)])
    }

    /// Finds the corpus that a config names, such as `mini-en-de-types` or `shapes`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|corpus| corpus.name() == name)
    }

    /// The name by which [`Embedded::from_name`] finds the corpus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pairs(toy) => toy.name(),
            Self::Texts(toy) => toy.name(),
            Self::Tags(_) => MiniTags::NAME,
            Self::Images(shapes) => shapes.name(),
            Self::Captions(_) => CaptionedShapes::NAME,
        }
    }

    /// The names of the splits, `train` first.
    pub const fn splits(self) -> &'static [&'static str] {
        match self {
            Self::Pairs(toy) => toy.splits(),
            Self::Texts(toy) => toy.splits(),
            Self::Tags(_) => MiniTags::SPLITS,
            Self::Images(_) => &Shapes::SPLITS,
            Self::Captions(_) => &CaptionedShapes::SPLITS,
        }
    }

    /// The content of the corpus, as it is generated.
    pub const fn content(self) -> Content {
        match self {
            Self::Pairs(_) => Content::PAIRS,
            Self::Texts(_) => Content::LABELED_TEXT,
            Self::Tags(_) => Content::TAGGED_TEXT,
            Self::Images(_) => Content::IMAGES,
            Self::Captions(_) => Content::CAPTIONS,
        }
    }

    /// Returns whether the corpus can be read as this content: as its own, or if it has sentences
    /// as text of one side.
    pub fn can_be(self, content: Content) -> bool {
        content == self.content()
            || content == Content::TEXT && self.content().source == SourceKind::Text
    }

    /// Writes the files of every split into `dir`, which is created if it does not exist.
    ///
    /// # Errors
    /// [`DataError::Occupied`] if a file of that name has other content; [`DataError::Io`] if the
    /// directory or a file cannot be written.
    pub fn write(self, dir: &Path) -> Result<(), DataError> {
        match self {
            Self::Pairs(toy) => toy.write(dir),
            Self::Texts(toy) => toy.write(dir),
            Self::Tags(toy) => toy.write(dir),
            Self::Images(shapes) => shapes.write(dir),
            Self::Captions(shapes) => shapes.write(dir),
        }
    }

    /// Describes what the corpus contains, for messages.
    pub(crate) const fn contents(self) -> &'static str {
        match self {
            Self::Pairs(_) => "pairs of sentences",
            Self::Texts(_) => "texts with labels",
            Self::Tags(_) => "sentences with tags",
            Self::Images(_) => "images with labels",
            Self::Captions(_) => "images with captions",
        }
    }
}

/// One sentence, its translation, and which words translate which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlignedPair {
    /// The source sentence, words separated by single spaces.
    pub src: String,
    /// The target sentence, words separated by single spaces.
    pub tgt: String,
    /// Links (position in `src`, position in `tgt`), counted in words from zero, sorted (the
    /// Pharaoh format's order).
    pub alignment: Vec<Link>,
}

impl Toy {
    /// Every toy corpus.
    pub const ALL: [Self; 2] = [Self::MiniEnDe, Self::Digits];

    /// Finds the corpus that a config or a command names, such as `mini-en-de`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|toy| toy.name() == name)
    }

    /// The name by which [`Toy::from_name`] finds the corpus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MiniEnDe => "mini-en-de",
            Self::Digits => "digits",
        }
    }

    /// The source and the target language, which are also the endings of the files.
    pub const fn languages(self) -> (&'static str, &'static str) {
        match self {
            Self::MiniEnDe => ("en", "de"),
            Self::Digits => ("digits", "reversed"),
        }
    }

    /// The names of the splits, `train` first.
    pub const fn splits(self) -> &'static [&'static str] {
        match self {
            Self::MiniEnDe => &["train", "valid", "test", "test_comp", "test_deep"],
            Self::Digits => &["train", "valid", "test", "test_long"],
        }
    }

    /// Generates one split; `None` if the corpus has no split of that name.
    ///
    /// The splits have no sentence in common, so all of them must be generated: this costs as much
    /// as [`Toy::generate`].
    pub fn split(self, name: &str) -> Option<Vec<AlignedPair>> {
        self.generate()
            .into_iter()
            .find_map(|(split, pairs)| (split == name).then_some(pairs))
    }

    /// Generates all splits, in the order of [`Toy::splits`].
    pub fn generate(self) -> Vec<(&'static str, Vec<AlignedPair>)> {
        let mut splits = match self {
            Self::MiniEnDe => pairs(mini_en_de::draw()),
            Self::Digits => digits::draw(),
        };
        splits.sort_by_key(|(name, _)| self.splits().iter().position(|split| split == name));
        splits
    }

    /// Writes `<split>.<language>` for both languages and `<split>.align` for every split into
    /// `dir`, one pair per line. Creates `dir` if it does not exist.
    ///
    /// # Errors
    /// [`DataError::Occupied`] if a file of that name has other content, in which case nothing is
    /// written; [`DataError::Io`] if the directory or a file cannot be written.
    pub fn write(self, dir: &Path) -> Result<(), DataError> {
        write_files(dir, self.files())
    }

    /// Names and contents of the corpus's files.
    fn files(self) -> Vec<(String, String)> {
        let (src, tgt) = self.languages();
        let mut files = Vec::new();
        for (split, pairs) in self.generate() {
            let sources = lines(pairs.iter().map(|pair| &*pair.src));
            let targets = lines(pairs.iter().map(|pair| &*pair.tgt));
            let links = lines(pairs.iter().map(|pair| format_links(&pair.alignment)));
            files.push((format!("{split}.{src}"), sources));
            files.push((format!("{split}.{tgt}"), targets));
            files.push((format!("{split}.align"), links));
        }
        files
    }
}

/// Takes the pairs out of the sentences of all splits.
fn pairs(
    splits: Vec<(&'static str, Vec<mini_en_de::Sentence>)>,
) -> Vec<(&'static str, Vec<AlignedPair>)> {
    let mut pairs = Vec::with_capacity(splits.len());
    for (split, sentences) in splits {
        let of_split = sentences.into_iter().map(|sentence| sentence.pair);
        pairs.push((split, of_split.collect()));
    }
    pairs
}

/// Writes files into a directory, which is made. Nothing is written if one of them exists with
/// other content.
fn write_files(dir: &Path, files: Vec<(String, String)>) -> Result<(), DataError> {
    fs::create_dir_all(dir).map_err(DataError::io(dir))?;
    let files: Vec<(PathBuf, String)> = files
        .into_iter()
        .map(|(name, text)| (dir.join(name), text))
        .collect();
    for (path, text) in &files {
        check_free(path, text.as_bytes())?;
    }
    for (path, text) in &files {
        file::replace(path, text.as_bytes()).map_err(DataError::io(path))?;
    }
    Ok(())
}

/// Makes sure that a file does not exist, or has this content.
fn check_free(path: &Path, content: &[u8]) -> Result<(), DataError> {
    if path.exists() && fs::read(path).map_err(DataError::io(path))? != content {
        return Err(DataError::Occupied {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Writes a picture as a PNG file; `color` is the layout of its pixels.
///
/// # Errors
/// [`DataError::Occupied`] if the file exists with other content; [`DataError::Image`] if the
/// picture cannot be encoded; [`DataError::Io`].
pub(crate) fn write_picture(
    path: &Path,
    pixels: &[u8],
    (height, width): (usize, usize),
    color: ExtendedColorType,
) -> Result<(), DataError> {
    let mut png = Cursor::new(Vec::new());
    image::write_buffer_with_format(
        &mut png,
        pixels,
        width as u32,
        height as u32,
        color,
        ImageFormat::Png,
    )
    .map_err(|error| DataError::Image {
        path: path.to_owned(),
        problem: error.to_string(),
    })?;
    check_free(path, png.get_ref())?;
    write_unsynced(path, png.get_ref()).map_err(DataError::io(path))
}

/// Writes a file without a sync: there are thousands of pictures, which can be drawn again.
fn write_unsynced(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = NewFile::create(path)?;
    new.file().write_all(content)?;
    new.commit_without_sync()
}

/// Joins lines to a text that ends in a line feed.
fn lines(lines: impl Iterator<Item = impl AsRef<str>>) -> String {
    lines.fold(String::new(), |mut text, line| {
        text.push_str(line.as_ref());
        text.push('\n');
        text
    })
}
