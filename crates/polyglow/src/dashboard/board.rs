//! The content of the dashboard: numbers and curves of a training, drawn on a screen of any size.

use polyglow_metrics::Measure;
use polyglow_predict::measures::{self, LOSS, PERPLEXITY};
use polyglow_train::StopRequest;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph, Tabs};
use serde_json::Value;

use crate::activity::Pace;

/// The measures of a training that are plotted after its scores.
const TRAINING: [Measure; 3] = [
    Measure {
        key: "lr",
        title: "learning rate",
        higher_is_better: true,
        decimals: 6,
    },
    Measure {
        key: "tokens_per_second",
        title: "target tokens per second",
        higher_is_better: true,
        decimals: 0,
    },
    Measure {
        key: "grad_norm",
        title: "gradient norm",
        higher_is_better: false,
        decimals: 3,
    },
];

/// Columns of the table of numbers, and of a screen that has room for it.
const TABLE_WIDTH: u16 = 46;
const WIDE: u16 = 100;

/// Points of a curve that are drawn at most: a terminal shows no more.
const DRAWN_POINTS: usize = 500;

/// The character that Ctrl-C sends to a program that reads single keys.
const CTRL_C: u8 = 3;

/// All that is shown of a training.
pub(super) struct Board {
    label: String,
    pace: Pace,
    step: u64,
    last_step: u64,
    epoch: Option<u64>,
    is_validating: bool,
    /// The curves of the training; those that every model has come first.
    curves: Vec<Curve>,
    /// The index, among the curves that have points, of the one that is plotted.
    selected: usize,
    stop_request: StopRequest,
}

/// A measure over the steps.
struct Curve {
    measure: Measure,
    train: Vec<(f64, f64)>,
    valid: Vec<(f64, f64)>,
}

impl Board {
    pub(super) fn new(label: &str, step: u64, last_step: u64) -> Self {
        let first = [LOSS, PERPLEXITY];
        let rest = measures::all()
            .into_iter()
            .filter(|measure| !first.contains(measure));
        let measures = first.into_iter().chain(rest).chain(TRAINING);
        Self {
            label: label.to_owned(),
            pace: Pace::from(step),
            step,
            last_step,
            epoch: None,
            is_validating: false,
            curves: measures.map(Curve::new).collect(),
            selected: 0,
            stop_request: StopRequest::None,
        }
    }

    pub(super) fn advance(&mut self, step: u64) {
        self.step = step;
        self.is_validating = false;
    }

    pub(super) fn validating(&mut self) {
        self.is_validating = true;
    }

    /// Adds a record of `metrics.jsonl` to the curves.
    pub(super) fn show(&mut self, record: &Value) {
        let side: fn(&mut Curve) -> &mut Vec<(f64, f64)> = match record["kind"].as_str() {
            Some("train") => |curve| &mut curve.train,
            Some("valid") => |curve| &mut curve.valid,
            _ => return,
        };
        self.epoch = record["epoch"].as_u64().or(self.epoch);
        let step = record["step"].as_f64().unwrap_or_default();
        for curve in &mut self.curves {
            // JSON has no infinity, and a plot could not show it.
            if let Some(value) = record[curve.measure.key].as_f64() {
                side(curve).push((step, value));
            }
        }
    }

    pub(super) fn stop_request(&self) -> StopRequest {
        self.stop_request
    }

    /// Handles keys, given as the bytes that a terminal sends.
    pub(super) fn press(&mut self, keys: &[u8]) {
        match keys {
            b"\x1b[C" => self.select(1),
            b"\x1b[D" | b"\x1b[Z" => self.select(self.plotted().count().saturating_sub(1)),
            _ => {
                for &key in keys {
                    self.press_one(key);
                }
            }
        }
    }

    fn press_one(&mut self, key: u8) {
        match key {
            b'\t' => self.select(1),
            b'q' if self.stop_request == StopRequest::None => self.stop_request = StopRequest::Stop,
            CTRL_C => {
                self.stop_request = if self.stop_request == StopRequest::None {
                    StopRequest::Stop
                } else {
                    StopRequest::Abort
                }
            }
            _ => {}
        }
    }

    /// Selects the plot that comes `forward` plots later, and after the last the first.
    fn select(&mut self, forward: usize) {
        self.selected = (self.selected + forward) % self.plotted().count().max(1);
    }

    /// The curves that have points.
    fn plotted(&self) -> impl Iterator<Item = &Curve> {
        self.curves
            .iter()
            .filter(|curve| !curve.train.is_empty() || !curve.valid.is_empty())
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let rows = [
            Constraint::Length(3),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ];
        let [top, tabs, middle, bottom] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(self.progress(), top);
        let names = self.plotted().map(|curve| curve.measure.title);
        frame.render_widget(
            Tabs::new(names)
                .select(self.selected)
                .highlight_style(Style::new().reversed()),
            tabs,
        );
        let width = if middle.width >= WIDE { TABLE_WIDTH } else { 0 };
        let [plot, table] =
            Layout::horizontal([Constraint::Min(0), Constraint::Length(width)]).areas(middle);
        match self.plotted().nth(self.selected) {
            Some(curve) => curve.draw(frame, plot),
            None => frame.render_widget(
                Paragraph::new("the first report comes after `train.log_every` steps"),
                plot,
            ),
        }
        let numbers: Vec<Line<'_>> = self.plotted().map(Curve::line).collect();
        let title = format!("{:<26}{:>8}  {:>8}", "", "train", "valid");
        frame.render_widget(
            Paragraph::new(numbers).block(Block::bordered().title(title)),
            table,
        );
        frame.render_widget(self.keys(), bottom);
    }

    /// Shows the progress of the training as a bar.
    fn progress(&self) -> Gauge<'_> {
        let step = self.step;
        let last = self.last_step;
        let left = self.pace.time_left(step, last);
        let epoch = self
            .epoch
            .map(|epoch| format!(", epoch {epoch}"))
            .unwrap_or_default();
        let now = if self.is_validating {
            ", validating"
        } else {
            ""
        };
        let share = step as f64 / last.max(1) as f64;
        Gauge::default()
            .block(Block::bordered().title(self.label.as_str()))
            .gauge_style(Style::new().fg(Color::Cyan))
            .ratio(share.clamp(0.0, 1.0))
            .label(format!("step {step} of {last}{epoch}, left {left}{now}"))
    }

    /// Explains the keys.
    fn keys(&self) -> Line<'static> {
        match self.stop_request {
            StopRequest::None => Line::from("q: save and stop    tab: next plot"),
            StopRequest::Stop => {
                Line::from("saving and stopping; Ctrl-C: end now, without saving").yellow()
            }
            StopRequest::Abort => Line::from("ending without saving").red(),
        }
    }
}

impl Curve {
    fn new(measure: Measure) -> Self {
        Self {
            measure,
            train: Vec::new(),
            valid: Vec::new(),
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let train = thinned(&self.train);
        let valid = thinned(&self.valid);
        let points = [train.as_slice(), &valid].concat();
        let steps = bounds(points.iter().map(|point| point.0));
        let values = bounds(points.iter().map(|point| point.1));
        // The legend names a line even if it has no points, so such a line is left out.
        let mut lines = Vec::new();
        if !train.is_empty() {
            lines.push(line("train", &train, Color::Cyan));
        }
        if !valid.is_empty() {
            lines.push(line("valid", &valid, Color::Yellow));
        }
        let chart = Chart::new(lines)
            .block(Block::bordered().title(self.measure.title))
            .x_axis(
                Axis::default()
                    .bounds(steps)
                    .labels(steps.map(|step| format!("{step:.0}"))),
            )
            .y_axis(Axis::default().bounds(values).labels(values.map(number)));
        frame.render_widget(chart, area);
    }

    /// The newest values.
    fn line(&self) -> Line<'static> {
        Line::from(format!(
            "{:<26}{:>8}  {:>8}",
            self.measure.title,
            newest(&self.train),
            newest(&self.valid)
        ))
    }
}

/// Makes a line of a chart.
fn line<'a>(name: &'static str, points: &'a [(f64, f64)], color: Color) -> Dataset<'a> {
    Dataset::default()
        .name(name)
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(Style::new().fg(color))
        .data(points)
}

/// Formats the newest value of a curve; empty if it has none.
fn newest(points: &[(f64, f64)]) -> String {
    points
        .last()
        .map(|point| number(point.1))
        .unwrap_or_default()
}

/// Thins points out evenly; the newest stays.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(DRAWN_POINTS).max(1);
    points.iter().rev().step_by(every).rev().copied().collect()
}

/// The least and the largest value; a little apart where they are the same.
fn bounds(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let [low, high] = values.fold([f64::MAX, f64::MIN], |[low, high], value| {
        [low.min(value), high.max(value)]
    });
    if low < high {
        [low, high]
    } else {
        [low - 0.5, high + 0.5]
    }
}

/// A number with about four digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}
