//! The report as one HTML file, which needs neither a network nor scripts.

use maud::{Markup, html};
use polyglow_metrics::Measure;
use polyglow_predict::measures::{self, ACCURACY, LOSS, PERPLEXITY, TOKEN_ACCURACY, recorded};
use polyglow_train::config::Config;
use serde_json::Value;

use super::chart::{Labels, Series, chart, number};
use super::data::data;
use super::samples::samples;
use super::{Comparison, RunSummary};
use crate::document::document;

/// The style of the page, with eight colors that color-blind people can tell apart (Okabe and Ito,
/// 2008).
const STYLE: &str = include_str!("page.css");
/// The text of a cell that has no value.
pub(super) const NONE: &str = "–";

/// Returns the report on some runs as an HTML page. Pass the result of [`compare`](super::compare)
/// as `comparisons`, or nothing to leave the significance test out.
pub fn render(runs: &[RunSummary], comparisons: &[Comparison]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let body = html! {
        h1 { "polyglow report" }
        (overview(runs))
        (curves(runs))
        (comparison(comparisons))
        (samples(runs))
        @for run in runs {
            (tests(run))
            (data(run))
            (configuration(run))
        }
    };
    document(&format!("polyglow: {}", names.join(", ")), STYLE, &body)
}

/// A table with a column for each of `heads`, and rows of a title with a cell for each column.
pub(super) fn table(heads: &[Markup], rows: &[(&str, Vec<String>)]) -> Markup {
    html! {
        table {
            thead { tr { th {} @for head in heads { th scope="col" { (head) } } } }
            tbody {
                @for (title, cells) in rows {
                    tr { th scope="row" { (title) } @for cell in cells { td { (cell) } } }
                }
            }
        }
    }
}

/// The scores of the best validations, and what they cost, with a column for each run.
fn overview(runs: &[RunSummary]) -> Markup {
    let mut rows = vec![
        row("parameters", runs, |run| {
            number_or_none(run.parameters.map(|count| count as f64))
        }),
        row("steps", runs, |run| number_or_none(last_step(run))),
        row("target tokens", runs, |run| number(sum(run, "tokens"))),
        row("time", runs, |run| duration(sum(run, "seconds"))),
        row("tokens a second", runs, |run| number_or_none(speed(run))),
        row("best step", runs, |run| {
            number_or_none(run.best.map(|step| step as f64))
        }),
    ];
    for measure in recorded(runs.iter().filter_map(best_validation)) {
        rows.push(row(measure.title, runs, |run| {
            score(best_validation(run), &measure)
        }));
    }
    let heads: Vec<Markup> = runs
        .iter()
        .enumerate()
        .map(|(index, run)| name(index, run))
        .collect();
    html! {
        (table(&heads, &rows))
        p.note { "Scores are those of the best validation, with greedy search. Time counts training steps only." }
    }
}

/// A row of a table: its title, and a cell for each column.
pub(super) fn row<'a, T>(
    title: &'a str,
    columns: &[T],
    cell: impl Fn(&T) -> String,
) -> (&'a str, Vec<String>) {
    (title, columns.iter().map(cell).collect())
}

/// The last step of training that has a record.
fn last_step(run: &RunSummary) -> Option<f64> {
    let steps = run.records_of("train");
    steps.filter_map(|record| record["step"].as_f64()).last()
}

/// The sum of a number over all records of training.
fn sum(run: &RunSummary, key: &str) -> f64 {
    let records = run.records_of("train");
    records.filter_map(|record| record[key].as_f64()).sum()
}

/// Target tokens a second, over all of training; `None` before the first record.
fn speed(run: &RunSummary) -> Option<f64> {
    let rate = sum(run, "tokens") / sum(run, "seconds");
    rate.is_finite().then_some(rate)
}

/// A chart for each number that training and validation record.
fn curves(runs: &[RunSummary]) -> Markup {
    let gradient = Labels {
        title: "norm of the gradient",
        unit: "L2 norm",
        logarithmic: true,
    };
    let rate = Labels {
        title: "learning rate",
        unit: "learning rate",
        logarithmic: false,
    };
    let speed = Labels {
        title: "speed of training",
        unit: "target tokens a second",
        logarithmic: false,
    };
    html! {
        h2 { "Curves" }
        div.charts {
            @for measure in measures::all() { (score_chart(runs, &measure)) }
            (chart(rate, &series(runs, "train", "lr")))
            (chart(gradient, &series(runs, "train", "grad_norm")))
            (chart(speed, &series(runs, "train", "tokens_per_second")))
        }
        p.note {
            "The loss is in nats per target token, in training with label smoothing. "
            "Translations are scored with greedy search."
        }
    }
}

/// The chart of a score, in training where it is recorded there, and in validation.
fn score_chart(runs: &[RunSummary], measure: &Measure) -> Markup {
    let labels = Labels {
        title: measure.title,
        unit: unit(measure),
        // It begins near the size of the vocabulary and ends near 1.
        logarithmic: *measure == PERPLEXITY,
    };
    let mut lines = series(runs, "train", measure.key);
    lines.extend(series(runs, "valid", measure.key));
    chart(labels, &lines)
}

/// The curves of a number in the records of one kind: a line for each run that has it.
///
/// One run has a color for each kind. Several have a color each, and training is dashed.
fn series(runs: &[RunSummary], kind: &'static str, key: &str) -> Vec<Series> {
    let is_alone = runs.len() == 1;
    let mut lines = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let mut points = Vec::new();
        for record in run.records_of(kind) {
            if let (Some(step), Some(value)) = (record["step"].as_f64(), record[key].as_f64()) {
                points.push((step, value));
            }
        }
        if points.is_empty() {
            continue;
        }
        lines.push(if is_alone {
            Series {
                name: kind.to_owned(),
                color: usize::from(kind == "valid"),
                dashed: false,
                points,
            }
        } else {
            Series {
                name: format!("{}, {kind}", run.name),
                color: color(index),
                dashed: kind == "train",
                points,
            }
        });
    }
    lines
}

/// The name of a measure's axis: its unit, or its title where it has none.
fn unit(measure: &Measure) -> &'static str {
    match *measure {
        LOSS => "nats per target token",
        Measure::EXACT_MATCH => "share of the sentences",
        ACCURACY => "share of the examples",
        TOKEN_ACCURACY => "share of the tokens",
        Measure { title, .. } => title,
    }
}

/// The table of the significance test; empty without comparisons.
fn comparison(comparisons: &[Comparison]) -> Markup {
    if comparisons.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Best validations, resampled" }
        table {
            thead { tr { th { "run" } th { "metric" } th { "mean ± 95 %" } th { "p" } } }
            tbody {
                @for Comparison { name, metric, confidence: (mean, half_width), p_value } in comparisons {
                    tr {
                        td { (name) }
                        td { (metric) }
                        td { (format!("{mean:.2} ± {half_width:.2}")) }
                        td { @if let Some(p_value) = p_value { (format!("{p_value:.4}")) } @else { (NONE) } }
                    }
                }
            }
        }
        p.note {
            "Paired bootstrap, 1000 resamples of the validation set; p is the probability of such a difference to the first "
            "run if both were equally good."
        }
    }
}

/// The scores on the test sets, with a column for each of them.
fn tests(run: &RunSummary) -> Markup {
    let records: Vec<&Value> = run.records_of("test").collect();
    let measures: Vec<Measure> = recorded(records.iter().copied()).collect();
    if measures.is_empty() {
        return html! {};
    }
    let mut rows = vec![row("step", &records, |record| text(&record["step"]))];
    for measure in &measures {
        rows.push(row(measure.title, &records, |record| {
            score(Some(record), measure)
        }));
    }
    // Most test sets are scored alike.
    let mut signatures: Vec<String> = records
        .iter()
        .map(|record| text(&record["signatures"]["bleu"]))
        .collect();
    signatures.retain(|signature| !signature.is_empty());
    signatures.dedup();
    let heads: Vec<Markup> = records
        .iter()
        .map(|record| html! { (text(&record["split"])) })
        .collect();
    html! {
        h2 { (run.name) ": tests" }
        (table(&heads, &rows))
        @for signature in signatures { p.note { "BLEU is " (signature) } }
    }
}

/// The resolved configuration of a run, folded.
fn configuration(run: &RunSummary) -> Markup {
    let toml = Config::to_toml(&run.config).unwrap_or_default();
    html! { details { summary { (run.name) ": configuration" } pre { (toml) } } }
}

/// The record of the validation with the best score.
fn best_validation(run: &RunSummary) -> Option<&Value> {
    let best = run.best?;
    run.records_of("valid")
        .find(|record| record["step"] == best)
}

/// The score in a record, with the measure's decimals.
fn score(record: Option<&Value>, measure: &Measure) -> String {
    match record.and_then(|record| record[measure.key].as_f64()) {
        Some(value) => format!("{value:.*}", measure.decimals),
        None => NONE.to_owned(),
    }
}

/// A number in short, or a dash.
pub(super) fn number_or_none(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), number)
}

/// The name of a run after a square in the color of its lines.
pub(super) fn name(index: usize, run: &RunSummary) -> Markup {
    html! { span class=(format!("c{}", color(index))) { "■ " } (run.name) }
}

/// The number of the color of a run's lines; the ninth run has that of the first.
fn color(run: usize) -> usize {
    run % 8
}

/// Formats a duration: `1 h 05 min`, `12 min`, `40 s`.
fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        // The sum of no records may be -0.
        0 => format!("{:.0} s", seconds.abs()),
        1..60 => format!("{minutes} min"),
        _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

/// A value of JSON as text; nothing for null.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
