//! The fraction of lines that equal their reference.

use crate::error::MetricError;
use crate::metric::check_streams;

/// Returns the fraction, 0 to 1, of hypotheses that equal their reference once both are trimmed of
/// whitespace.
///
/// # Errors
/// There are no hypotheses, or not as many references.
pub fn exact_match(
    hypotheses: &[impl AsRef<str>],
    references: &[impl AsRef<str>],
) -> Result<f64, MetricError> {
    check_streams(hypotheses.len(), &[references.len()])?;
    let pairs = hypotheses.iter().zip(references);
    let equal = pairs.filter(|(hyp, reference)| hyp.as_ref().trim() == reference.as_ref().trim());
    Ok(equal.count() as f64 / hypotheses.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_match_regardless_of_outer_whitespace_only() {
        let hypotheses = ["a b ", "a  b", "", "c"];
        assert_eq!(
            exact_match(&hypotheses, &[" a b", "a b", " ", "d"]),
            Ok(0.5)
        );
    }

    #[test]
    fn a_missing_reference_is_an_error() {
        let error = MetricError::LengthMismatch {
            stream: 1,
            references: 1,
            hypotheses: 2,
        };
        assert_eq!(exact_match(&["a", "b"], &["a"]), Err(error));
        assert_eq!(
            exact_match(&[""; 0], &[""; 0]),
            Err(MetricError::NoHypotheses)
        );
    }
}
