//! Scores of pairs from outside: a number for each pair of a text, on a line of its own.

use std::path::Path;

use crate::clean::findings::shown;
use crate::error::DataError;
use crate::lines::Lines;
use crate::text::corpus::existing;

/// Reads a score for each of `num_pairs` pairs from the lines of a file, plain or compressed.
///
/// # Errors
/// [`DataError::MissingFile`] if there is no such file, named by `key`, a key of the configuration;
/// [`DataError::PairScore`] for a line that is no number, [`DataError::PairScoreCount`] if there
/// are more or fewer lines than pairs, and those of [`Lines`].
pub fn read_pair_scores(key: &str, path: &Path, num_pairs: u64) -> Result<Vec<f32>, DataError> {
    let mut scores = Vec::new();
    for line in Lines::open(&existing(key, path)?)? {
        let line = line?;
        let Some(score) = parse(&line) else {
            return Err(DataError::PairScore {
                path: path.to_owned(),
                line: scores.len() as u64 + 1,
                text: shown(&line),
            });
        };
        scores.push(score);
    }
    if scores.len() as u64 != num_pairs {
        return Err(DataError::PairScoreCount {
            path: path.to_owned(),
            count: scores.len() as u64,
            num_pairs,
        });
    }
    Ok(scores)
}

/// Reads a score; `None` for what is no number, also for NaN, which cannot be compared.
fn parse(text: &str) -> Option<f32> {
    let score: f32 = text.trim().parse().ok()?;
    (!score.is_nan()).then_some(score)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<Vec<f32>, DataError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("scores");
        fs::write(&path, text).expect("it can be written");
        read_pair_scores("--scores", &path, 3)
    }

    #[test]
    fn a_score_is_any_number_that_can_be_compared() {
        let scores = read("-1.5\r\n 2e-3 \n-inf\n").expect("they are numbers");
        assert_eq!(scores, [-1.5, 2e-3, f32::NEG_INFINITY]);
        for (text, expected) in [
            ("1\n\n3\n", "line 2: `` is no number"),
            ("1\n2\nNaN\n", "line 3: `NaN` is no number"),
            ("0,5\n1\n1\n", "line 1: `0,5` is no number"),
            ("a\tb\t0.5\n", "line 1: `a\\u{9}b\\u{9}0.5` is no number"),
            ("1\n2\n", "has 2 scores, and the text 3 pairs"),
            ("1\n2\n3\n4\n", "has 4 scores, and the text 3 pairs"),
        ] {
            let error = read(text).expect_err("it is refused").to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }
}
