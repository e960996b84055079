//! Words that are said several times in a row.

/// The longest sequence of words whose repetition is looked for: a sentence of most texts. The time
/// is proportional to it in texts of many words.
const LONGEST: usize = 50;

/// The sequence of words that is repeated most often in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Repeats {
    /// The number of copies in a row; 1 if nothing is repeated.
    times: usize,
    /// The words that all of them are.
    covered: usize,
    /// The words of the text.
    num_words: usize,
}

impl Repeats {
    /// Counts the repetitions in a text.
    pub(super) fn count(words: &[String]) -> Self {
        let mut most = Self {
            times: 1,
            covered: 0,
            num_words: words.len(),
        };
        for len in 1..=LONGEST {
            let mut start = 0;
            while start + 2 * len <= words.len() {
                let sequence = &words[start..start + len];
                let mut times = 1;
                while words.get(start + times * len..start + (times + 1) * len) == Some(sequence) {
                    times += 1;
                }
                if times > 1 && (times, times * len) > (most.times, most.covered) {
                    most.times = times;
                    most.covered = times * len;
                }
                start += ((times - 1) * len).max(1);
            }
        }
        most
    }

    /// Returns whether a text repeats so much more than its translation that one of them is wrong.
    pub(super) fn is_odd_beside(&self, other: &Self) -> bool {
        let is_stuck = self.times >= 4
            && other.times + 1 < self.times
            && 10 * self.covered >= 3 * self.num_words;
        let is_alone =
            other.times < 2 && (self.times >= 4 || (self.times >= 3 && self.covered >= 6));
        is_stuck || is_alone
    }
}
