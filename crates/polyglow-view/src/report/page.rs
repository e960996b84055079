//! The page: one file of HTML that needs nothing else, neither network nor scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::chart::{Series, chart, number};
use super::{Comparison, RunSummary, SAMPLES};
use polyglow_train::config::Config;

/// Light and dark, for screens and paper; eight colors that color-blind people can tell apart (Okabe and Ito, 2008).
const STYLE: &str = include_str!("page.css");

/// The report on these runs as HTML; the first is what the others are compared with.
pub fn render(runs: &[RunSummary], comparisons: &[Comparison]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "polyglow: " (names.join(", ")) }
                style { (PreEscaped(STYLE)) }
            }
            body {
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
            }
        }
    };
    page.into_string()
}

/// A table with a row for each run.
fn overview(runs: &[RunSummary]) -> Markup {
    let best = |run: &RunSummary, key: &str| {
        let record = run.of_kind("valid").find(|record| record["step"].as_u64() == run.best)?;
        record[key].as_f64()
    };
    let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    html! {
        table {
            tr {
                th { "run" } th { "parameters" } th { "steps" } th { "target tokens" } th { "time" } th { "tokens a second" }
                th { "best step" } th { "BLEU" } th { "chrF" } th { "loss" }
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
                    @for key in ["bleu", "chrf", "loss"] { td { (cell(best(run, key))) } }
                }
            }
        }
        p.note { "BLEU, chrF and loss are those of the best validation, by greedy search. Time is spent on steps alone." }
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
            (chart("loss in nats per target token (training: smoothed)", &both("loss"), false))
            (chart("perplexity", &both("perplexity"), true))
            (chart("BLEU of greedy output", &series("valid", "bleu"), false))
            (chart("chrF of greedy output", &series("valid", "chrf"), false))
            (chart("token accuracy", &series("valid", "token_accuracy"), false))
            (chart("learning rate", &series("train", "lr"), false))
            (chart("norm of the gradient", &series("train", "grad_norm"), true))
            (chart("target tokens a second", &series("train", "tokens_per_second"), false))
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
                    td { (p_value.map_or_else(|| "–".to_owned(), |p_value| format!("{p_value:.4}"))) }
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
    if run.of_kind("test").next().is_none() {
        return html! {};
    }
    let keys =
        [("bleu", "BLEU"), ("chrf", "chrF"), ("exact_match", "exact match"), ("token_accuracy", "token accuracy")];
    html! {
        h2 { (run.name) ": tests" }
        table {
            tr { th { "set" } th { "step" } @for (_, title) in keys { th { (title) } } th { "signature" } }
            @for record in run.of_kind("test") {
                tr {
                    td { (text(&record["split"])) }
                    td { (text(&record["step"])) }
                    @for (key, _) in keys { td { (record[key].as_f64().map_or_else(String::new, number)) } }
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
                    @for key in counts { td { (split[key].as_f64().map_or_else(|| "–".to_owned(), number)) } }
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
