//! Words on a plane, as a page or as a picture.

use std::path::Path;

use maud::{Markup, html};
use polyglow_train::Result;

use super::Projection;
use crate::document::{document, note};
use crate::drawing::{Drawing, Format, Shape, extent, write};

/// Width and height in pixels, and the room around the points for labels.
const WIDTH: i32 = 1200;
const HEIGHT: i32 = 900;
const MARGIN: f64 = 60.0;
/// Where the names of the groups stand, and how far below each other.
const KEYS: [f64; 2] = [16.0, 20.0];
const KEY_HEIGHT: f64 = 20.0;

pub(super) const STYLE: &str = include_str!("plot.css");

/// Words on a plane.
///
/// ```
/// use polyglow_view::Format;
/// use polyglow_view::embeddings::{Groups, Plot, project};
///
/// let words = ["north", "south", "east"].map(str::to_owned);
/// let projection = project(&[0.0, 1.0, 0.0, -1.0, 0.5, 0.0], 2);
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("plot.html");
/// let groups = Groups { names: &[], of_words: &[] };
/// let plot = Plot { title: "directions", about: "three words", words: &words, groups, projection: &projection };
/// plot.write(Format::Html, &path)?;
/// assert!(std::fs::read_to_string(path)?.contains("<title>south</title>"));
/// # Ok::<(), polyglow_train::TrainError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Plot<'a> {
    /// The heading of the page.
    pub title: &'a str,
    /// Which words these are, such as `the first 200 words of the file`.
    pub about: &'a str,
    /// The words.
    pub words: &'a [String],
    /// Which words have one color.
    pub groups: Groups<'a>,
    /// The place of each word.
    pub projection: &'a Projection,
}

/// Words of up to two colors, such as those of two languages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Groups<'a> {
    /// The names of the groups, for a legend; none if all words have one color.
    pub names: &'a [String],
    /// The number of the group of each word; a word beyond the end is in the first.
    pub of_words: &'a [usize],
}

impl Plot<'_> {
    /// Writes the plot to `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, format: Format, path: &Path) -> Result<()> {
        match format {
            Format::Html => write(
                path,
                document(
                    &format!("word vectors: {}", self.title),
                    STYLE,
                    &self.body(),
                ),
            ),
            Format::Svg => write(path, self.drawing().svg()),
            Format::Png => write(path, self.drawing().png()?),
        }
    }

    fn body(&self) -> Markup {
        let [first, second] = self
            .projection
            .explained
            .map(|share| format!("{:.1} %", 100.0 * share));
        html! {
            h1 { (self.title) }
            p {
                "Drawn: " (self.about) ". They lie by the first two principal components of their vectors' directions, which "
                "explain " (first) " and " (second) " of the variance. Hover for a word."
            }
            (note(self.words))
            div.wide { (picture(self.title, &self.drawing())) }
        }
    }

    fn drawing(&self) -> Drawing<'_> {
        let points = places(&self.projection.points);
        let Groups { names, of_words } = self.groups;
        let mut shapes: Vec<Shape<'_>> = Vec::new();
        for (index, (name, [x, y])) in self.words.iter().zip(points).enumerate() {
            shapes.push(Shape::Point {
                x,
                y,
                name,
                group: of_words.get(index).copied().unwrap_or(0),
            });
        }
        for (group, name) in names.iter().enumerate() {
            let [x, y] = [KEYS[0], KEYS[1] + KEY_HEIGHT * group as f64];
            shapes.push(Shape::Point { x, y, name, group });
        }
        drawing(shapes)
    }
}

/// Where points of a plane lie in a picture. Both axes have the same scale, so that distances can
/// be compared.
pub(super) fn places(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let ends = |axis: usize| extent(points.iter().map(|point| point[axis]));
    let ((left, right), (bottom, top)) = (ends(0), ends(1));
    let room = |pixels: i32| f64::from(pixels) - 2.0 * MARGIN;
    let scale = (room(WIDTH) / (right - left)).min(room(HEIGHT) / (top - bottom));
    // If all points are equal, they lie in the middle.
    let scale = if scale.is_finite() { scale } else { 1.0 };
    let x = |x: f64| f64::from(WIDTH) / 2.0 + (x - f64::midpoint(left, right)) * scale;
    let y = |y: f64| f64::from(HEIGHT) / 2.0 - (y - f64::midpoint(bottom, top)) * scale;
    points
        .iter()
        .map(|point| [x(point[0]), y(point[1])])
        .collect()
}

pub(super) fn drawing(shapes: Vec<Shape<'_>>) -> Drawing<'_> {
    Drawing {
        width: WIDTH,
        height: HEIGHT,
        shapes,
    }
}

/// The drawing as a part of a page.
pub(super) fn picture(title: &str, drawing: &Drawing<'_>) -> Markup {
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) { (drawing.elements()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_never_markup_and_keep_to_the_page() {
        let words = ["<b>", "&", "c"].map(str::to_owned);
        let projection = Projection {
            points: vec![[-5.0, 1.0], [0.0, 0.0], [5.0, -1.0]],
            explained: [0.9, 0.1],
        };
        let names = ["source".to_owned(), "<target>".to_owned()];
        let groups = Groups {
            names: &names,
            of_words: &[0, 1],
        };
        let plot = Plot {
            title: "<i>",
            about: "some words",
            words: &words,
            groups,
            projection: &projection,
        };
        let page = plot.body().into_string();
        assert!(
            page.contains("&lt;b&gt;") && !page.contains("<b>") && !page.contains("<i>"),
            "{page}"
        );
        assert!(
            page.contains("Drawn: some words. They lie by the first two")
                && page.contains("&lt;target&gt;"),
            "{page}"
        );
        let shapes = plot.drawing().shapes;
        assert_eq!(
            shapes[0],
            Shape::Point {
                x: 60.0,
                y: 342.0,
                name: "<b>",
                group: 0
            }
        );
        assert!(matches!(
            shapes[1],
            Shape::Point {
                name: "&",
                group: 1,
                ..
            }
        ));
        assert_eq!(
            shapes[2],
            Shape::Point {
                x: 1140.0,
                y: 558.0,
                name: "c",
                group: 0
            }
        );
        assert_eq!(
            shapes[4],
            Shape::Point {
                x: 16.0,
                y: 40.0,
                name: "<target>",
                group: 1
            }
        );
    }
}
