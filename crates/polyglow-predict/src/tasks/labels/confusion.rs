//! What a classifier gets right and wrong, label by label.

use std::io::{self, Write};

use polyglow_data::error::DataError;
use polyglow_data::tokenizer::Tokenizer;
use serde::Serialize;

use crate::error::Result;

/// Scores of one label on one set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelScores {
    /// The label.
    pub label: String,
    /// Examples that have it.
    pub examples: usize,
    /// Examples that were given it.
    pub given: usize,
    /// Of the examples that were given this label, the share that has it, 0 to 1; `None` if it was
    /// never given.
    pub precision: Option<f64>,
    /// Of the examples that have this label, the share that was given it, 0 to 1; `None` if no
    /// example has it.
    pub recall: Option<f64>,
    /// What else the examples that have it were given, the most frequent first.
    pub confused_with: Vec<(String, usize)>,
}

/// The scores of every label that occurs, in the order of their ids. `names` are the labels that
/// examples have, and `given` the ids of those that they were given.
///
/// # Errors
/// A label cannot be encoded.
pub fn of_labels(
    labels: &Tokenizer,
    names: &[&str],
    given: &[Vec<u32>],
) -> Result<Vec<LabelScores>, DataError> {
    let size = labels.vocab_size();
    let mut counts = vec![vec![0_usize; size]; size];
    for (name, given) in names.iter().zip(given) {
        if let (Some(&label), Some(&given)) = (labels.encode(name)?.first(), given.first()) {
            counts[label as usize][given as usize] += 1;
        }
    }
    let name = |id: usize| labels.token(id as u32).unwrap_or_else(|| format!("#{id}"));
    let scores = (0..size).map(|label| {
        let examples: usize = counts[label].iter().sum();
        let given: usize = counts.iter().map(|row| row[label]).sum();
        let share = |of: usize| (of > 0).then(|| counts[label][label] as f64 / of as f64);
        let others = counts[label]
            .iter()
            .copied()
            .enumerate()
            .filter(|&(other, count)| other != label && count > 0);
        let mut confused_with: Vec<_> = others.map(|(other, count)| (name(other), count)).collect();
        confused_with.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let (precision, recall) = (share(given), share(examples));
        LabelScores {
            label: name(label),
            examples,
            given,
            precision,
            recall,
            confused_with,
        }
    });
    Ok(scores
        .filter(|scores| scores.examples + scores.given > 0)
        .collect())
}

/// Writes a line a label.
///
/// # Errors
/// It cannot be written.
pub fn write_labels(out: &mut impl Write, labels: &[LabelScores]) -> io::Result<()> {
    let width = labels
        .iter()
        .map(|scores| scores.label.chars().count())
        .max()
        .unwrap_or(0)
        .max("LABEL".len());
    writeln!(
        out,
        "\n{:width$} {:>8} {:>9} {:>7}  CONFUSED WITH",
        "LABEL", "EXAMPLES", "PRECISION", "RECALL"
    )?;
    let share =
        |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.4}"));
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
        let (precision, recall) = (share(*precision), share(*recall));
        writeln!(
            out,
            "{label:width$} {examples:>8} {precision:>9} {recall:>7}  {}",
            confused.join(", ")
        )?;
    }
    Ok(())
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
        let scores =
            of_labels(&labels, &names, &["a", "a", "b", "b", "c"].map(id)).expect("they are known");
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
