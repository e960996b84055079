//! Words on a plane, as a page or as a picture.

use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;

use super::Projection;
use polyglow_train::{Result, TrainError};

/// Width and height in pixels, and the room around the points for labels.
const WIDTH: i32 = 1200;
const HEIGHT: i32 = 900;
const MARGIN: f64 = 60.0;
const LETTERS: i32 = 13;
const INK: RGBColor = RGBColor(0, 114, 178);

const STYLE: &str = include_str!("picture.css");

/// How a plot is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotFormat {
    /// A page on which the word under the pointer stands out.
    Html,
    /// Points.
    Png,
    /// Lines and letters.
    Svg,
}

/// Words on a plane.
#[derive(Clone, Copy, Debug)]
pub struct Plot<'a> {
    /// What is shown.
    pub title: &'a str,
    /// The words.
    pub words: &'a [String],
    /// Where they are.
    pub projection: &'a Projection,
}

impl Plot<'_> {
    /// Writes the plot to `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, format: PlotFormat, path: &Path) -> Result<()> {
        let failed =
            |error: &dyn std::fmt::Display| TrainError::new(format!("cannot write `{}`: {error}", path.display()));
        let size = (WIDTH as u32, HEIGHT as u32);
        match format {
            PlotFormat::Html => std::fs::write(path, self.page().into_string()).map_err(|error| failed(&error)),
            PlotFormat::Png => {
                let area = BitMapBackend::new(path, size).into_drawing_area();
                self.draw(&area).and_then(|()| area.present()).map_err(|error| failed(&error))
            }
            PlotFormat::Svg => {
                let area = SVGBackend::new(path, size).into_drawing_area();
                self.draw(&area).and_then(|()| area.present()).map_err(|error| failed(&error))
            }
        }
    }

    /// Each word with its place in pixels. Both axes have one scale, so that distances can be compared.
    fn places(&self) -> impl Iterator<Item = (&str, f64, f64)> {
        let points = &self.projection.points;
        let ends = |axis: usize| {
            let all = points.iter().map(|point| point[axis]);
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
        };
        let ((left, right), (bottom, top)) = (ends(0), ends(1));
        let room = |pixels: i32| f64::from(pixels) - 2.0 * MARGIN;
        let scale = (room(WIDTH) / (right - left)).min(room(HEIGHT) / (top - bottom));
        // Points that are all the same lie in the middle.
        let scale = if scale.is_finite() { scale } else { 1.0 };
        let place = move |[x, y]: [f64; 2]| {
            let x = f64::from(WIDTH) / 2.0 + (x - f64::midpoint(left, right)) * scale;
            (x, f64::from(HEIGHT) / 2.0 - (y - f64::midpoint(bottom, top)) * scale)
        };
        self.words.iter().zip(points).map(move |(word, point)| {
            let (x, y) = place(*point);
            (word.as_str(), x, y)
        })
    }

    fn page(&self) -> Markup {
        let [first, second] = self.projection.explained.map(|share| format!("{:.1} %", 100.0 * share));
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { "word vectors: " (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { (self.title) }
                    p {
                        (self.words.len()) " words by the first two principal components of their vectors' directions, "
                        "which explain " (first) " and " (second) " of the variance. Hover for a word."
                    }
                    svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(self.title) {
                        @for (word, x, y) in self.places() {
                            g transform=(format!("translate({x:.1} {y:.1})")) {
                                title { (word) }
                                circle r="4" {}
                                text x="7" dy="0.32em" { (word) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        // A picture of letters needs a font, and a server may have none. A font that is registered twice is the same.
        let _ = register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
        area.fill(&WHITE)?;
        let letters = ("sans-serif", LETTERS).into_text_style(area).color(&BLACK);
        for (word, x, y) in self.places() {
            let place = (x.round() as i32, y.round() as i32);
            area.draw(&Circle::new(place, 3, INK.filled()))?;
            area.draw(&Text::new(word, (place.0 + 6, place.1 - LETTERS / 2), letters.clone()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_never_markup_and_keep_to_the_page() {
        let words = ["<b>", "&", "c"].map(str::to_owned);
        let projection = Projection { points: vec![[-5.0, 1.0], [0.0, 0.0], [5.0, -1.0]], explained: [0.9, 0.1] };
        let plot = Plot { title: "<i>", words: &words, projection: &projection };
        let page = plot.page().into_string();
        assert!(page.contains("&lt;b&gt;") && !page.contains("<b>") && !page.contains("<i>"), "{page}");
        let places: Vec<_> = plot.places().collect();
        assert_eq!(places[0], ("<b>", 60.0, 342.0));
        assert_eq!(places[2], ("c", 1140.0, 558.0));
    }
}
