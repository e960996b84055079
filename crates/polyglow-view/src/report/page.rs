//! The page: one file of HTML that needs nothing else, neither network nor scripts.

use maud::{Markup, html};
use polyglow_metrics::Measure;
use polyglow_predict::measures::{ACCURACY, LOSS, PERPLEXITY, SCORES, TOKEN_ACCURACY, recorded};
use polyglow_train::config::Config;
use serde_json::Value;

use super::chart::{Labels, Series, chart, number};
use super::data::data;
use super::samples::samples;
use super::{Comparison, RunSummary};
use crate::document::document;

/// Eight colors that color-blind people can tell apart (Okabe and Ito, 2008).
const STYLE: &str = include_str!("page.css");
/// Stands where a run has no such number.
pub(super) const NONE: &str = "–";

/// The report on these runs as an HTML page. `comparisons` are those of
/// [`compare`](super::compare), and may be empty.
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

/// A table with a column for each head, as narrow as it can be, and a row for each title.
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

/// The scores of the best validations, and what they cost.
fn overview(runs: &[RunSummary]) -> Markup {
    let cell = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), number);
    let sum = |run: &RunSummary, key: &str| {
        run.of_kind("train")
            .filter_map(|record| record[key].as_f64())
            .sum::<f64>()
    };
    let steps = |run: &RunSummary| {
        run.of_kind("train")
            .filter_map(|record| record["step"].as_f64())
            .last()
    };
    let speed = |run: &RunSummary| {
        Some(sum(run, "tokens") / sum(run, "seconds")).filter(|rate| rate.is_finite())
    };
    let row = |title, cell: &dyn Fn(&RunSummary) -> String| {
        (title, runs.iter().map(cell).collect::<Vec<_>>())
    };
    let mut rows = vec![
        row("parameters", &|run| {
            cell(run.parameters.map(|count| count as f64))
        }),
        row("steps", &|run| cell(steps(run))),
        row("target tokens", &|run| number(sum(run, "tokens"))),
        row("time", &|run| duration(sum(run, "seconds"))),
        row("tokens a second", &|run| cell(speed(run))),
        row("best step", &|run| cell(run.best.map(|step| step as f64))),
    ];
    for measure in recorded(runs.iter().filter_map(best_validation)) {
        rows.push(row(measure.title, &|run| {
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

/// A chart for each number that training and validation record.
fn curves(runs: &[RunSummary]) -> Markup {
    let series = |kind: &'static str, key: &str| -> Vec<Series> {
        let one = |(index, run): (usize, &RunSummary)| Series {
            name: if runs.len() > 1 {
                format!("{}, {kind}", run.name)
            } else {
                kind.to_owned()
            },
            color: if runs.len() > 1 {
                color(index)
            } else {
                usize::from(kind == "valid")
            },
            dashed: kind == "train" && runs.len() > 1,
            points: run
                .of_kind(kind)
                .filter_map(|record| Some((record["step"].as_f64()?, record[key].as_f64()?)))
                .collect(),
        };
        runs.iter()
            .enumerate()
            .map(one)
            .filter(|series| !series.points.is_empty())
            .collect()
    };
    let both = |key: &str| [series("train", key), series("valid", key)].concat();
    let linear = |title, unit| Labels {
        title,
        unit,
        logarithmic: false,
    };
    let gradient = Labels {
        title: "norm of the gradient",
        unit: "L2 norm",
        logarithmic: true,
    };
    html! {
        h2 { "Curves" }
        div.charts {
            @for measure in SCORES {
                @let labels = Labels { logarithmic: measure == PERPLEXITY, ..linear(measure.title, unit(&measure)) };
                (chart(labels, &both(measure.key)))
            }
            (chart(linear("learning rate", "learning rate"), &series("train", "lr")))
            (chart(gradient, &series("train", "grad_norm")))
            (chart(linear("speed of training", "target tokens a second"), &series("train", "tokens_per_second")))
        }
        p.note {
            "The loss is in nats per target token, in training with label smoothing. "
            "Translations are scored with greedy search."
        }
    }
}

/// The name of the axis of a measure: its unit, or what is measured where that has none.
fn unit(measure: &Measure) -> &'static str {
    match *measure {
        LOSS => "nats per target token",
        Measure::EXACT_MATCH => "share of the sentences",
        ACCURACY => "share of the examples",
        TOKEN_ACCURACY => "share of the tokens",
        Measure { title, .. } => title,
    }
}

/// Whether the runs differ by more than chance.
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
                        td { (p_value.map_or_else(|| NONE.to_owned(), |p_value| format!("{p_value:.4}"))) }
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

/// The scores on the test sets.
fn tests(run: &RunSummary) -> Markup {
    let measures: Vec<Measure> = recorded(run.of_kind("test")).collect();
    if measures.is_empty() {
        return html! {};
    }
    let records: Vec<&Value> = run.of_kind("test").collect();
    let row = |cell: &dyn Fn(&Value) -> String| {
        records
            .iter()
            .map(|record| cell(record))
            .collect::<Vec<_>>()
    };
    let mut rows = vec![("step", row(&|record| text(&record["step"])))];
    rows.extend(
        measures
            .iter()
            .map(|measure| (measure.title, row(&|record| score(Some(record), measure)))),
    );
    let mut signatures = row(&|record| text(&record["signatures"]["bleu"]));
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

fn configuration(run: &RunSummary) -> Markup {
    let toml = Config::to_toml(&run.config).unwrap_or_default();
    html! { details { summary { (run.name) ": configuration" } pre { (toml) } } }
}

/// The record of the validation with the best score.
fn best_validation(run: &RunSummary) -> Option<&Value> {
    let best = run.best?;
    run.of_kind("valid").find(|record| record["step"] == best)
}

fn score(record: Option<&Value>, measure: &Measure) -> String {
    let value = record.and_then(|record| record[measure.key].as_f64());
    value.map_or_else(
        || NONE.to_owned(),
        |value| format!("{value:.*}", measure.decimals),
    )
}

/// The name of a run beside the color of its lines.
pub(super) fn name(index: usize, run: &RunSummary) -> Markup {
    html! { span class=(format!("c{}", color(index))) { "■ " } (run.name) }
}

/// The color of a run's lines.
fn color(run: usize) -> usize {
    run % 8
}

/// `1 h 05 min`, `12 min`, `40 s`.
fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 => format!("{seconds:.0} s"),
        1..60 => format!("{minutes} min"),
        _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

/// A value of JSON as text; nothing for null.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(
        || {
            if value.is_null() {
                String::new()
            } else {
                value.to_string()
            }
        },
        str::to_owned,
    )
}
