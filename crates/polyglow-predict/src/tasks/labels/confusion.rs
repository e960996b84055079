//! Scores of a classifier label by label, and the labels that it confuses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use polyglow_data::tokenizer::Tokenizer;
use serde::Serialize;

use crate::error::Result;

/// Scores of one label on one set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelScores {
    /// The label.
    pub label: String,
    /// The number of examples that have it.
    pub examples: usize,
    /// The number of examples that were given it.
    pub given: usize,
    /// The share of the examples that were given this label which have it, 0 to 1; `None` if it was
    /// never given.
    pub precision: Option<f64>,
    /// The share of the examples that have this label which were given it, 0 to 1; `None` if no
    /// example has it.
    pub recall: Option<f64>,
    /// The other labels that examples that have it were given, with their counts, the most frequent
    /// first.
    pub confused_with: Vec<(String, usize)>,
}

/// Returns the scores of every label that occurs, in the order of their ids. `names` are the labels
/// that examples have, and `given` the ids of those that a model gave them, in the same order.
///
/// # Errors
/// A label cannot be encoded.
pub fn label_scores<'a>(
    labels: &Tokenizer,
    names: &[&str],
    given: impl Iterator<Item = &'a u32>,
) -> Result<Vec<LabelScores>> {
    let unknown = labels.special().unk;
    // The number of examples by the label that they have and the one that they were given. A map, as
    // most pairs of labels never occur.
    let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for (name, &given) in names.iter().zip(given) {
        let label = labels.encode(name)?.first().copied().unwrap_or(unknown);
        *counts.entry((label, given)).or_default() += 1;
    }
    let occurring: BTreeSet<u32> = counts
        .keys()
        .flat_map(|&(label, given)| [label, given])
        .collect();
    let mut scores = Vec::with_capacity(occurring.len());
    for label in occurring {
        let mut examples = 0;
        let mut num_given = 0;
        let mut confused_with = Vec::new();
        for (&(has, given), &count) in &counts {
            if has == label {
                examples += count;
            }
            if given == label {
                num_given += count;
            }
            if has == label && given != label {
                confused_with.push((name(labels, given), count));
            }
        }
        confused_with.sort_by_key(|&(_, count)| Reverse(count));
        let correct = counts.get(&(label, label)).copied().unwrap_or(0);
        scores.push(LabelScores {
            label: name(labels, label),
            examples,
            given: num_given,
            precision: share(correct, num_given),
            recall: share(correct, examples),
            confused_with,
        });
    }
    Ok(scores)
}

fn name(labels: &Tokenizer, id: u32) -> String {
    labels.token(id).unwrap_or_else(|| format!("#{id}"))
}

/// Returns the share of a total; `None` of nothing.
fn share(count: usize, total: usize) -> Option<f64> {
    (total > 0).then(|| count as f64 / total as f64)
}

/// Writes a line for each label, below a line of titles.
///
/// # Errors
/// It cannot be written.
pub fn write_labels(out: &mut impl Write, labels: &[LabelScores]) -> io::Result<()> {
    let widths = labels.iter().map(|scores| scores.label.chars().count());
    let width = widths.fold("LABEL".len(), usize::max);
    writeln!(
        out,
        "\n{:width$} {:>8} {:>9} {:>7}  CONFUSED WITH",
        "LABEL", "EXAMPLES", "PRECISION", "RECALL"
    )?;
    for LabelScores {
        label,
        examples,
        precision,
        recall,
        confused_with,
        ..
    } in labels
    {
        let confused: Vec<String> = confused_with
            .iter()
            .map(|(other, count)| format!("{other} {count}"))
            .collect();
        let precision = share_text(*precision);
        let recall = share_text(*recall);
        writeln!(
            out,
            "{label:width$} {examples:>8} {precision:>9} {recall:>7}  {}",
            confused.join(", ")
        )?;
    }
    Ok(())
}

fn share_text(share: Option<f64>) -> String {
    match share {
        Some(share) => format!("{share:.4}"),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use polyglow_data::labeled::LabelSet;

    use super::*;

    #[test]
    fn precision_and_recall_are_those_of_a_table_counted_by_hand() {
        let labels = LabelSet::new(["a", "b", "c"].map(str::to_owned));
        let labels = Tokenizer::of_labels(&labels).expect("there are labels");
        let id = |label: &str| labels.encode(label).expect("it is known");
        let names = ["a", "a", "a", "b", "b"];
        let given = ["a", "a", "b", "b", "c"].map(id).concat();
        let scores = label_scores(&labels, &names, given.iter()).expect("they are known");
        let row = |scores: &LabelScores| {
            (
                scores.label.clone(),
                scores.examples,
                scores.precision,
                scores.recall,
            )
        };
        let rows: Vec<_> = scores.iter().map(row).collect();
        let expected = [
            ("a".to_owned(), 3, Some(1.0), Some(2.0 / 3.0)),
            ("b".to_owned(), 2, Some(0.5), Some(0.5)),
            ("c".to_owned(), 0, Some(0.0), None),
        ];
        assert_eq!(rows, expected);
        assert_eq!(scores[0].confused_with, [("b".to_owned(), 1)]);
    }
}
