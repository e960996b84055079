//! Curves as SVG: axes with round numbers, and one line per series.

use maud::{Markup, html};

use crate::drawing::extent;

/// The size in units of the picture. The style sheet never shows it smaller than that where the
/// paper is wide enough, so that letters are at least as large as it says.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 270.0;
/// Room for the numbers and the name of the vertical and of the horizontal axis.
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 46.0;
/// Where the names of the axes stand: from the left edge, and from the lower edge.
const NAME_LEFT: f64 = 14.0;
const NAME_BOTTOM: f64 = 7.0;
/// How far the base line of the numbers below lies under the chart.
const NUMBERS: f64 = 17.0;
/// Room above, and on the right, where half of the last number stands.
const TOP: f64 = 10.0;
const RIGHT: f64 = 24.0;
/// The most points of a line; more cannot be told apart.
const MOST_POINTS: usize = 600;
/// A line of up to this many points shows each of them.
const DOTTED: usize = 40;
/// About the number of marks on an axis.
const MARKS: f64 = 5.0;
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

/// What a chart shows, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Labels<'a> {
    /// What is measured.
    pub(super) title: &'a str,
    /// The name of the vertical axis: the unit of the values, or what they are.
    pub(super) unit: &'a str,
    /// Whether equal ratios have equal heights.
    pub(super) logarithmic: bool,
}

/// A chart of values over steps, with named axes and a legend; empty if no series has a point.
pub(super) fn chart(labels: Labels<'_>, series: &[Series]) -> Markup {
    let Labels {
        title,
        unit,
        logarithmic,
    } = labels;
    let fits = |value: f64| value.is_finite() && (!logarithmic || value > 0.0);
    let points = || {
        series
            .iter()
            .flat_map(|series| &series.points)
            .filter(|(_, value)| fits(*value))
    };
    if points().next().is_none() {
        return html! {};
    }
    let steps = Axis::new(
        points().map(|(step, _)| *step).chain([0.0]),
        false,
        (LEFT, WIDTH - RIGHT),
    );
    let values = Axis::new(
        points().map(|(_, value)| *value),
        logarithmic,
        (HEIGHT - BOTTOM, TOP),
    );
    let path = |series: &Series| {
        let stride = series.points.len().div_ceil(MOST_POINTS).max(1);
        let kept = series
            .points
            .iter()
            .rev()
            .step_by(stride)
            .rev()
            .filter(|(_, value)| fits(*value));
        kept.map(|&(step, value)| (steps.place(step), values.place(value), step, value))
            .collect::<Vec<_>>()
    };
    let line = |path: &[(f64, f64, f64, f64)]| {
        path.iter()
            .map(|(x, y, ..)| format!("{x:.1},{y:.1}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let (middle, center) = (
        f64::midpoint(TOP, HEIGHT - BOTTOM),
        f64::midpoint(LEFT, WIDTH - RIGHT),
    );
    html! {
        figure {
            figcaption { (title) }
            svg.chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
                @for mark in values.marks() {
                    @let y = format!("{:.1}", values.place(mark));
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
                    text x=(LEFT - 6.0) y=(y) dy="0.32em" text-anchor="end" { (number(mark)) }
                }
                @for mark in steps.marks() {
                    text x=(format!("{:.1}", steps.place(mark))) y=(HEIGHT - BOTTOM + NUMBERS) text-anchor="middle" {
                        (number(mark))
                    }
                }
                text x=(center) y=(HEIGHT - NAME_BOTTOM) text-anchor="middle" { "step" }
                text transform=(format!("translate({NAME_LEFT} {middle}) rotate(-90)")) text-anchor="middle" {
                    (unit) @if logarithmic { " (log scale)" }
                }
                @for series in series {
                    @let path = path(series);
                    polyline class=(format!("c{}", series.color)) stroke-dasharray=[dashes(series)] points=(line(&path)) {}
                    @if path.len() <= DOTTED {
                        @for (x, y, step, value) in &path {
                            circle class=(format!("c{}", series.color)) cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="3" {
                                title { (series.name) ", step " (number(*step)) ": " (number(*value)) }
                            }
                        }
                    }
                }
            }
            @if series.len() > 1 { (legend(series)) }
        }
    }
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
        let only = (least >= most).then_some(if logarithmic {
            10f64.powf(least)
        } else {
            least
        });
        let (least, most) = if only.is_none() {
            (least, most)
        } else {
            (least - 1.0, most + 1.0)
        };
        Self {
            least,
            most,
            logarithmic,
            only,
            places,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic {
            value.log10()
        } else {
            value
        };
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
            let within =
                |value: &f64| (self.least - 1e-9..=self.most + 1e-9).contains(&value.log10());
            let steps: &[f64] = if range < 2.0 {
                &[1.0, 2.0, 5.0]
            } else {
                &[1.0]
            };
            return decades
                .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
                .filter(within)
                .collect();
        }
        let (least, most) = if self.logarithmic {
            (10f64.powf(self.least), 10f64.powf(self.most))
        } else {
            (self.least, self.most)
        };
        let rough = (most - least) / MARKS;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * magnitude)
            .into_iter()
            .find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (least / step).ceil();
        (0..=20)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|mark| *mark <= most + step * 1e-9)
            .collect()
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
        let groups: Vec<&str> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .filter_map(|group| str::from_utf8(group).ok())
            .collect();
        format!(
            "{}{}",
            if value < 0.0 { "-" } else { "" },
            groups.join("\u{202f}")
        )
    } else {
        let decimals = if size >= 100.0 {
            1
        } else if size >= 1.0 {
            2
        } else {
            4
        };
        let text = format!("{value:.decimals$}");
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_within_the_range() {
        let marks = |values: [f64; 2], logarithmic| {
            Axis::new(values.into_iter(), logarithmic, (0.0, 1.0)).marks()
        };
        assert_eq!(
            marks([0.0, 1000.0], false),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
        );
        assert_eq!(marks([1.5, 900.0], true), [10.0, 100.0]);
        assert_eq!(marks([2.0, 45.0], true), [2.0, 5.0, 10.0, 20.0]);
        // Around a single value nothing is known: an accuracy of 0.5 has no axis down to -0.5.
        assert_eq!(marks([0.5, 0.5], false), [0.5]);
        assert_eq!(marks([100.0, 100.0], true), [100.0]);
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
