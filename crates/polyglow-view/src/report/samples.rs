//! The translations of some sentences over time, with a column for each run.

use std::collections::BTreeSet;

use maud::{Markup, html};
use polyglow_predict::samples::spread;

use super::RunSummary;
use super::chart::number;
use super::page::{NONE, name};

/// The number of sentences that are shown.
const SAMPLES: usize = 5;
/// The least width of the column of steps and of one of translations, in rem; narrower pages
/// scroll.
const STEP_WIDTH: usize = 6;
const COLUMN_WIDTH: usize = 12;

/// The translations of some sentences at some steps. Runs that were validated on the same text
/// share their tables.
pub(super) fn samples(runs: &[RunSummary]) -> Markup {
    let groups = groups(runs);
    html! {
        @for group in &groups {
            @let names: Vec<&str> = group.iter().map(|(_, run)| run.name.as_str()).collect();
            h2 { (names.join(", ")) ": translations over time" }
            @for index in spread(&group[0].1.valid, SAMPLES) { (sample(group, index)) }
        }
    }
}

/// The runs that have translations to show, with their indices, grouped by their validation text.
fn groups(runs: &[RunSummary]) -> Vec<Vec<(usize, &RunSummary)>> {
    let mut groups: Vec<Vec<(usize, &RunSummary)>> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        if run.valid.is_empty() || run.outputs.is_empty() {
            continue;
        }
        let same_text = |group: &&mut Vec<(usize, &RunSummary)>| group[0].1.valid == run.valid;
        match groups.iter_mut().find(same_text) {
            Some(group) => group.push((index, run)),
            None => groups.push(vec![(index, run)]),
        }
    }
    groups
}

/// The translations of one sentence: a row for each step, a column for each run.
fn sample(group: &[(usize, &RunSummary)], index: usize) -> Markup {
    let pair = &group[0].1.valid[index];
    let mut steps: BTreeSet<u64> = BTreeSet::new();
    for (_, run) in group {
        steps.extend(run.outputs.iter().map(|(step, _)| *step));
    }
    let width = STEP_WIDTH + COLUMN_WIDTH * group.len();
    html! {
        div.scroll {
            table.sample style=(format!("min-width: {width}rem")) {
                tbody {
                    @if !pair.src.is_empty() {
                        tr { th scope="row" { "source" } td colspan=(group.len()) dir="auto" { (pair.src) } }
                    }
                    tr { th scope="row" { "reference" } td colspan=(group.len()) dir="auto" { (pair.tgt) } }
                    @if group.len() > 1 {
                        tr { th scope="row" { "run" } @for (index, run) in group { th scope="col" { (name(*index, run)) } } }
                    }
                    @for step in steps {
                        tr {
                            th scope="row" { "step " (number(step as f64)) }
                            @for (_, run) in group { td dir="auto" { (output(run, step, index)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The translation of a sentence by a run at a step; a dash where it was not validated then.
fn output(run: &RunSummary, step: u64, index: usize) -> &str {
    let output = run.outputs.iter().find(|(known, _)| *known == step);
    output.map_or(NONE, |(_, lines)| {
        lines.get(index).map_or("", String::as_str)
    })
}

#[cfg(test)]
mod tests {
    use polyglow_data::pair::Pair;
    use polyglow_train::config::Config;

    use super::*;

    fn run(name: &str, src: &str, outputs: &[(u64, &str)]) -> RunSummary {
        RunSummary {
            name: name.to_owned(),
            config: Config::from_text("data.corpus = 'digits'\ntrain.max_steps = 1", &[]).unwrap(),
            inspection: None,
            parameters: None,
            best: None,
            records: Vec::new(),
            valid: vec![Pair {
                src: src.to_owned(),
                tgt: "Hund".to_owned(),
            }],
            scoring: None,
            outputs: outputs
                .iter()
                .map(|(step, line)| (*step, vec![(*line).to_owned()]))
                .collect(),
        }
    }

    #[test]
    fn runs_with_the_same_validation_text_are_columns_of_one_table() {
        let runs = [
            run("one", "dog", &[(5, "a1"), (10, "a2")]),
            run("other", "cat", &[(5, "c1")]),
            run("two", "dog", &[(10, "b2"), (20, "b3")]),
        ];
        let page = samples(&runs).into_string();
        let (shared, other) = page.split_once("<h2>other").unwrap();
        assert!(
            shared.starts_with("<h2>one, two: translations over time</h2>"),
            "{shared}"
        );
        assert_eq!(
            (
                shared.matches("<table").count(),
                shared.matches(">dog<").count()
            ),
            (1, 1),
            "{shared}"
        );
        let rows: Vec<&str> = shared.split("<tr>").skip(4).collect();
        for (row, expected) in rows.iter().zip([["a1", NONE], ["a2", "b2"], [NONE, "b3"]]) {
            let cells: Vec<&str> = row.split("<td dir=\"auto\">").skip(1).collect();
            let texts: Vec<&str> = cells
                .iter()
                .filter_map(|cell| cell.split_once("</td>"))
                .map(|(text, _)| text)
                .collect();
            assert_eq!(texts, expected, "{row}");
        }
        assert_eq!(rows.len(), 3);
        assert!(other.contains("c1") && !other.contains("a1"), "{other}");
    }
}
