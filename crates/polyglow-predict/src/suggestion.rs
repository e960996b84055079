//! "Did you mean": the known word that is nearest to an unknown one.

/// Similarity below which a suggestion would rather puzzle than help.
const ALIKE: f64 = 0.6;

/// The candidate most like `word`, or `None` where nothing is alike.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    alike(word, candidates, 1).pop()
}

/// Up to `count` candidates that are like `word`, the most alike first.
pub fn alike<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    let rated = candidates
        .into_iter()
        .map(|candidate| (similarity(word, candidate), candidate));
    let mut rated: Vec<_> = rated
        .filter(|(similarity, _)| *similarity >= ALIKE)
        .collect();
    // Of equals the last comes first.
    rated.reverse();
    rated.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    rated
        .into_iter()
        .take(count)
        .map(|(_, candidate)| candidate)
        .collect()
}

/// Jaro-Winkler, which forgives typing errors, or the share of one word in the other where it is a
/// part of it.
fn similarity(left: &str, right: &str) -> f64 {
    let (short, long) = if left.len() < right.len() {
        (left, right)
    } else {
        (right, left)
    };
    let share = if long.contains(short) {
        short.len() as f64 / long.len() as f64
    } else {
        0.0
    };
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
        assert_eq!(
            nearest("warmup", ["warmup_steps", "max_steps"]),
            Some("warmup_steps")
        );
        assert_eq!(nearest("xyz", keys), None);
        assert_eq!(alike("d_modl", keys, 2), ["d_model", "d_ff"]);
    }
}
