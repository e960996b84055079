//! Fertility: the number of words that each word generates (Brown et al., 1993).

use super::chain::NULL;

/// Fertilities from this on count as one.
const HIGHEST: usize = 7;
/// Fertilities that are told apart.
const FERTILITIES: usize = HIGHEST + 1;
/// Smoothing: added to the count of each fertility.
const PRIOR: f32 = 0.5;

/// The factor on the probability of a condition for one link more: `F(e, n + 1) / F(e, n)`, by the
/// number of its other links.
pub(super) struct Fertilities {
    /// The ratios of each condition, one after the other.
    ratios: Vec<f32>,
}

impl Fertilities {
    /// Estimates the ratios from the links of all sentences: their conditions, and the links of the
    /// words that these generate.
    pub(super) fn estimate<'a>(
        num_words: usize,
        sentences: impl Iterator<Item = (&'a [u32], &'a [u16])>,
    ) -> Self {
        let mut counts = vec![PRIOR; num_words * FERTILITIES];
        let mut fertilities = Vec::new();
        for (conditions, links) in sentences {
            count_links(conditions.len(), links, &mut fertilities);
            for (&condition, &fertility) in conditions.iter().zip(&fertilities) {
                counts[condition as usize * FERTILITIES + capped(fertility)] += 1.0;
            }
        }
        for counts in counts.chunks_mut(FERTILITIES) {
            for fertility in 0..HIGHEST {
                counts[fertility] = counts[fertility + 1] / counts[fertility];
            }
            counts[HIGHEST] = 1.0;
        }
        Self { ratios: counts }
    }

    /// The ratio for a condition that has `links` other links.
    pub(super) fn ratio(&self, condition: u32, links: u16) -> f32 {
        self.ratios[condition as usize * FERTILITIES + capped(links)]
    }
}

fn capped(fertility: u16) -> usize {
    usize::from(fertility).min(HIGHEST)
}

/// Counts the links of each condition of a sentence.
pub(super) fn count_links(num_conditions: usize, links: &[u16], fertilities: &mut Vec<u16>) {
    fertilities.clear();
    fertilities.resize(num_conditions, 0);
    for &link in links.iter().filter(|&&link| link != NULL) {
        fertilities[usize::from(link)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_follow_from_the_counts_of_fertilities() {
        // Word 0 has one link, then two; word 1 none.
        let sentences = [(&[0, 1][..], &[0][..]), (&[0][..], &[0, 0, NULL][..])];
        let fertilities = Fertilities::estimate(2, sentences.into_iter());
        let expected = [1.5 / 0.5, 1.5 / 1.5, 0.5 / 1.5, 1.0];
        for (links, expected) in (0..).zip(expected) {
            assert!(
                (fertilities.ratio(0, links) - expected).abs() < 1e-6,
                "{links}"
            );
        }
        assert!((fertilities.ratio(1, 0) - 0.5 / 1.5).abs() < 1e-6);
        assert!((fertilities.ratio(0, 7) - fertilities.ratio(0, 100)).abs() < 1e-6);
    }
}
