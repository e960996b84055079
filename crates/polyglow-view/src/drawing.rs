//! Pictures of labels, cells, points and arrows: composed once, written as SVG or painted as PNG.
//!
//! A drawing is a list of shapes. Both formats walk over the same list, so that a picture looks
//! alike in both. SVG is written by hand, so that the style sheet of a page applies to it.

mod canvas;
mod format;
mod letters;

use maud::{Markup, PreEscaped, html};
use polyglow_train::Result;
use unicode_bidi::BidiInfo;
use unicode_width::UnicodeWidthStr;

use canvas::Canvas;
pub(crate) use canvas::encode;
pub use format::Format;
pub(crate) use format::write;

/// The style of SVG files, which have no page around them. It applies to nothing else if a page
/// includes the file.
const STYLE: &str = include_str!("drawing.css");
/// The color of cells and of the first group of points, as `--mark` of the light theme.
const MARK: [u8; 3] = [0, 114, 178];
/// The color of arrows and of the second group of points, as `--pick` of the light theme.
const PICK: [u8; 3] = [213, 94, 0];
const BLACK: [u8; 3] = [0; 3];
/// The opacity of the edges of cells.
const EDGE: f32 = 0.15;
/// The radius of dots.
const RADIUS: f64 = 3.0;
/// The width of the lines of arrows.
const LINE: f64 = 1.5;
/// The length of the two lines of an arrow's head.
const HEAD: f64 = 7.0;
/// The distance between the middle of a dot and its name.
const GAP: f64 = 7.0;
/// About the width of a letter; a Chinese character is twice as wide.
const LETTER_WIDTH: usize = 8;

/// A picture. All positions are in units from its upper left corner, pixels of an SVG; y counts
/// downwards.
#[derive(Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) width: i32,
    pub(crate) height: i32,
    /// Later shapes lie on top of earlier ones.
    pub(crate) shapes: Vec<Shape<'a>>,
}

/// A part of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape<'a> {
    /// Text that ends at `x`, its middle at height `y`.
    RowLabel { x: i32, y: i32, text: &'a str },
    /// Text that is turned to read upwards from `y`, its middle at `x`.
    ColumnLabel { x: i32, y: i32, text: &'a str },
    /// A square with its upper left corner at `x` and `y`, the darker the larger `weight` is, 0 to 1.
    Cell {
        x: i32,
        y: i32,
        side: i32,
        weight: f32,
    },
    /// A square of one color with its upper left corner at `x` and `y`.
    Pixel {
        x: i32,
        y: i32,
        side: i32,
        color: [u8; 3],
    },
    /// A dot with its name to the right, in the color of its group, of which there are two.
    Point {
        x: f64,
        y: f64,
        name: &'a str,
        group: usize,
    },
    /// A line with a head.
    Arrow { from: [f64; 2], to: [f64; 2] },
}

impl Drawing<'_> {
    /// Returns the shapes as elements of SVG, without the `svg` element around them, for a page.
    pub(crate) fn elements(&self) -> Markup {
        html! {
            @for shape in &self.shapes {
                @match *shape {
                    Shape::RowLabel { x, y, text } => {
                        text x=(x) y=(y) dy="0.32em" text-anchor="end" { (isolated(text)) }
                    }
                    Shape::ColumnLabel { x, y, text } => {
                        text transform=(format!("translate({x} {y}) rotate(-90)")) dy="0.32em" { (isolated(text)) }
                    }
                    Shape::Cell { x, y, side, weight } => {
                        rect x=(x) y=(y) width=(side) height=(side) fill-opacity=(format!("{weight:.3}")) {}
                    }
                    Shape::Pixel { x, y, side, color: [red, green, blue] } => {
                        path fill=(format!("#{red:02x}{green:02x}{blue:02x}"))
                            d=(format!("M{x} {y}h{side}v{side}h-{side}z")) {}
                    }
                    Shape::Point { x, y, name, group } => {
                        g transform=(format!("translate({x:.1} {y:.1})")) {
                            title { (name) }
                            circle class=[(group > 0).then_some("g1")] r=(RADIUS) {}
                            text x=(GAP) dy="0.32em" { (isolated(name)) }
                        }
                    }
                    Shape::Arrow { from, to } => {
                        @let [left, right] = head(from, to);
                        path.arrow d=(path([("M", from), ("L", to), ("M", left), ("L", to), ("L", right)])) {}
                    }
                }
            }
        }
    }

    /// Returns the picture as an SVG file, with its own style sheet and a white background.
    pub(crate) fn svg(&self) -> String {
        let Self { width, height, .. } = self;
        let svg = html! {
            svg.polyglow xmlns="http://www.w3.org/2000/svg" width=(width) height=(height)
                viewBox=(format!("0 0 {width} {height}")) {
                style { (PreEscaped(STYLE)) }
                path fill="#fff" d=(format!("M0 0h{width}v{height}h-{width}z")) {}
                (self.elements())
            }
        };
        svg.into_string()
    }

    /// Returns the picture as a PNG file. Characters that no font has become boxes, of which a
    /// warning tells.
    ///
    /// # Errors
    /// The picture is too large for pixels.
    pub(crate) fn png(&self) -> Result<Vec<u8>> {
        let mut canvas = Canvas::new(self.width, self.height)?;
        for shape in &self.shapes {
            match *shape {
                Shape::RowLabel { x, y, text } => canvas.write_before(text, x as f32, y as f32),
                Shape::ColumnLabel { x, y, text } => canvas.write_upwards(text, x as f32, y as f32),
                Shape::Cell { x, y, side, weight } => {
                    canvas.fill_square(x, y, side, MARK, weight);
                    canvas.frame_square(x, y, side, BLACK, EDGE);
                }
                Shape::Pixel { x, y, side, color } => canvas.fill_square(x, y, side, color, 1.0),
                Shape::Point { x, y, name, group } => {
                    let color = if group > 0 { PICK } else { MARK };
                    canvas.fill_circle(x as f32, y as f32, RADIUS as f32, color);
                    canvas.write_after(name, (x + GAP) as f32, y as f32);
                }
                Shape::Arrow { from, to } => {
                    let [left, right] = head(from, to);
                    let tip = to.map(|unit| unit as f32);
                    for start in [from, left, right] {
                        let start = start.map(|unit| unit as f32);
                        canvas.draw_line(start, tip, LINE as f32, PICK);
                    }
                }
            }
        }
        canvas.finish()
    }
}

/// The commands of an SVG path, each a letter with a point.
fn path<const N: usize>(commands: [(&str, [f64; 2]); N]) -> String {
    commands
        .map(|(letter, [x, y])| format!("{letter}{x:.1} {y:.1}"))
        .concat()
}

/// The outer ends of the two lines of an arrow's head, which lead to the tip. The lines are
/// [`HEAD`] long, or as long as the arrow where that is shorter.
fn head(from: [f64; 2], to: [f64; 2]) -> [[f64; 2]; 2] {
    let [x, y] = [from[0] - to[0], from[1] - to[1]];
    let length = x.hypot(y);
    let share = if length > 0.0 {
        HEAD.min(length) / length
    } else {
        0.0
    };
    // 30 degrees to either side.
    let cos = 0.75_f64.sqrt();
    [0.5, -0.5].map(|sin| {
        [
            to[0] + share * (cos * x - sin * y),
            to[1] + share * (sin * x + cos * y),
        ]
    })
}

/// About the width of the longest text, in units.
pub(crate) fn longest(texts: &[String]) -> i32 {
    let widths = texts.iter().map(|text| text.width() * LETTER_WIDTH);
    widths.max().unwrap_or(0) as i32
}

/// Wraps text with letters from right to left in Unicode's first-strong isolate, so that its
/// reading direction follows from the text alone and not from the page around it.
fn isolated(text: &str) -> String {
    if BidiInfo::new(text, None).has_rtl() {
        format!("\u{2068}{text}\u{2069}")
    } else {
        text.to_owned()
    }
}

/// The smallest and the largest of some values; `(inf, -inf)` if there are none.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), value| (least.min(value), most.max(value)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_letters_are_the_same_in_every_format() {
        let [red, green, blue] = MARK;
        let color = format!("#{red:02x}{green:02x}{blue:02x}");
        assert!(
            STYLE.contains(&color)
                && include_str!("theme.css").contains(&format!("--mark: {color}"))
        );
        let [red, green, blue] = PICK;
        let color = format!("#{red:02x}{green:02x}{blue:02x}");
        assert!(
            STYLE.contains(&color)
                && include_str!("theme.css").contains(&format!("--pick: {color}"))
        );
        assert!(STYLE.contains(&format!("circle.g1 {{ fill: {color}; }}")));
        assert!(STYLE.contains(&format!("stroke-width: {LINE}")));
        assert!(
            STYLE.contains(&format!("{}px", letters::SIZE)) && STYLE.contains(&EDGE.to_string())
        );
    }

    #[test]
    fn the_head_of_an_arrow_is_at_its_tip_and_never_longer_than_it() {
        let [left, right] = head([0.0, 0.0], [100.0, 0.0]);
        assert!(
            (left[0] - (100.0 - HEAD * 0.75_f64.sqrt())).abs() < 1e-9
                && (left[0] - right[0]).abs() < 1e-9
        );
        assert!((left[1] + right[1]).abs() < 1e-9 && (left[1].abs() - HEAD / 2.0).abs() < 1e-9);
        assert!(head([0.0, 0.0], [1.0, 0.0]).iter().all(|[x, _]| *x > 0.0));
        assert_eq!(head([3.0, 4.0], [3.0, 4.0]), [[3.0, 4.0]; 2]);
    }

    #[test]
    fn only_text_from_right_to_left_is_isolated() {
        assert_eq!(isolated("▁très 1"), "▁très 1");
        assert_eq!(isolated("▁שלום!"), "\u{2068}▁שלום!\u{2069}");
    }
}
