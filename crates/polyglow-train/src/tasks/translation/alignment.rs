//! Word alignments: the source word that each target word is translated from, by the attention of
//! the decoder to the source.

use polyglow_data::alignment::Link;
use polyglow_data::pair::Pair;
use polyglow_model::{Inspect, Pair as Inputs};
use polyglow_predict::attention::word_attention;
use polyglow_predict::error::Result;
use polyglow_predict::runner::Runner;

pub use polyglow_predict::attention::strongest;

/// Returns for each pair and each decoder layer, from the lowest, a link for every target word: to
/// the source word with the most attention.
///
/// # Errors
/// A line cannot be encoded.
pub fn align<M: Inspect<Inputs: From<Inputs>>>(
    runner: &Runner<M>,
    pairs: &[Pair],
) -> Result<Vec<Vec<Vec<Link>>>> {
    let pairs: Vec<[&str; 2]> = pairs.iter().map(|pair| [&*pair.src, &*pair.tgt]).collect();
    let layers = word_attention(runner, &pairs)?;
    Ok(layers
        .iter()
        .map(|layers| layers.iter().map(strongest).collect())
        .collect())
}

/// Returns the alignment error rate (Och and Ney, 2003) of `links` against `gold`, all of whose
/// links are sure: `1 - 2 |links and gold| / (|links| + |gold|)`, 0 to 1. Links of target words
/// without a gold link are not counted; there is at least one gold link.
pub fn error_rate<'a>(links: impl IntoIterator<Item = &'a Vec<Link>>, gold: &[Vec<Link>]) -> f64 {
    let mut common = 0;
    let mut all = 0;
    for (links, gold) in links.into_iter().zip(gold) {
        let counted = links
            .iter()
            .filter(|(_, tgt)| gold.iter().any(|(_, linked)| linked == tgt));
        common += counted.clone().filter(|link| gold.contains(link)).count();
        all += counted.count() + gold.len();
    }
    1.0 - 2.0 * common as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_rate_is_that_of_och_and_ney_on_linked_words() {
        let gold = [vec![(0, 0), (1, 1)], vec![(0, 1), (1, 1)]];
        assert!(error_rate(&gold, &gold).abs() < 1e-12);
        // Of three counted links one is right; word 2 of the first pair has no gold link.
        let links = [vec![(0, 0), (0, 1), (1, 2)], vec![(2, 1)]];
        assert!((error_rate(&links, &gold) - (1.0 - 2.0 / 7.0)).abs() < 1e-12);
    }
}
