//! "Did you mean": the known word that is nearest to an unknown one.

/// The candidate most like `word`, or `None` where nothing is alike.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Similarity below which a suggestion would rather puzzle than help.
    const ALIKE: f64 = 0.6;
    candidates
        .into_iter()
        .map(|candidate| (similarity(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= ALIKE)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}

/// Jaro-Winkler, which forgives typing errors, or the share of one word in the other where it is a part of it.
fn similarity(left: &str, right: &str) -> f64 {
    let (short, long) = if left.len() < right.len() { (left, right) } else { (right, left) };
    let share = if long.contains(short) { short.len() as f64 / long.len() as f64 } else { 0.0 };
    strsim::jaro_winkler(left, right).max((2.0 * share).min(0.95))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_neighbor_and_nonsense_finds_none() {
        let keys = ["d_model", "d_ff", "num_heads", "dropout"];
        assert_eq!(nearest("d_modle", keys), Some("d_model"));
        assert_eq!(nearest("droput", keys), Some("dropout"));
        assert_eq!(nearest("heads", keys), Some("num_heads"));
        assert_eq!(nearest("warmup", ["warmup_steps", "max_steps"]), Some("warmup_steps"));
        assert_eq!(nearest("xyz", keys), None);
    }
}
