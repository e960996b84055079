//! Generated pictures of one or two groups of shapes, with sentences that say what is on them.

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
/// alike. Each group of two is beside or above the other, so that there are two sentences for such
/// a picture: one begins with either group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CaptionedShapes;

/// A picture, and what can be said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct CaptionedPicture {
    /// `[32, 32, 3]`, row by row.
    pub pixels: Vec<u8>,
    /// One or two.
    pub groups: Vec<Group>,
    /// What says it, each equally well.
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
    /// The group that each word is about; none for the words between groups.
    pub groups: Vec<Option<usize>>,
}

/// The splits: name, seed, pictures.
const SPLITS: [(&str, u64, u64); 4] = [
    ("train", 2026, 20_000),
    ("valid", 402, 500),
    ("test", 401, 1_000),
    ("test_comp", 403, 1_000),
];

/// What training never shows, and each picture of `test_comp` does.
const HELD_OUT: [(ShapeColor, ShapeKind); 2] = [
    (ShapeColor::Green, ShapeKind::Triangle),
    (ShapeColor::Blue, ShapeKind::Cross),
];

/// Radii of shapes, in pixels: alone on a picture, and beside another group.
const RADII: [[f64; 2]; 2] = [[4.2, 6.5], [4.0, 5.2]];

/// What the centers of shapes are multiples of, in pixels. With shapes that stand upright it makes
/// kinds easy to tell, so that a model of patches learns them in minutes.
const GRID: f64 = 4.0;

/// From the first group to the second, and back.
const RELATIONS: [[&str; 2]; 2] = [["left of", "right of"], ["above", "below"]];

impl CaptionedShapes {
    /// The name in configs and in the names of pictures.
    pub const NAME: &str = "captioned-shapes";

    /// The names of the splits, `train` first.
    pub const SPLITS: [&str; 4] = ["train", "valid", "test", "test_comp"];

    /// The names of a split's pictures, such as `captioned-shapes:test:17`, and what can be said
    /// about each. `None` if there is no such split.
    pub fn split(self, name: &str) -> Option<Vec<(String, Vec<Caption>)>> {
        let &(split, seed, size) = SPLITS.iter().find(|(split, ..)| *split == name)?;
        let picture = |index| {
            let layout = Layout::new(seed, index, split == "test_comp");
            (format!("{}:{split}:{index}", Self::NAME), layout.captions())
        };
        Some((0..size).into_par_iter().map(picture).collect())
    }

    /// The picture of a name that [`Self::split`] gives; `None` if it is no such name.
    pub fn named(name: &str) -> Option<CaptionedPicture> {
        let (split, index) = name
            .strip_prefix(Self::NAME)?
            .strip_prefix(':')?
            .split_once(':')?;
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
            let write = |index| {
                let file = format!("{index:05}.png");
                let (path, picture) = (
                    folder.join(&file),
                    Layout::new(seed, index, split == "test_comp").draw(),
                );
                write_picture(
                    &path,
                    &picture.pixels,
                    (SIDE, SIDE),
                    ExtendedColorType::Rgb8,
                )?;
                let line = |caption: &Caption| format!("{split}/{file}\t{}", caption.text);
                Ok(picture.captions.iter().map(line).collect::<Vec<_>>())
            };
            let captions: Vec<Vec<String>> = (0..size)
                .into_par_iter()
                .map(write)
                .collect::<Result<_, DataError>>()?;
            write_files(
                dir,
                vec![(
                    format!("{split}.tsv"),
                    lines(captions.into_iter().flatten()),
                )],
            )?;
        }
        Ok(())
    }
}

impl CaptionedPicture {
    /// Height and width, in pixels.
    pub const SIDE: usize = SIDE;

    /// The pixels of the picture in another size, row by row.
    pub(crate) fn resized(self, height: usize, width: usize) -> Vec<u8> {
        if (height, width) == (SIDE, SIDE) {
            return self.pixels;
        }
        resize_one::<Rgb<u8>>(&self.pixels, (SIDE, SIDE), (height, width))
    }
}

/// What is where on a picture, before anything is drawn.
struct Layout {
    groups: Vec<(ShapeColor, ShapeKind, Vec<Figure>)>,
    relation: [&'static str; 2],
    random: SplitMix64,
}

impl Layout {
    /// A function of the seed and the index alone.
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
                let (radius, area) = (
                    between(low, high, random) * shrunk,
                    area(pair.then_some(number), vertical),
                );
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

    fn captions(&self) -> Vec<Caption> {
        let one = |number: usize| {
            let (color, kind, figures) = &self.groups[number];
            (words(*color, *kind, figures.len()), Some(number))
        };
        let between = |words: &str| (words.to_owned(), None);
        let parts = match self.groups.len() {
            1 => vec![vec![one(0)]],
            _ => vec![
                vec![one(0), between(self.relation[0]), one(1)],
                vec![one(1), between(self.relation[1]), one(0)],
            ],
        };
        let caption = |parts: Vec<(String, Option<usize>)>| Caption {
            groups: parts
                .iter()
                .flat_map(|(text, group)| text.split(' ').map(|_| *group))
                .collect(),
            text: parts
                .into_iter()
                .map(|(text, _)| text)
                .collect::<Vec<_>>()
                .join(" "),
        };
        parts.into_iter().map(caption).collect()
    }

    fn draw(mut self) -> CaptionedPicture {
        let (captions, random) = (self.captions(), &mut self.random);
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

/// A color and a kind that training shows, or that only `test_comp` does.
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

/// Rows and columns in which the shapes of a group lie: all, or the half of the first or the second
/// group.
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

/// Such as `two red circles`.
fn words(color: ShapeColor, kind: ShapeKind, count: usize) -> String {
    let (color, name) = (color.name(), kind.name());
    if count == 1 {
        return format!("a {color} {name}");
    }
    let ending = if kind == ShapeKind::Cross { "es" } else { "s" };
    format!(
        "{} {color} {name}{ending}",
        if count == 2 { "two" } else { "three" }
    )
}
