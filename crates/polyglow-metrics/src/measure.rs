//! Keys and titles of the metrics, in one place so that records, tables and plots agree on them.

/// The name of a metric in records, tables and plots, and the direction in which it improves.
///
/// The fields are public so that a caller can list quantities of its own, such as a loss, in the
/// same table:
///
/// ```
/// use polyglow_metrics::Measure;
///
/// const LOSS: Measure = Measure { key: "loss", title: "loss", higher_is_better: false, decimals: 4 };
/// let titles = [Measure::BLEU, Measure::CHRF, LOSS].map(|measure| measure.title);
/// assert_eq!(titles, ["BLEU", "chrF", "loss"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// The key in records and options, such as `exact_match`.
    pub key: &'static str,
    /// The title in running text, such as `exact match`; [`Score::name`](crate::Score::name) adds
    /// options to it.
    pub title: &'static str,
    /// Whether the higher of two values is the better one; otherwise the lower is.
    pub higher_is_better: bool,
    /// The number of decimals that a table shows.
    pub decimals: usize,
}

impl Measure {
    /// BLEU, 0 to 100: [`BleuOptions`](crate::BleuOptions).
    pub const BLEU: Self = Self {
        key: "bleu",
        title: "BLEU",
        higher_is_better: true,
        decimals: 2,
    };
    /// chrF, 0 to 100: [`ChrfOptions`](crate::ChrfOptions).
    pub const CHRF: Self = Self {
        key: "chrf",
        title: "chrF",
        higher_is_better: true,
        decimals: 2,
    };
    /// TER, 0 and more, in percent: [`TerOptions`](crate::TerOptions).
    pub const TER: Self = Self {
        key: "ter",
        title: "TER",
        higher_is_better: false,
        decimals: 2,
    };
    /// The fraction of exact matches, 0 to 1: [`exact_match`](crate::exact_match()).
    pub const EXACT_MATCH: Self = Self {
        key: "exact_match",
        title: "exact match",
        higher_is_better: true,
        decimals: 3,
    };

    /// Every metric of this crate.
    pub const ALL: [Self; 4] = [Self::BLEU, Self::CHRF, Self::TER, Self::EXACT_MATCH];
}
