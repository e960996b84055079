//! Smoothing of the precisions of BLEU (Chen and Cherry, 2014).

use std::fmt;
use std::str::FromStr;

use crate::error::MetricError;

/// A method of smoothing precisions, so that one order without a match does not make BLEU zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Smoothing {
    /// The k-th order without a match has the precision `1 / (2ᵏ total)`, as in mteval-v13a.
    #[default]
    Exp,
    /// An order without a match has this many matches; 0.1 by default.
    Floor(f64),
    /// This many matches and n-grams are added to every order from two on; 1 by default.
    AddK(f64),
    /// No smoothing: BLEU is zero if an order has no match.
    None,
}

impl Smoothing {
    /// Returns the method that sacreBLEU calls `exp`, `floor`, `add-k` or `none`, with its default if
    /// `value` is `None`.
    ///
    /// # Errors
    /// There is no such method.
    pub fn new(method: &str, value: Option<f64>) -> Result<Self, MetricError> {
        match method {
            "exp" => Ok(Self::Exp),
            "floor" => Ok(Self::Floor(value.unwrap_or(0.1))),
            "add-k" => Ok(Self::AddK(value.unwrap_or(1.0))),
            "none" => Ok(Self::None),
            _ => Err(MetricError::UnknownSmoothing {
                name: method.to_owned(),
            }),
        }
    }

    /// Checks that the value leaves every precision defined.
    pub(crate) fn validate(self) -> Result<(), MetricError> {
        match self {
            Self::Floor(value) | Self::AddK(value) if !(value >= 0.0 && value.is_finite()) => {
                Err(MetricError::InvalidSmoothingValue { value })
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Smoothing {
    type Err = MetricError;

    fn from_str(method: &str) -> Result<Self, MetricError> {
        Self::new(method, None)
    }
}

impl fmt::Display for Smoothing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exp => formatter.write_str("exp"),
            Self::Floor(value) => write!(formatter, "floor[{value:.2}]"),
            Self::AddK(value) => write!(formatter, "add-k[{value:.2}]"),
            Self::None => formatter.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shown_where_the_method_has_one() {
        let shown = |method| Smoothing::new(method, None).map(|smoothing| smoothing.to_string());
        assert_eq!(shown("floor"), Ok("floor[0.10]".to_owned()));
        assert_eq!(shown("exp"), Ok("exp".to_owned()));
        assert_eq!(
            shown("ex"),
            Err(MetricError::UnknownSmoothing {
                name: "ex".to_owned()
            })
        );
    }

    #[test]
    fn values_without_a_defined_logarithm_are_refused() {
        assert!(Smoothing::Floor(0.0).validate().is_ok());
        for value in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Smoothing::AddK(value).validate().is_err());
        }
    }
}
