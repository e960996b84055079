//! Curves as SVG: axes with round numbers, and one line per series.

use maud::{Markup, html};

use crate::drawing::extent;

/// The size of a chart in units. Where the page is wide enough, the style sheet never shows a chart
/// smaller than this many pixels, so that letters are at least as large as it says.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 270.0;
/// Room for the numbers and the name of the vertical and of the horizontal axis.
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 46.0;
/// The distance of the axes' names from the left edge, and from the lower edge.
const NAME_LEFT: f64 = 14.0;
const NAME_BOTTOM: f64 = 7.0;
/// The distance of the baseline of the steps' numbers from the chart.
const NUMBERS: f64 = 17.0;
/// Room above, and on the right, where half of the last number stands.
const TOP: f64 = 10.0;
const RIGHT: f64 = 24.0;
/// The most points of a line; more cannot be told apart, and make the page large.
const MOST_POINTS: usize = 600;
/// A line of up to this many points shows each of them.
const DOTTED: usize = 40;
/// About the number of ticks on an axis.
const TICKS: f64 = 5.0;
/// The dashes of a line and of its key in the legend.
const DASHES: &str = "5 4";

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

/// The texts and the scale of a chart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Labels<'a> {
    /// The heading: the name of the measure.
    pub(super) title: &'a str,
    /// The name of the vertical axis: the unit of the values, or what they are.
    pub(super) unit: &'a str,
    /// Whether equal ratios have equal heights.
    pub(super) logarithmic: bool,
}

/// Draws values over steps, with named axes and a legend. Returns nothing if no series has a point
/// that can be drawn.
pub(super) fn chart(labels: Labels<'_>, series: &[Series]) -> Markup {
    let Labels { title, unit, .. } = labels;
    let Some(axes) = Axes::new(series, labels.logarithmic) else {
        return html! {};
    };
    html! {
        figure {
            figcaption { (title) }
            svg.chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
                (axes.ticks())
                (axes.names(unit))
                @for series in series { (axes.line(series)) }
            }
            @if series.len() > 1 { (legend(series)) }
        }
    }
}

/// The two axes of a chart.
struct Axes {
    steps: Axis,
    values: Axis,
}

/// A point of a line: where it is drawn, and what it stands for.
struct Point {
    x: f64,
    y: f64,
    step: f64,
    value: f64,
}

impl Axes {
    /// Makes axes that hold all points of all series; `None` if there are none.
    fn new(series: &[Series], logarithmic: bool) -> Option<Self> {
        let mut points = Vec::new();
        for (step, value) in series.iter().flat_map(|series| &series.points) {
            if is_drawable(*value, logarithmic) {
                points.push((*step, *value));
            }
        }
        if points.is_empty() {
            return None;
        }
        // The axis of steps begins at 0, where training does.
        let steps = points.iter().map(|(step, _)| *step).chain([0.0]);
        let values = points.iter().map(|(_, value)| *value);
        Some(Self {
            steps: Axis::new(steps, false, (LEFT, WIDTH - RIGHT)),
            // SVG counts downwards.
            values: Axis::new(values, logarithmic, (HEIGHT - BOTTOM, TOP)),
        })
    }

    /// The numbers on both axes, and a line through the chart at each value.
    fn ticks(&self) -> Markup {
        html! {
            @for tick in self.values.ticks() {
                @let y = format!("{:.1}", self.values.position(tick));
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
                text x=(LEFT - 6.0) y=(y) dy="0.32em" text-anchor="end" { (number(tick)) }
            }
            @for tick in self.steps.ticks() {
                text x=(format!("{:.1}", self.steps.position(tick))) y=(HEIGHT - BOTTOM + NUMBERS) text-anchor="middle" {
                    (number(tick))
                }
            }
        }
    }

    /// The names of both axes.
    fn names(&self, unit: &str) -> Markup {
        let center = f64::midpoint(LEFT, WIDTH - RIGHT);
        let middle = f64::midpoint(TOP, HEIGHT - BOTTOM);
        html! {
            text x=(center) y=(HEIGHT - NAME_BOTTOM) text-anchor="middle" { "step" }
            text transform=(format!("translate({NAME_LEFT} {middle}) rotate(-90)")) text-anchor="middle" {
                (unit) @if self.values.logarithmic { " (log scale)" }
            }
        }
    }

    /// One line, with a dot and a tooltip for each point if these are few.
    fn line(&self, series: &Series) -> Markup {
        let points = self.points(series);
        let corners: Vec<String> = points
            .iter()
            .map(|point| format!("{:.1},{:.1}", point.x, point.y))
            .collect();
        html! {
            polyline class=(format!("c{}", series.color)) stroke-dasharray=[dashes(series)] points=(corners.join(" ")) {}
            @if points.len() <= DOTTED {
                @for Point { x, y, step, value } in points {
                    circle class=(format!("c{}", series.color)) cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="3" {
                        title { (series.name) ", step " (number(step)) ": " (number(value)) }
                    }
                }
            }
        }
    }

    /// The points of a line, at most [`MOST_POINTS`]. They are counted from the last, which is
    /// always among them: it is where the run stands.
    fn points(&self, series: &Series) -> Vec<Point> {
        let stride = series.points.len().div_ceil(MOST_POINTS).max(1);
        let mut points = Vec::new();
        for &(step, value) in series.points.iter().rev().step_by(stride) {
            if is_drawable(value, self.values.logarithmic) {
                points.push(Point {
                    x: self.steps.position(step),
                    y: self.values.position(value),
                    step,
                    value,
                });
            }
        }
        points.reverse();
        points
    }
}

/// Whether a value has a height: a loss may be infinite or NaN, and 0 has no logarithm.
fn is_drawable(value: f64, logarithmic: bool) -> bool {
    value.is_finite() && (!logarithmic || value > 0.0)
}

/// The name of each line beside a piece of it, with its color and its dashes.
fn legend(series: &[Series]) -> Markup {
    html! {
        ul.legend {
            @for series in series {
                li {
                    svg.key viewBox="0 0 32 10" aria-hidden="true" {
                        line class=(format!("c{}", series.color)) stroke-dasharray=[dashes(series)] x1="0" x2="32" y1="5" y2="5" {}
                    }
                    (series.name)
                }
            }
        }
    }
}

fn dashes(series: &Series) -> Option<&'static str> {
    series.dashed.then_some(DASHES)
}

/// A range of values, mapped to a range of positions in the chart.
struct Axis {
    /// The ends of the range; logarithms to base 10 if the axis is logarithmic.
    least: f64,
    most: f64,
    logarithmic: bool,
    /// The value, if there is only one: it lies in the middle, and is the only tick.
    only: Option<f64>,
    /// The positions of `least` and `most`.
    ends: (f64, f64),
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool, ends: (f64, f64)) -> Self {
        let (mut least, mut most) = extent(values.map(|value| scaled(value, logarithmic)));
        let mut only = None;
        if least >= most {
            only = Some(if logarithmic {
                10f64.powf(least)
            } else {
                least
            });
            // A range of width 0 would divide by 0.
            least -= 1.0;
            most += 1.0;
        }
        Self {
            least,
            most,
            logarithmic,
            only,
            ends,
        }
    }

    /// The position of a value in the chart.
    fn position(&self, value: f64) -> f64 {
        let share = (scaled(value, self.logarithmic) - self.least) / (self.most - self.least);
        let (start, end) = self.ends;
        start + share * (end - start)
    }

    /// Round values in the range, to be written beside the axis.
    fn ticks(&self) -> Vec<f64> {
        if let Some(only) = self.only {
            return vec![only];
        }
        if !self.logarithmic {
            return linear_ticks(self.least, self.most);
        }
        if self.most - self.least < 1.0 {
            // Less than a factor of ten may hold no power of ten at all.
            return linear_ticks(10f64.powf(self.least), 10f64.powf(self.most));
        }
        self.decade_ticks()
    }

    /// The powers of ten in the range; 1, 2 and 5 times these if they are few.
    fn decade_ticks(&self) -> Vec<f64> {
        let factors: &[f64] = if self.most - self.least < 2.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        // Rounding must not take the ends of the range away.
        let range = self.least - 1e-9..=self.most + 1e-9;
        let mut ticks = Vec::new();
        for decade in (self.least.floor() as i32)..=(self.most.ceil() as i32) {
            for factor in factors {
                let tick = factor * 10f64.powi(decade);
                if range.contains(&tick.log10()) {
                    ticks.push(tick);
                }
            }
        }
        ticks
    }
}

/// A value as the axis counts it: its logarithm where equal ratios have equal heights.
fn scaled(value: f64, logarithmic: bool) -> f64 {
    if logarithmic { value.log10() } else { value }
}

/// Multiples of 1, 2 or 5 times a power of ten, about [`TICKS`] of them.
fn linear_ticks(least: f64, most: f64) -> Vec<f64> {
    let rough = (most - least) / TICKS;
    let magnitude = 10f64.powf(rough.log10().floor());
    let round_steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude);
    let step = round_steps.into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let first = (least / step).ceil();
    // The limit guards against a range in which steps are lost to rounding.
    (0..=20)
        .map(|index| (first + f64::from(index)) * step)
        .take_while(|tick| *tick <= most + step * 1e-9)
        .collect()
}

/// Formats a number in short: `12 000`, `0.35`, `2.5e-4`.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e7).contains(&size) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    if size >= 1000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", in_thousands(size));
    }
    let decimals = if size >= 100.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        4
    };
    // All of these have a decimal point, so no zero of a whole number is cut.
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The digits of a number in groups of three, with narrow no-break spaces between them.
fn in_thousands(size: f64) -> String {
    let digits = format!("{size:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        fn ticks(values: [f64; 2], logarithmic: bool) -> Vec<f64> {
            Axis::new(values.into_iter(), logarithmic, (0.0, 1.0)).ticks()
        }
        assert_eq!(
            ticks([0.0, 1000.0], false),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
        );
        assert_eq!(ticks([1.5, 900.0], true), [10.0, 100.0]);
        assert_eq!(ticks([2.0, 45.0], true), [2.0, 5.0, 10.0, 20.0]);
        // Around a single value nothing is known: an accuracy of 0.5 has no axis down to -0.5.
        assert_eq!(ticks([0.5, 0.5], false), [0.5]);
        assert_eq!(ticks([100.0, 100.0], true), [100.0]);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 12000.0, 0.35, 2.5e-4, 41.02, 7.0, 100.5, 1e8].map(number);
        assert_eq!(
            texts,
            [
                "0",
                "12\u{202f}000",
                "0.35",
                "2.5e-4",
                "41.02",
                "7",
                "100.5",
                "1e8"
            ]
        );
    }

    const LOSS: Labels<'_> = Labels {
        title: "loss",
        unit: "nats per target token",
        logarithmic: true,
    };

    fn series(dashed: bool, points: &[(f64, f64)]) -> Series {
        Series {
            name: "a".to_owned(),
            color: 0,
            dashed,
            points: points.to_vec(),
        }
    }

    #[test]
    fn values_that_are_not_numbers_are_left_out() {
        let svg = chart(LOSS, &[series(false, &[(1.0, f64::NAN), (2.0, 3.0)])]).into_string();
        assert!(svg.contains("<polyline") && !svg.contains("NaN"), "{svg}");
        assert_eq!(chart(LOSS, &[]).into_string(), "");
    }

    #[test]
    fn axes_have_names_and_a_legend_has_the_dashes_of_its_lines() {
        let points = [(1.0, 2.0), (2.0, 3.0)];
        let svg = chart(LOSS, &[series(true, &points), series(false, &points)]).into_string();
        assert!(
            svg.contains(">step</text>")
                && svg.contains(">nats per target token (log scale)</text>"),
            "{svg}"
        );
        let dashed = format!("stroke-dasharray=\"{DASHES}\"");
        assert_eq!(svg.matches(&dashed).count(), 2, "{svg}");
        let (picture, legend) = svg.split_once("<ul class=\"legend\">").unwrap();
        assert!(
            picture.contains(&dashed) && legend.matches("<line").count() == 2,
            "{legend}"
        );
        assert_eq!(legend.matches(&dashed).count(), 1, "{legend}");
    }
}
