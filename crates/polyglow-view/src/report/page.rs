//! The page: one file of HTML that needs nothing else, neither network nor scripts.

use maud::{Markup, html};
use polyglow_metrics::Measure;
use polyglow_train::config::Config;
use polyglow_train::predict::measures::{PERPLEXITY, SCORES, recorded};
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

/// A table with a row for each run.
fn overview(runs: &[RunSummary]) -> Markup {
    let measures: Vec<Measure> = recorded(runs.iter().filter_map(best_validation)).collect();
    let cell = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), number);
    html! {
        table {
            tr {
                th { "run" } th { "parameters" } th { "steps" } th { "target tokens" } th { "time" } th { "tokens a second" }
                th { "best step" }
                @for measure in &measures { th { (measure.title) } }
            }
            @for (index, run) in runs.iter().enumerate() {
                @let sum = |key: &str| run.of_kind("train").filter_map(|record| record[key].as_f64()).sum::<f64>();
                @let steps = run.of_kind("train").filter_map(|record| record["step"].as_f64()).last();
                tr {
                    td { span class=(format!("c{}", color(index))) { "■ " } (run.name) }
                    td { (cell(run.parameters.map(|count| count as f64))) }
                    td { (cell(steps)) }
                    td { (number(sum("tokens"))) }
                    td { (duration(sum("seconds"))) }
                    td { (cell(Some(sum("tokens") / sum("seconds")).filter(|rate| rate.is_finite()))) }
                    td { (cell(run.best.map(|step| step as f64))) }
                    @for measure in &measures { td { (score(best_validation(run), measure)) } }
                }
            }
        }
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
    html! {
        h2 { (run.name) ": tests" }
        table {
            tr { th { "set" } th { "step" } @for measure in &measures { th { (measure.title) } } th { "signature" } }
            @for record in run.of_kind("test") {
                tr {
                    td { (text(&record["split"])) }
                    td { (text(&record["step"])) }
                    @for measure in &measures { td { (score(Some(record), measure)) } }
                    td.small { (text(&record["signatures"]["bleu"])) }
                }
            }
        }
    }
}

/// What `check` found in the text before the first step.
fn data(run: &RunSummary) -> Markup {
    let Some(splits) = run.inspection.as_ref().and_then(|found| found["splits"].as_array()) else { return html! {} };
    let counts = ["pairs", "kept", "duplicates", "copies", "in_train"];
    html! {
        h2 { (run.name) ": data" }
        table {
            tr {
                th { "split" }
                @for title in ["pairs", "used", "duplicates", "copies", "in train"] { th { (title) } }
                @for side in ["source", "target"] { th { (side) " tokens" } th { "mean" } th { "longest" } th { "unknown" } }
            }
            @for split in splits {
                tr {
                    td { (text(&split["name"])) }
                    @for key in counts { td { (split[key].as_f64().map_or_else(|| NONE.to_owned(), number)) } }
                    @for side in ["src", "tgt"] {
                        @let side = &split[side];
                        @for key in ["tokens", "mean_len", "longest"] { td { (side[key].as_f64().map_or_else(String::new, number)) } }
                        td { (format!("{:.2} %", 100.0 * side["unknown_rate"].as_f64().unwrap_or(0.0))) }
                    }
                }
            }
        }
    }
}

/// How the translations of some sentences changed.
fn samples(run: &RunSummary) -> Markup {
    if run.valid.is_empty() || run.outputs.is_empty() {
        return html! {};
    }
    html! {
        h2 { (run.name) ": translations over time" }
        @for (index, pair) in run.valid.iter().enumerate().take(SAMPLES) {
            table.sample {
                tr { th { "source" } td { (pair.src) } }
                tr { th { "reference" } td { (pair.tgt) } }
                @for (step, lines) in &run.outputs {
                    tr { th { "step " (number(*step as f64)) } td { (lines.get(index).map_or("", String::as_str)) } }
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
