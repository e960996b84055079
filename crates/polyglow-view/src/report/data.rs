//! The text that a run was trained on: its size, and all that `check` found in it before the first
//! step.

use maud::{Markup, html};
use serde_json::Value;

use super::RunSummary;
use super::chart::number;
use super::page::{NONE, table, text};

/// The sizes of the splits, the warnings and the findings.
pub(super) fn data(run: &RunSummary) -> Markup {
    let Some(inspection) = &run.inspection else {
        return html! {};
    };
    let list = |key: &str| inspection[key].as_array().map_or(&[][..], Vec::as_slice);
    let (splits, warnings, findings) = (list("splits"), list("warnings"), list("findings"));
    // Most warnings are about a finding, which says the same and has examples.
    let others: Vec<&Value> = warnings
        .iter()
        .filter(|warning| !findings.iter().any(|finding| is_about(warning, finding)))
        .collect();
    html! {
        @if !splits.is_empty() {
            h2 { (run.name) ": data" }
            (sizes(splits))
        }
        @if !others.is_empty() || !findings.is_empty() { h2 { (run.name) ": what check found" } }
        @if !others.is_empty() {
            h3 { "Warnings" }
            ul { @for warning in others { li { (text(&warning["message"])) "; " (text(&warning["hint"])) } } }
        }
        @for finding in findings {
            (self::finding(finding, warnings.iter().find(|warning| is_about(warning, finding))))
        }
    }
}

/// A table of counts, with a column for each split.
fn sizes(splits: &[Value]) -> Markup {
    let row = |cell: &dyn Fn(&Value) -> String| splits.iter().map(cell).collect::<Vec<_>>();
    let count = |value: &Value| value.as_f64().map_or_else(|| NONE.to_owned(), number);
    let counts = [
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
    let has = |key: &str| splits.iter().any(|split| split[key].is_number());
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    for (title, key) in counts.into_iter().filter(|(_, key)| has(key)) {
        rows.push((title, row(&|split| count(&split[key]))));
    }
    let sides = [
        (
            "src",
            ["source tokens", "mean length", "longest", "unknown"],
        ),
        (
            "tgt",
            ["target tokens", "mean length", "longest", "unknown"],
        ),
    ];
    for (side, titles) in sides {
        for (title, key) in titles.into_iter().zip(["tokens", "mean_len", "longest"]) {
            rows.push((title, row(&|split| count(&split[side][key]))));
        }
        let unknown = |split: &Value| {
            format!(
                "{:.2} %",
                100.0 * split[side]["unknown_rate"].as_f64().unwrap_or(0.0)
            )
        };
        rows.push((titles[3], row(&unknown)));
    }
    let heads: Vec<Markup> = splits
        .iter()
        .map(|split| html! { (text(&split["name"])) })
        .collect();
    table(&heads, &rows)
}

/// Whether a warning says that there are too many pairs of a finding.
fn is_about(warning: &Value, finding: &Value) -> bool {
    let (message, split, what) = (
        text(&warning["message"]),
        text(&finding["split"]),
        text(&finding["what"]),
    );
    !what.is_empty()
        && message.starts_with(&format!("{split}: {} ", text(&finding["count"])))
        && message.ends_with(&what)
}

/// One finding with its examples; with the warning about it, if there is one.
fn finding(finding: &Value, warning: Option<&Value>) -> Markup {
    let share = format!("{:.1} %", 100.0 * finding["share"].as_f64().unwrap_or(0.0));
    let [split, count, what, fate, advice] =
        ["split", "count", "what", "fate", "advice"].map(|key| text(&finding[key]));
    let heading = match warning {
        Some(warning) => text(&warning["message"]),
        None => format!("{split}: {count} pairs ({share}) {what}"),
    };
    let examples = finding["examples"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let is_like = examples
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
                            @if is_like { th scope="col" { "same as" } }
                        }
                    }
                    tbody { @for example in examples { (self::example(example, is_like)) } }
                }
            }
        }
    }
}

fn example(example: &Value, is_like: bool) -> Markup {
    html! {
        tr {
            th scope="row" { (text(&example["file"])) ":" (text(&example["line"])) }
            td dir="auto" { (text(&example["src"])) }
            td dir="auto" { (text(&example["tgt"])) }
            @if is_like { td { (text(&example["same_as"])) } }
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
