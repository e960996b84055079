//! The labeled or captioned images that are trained on, if not all of them: a sample of all, drawn
//! by a seed, because such data mostly lies label by label.

use super::Corpus;
use crate::random::{Purpose, below};

/// The examples of a corpus that were drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// For each part, whether each of its examples was drawn.
    parts: Vec<Vec<bool>>,
}

impl Sample {
    /// Draws `count` of all examples of parts of these lengths; all of them if there are no more.
    fn draw(lens: &[usize], count: u64, seed: u64) -> Self {
        // Selection sampling (Knuth, TAOCP 3.4.2, algorithm S) draws exactly that many in one pass.
        let mut num_examples = lens.iter().sum::<usize>() as u64;
        let mut num_to_draw = count.min(num_examples);
        let mut example = 0;
        let mut parts = Vec::with_capacity(lens.len());
        for &len in lens {
            let mut part = Vec::with_capacity(len);
            for _ in 0..len {
                let is_drawn =
                    below(Purpose::Sample.mix(&[seed, example]), num_examples) < num_to_draw;
                part.push(is_drawn);
                num_to_draw -= u64::from(is_drawn);
                num_examples -= 1;
                example += 1;
            }
            parts.push(part);
        }
        Self { parts }
    }

    /// Whether the example on `line` of a part was drawn; lines count from 1.
    pub fn has(&self, part: usize, line: u64) -> bool {
        let index = usize::try_from(line)
            .ok()
            .and_then(|line| line.checked_sub(1));
        index.is_some_and(|index| self.parts[part].get(index) == Some(&true))
    }

    /// The number of examples of a part that were drawn.
    pub(super) fn count(&self, part: usize) -> usize {
        self.parts[part].iter().filter(|drawn| **drawn).count()
    }

    /// The drawn examples, counted over all parts from 0.
    pub(super) fn indices(&self) -> Vec<usize> {
        let drawn = self.parts.iter().flatten().enumerate();
        drawn
            .filter(|(_, drawn)| **drawn)
            .map(|(index, _)| index)
            .collect()
    }
}

impl Corpus {
    /// With a seed by which [`DataConfig::max_examples`](crate::config::DataConfig::max_examples)
    /// draws from images and captions. Without one, and of all other text, the first are taken.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self {
            seed: self.content.has_images().then_some(seed),
            ..self
        }
    }

    /// The examples that are trained on, where a sample of them is; `None` where all are, or the
    /// first.
    pub fn sample(&self) -> Option<Sample> {
        let seed = self.seed?;
        let count = self.max_examples?;
        let lens: Vec<usize> = self
            .parts
            .iter()
            .map(super::Part::len_in_memory)
            .collect::<Option<_>>()?;
        Some(Sample::draw(&lens, count, seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_requested_size_and_comes_from_all_parts() {
        let sample = Sample::draw(&[600, 300], 300, 1);
        let [first, second] = [0, 1].map(|part| sample.count(part));
        assert_eq!(first + second, 300);
        // 200 and 100 are expected; the standard deviation is 6.7.
        assert!((180..=220).contains(&first), "{first}");
        assert_eq!(sample.indices().len(), 300);
        assert_eq!(
            sample
                .indices()
                .iter()
                .filter(|&&index| index < 600)
                .count(),
            first
        );
        let lines = (1..=600).filter(|&line| sample.has(0, line)).count();
        assert_eq!(lines, first);
        assert!(!sample.has(0, 0) && !sample.has(0, 601));
    }

    #[test]
    fn a_sample_depends_on_the_seed_alone_and_is_all_if_there_are_no_more() {
        assert_eq!(Sample::draw(&[50], 10, 1), Sample::draw(&[50], 10, 1));
        assert_ne!(Sample::draw(&[50], 10, 1), Sample::draw(&[50], 10, 2));
        assert_eq!(Sample::draw(&[3, 4], 9, 1).indices(), [0, 1, 2, 3, 4, 5, 6]);
    }
}
