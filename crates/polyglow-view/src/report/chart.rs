//! Curves as SVG: axes with round numbers, and one line per series.

use maud::{Markup, html};

use crate::drawing::extent;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
/// Room for the numbers of the vertical and of the horizontal axis.
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 28.0;
/// Room above, and on the right, where half of the last number stands.
const TOP: f64 = 10.0;
const RIGHT: f64 = 24.0;
/// The most points of a line; more cannot be told apart.
const MOST_POINTS: usize = 600;
/// A line of up to this many points shows each of them.
const DOTTED: usize = 40;
/// About the number of marks on an axis.
const MARKS: f64 = 5.0;

/// One line of a chart.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// Its name in the legend.
    pub(super) name: String,
    /// The number of its color in the style sheet.
    pub(super) color: usize,
    /// Whether its line is dashed.
    pub(super) dashed: bool,
    /// `(step, value)`, in the order of the steps.
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart of values over steps, with a legend; empty if no series has a point. With `logarithmic`, equal ratios have
/// equal heights.
pub(super) fn chart(title: &str, series: &[Series], logarithmic: bool) -> Markup {
    let fits = |value: f64| value.is_finite() && (!logarithmic || value > 0.0);
    let points = || series.iter().flat_map(|series| &series.points).filter(|(_, value)| fits(*value));
    if points().next().is_none() {
        return html! {};
    }
    let steps = Axis::new(points().map(|(step, _)| *step).chain([0.0]), false, (LEFT, WIDTH - RIGHT));
    let values = Axis::new(points().map(|(_, value)| *value), logarithmic, (HEIGHT - BOTTOM, TOP));
    let path = |series: &Series| {
        let stride = series.points.len().div_ceil(MOST_POINTS).max(1);
        let kept = series.points.iter().rev().step_by(stride).rev().filter(|(_, value)| fits(*value));
        kept.map(|&(step, value)| (steps.place(step), values.place(value), step, value)).collect::<Vec<_>>()
    };
    let line = |path: &[(f64, f64, f64, f64)]| {
        path.iter().map(|(x, y, ..)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
    };
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
                @for mark in values.marks() {
                    @let y = format!("{:.1}", values.place(mark));
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
                    text x=(LEFT - 6.0) y=(y) dy="0.32em" text-anchor="end" { (number(mark)) }
                }
                @for mark in steps.marks() {
                    text x=(format!("{:.1}", steps.place(mark))) y=(HEIGHT - 8.0) text-anchor="middle" { (number(mark)) }
                }
                @for series in series {
                    @let path = path(series);
                    polyline class=(format!("c{}", series.color)) stroke-dasharray=[series.dashed.then_some("5 4")]
                        points=(line(&path)) {}
                    @if path.len() <= DOTTED {
                        @for (x, y, step, value) in &path {
                            circle class=(format!("c{}", series.color)) cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="3" {
                                title { (series.name) ", step " (number(*step)) ": " (number(*value)) }
                            }
                        }
                    }
                }
            }
            @if series.len() > 1 {
                p.legend {
                    @for series in series {
                        span class=(format!("c{}", series.color)) { @if series.dashed { "╌╌ " } @else { "── " } }
                        (series.name) " "
                    }
                }
            }
        }
    }
}

/// A range of values, mapped to a range of places in the chart.
struct Axis {
    least: f64,
    most: f64,
    logarithmic: bool,
    /// The value, if there is only one: it lies in the middle, and nothing else is marked.
    only: Option<f64>,
    places: (f64, f64),
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool, places: (f64, f64)) -> Self {
        let scaled = |value: f64| if logarithmic { value.log10() } else { value };
        let (least, most) = extent(values.map(scaled));
        let only = (least >= most).then_some(if logarithmic { 10f64.powf(least) } else { least });
        let (least, most) = if only.is_none() { (least, most) } else { (least - 1.0, most + 1.0) };
        Self { least, most, logarithmic, only, places }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        let share = (value - self.least) / (self.most - self.least);
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// Round values in the range.
    fn marks(&self) -> Vec<f64> {
        if let Some(only) = self.only {
            return vec![only];
        }
        let range = self.most - self.least;
        if self.logarithmic && range >= 1.0 {
            let decades = (self.least.floor() as i32)..=(self.most.ceil() as i32);
            let within = |value: &f64| (self.least - 1e-9..=self.most + 1e-9).contains(&value.log10());
            let steps: &[f64] = if range < 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            return decades
                .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
                .filter(within)
                .collect();
        }
        let (least, most) =
            if self.logarithmic { (10f64.powf(self.least), 10f64.powf(self.most)) } else { (self.least, self.most) };
        let rough = (most - least) / MARKS;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (least / step).ceil();
        (0..=20).map(|index| (first + f64::from(index)) * step).take_while(|mark| *mark <= most + step * 1e-9).collect()
    }
}

/// A number in short: `12 000`, `0.35`, `2.5e-4`.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if !(1e-3..1e7).contains(&size) {
        format!("{value:.1e}").replace(".0e", "e")
    } else if size >= 1000.0 {
        let digits = format!("{size:.0}");
        let groups: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
        format!("{}{}", if value < 0.0 { "-" } else { "" }, groups.join("\u{202f}"))
    } else {
        let decimals = if size >= 100.0 {
            1
        } else if size >= 1.0 {
            2
        } else {
            4
        };
        let text = format!("{value:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_within_the_range() {
        let marks = |values: [f64; 2], logarithmic| Axis::new(values.into_iter(), logarithmic, (0.0, 1.0)).marks();
        assert_eq!(marks([0.0, 1000.0], false), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(marks([1.5, 900.0], true), [10.0, 100.0]);
        assert_eq!(marks([2.0, 45.0], true), [2.0, 5.0, 10.0, 20.0]);
        // Around a single value nothing is known: an accuracy of 0.5 has no axis down to -0.5.
        assert_eq!(marks([0.5, 0.5], false), [0.5]);
        assert_eq!(marks([100.0, 100.0], true), [100.0]);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 12000.0, 0.35, 2.5e-4, 41.02, 7.0, 100.5, 1e8].map(number);
        assert_eq!(texts, ["0", "12\u{202f}000", "0.35", "2.5e-4", "41.02", "7", "100.5", "1e8"]);
    }

    #[test]
    fn values_that_are_not_numbers_are_left_out() {
        let series =
            Series { name: "a".to_owned(), color: 0, dashed: false, points: vec![(1.0, f64::NAN), (2.0, 3.0)] };
        let svg = chart("loss", &[series], true).into_string();
        assert!(svg.contains("<polyline") && !svg.contains("NaN"), "{svg}");
        assert_eq!(chart("nothing", &[], false).into_string(), "");
    }
}
