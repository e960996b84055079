//! Generated pictures of one or two groups of shapes, with sentences that describe them.

use std::fs;
use std::path::Path;

use image::{ExtendedColorType, Rgb};
use rayon::prelude::*;

use super::draw::{Canvas, Figure, SIDE, between};
use super::{ShapeColor, ShapeKind, place};
use crate::error::DataError;
use crate::image_set::resize_one;
use crate::random::Purpose;
use crate::toy::random::SplitMix64;
use crate::toy::{lines, write_files, write_picture};

/// Pictures of 32 by 32 pixels of 3 bytes (red, green, blue), and sentences such as
/// `two red circles left of a blue square`.
///
/// A picture has one group of one to three shapes, or two groups of one or two. The shapes of a
/// group are of one kind and one color, and stand upright on a grid; no two groups on a picture are
/// alike. Of two groups, one is left of the other or above it, so that there are two sentences for
/// such a picture: one begins with either group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CaptionedShapes;

/// A picture, and its captions.
#[derive(Clone, Debug, PartialEq)]
pub struct CaptionedPicture {
    /// `[32, 32, 3]`, row by row.
    pub pixels: Vec<u8>,
    /// One or two groups of shapes.
    pub groups: Vec<Group>,
    /// The sentences that describe the picture, each equally well.
    pub captions: Vec<Caption>,
}

/// Shapes that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The kind of all shapes.
    pub kind: ShapeKind,
    /// The color of all shapes.
    pub color: ShapeColor,
    /// Row, column and radius of each shape, in pixels.
    pub places: Vec<[f64; 3]>,
}

/// A sentence about a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// Words, separated by single spaces.
    pub text: String,
    /// The index of the group that each word is about; `None` for the words between groups.
    pub groups: Vec<Option<usize>>,
}

impl Caption {
    fn new() -> Self {
        Self {
            text: String::new(),
            groups: Vec::new(),
        }
    }

    /// Appends words that are about a group.
    fn push(&mut self, words: &str, group: Option<usize>) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(words);
        self.groups.extend(words.split(' ').map(|_| group));
    }
}

/// The name, the seed and the number of pictures of each split.
const SPLITS: [(&str, u64, u64); 4] = [
    ("train", 2026, 20_000),
    ("valid", 402, 500),
    ("test", 401, 1_000),
    ("test_comp", 403, 1_000),
];

/// The combinations that training never shows, and each picture of `test_comp` does.
const HELD_OUT: [(ShapeColor, ShapeKind); 2] = [
    (ShapeColor::Green, ShapeKind::Triangle),
    (ShapeColor::Blue, ShapeKind::Cross),
];

/// Radii of shapes, in pixels: of a single group on a picture, and of two groups.
const RADII: [[f64; 2]; 2] = [[4.2, 6.5], [4.0, 5.2]];

/// The distance in pixels of the grid on which the centers of shapes lie. With shapes that stand
/// upright it makes kinds easy to tell, so that a model of patches learns them in minutes.
const GRID: f64 = 4.0;

/// The words from the first group to the second, and back.
const RELATIONS: [[&str; 2]; 2] = [["left of", "right of"], ["above", "below"]];

impl CaptionedShapes {
    /// The name in configs and in the names of pictures.
    pub const NAME: &str = "captioned-shapes";

    /// The names of the splits, `train` first.
    pub const SPLITS: [&str; 4] = ["train", "valid", "test", "test_comp"];

    /// Returns the names of a split's pictures, such as `captioned-shapes:test:17`, each with its
    /// captions. `None` if there is no such split.
    pub fn split(self, name: &str) -> Option<Vec<(String, Vec<Caption>)>> {
        let &(split, seed, size) = SPLITS.iter().find(|(split, ..)| *split == name)?;
        let pictures = (0..size).into_par_iter().map(|index| {
            let layout = Layout::new(seed, index, split == "test_comp");
            (format!("{}:{split}:{index}", Self::NAME), layout.captions())
        });
        Some(pictures.collect())
    }

    /// Draws the picture of a name from [`Self::split`]; `None` if it is no such name.
    pub fn named(name: &str) -> Option<CaptionedPicture> {
        let after_corpus = name.strip_prefix(Self::NAME)?.strip_prefix(':')?;
        let (split, index) = after_corpus.split_once(':')?;
        let &(split, seed, size) = SPLITS.iter().find(|(known, ..)| *known == split)?;
        let index = index.parse().ok().filter(|index| *index < size)?;
        Some(Layout::new(seed, index, split == "test_comp").draw())
    }

    /// Writes `<split>.tsv`, a picture's file and a sentence about it on each line, and the
    /// pictures as PNG files in `<split>/`.
    ///
    /// # Errors
    /// As [`Toy::write`](crate::toy::Toy::write); [`DataError::Image`] if a picture cannot be
    /// written.
    pub fn write(self, dir: &Path) -> Result<(), DataError> {
        for (split, seed, size) in SPLITS {
            let folder = dir.join(split);
            fs::create_dir_all(&folder).map_err(DataError::io(&folder))?;
            let written = (0..size).into_par_iter().map(|index| {
                let picture = Layout::new(seed, index, split == "test_comp").draw();
                picture.write(dir, split, index)
            });
            let captions: Vec<Vec<String>> = written.collect::<Result<_, DataError>>()?;
            let text = lines(captions.into_iter().flatten());
            write_files(dir, vec![(format!("{split}.tsv"), text)])?;
        }
        Ok(())
    }
}

impl CaptionedPicture {
    /// Height and width, in pixels.
    pub const SIDE: usize = SIDE;

    /// Writes the picture with this number of a split, and returns the lines of its captions.
    fn write(&self, dir: &Path, split: &str, index: u64) -> Result<Vec<String>, DataError> {
        let file = format!("{split}/{index:05}.png");
        let path = dir.join(&file);
        write_picture(&path, &self.pixels, (SIDE, SIDE), ExtendedColorType::Rgb8)?;
        let captions = self.captions.iter();
        Ok(captions
            .map(|caption| format!("{file}\t{}", caption.text))
            .collect())
    }

    /// Returns the pixels of the picture in another size, row by row.
    pub(crate) fn resized(self, height: usize, width: usize) -> Vec<u8> {
        if (height, width) == (SIDE, SIDE) {
            return self.pixels;
        }
        resize_one::<Rgb<u8>>(&self.pixels, (SIDE, SIDE), (height, width))
    }
}

/// The shapes of a picture and their positions, before anything is drawn.
struct Layout {
    groups: Vec<(ShapeColor, ShapeKind, Vec<Figure>)>,
    relation: [&'static str; 2],
    random: SplitMix64,
}

impl Layout {
    /// Draws a layout: a pure function of the seed and the index.
    fn new(seed: u64, index: u64, held_out: bool) -> Self {
        let mut random = SplitMix64::new(Purpose::Picture.mix(&[seed, index]));
        let pair = random.chance(65);
        let mut looks = vec![look(&mut random, held_out)];
        while looks.len() < 1 + usize::from(pair) {
            let next = look(&mut random, false);
            if !looks.contains(&next) {
                looks.push(next);
            }
        }
        if random.chance(50) {
            looks.reverse();
        }
        let vertical = random.chance(50);
        let most = if pair { 2 } else { 3 };
        let mut groups = Vec::new();
        for (number, (color, kind)) in looks.into_iter().enumerate() {
            let figures = place(1 + random.below(most), &mut random, |shrunk, random| {
                let [low, high] = RADII[usize::from(pair)];
                let radius = between(low, high, random) * shrunk;
                let area = area(pair.then_some(number), vertical);
                loop {
                    let figure = Figure::draw(kind, radius, area, random).upright(GRID);
                    if figure.is_within(area) {
                        break figure;
                    }
                }
            });
            groups.push((color, kind, figures));
        }
        Self {
            groups,
            relation: RELATIONS[usize::from(vertical)],
            random,
        }
    }

    /// Describes the picture in all orders of its groups.
    fn captions(&self) -> Vec<Caption> {
        let mut descriptions = Vec::new();
        for (color, kind, figures) in &self.groups {
            descriptions.push(words(*color, *kind, figures.len()));
        }
        if let [description] = &descriptions[..] {
            let mut caption = Caption::new();
            caption.push(description, Some(0));
            return vec![caption];
        }
        let mut captions = Vec::new();
        for [first, second] in [[0, 1], [1, 0]] {
            let mut caption = Caption::new();
            caption.push(&descriptions[first], Some(first));
            caption.push(self.relation[first], None);
            caption.push(&descriptions[second], Some(second));
            captions.push(caption);
        }
        captions
    }

    /// Draws the picture; the captions draw nothing at random, so that they do not change it.
    fn draw(mut self) -> CaptionedPicture {
        let captions = self.captions();
        let random = &mut self.random;
        let mut canvas = Canvas::background(random);
        for _ in 0..random.below(3) {
            canvas.stroke(random);
        }
        let mut groups = Vec::new();
        for (color, kind, figures) in self.groups {
            for figure in &figures {
                let shade = color
                    .rgb()
                    .map(|value| f64::from(value) + between(-20.0, 20.0, random));
                canvas.fill(figure, shade);
            }
            groups.push(Group {
                kind,
                color,
                places: figures.iter().map(Figure::place).collect(),
            });
        }
        CaptionedPicture {
            pixels: canvas.into_bytes(random),
            groups,
            captions,
        }
    }
}

/// Draws a color and a kind that training shows, or with `held_out` some that only `test_comp`
/// does.
fn look(random: &mut SplitMix64, held_out: bool) -> (ShapeColor, ShapeKind) {
    if held_out {
        return *random.choose(&HELD_OUT);
    }
    loop {
        let look = (
            *random.choose(&ShapeColor::ALL),
            *random.choose(&ShapeKind::ALL),
        );
        if !HELD_OUT.contains(&look) {
            return look;
        }
    }
}

/// The rows and columns in which the shapes of a group lie: all, or the half of the first or the
/// second group.
fn area(number: Option<usize>, vertical: bool) -> [[f64; 2]; 2] {
    let whole = [0.0, SIDE as f64];
    let Some(number) = number else {
        return [whole; 2];
    };
    let half = [[0.0, SIDE as f64 / 2.0], [SIDE as f64 / 2.0, SIDE as f64]][number];
    if vertical {
        [half, whole]
    } else {
        [whole, half]
    }
}

/// Describes a group of shapes, such as `two red circles`.
fn words(color: ShapeColor, kind: ShapeKind, count: usize) -> String {
    let color = color.name();
    let name = kind.name();
    if count == 1 {
        return format!("a {color} {name}");
    }
    let ending = if kind == ShapeKind::Cross { "es" } else { "s" };
    format!(
        "{} {color} {name}{ending}",
        if count == 2 { "two" } else { "three" }
    )
}
