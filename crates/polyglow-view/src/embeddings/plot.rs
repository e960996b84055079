//! Words on a plane, as a page or as a picture.

use std::path::Path;

use maud::{Markup, html};
use polyglow_train::Result;

use super::Projection;
use crate::document::{document, note};
use crate::drawing::{Drawing, Format, Shape, extent, write};

/// Width and height in pixels.
const WIDTH: i32 = 1200;
const HEIGHT: i32 = 900;
/// The empty space around the points, for their labels.
const MARGIN: f64 = 60.0;
/// The position of the first entry of the legend, and the distance to the next.
const LEGEND: [f64; 2] = [16.0, 20.0];
const LEGEND_HEIGHT: f64 = 20.0;

pub(super) const STYLE: &str = include_str!("plot.css");

/// A picture of words on a plane.
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
    /// A phrase that says which words are drawn, such as `the first 200 words of the file`.
    pub about: &'a str,
    /// The words, in the order of the projection's points.
    pub words: &'a [String],
    /// The groups of words, each with its own color.
    pub groups: Groups<'a>,
    /// The point of each word, from [`project`](super::project).
    pub projection: &'a Projection,
}

/// Up to two groups of words with a color each, such as those of two languages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Groups<'a> {
    /// The names of the groups, for a legend; empty if all words have one color.
    pub names: &'a [String],
    /// The index of the group of each word; a word beyond the end is in the first.
    pub of_words: &'a [usize],
}

impl Plot<'_> {
    /// Writes the plot to `path`, as a page or as a picture.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, format: Format, path: &Path) -> Result<()> {
        match format {
            Format::Html => {
                let title = format!("word vectors: {}", self.title);
                write(path, document(&title, STYLE, &self.body()))
            }
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
        let points = positions(&self.projection.points);
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
            let [x, first_y] = LEGEND;
            let y = first_y + LEGEND_HEIGHT * group as f64;
            shapes.push(Shape::Point { x, y, name, group });
        }
        drawing(shapes)
    }
}

/// The positions of a plane's points in a picture, as large as fits and in its middle. Both axes
/// have the same scale, so that distances can be compared.
pub(super) fn positions(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let (left, right) = extent(points.iter().map(|[x, _]| *x));
    let (bottom, top) = extent(points.iter().map(|[_, y]| *y));
    let width = f64::from(WIDTH);
    let height = f64::from(HEIGHT);
    let scale_x = (width - 2.0 * MARGIN) / (right - left);
    let scale_y = (height - 2.0 * MARGIN) / (top - bottom);
    let scale = scale_x.min(scale_y);
    // If all points are equal, they lie in the middle.
    let scale = if scale.is_finite() { scale } else { 1.0 };
    let mut positions = Vec::with_capacity(points.len());
    for [x, y] in points {
        positions.push([
            width / 2.0 + (x - f64::midpoint(left, right)) * scale,
            height / 2.0 - (y - f64::midpoint(bottom, top)) * scale,
        ]);
    }
    positions
}

/// A drawing of a plot's size.
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
