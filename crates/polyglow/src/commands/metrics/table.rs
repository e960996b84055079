//! The scores of several systems side by side, as a table or as JSON with sacreBLEU's fields.

use std::io::{self, Write};

use polyglow_metrics::significance::Confidence;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::report::indented;
use super::scoring::{Scored, Scores};
use super::{Style, Task};

/// The p-value up to which sacreBLEU marks a difference with `*`.
const SIGNIFICANCE: f64 = 0.05;

/// Writes a row for each system, below it the test that was made, and the signature of each metric.
pub(super) fn write(
    out: &mut impl Write,
    names: &[String],
    all_scores: &[Scores],
    task: Task,
    style: Style,
) -> anyhow::Result<()> {
    let is_test = matches!(
        task,
        Task::PairedBootstrap(_) | Task::PairedRandomization(_)
    );
    let baseline = names.iter().take(1).map(|name| {
        if is_test {
            format!("Baseline: {name}")
        } else {
            name.clone()
        }
    });
    let names: Vec<String> = baseline.chain(names.iter().skip(1).cloned()).collect();
    if style.json {
        let mut rows = Vec::new();
        for (index, name) in names.iter().enumerate() {
            rows.push(Row {
                name,
                index,
                all_scores,
                is_test,
                style,
            });
        }
        return Ok(writeln!(out, "{}", indented(&rows, 4)?)?);
    }
    write_grid(out, &grid(&names, all_scores, style))?;
    writeln!(out)?;
    if is_test {
        writeln!(out, "{}", explanation(&names[0], task))?;
    }
    writeln!(
        out,
        "-----------------\nMetric signatures\n-----------------"
    )?;
    for scores in all_scores {
        let signature = if style.short {
            scores.signature.short()
        } else {
            scores.signature.to_string()
        };
        writeln!(out, " - {:<10} {signature}", metric_name(scores))?;
    }
    Ok(())
}

fn metric_name(scores: &Scores) -> &str {
    scores.scores.first().map_or("", |scored| &scored.name)
}

/// An explanation of the numbers of a test.
fn explanation(baseline: &str, task: Task) -> String {
    let (test, meaning) = match task {
        Task::PairedBootstrap(number) => (
            format!("Paired bootstrap resampling, {number} resamples"),
            "In parentheses: the mean of the resampled scores ± half of the interval that holds 95 % of them.\n",
        ),
        Task::PairedRandomization(number) => (
            format!("Paired approximate randomization, {number} trials"),
            "",
        ),
        Task::Corpus | Task::Confidence(_) | Task::Sentences => return String::new(),
    };
    format!(
        "{test}: each system against {baseline}.\n{meaning}\
         p: the probability of a difference at least as large if the two systems were equal. Up to 0.05 (marked by *)\n\
         the systems differ by more than chance; whether the difference matters is another question.\n"
    )
}

/// Cells of lines: a header, then a row for each system.
fn grid(names: &[String], all_scores: &[Scores], style: Style) -> Vec<Vec<Vec<String>>> {
    let mut header = vec![vec!["System".to_owned()]];
    header.extend(all_scores.iter().map(|scores| vec![title(scores)]));
    let mut rows = vec![header];
    for (index, name) in names.iter().enumerate() {
        let mut row = vec![vec![name.clone()]];
        for scores in all_scores {
            row.push(cell(&scores.scores[index], style.width));
        }
        rows.push(row);
    }
    rows
}

/// The title of a metric's column.
fn title(scores: &Scores) -> String {
    let is_resampled = scores
        .scores
        .iter()
        .any(|scored| scored.confidence.is_some());
    let suffix = if is_resampled { " (μ ± 95% CI)" } else { "" };
    format!("{}{suffix}", metric_name(scores))
}

fn cell(scored: &Scored, width: usize) -> Vec<String> {
    let score = match scored.confidence {
        Some(Confidence { mean, half_width }) => {
            format!(
                "{:.width$} ({mean:.width$} ± {half_width:.width$})",
                scored.value
            )
        }
        None => format!("{:.width$}", scored.value),
    };
    let p_value = scored.p_value.map(|p_value| {
        let mark = if p_value > SIGNIFICANCE { "" } else { "*" };
        format!("(p = {p_value:.4}){mark}")
    });
    std::iter::once(score).chain(p_value).collect()
}

/// Writes a header and rows with lines around all cells, the first column to the right and the
/// others in the middle.
fn write_grid(out: &mut impl Write, rows: &[Vec<Vec<String>>]) -> anyhow::Result<()> {
    let num_columns = rows.first().map_or(0, Vec::len);
    let mut widths = vec![0; num_columns];
    for (index, row) in rows.iter().enumerate() {
        // A header has room for one more character on either side.
        let extra = if index == 0 { 2 } else { 0 };
        for (width, cell) in widths.iter_mut().zip(row) {
            for line in cell {
                *width = line.chars().count().saturating_add(extra).max(*width);
            }
        }
    }
    write_rule(out, &widths, ["╒", "╤", "╕"], "═")?;
    for (index, row) in rows.iter().enumerate() {
        match index {
            0 => {}
            1 => write_rule(out, &widths, ["╞", "╪", "╡"], "═")?,
            _ => write_rule(out, &widths, ["├", "┼", "┤"], "─")?,
        }
        for line in 0..row.iter().map(Vec::len).max().unwrap_or(0) {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let text = cell.get(line).map_or("", String::as_str);
                let padded = if column == 0 {
                    format!("{text:>width$}")
                } else {
                    format!("{text:^width$}")
                };
                write!(out, "│ {padded} ")?;
            }
            writeln!(out, "│")?;
        }
    }
    Ok(write_rule(out, &widths, ["╘", "╧", "╛"], "═")?)
}

/// Writes a line between rows, with these characters at its left end, between columns, and at its
/// right end.
fn write_rule(
    out: &mut impl Write,
    widths: &[usize],
    [left, middle, right]: [&str; 3],
    dash: &str,
) -> io::Result<()> {
    let dashes: Vec<String> = widths.iter().map(|width| dash.repeat(width + 2)).collect();
    writeln!(out, "{left}{}{right}", dashes.join(middle))
}

/// A system in sacreBLEU's JSON: an object with a key for each metric.
struct Row<'a> {
    name: &'a str,
    index: usize,
    all_scores: &'a [Scores],
    is_test: bool,
    style: Style,
}

/// The result of a test for one system, with sacreBLEU's keys.
#[derive(Serialize)]
struct TestResult {
    score: f64,
    p_value: Option<f64>,
    mean: Option<f64>,
    ci: Option<f64>,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("system", self.name)?;
        for scores in self.all_scores {
            let Scored {
                name,
                value,
                confidence,
                p_value,
                ..
            } = &scores.scores[self.index];
            if self.is_test {
                let (mean, ci) = confidence.map(|it| (it.mean, it.half_width)).unzip();
                map.serialize_entry(
                    name,
                    &TestResult {
                        score: *value,
                        p_value: *p_value,
                        mean,
                        ci,
                    },
                )?;
            } else {
                map.serialize_entry(name, &format!("{value:.*}", self.style.width))?;
            }
        }
        map.end()
    }
}
