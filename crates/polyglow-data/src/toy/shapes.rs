//! Generated pictures of colored shapes, for image classification.
//!
//! Everything is computed with the basic operations of IEEE 754, which give the same bytes on every
//! machine. Functions such as the sine do not.

use std::path::Path;

use rayon::prelude::*;

use super::random::SplitMix64;
use crate::error::DataError;
use crate::image_set::ImageSet;
use crate::labeled::LabelSet;
use crate::random::Purpose;

pub mod captioned;
mod draw;

use draw::{Canvas, Figure, SIDE};

/// Radii of shapes, in pixels.
const RADII: [f64; 2] = [4.5, 7.0];
const MOST_SHAPES: usize = 3;

/// Generated pictures with labels of one kind. A picture has 32 by 32 pixels of 3 bytes (red,
/// green, blue).
///
/// It shows one to three shapes of one kind and one color, at random positions, angles and sizes.
/// All kinds have the same area. The background is a noisy gray gradient with gray strokes and
/// specks in any of the colors, so that neither a single pixel nor the mean of all pixels reveals
/// the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shapes {
    /// `circle`, `cross`, `square` or `triangle`. The set is called `shapes`.
    Kind,
    /// The kind in one of four colors, such as `red circle`: 16 labels. The set is called
    /// `colored-shapes`.
    KindAndColor,
    /// The number of shapes and their kind, such as `2 circle`: 12 labels. The set is called
    /// `counted-shapes`.
    KindAndCount,
    /// Number, color and kind, such as `2 red circle`: 48 labels. The set is called
    /// `counted-colored-shapes`.
    All,
}

/// A kind of shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShapeKind {
    /// A disk.
    Circle,
    /// Two bars of equal length at a right angle.
    Cross,
    /// A square.
    Square,
    /// A triangle with equal sides.
    Triangle,
}

/// The color of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShapeColor {
    /// Red.
    Red,
    /// Green.
    Green,
    /// Blue.
    Blue,
    /// Yellow.
    Yellow,
}

/// A picture, and the shapes on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapePicture {
    /// `[32, 32, 3]`, row by row.
    pub pixels: Vec<u8>,
    /// The kind of all shapes.
    pub kind: ShapeKind,
    /// The color of all shapes.
    pub color: ShapeColor,
    /// Number of shapes, 1 to 3.
    pub count: usize,
}

impl Shapes {
    /// Every set of pictures.
    pub const ALL: [Self; 4] = [
        Self::Kind,
        Self::KindAndColor,
        Self::KindAndCount,
        Self::All,
    ];

    /// The names of the splits, `train` first.
    pub const SPLITS: [&str; 3] = ["train", "valid", "test"];

    /// Finds the set that a config or a command names, such as `shapes`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shapes| shapes.name() == name)
    }

    /// The name by which [`Shapes::from_name`] finds the set.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kind => "shapes",
            Self::KindAndColor => "colored-shapes",
            Self::KindAndCount => "counted-shapes",
            Self::All => "counted-colored-shapes",
        }
    }

    /// The labels that the pictures have.
    pub fn labels(self) -> LabelSet {
        let kinds = ShapeKind::ALL.into_iter();
        let colored = kinds.flat_map(|kind| ShapeColor::ALL.map(|color| (kind, color)));
        let counted = colored
            .flat_map(|(kind, color)| (1..=MOST_SHAPES).map(move |count| (kind, color, count)));
        LabelSet::new(counted.map(|(kind, color, count)| self.label(kind, color, count)))
    }

    /// Draws a split: 20 000 pictures for `train`, 1 000 for `valid` and 2 000 for `test`. `None`
    /// if there is no such split.
    pub fn split(self, name: &str) -> Option<ImageSet> {
        let [seed, size] = match name {
            "train" => [2025, 20_000],
            "valid" => [302, 1_000],
            "test" => [301, 2_000],
            _ => return None,
        };
        let labels = self.labels();
        let pictures: Vec<ShapePicture> = (0..size)
            .into_par_iter()
            .map(|index| ShapePicture::draw(seed, index))
            .collect();
        Some(ImageSet {
            height: SIDE,
            width: SIDE,
            channels: 3,
            label_ids: pictures
                .iter()
                .map(|picture| self.label_id(picture, &labels))
                .collect(),
            labels,
            pixels: pictures
                .into_iter()
                .flat_map(|picture| picture.pixels)
                .collect(),
        })
    }

    /// Writes every split into `dir` as PNG files, `<split>/<label>/<number>.png`.
    ///
    /// # Errors
    /// As [`ImageSet::write`].
    pub fn write(self, dir: &Path) -> Result<(), DataError> {
        for name in Self::SPLITS {
            if let Some(set) = self.split(name) {
                set.write(&dir.join(name))?;
            }
        }
        Ok(())
    }

    fn label_id(self, picture: &ShapePicture, labels: &LabelSet) -> u32 {
        let label = self.label(picture.kind, picture.color, picture.count);
        labels.id(&label).expect("`labels` names every combination")
    }

    fn label(self, kind: ShapeKind, color: ShapeColor, count: usize) -> String {
        let kind = kind.name();
        let color = color.name();
        match self {
            Self::Kind => kind.to_owned(),
            Self::KindAndColor => format!("{color} {kind}"),
            Self::KindAndCount => format!("{count} {kind}"),
            Self::All => format!("{count} {color} {kind}"),
        }
    }
}

impl ShapeKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Circle, Self::Cross, Self::Square, Self::Triangle];

    /// Its name in labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Circle => "circle",
            Self::Cross => "cross",
            Self::Square => "square",
            Self::Triangle => "triangle",
        }
    }
}

impl ShapeColor {
    /// Every color.
    pub const ALL: [Self; 4] = [Self::Red, Self::Green, Self::Blue, Self::Yellow];

    /// Its name in labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Green => "green",
            Self::Blue => "blue",
            Self::Yellow => "yellow",
        }
    }

    const fn rgb(self) -> [u8; 3] {
        match self {
            Self::Red => [215, 60, 50],
            Self::Green => [50, 170, 70],
            Self::Blue => [55, 85, 215],
            Self::Yellow => [225, 200, 50],
        }
    }
}

impl ShapePicture {
    /// Draws a picture: a pure function of `seed` and `index`.
    pub fn draw(seed: u64, index: u64) -> Self {
        let mut random = SplitMix64::new(Purpose::Picture.mix(&[seed, index]));
        let kind = *random.choose(&ShapeKind::ALL);
        let color = *random.choose(&ShapeColor::ALL);
        let count = 1 + random.below(MOST_SHAPES);
        let mut canvas = Canvas::background(&mut random);
        for _ in 0..=random.below(4) {
            canvas.stroke(&mut random);
        }
        for _ in 0..random.below(4) {
            let color = random.choose(&ShapeColor::ALL).rgb();
            canvas.speck(color, &mut random);
        }
        let figures = place(count, &mut random, |shrunk, random| {
            let radius = draw::between(RADII[0], RADII[1], random) * shrunk;
            Figure::draw(kind, radius, [[0.0, SIDE as f64]; 2], random)
        });
        for figure in figures {
            // Each shape has its own shade.
            let shade = color
                .rgb()
                .map(|value| f64::from(value) + draw::between(-20.0, 20.0, &mut random));
            canvas.fill(&figure, shade);
        }
        Self {
            pixels: canvas.into_bytes(&mut random),
            kind,
            color,
            count,
        }
    }
}

/// Places shapes so that they touch neither each other nor the border. A shape without room is
/// drawn again, smaller: `draw` is called with the factor by which its radius shrinks.
fn place(
    count: usize,
    random: &mut SplitMix64,
    mut draw: impl FnMut(f64, &mut SplitMix64) -> Figure,
) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::with_capacity(count);
    let mut shrunk = 1.0;
    while figures.len() < count {
        let figure = draw(shrunk, random);
        if figures.iter().any(|other| figure.is_near(other)) {
            shrunk *= 0.98;
        } else {
            figures.push(figure);
        }
    }
    figures
}
