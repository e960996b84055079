//! The page: one file of HTML that needs nothing else, neither network nor scripts.

use maud::{Markup, html};
use polyglow_metrics::Measure;
use polyglow_train::config::Config;
use polyglow_train::predict::measures::{PERPLEXITY, SCORES, recorded};
use polyglow_train::predict::samples::spread;
use serde_json::Value;

use super::chart::{Series, chart, number};
use super::{Comparison, RunSummary};
use crate::document::document;

/// Eight colors that color-blind people can tell apart (Okabe and Ito, 2008).
const STYLE: &str = include_str!("page.css");
/// Sentences whose translations are shown over time.
const SAMPLES: usize = 5;
/// Stands where a run has no such number.
const NONE: &str = "–";

/// The report on these runs as an HTML page. `comparisons` are those of [`compare`](super::compare), and may be empty.
pub fn render(runs: &[RunSummary], comparisons: &[Comparison]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let body = html! {
        h1 { "polyglow report" }
        (overview(runs))
        (curves(runs))
        (comparison(comparisons))
        @for run in runs {
            (tests(run))
            (data(run))
            (samples(run))
            (configuration(run))
        }
    };
    document(&format!("polyglow: {}", names.join(", ")), STYLE, &body)
}

/// A table with a column for each head, as narrow as it can be, and a row for each title.
fn table(heads: &[Markup], rows: &[(&str, Vec<String>)]) -> Markup {
    html! {
        table {
            tr { th {} @for head in heads { th { (head) } } }
            @for (title, cells) in rows {
                tr { th { (title) } @for cell in cells { td { (cell) } } }
            }
        }
    }
}

/// The scores of the best validations, and what they cost.
fn overview(runs: &[RunSummary]) -> Markup {
    let cell = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), number);
    let sum = |run: &RunSummary, key: &str| run.of_kind("train").filter_map(|record| record[key].as_f64()).sum::<f64>();
    let steps = |run: &RunSummary| run.of_kind("train").filter_map(|record| record["step"].as_f64()).last();
    let speed = |run: &RunSummary| Some(sum(run, "tokens") / sum(run, "seconds")).filter(|rate| rate.is_finite());
    let row = |title, cell: &dyn Fn(&RunSummary) -> String| (title, runs.iter().map(cell).collect::<Vec<_>>());
    let mut rows = vec![
        row("parameters", &|run| cell(run.parameters.map(|count| count as f64))),
        row("steps", &|run| cell(steps(run))),
        row("target tokens", &|run| number(sum(run, "tokens"))),
        row("time", &|run| duration(sum(run, "seconds"))),
        row("tokens a second", &|run| cell(speed(run))),
        row("best step", &|run| cell(run.best.map(|step| step as f64))),
    ];
    for measure in recorded(runs.iter().filter_map(best_validation)) {
        rows.push(row(measure.title, &|run| score(best_validation(run), &measure)));
    }
    let head =
        |(index, run): (usize, &RunSummary)| html! { span class=(format!("c{}", color(index))) { "■ " } (run.name) };
    html! {
        (table(&runs.iter().enumerate().map(head).collect::<Vec<_>>(), &rows))
        p.note { "Scores are those of the best validation, with greedy search. Time counts training steps only." }
    }
}

/// A chart for each number that training and validation record.
fn curves(runs: &[RunSummary]) -> Markup {
    let series = |kind: &'static str, key: &str| -> Vec<Series> {
        let one = |(index, run): (usize, &RunSummary)| Series {
            name: if runs.len() > 1 { format!("{}, {kind}", run.name) } else { kind.to_owned() },
            color: if runs.len() > 1 { color(index) } else { usize::from(kind == "valid") },
            dashed: kind == "train" && runs.len() > 1,
            points: run
                .of_kind(kind)
                .filter_map(|record| Some((record["step"].as_f64()?, record[key].as_f64()?)))
                .collect(),
        };
        runs.iter().enumerate().map(one).filter(|series| !series.points.is_empty()).collect()
    };
    let both = |key: &str| [series("train", key), series("valid", key)].concat();
    html! {
        h2 { "Curves" }
        div.charts {
            @for measure in SCORES { (chart(measure.title, &both(measure.key), measure == PERPLEXITY)) }
            (chart("learning rate", &series("train", "lr"), false))
            (chart("norm of the gradient", &series("train", "grad_norm"), true))
            (chart("target tokens a second", &series("train", "tokens_per_second"), false))
        }
        p.note {
            "The loss is in nats per target token, in training with label smoothing. "
            "Translations are scored with greedy search."
        }
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
            tr { th { "run" } th { "metric" } th { "mean ± 95 %" } th { "p" } }
            @for Comparison { name, metric, confidence: (mean, half_width), p_value } in comparisons {
                tr {
                    td { (name) }
                    td { (metric) }
                    td { (format!("{mean:.2} ± {half_width:.2}")) }
                    td { (p_value.map_or_else(|| NONE.to_owned(), |p_value| format!("{p_value:.4}"))) }
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
    let row = |cell: &dyn Fn(&Value) -> String| records.iter().map(|record| cell(record)).collect::<Vec<_>>();
    let mut rows = vec![("step", row(&|record| text(&record["step"])))];
    rows.extend(measures.iter().map(|measure| (measure.title, row(&|record| score(Some(record), measure)))));
    let mut signatures = row(&|record| text(&record["signatures"]["bleu"]));
    signatures.retain(|signature| !signature.is_empty());
    signatures.dedup();
    let heads: Vec<Markup> = records.iter().map(|record| html! { (text(&record["split"])) }).collect();
    html! {
        h2 { (run.name) ": tests" }
        (table(&heads, &rows))
        @for signature in signatures { p.note { "BLEU is " (signature) } }
    }
}

/// What `check` found in the text before the first step.
fn data(run: &RunSummary) -> Markup {
    let Some(splits) = run.inspection.as_ref().and_then(|found| found["splits"].as_array()) else { return html! {} };
    let row = |cell: &dyn Fn(&Value) -> String| splits.iter().map(cell).collect::<Vec<_>>();
    let count = |value: &Value| value.as_f64().map_or_else(|| NONE.to_owned(), number);
    let counts = [
        ("pairs", "pairs"),
        ("used", "kept"),
        ("duplicates", "duplicates"),
        ("copies", "copies"),
        ("in train", "in_train"),
    ];
    let mut rows: Vec<(&str, Vec<String>)> =
        counts.iter().map(|(title, key)| (*title, row(&|split| count(&split[*key])))).collect();
    let sides = [
        ("src", ["source tokens", "mean length", "longest", "unknown"]),
        ("tgt", ["target tokens", "mean length", "longest", "unknown"]),
    ];
    for (side, titles) in sides {
        for (title, key) in titles.into_iter().zip(["tokens", "mean_len", "longest"]) {
            rows.push((title, row(&|split| count(&split[side][key]))));
        }
        let unknown = |split: &Value| format!("{:.2} %", 100.0 * split[side]["unknown_rate"].as_f64().unwrap_or(0.0));
        rows.push((titles[3], row(&unknown)));
    }
    let heads: Vec<Markup> = splits.iter().map(|split| html! { (text(&split["name"])) }).collect();
    html! {
        h2 { (run.name) ": data" }
        (table(&heads, &rows))
    }
}

/// How the translations of some sentences changed.
fn samples(run: &RunSummary) -> Markup {
    if run.valid.is_empty() || run.outputs.is_empty() {
        return html! {};
    }
    html! {
        h2 { (run.name) ": translations over time" }
        @for place in spread(&run.valid, SAMPLES) {
            table.sample {
                tr { th { "source" } td dir="auto" { (run.valid[place].src) } }
                tr { th { "reference" } td dir="auto" { (run.valid[place].tgt) } }
                @for (step, lines) in &run.outputs {
                    tr {
                        th { "step " (number(*step as f64)) }
                        td dir="auto" { (lines.get(place).map_or("", String::as_str)) }
                    }
                }
            }
        }
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
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.*}", measure.decimals))
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

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_owned)
}
