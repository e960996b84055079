//! The data that a run was trained on: its size, and the findings of `check` before the first step.

use maud::{Markup, html};
use serde_json::Value;

use super::RunSummary;
use super::page::{number_or_none, row, table, text};

/// Rows of counts of a whole split, as title and key. Those that no split has are left out.
const COUNTS: [(&str, &str); 10] = [
    ("pairs", "pairs"),
    ("used", "kept"),
    ("with an empty side", "empty"),
    ("too long", "too_long"),
    ("length ratio", "ratio"),
    ("duplicates", "duplicates"),
    ("copies", "copies"),
    ("in train", "in_train"),
    ("target in train", "targets_in_train"),
    ("correlation of lengths", "length_correlation"),
];
/// Rows of each side, as title and key.
const SIDES: [(&str, [(&str, &str); 3]); 2] = [
    (
        "src",
        [
            ("source tokens", "tokens"),
            ("mean length", "mean_len"),
            ("longest", "longest"),
        ],
    ),
    (
        "tgt",
        [
            ("target tokens", "tokens"),
            ("mean length", "mean_len"),
            ("longest", "longest"),
        ],
    ),
];

/// The sizes of the splits, the warnings and the findings; empty for a run that has no inspection.
pub(super) fn data(run: &RunSummary) -> Markup {
    let Some(inspection) = &run.inspection else {
        return html! {};
    };
    let splits = list(&inspection["splits"]);
    let warnings = list(&inspection["warnings"]);
    let findings = list(&inspection["findings"]);
    // Most warnings are about a finding, which says the same and has examples.
    let other_warnings: Vec<&Value> = warnings
        .iter()
        .filter(|warning| !findings.iter().any(|finding| is_about(warning, finding)))
        .collect();
    html! {
        @if !splits.is_empty() {
            h2 { (run.name) ": data" }
            (sizes(splits))
        }
        @if !other_warnings.is_empty() || !findings.is_empty() { h2 { (run.name) ": what check found" } }
        @if !other_warnings.is_empty() {
            h3 { "Warnings" }
            ul { @for warning in other_warnings { li { (text(&warning["message"])) "; " (text(&warning["hint"])) } } }
        }
        @for finding in findings {
            (self::finding(finding, warnings.iter().find(|warning| is_about(warning, finding))))
        }
    }
}

/// The elements of a list of JSON; none if the key is missing.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A table of counts, with a column for each split.
fn sizes(splits: &[Value]) -> Markup {
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    for (title, key) in COUNTS {
        if splits.iter().any(|split| split[key].is_number()) {
            rows.push(row(title, splits, |split| count(&split[key])));
        }
    }
    for (side, counts) in SIDES {
        for (title, key) in counts {
            rows.push(row(title, splits, |split| count(&split[side][key])));
        }
        rows.push(row("unknown", splits, |split| {
            let rate = split[side]["unknown_rate"].as_f64().unwrap_or(0.0);
            format!("{:.2} %", 100.0 * rate)
        }));
    }
    let heads: Vec<Markup> = splits
        .iter()
        .map(|split| html! { (text(&split["name"])) })
        .collect();
    table(&heads, &rows)
}

fn count(value: &Value) -> String {
    number_or_none(value.as_f64())
}

/// Whether a warning is about a finding. The warning says `train: 3 pairs (1.3 %) have ...`, where
/// the finding has these parts apart.
fn is_about(warning: &Value, finding: &Value) -> bool {
    let message = text(&warning["message"]);
    let [split, count, what] = ["split", "count", "what"].map(|key| text(&finding[key]));
    !what.is_empty()
        && message.starts_with(&format!("{split}: {count} "))
        && message.ends_with(&what)
}

/// A finding with its examples. The warning about it, if there is one, is its heading.
fn finding(finding: &Value, warning: Option<&Value>) -> Markup {
    let share = format!("{:.1} %", 100.0 * finding["share"].as_f64().unwrap_or(0.0));
    let [split, count, what, fate, advice] =
        ["split", "count", "what", "fate", "advice"].map(|key| text(&finding[key]));
    let heading = match warning {
        Some(warning) => text(&warning["message"]),
        None => format!("{split}: {count} pairs ({share}) {what}"),
    };
    let examples = list(&finding["examples"]);
    let has_twins = examples
        .iter()
        .any(|example| !text(&example["same_as"]).is_empty());
    html! {
        div.finding {
            h3 { @if warning.is_some() { span.warning { "warning" } " " } (heading) }
            p { (fate) @if !fate.is_empty() && !advice.is_empty() { "; " } (advice) }
            @if !examples.is_empty() {
                table.examples {
                    thead {
                        tr {
                            th scope="col" { "line" }
                            th scope="col" { "source" }
                            th scope="col" { "target" }
                            @if has_twins { th scope="col" { "same as" } }
                        }
                    }
                    tbody { @for example in examples { (self::example(example, has_twins)) } }
                }
            }
        }
    }
}

/// A row with an example; `has_twins` adds the column with the line that it repeats.
fn example(example: &Value, has_twins: bool) -> Markup {
    html! {
        tr {
            th scope="row" {
                (text(&example["file"])) ":" (text(&example["line"]))
                @if let Some(reason) = example["reason"].as_str() { " " (reason) }
            }
            td dir="auto" { (text(&example["src"])) }
            td dir="auto" { (text(&example["tgt"])) }
            @if has_twins { td { (text(&example["same_as"])) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finding_has_its_numbers_its_advice_and_its_examples() {
        let found = json!({
            "split": "train", "count": 3, "share": 0.013, "what": "have <b>", "fate": "trained on", "advice": "look",
            "examples": [{"file": "a.en", "line": 7, "src": "a <b>", "tgt": "שלום", "same_as": "a.en:2"}],
        });
        let page = finding(&found, None).into_string();
        for words in [
            "train: 3 pairs (1.3 %) have &lt;b&gt;",
            "trained on; look",
            "a.en:7",
            "a &lt;b&gt;",
            "a.en:2",
        ] {
            assert!(page.contains(words), "no {words} in {page}");
        }
        assert!(
            page.contains("<td dir=\"auto\">שלום</td>") && !page.contains("warning"),
            "{page}"
        );
        let warning = json!({"message": "train: 3 pairs (1.3 %) have <b>", "hint": "look"});
        assert!(is_about(&warning, &found));
        assert!(!is_about(
            &json!({"message": "valid: 3 pairs (1.3 %) have <b>", "hint": "look"}),
            &found
        ));
        assert!(
            finding(&found, Some(&warning))
                .into_string()
                .contains("warning")
        );
    }
}
