//! Which words of single pairs translate each other, as reports and explanations show it.
//!
//! A pair alone says little: it is aligned ([`crate::align`]) together with other pairs of its
//! text.

use std::ops::Range;

use rayon::prelude::*;

use crate::align::{AlignOptions, Aligner, Bitext, MAX_WORDS, ScoredLink, Symmetrization};
use crate::clean::sample::{Sampled, choose_within};
use crate::clean::words::word_ranges;
use crate::pair::Pair;

/// The cells of the sample, and of the requested pairs, at most: words of a source times words of
/// its target. They decide on the time, one or two seconds on two cores in texts of short sentences,
/// and up to ten in texts of long ones.
const MOST_CELLS: usize = 1_000_000;
/// The cells of a pair, at most. The sampler takes more iterations for fewer pairs, so that a text
/// of pages would take minutes.
const MOST_CELLS_OF_PAIR: usize = 4_000;
/// How probable a link must be. At 0.35, with the fewest errors of all links, words that have no
/// partner find one more often: the F1 of words behind a right target is lower by about 0.06.
const THRESHOLD: f64 = 0.5;
/// The key of the random choice of the other pairs.
const KEY: u64 = 0x6c69_6e6b_7300;

/// The links between the words of a pair. Words are those of the rules (see [`word_ranges`]), given
/// by their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairLinks {
    /// Words of the source and of the target that translate each other.
    pub links: Vec<[Range<usize>; 2]>,
    /// The words of the source and of the target that have no link. None of a pair that is not
    /// aligned: one with an empty side, one of more than 4000 source words times target words or
    /// more than [`MAX_WORDS`] on a side, and those beyond a million of such products together.
    pub unlinked: [Vec<Range<usize>>; 2],
}

/// Some pairs of a text, together with which others are aligned: their words, with blanks between
/// them.
pub(super) struct LinkSample(Vec<[String; 2]>);

impl LinkSample {
    /// Chooses some of the pairs of a text at random.
    pub(super) fn choose(text: &[Sampled]) -> Self {
        // The words of all pairs at a time would take much memory.
        let (candidates, cells): (Vec<&Pair>, Vec<usize>) = text
            .par_iter()
            .filter_map(|sampled| {
                let words = PairWords::new(&sampled.pair);
                let cells = words.num_cells();
                words.can_be_aligned().then_some((&sampled.pair, cells))
            })
            .unzip();
        let chosen = choose_within(MOST_CELLS, &cells, KEY);
        Self(
            chosen
                .into_iter()
                .map(|index| PairWords::new(candidates[index]).joined())
                .collect(),
        )
    }

    /// Aligns pairs, and returns the links of each. They depend a little on the other pairs that
    /// are aligned together with it.
    pub(super) fn link(&self, pairs: &[&Pair]) -> Vec<PairLinks> {
        let mut text = Bitext::default();
        for [src, tgt] in &self.0 {
            text.push(src, tgt);
        }
        // The words of each pair with its number in the text; `None` if it is not aligned.
        let mut all_words = Vec::with_capacity(pairs.len());
        let mut cells_left = MOST_CELLS;
        for pair in pairs {
            let words = PairWords::new(pair);
            let cells = words.num_cells();
            let number = (words.can_be_aligned() && cells <= cells_left).then(|| {
                cells_left -= cells;
                let [src, tgt] = words.joined();
                text.push(&src, &tgt);
                text.len() - 1
            });
            all_words.push((words, number));
        }
        if all_words.iter().all(|(_, number)| number.is_none()) {
            return vec![PairLinks::default(); pairs.len()];
        }
        let aligner = Aligner::new(&text, AlignOptions::default());
        let marginals = aligner.align(rayon::current_num_threads());
        let symmetrization = Symmetrization::Posterior {
            threshold: THRESHOLD,
        };
        let mut links = Vec::with_capacity(pairs.len());
        for (words, number) in all_words {
            links.push(match number {
                Some(number) => words.links(&marginals.links(number, symmetrization)),
                None => PairLinks::default(),
            });
        }
        links
    }
}

/// The words of a pair.
struct PairWords<'a> {
    sides: [&'a str; 2],
    ranges: [Vec<Range<usize>>; 2],
}

impl<'a> PairWords<'a> {
    fn new(pair: &'a Pair) -> Self {
        let sides = [&*pair.src, &*pair.tgt];
        Self {
            sides,
            ranges: sides.map(word_ranges),
        }
    }

    fn num_cells(&self) -> usize {
        self.ranges[0].len() * self.ranges[1].len()
    }

    fn can_be_aligned(&self) -> bool {
        let is_no_page = self.ranges.iter().all(|words| words.len() <= MAX_WORDS);
        is_no_page && (1..=MOST_CELLS_OF_PAIR).contains(&self.num_cells())
    }

    /// Returns the words of both sides, with blanks between them.
    fn joined(&self) -> [String; 2] {
        [0, 1].map(|side| {
            let words = self.ranges[side].iter();
            let words: Vec<&str> = words.map(|word| &self.sides[side][word.clone()]).collect();
            words.join(" ")
        })
    }

    /// Finds where linked words, and words without a link, stand.
    fn links(self, links: &[ScoredLink]) -> PairLinks {
        let mut are_linked = [0, 1].map(|side| vec![false; self.ranges[side].len()]);
        let mut linked = Vec::with_capacity(links.len());
        for ScoredLink { link, .. } in links {
            let words = [link.0, link.1];
            linked.push([0, 1].map(|side| self.ranges[side][words[side]].clone()));
            are_linked[0][link.0] = true;
            are_linked[1][link.1] = true;
        }
        let [src, tgt] = self.ranges;
        let [src_linked, tgt_linked] = are_linked;
        PairLinks {
            links: linked,
            unlinked: [unlinked(src, &src_linked), unlinked(tgt, &tgt_linked)],
        }
    }
}

/// Returns the words of a side that are not linked.
fn unlinked(words: Vec<Range<usize>>, are_linked: &[bool]) -> Vec<Range<usize>> {
    let words = words.into_iter().zip(are_linked);
    words
        .filter(|(_, is_linked)| !*is_linked)
        .map(|(word, _)| word)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of four nouns and four verbs, with a page on one line and a pair with an empty side.
    fn text() -> Vec<Sampled> {
        let nouns = [
            ("dog", "Hund"),
            ("cat", "Kater"),
            ("man", "Mann"),
            ("bear", "Bär"),
        ];
        let verbs = [
            ("sleeps", "schläft"),
            ("eats", "isst"),
            ("runs", "rennt"),
            ("sings", "singt"),
        ];
        let mut pairs = vec![
            Pair::new("page ".repeat(200), "Seite ".repeat(200)),
            Pair::new("The dog.", "..."),
        ];
        for (noun, tgt_noun) in nouns {
            for (verb, tgt_verb) in verbs {
                pairs.push(Pair::new(
                    format!("The {noun} {verb}."),
                    format!("Der {tgt_noun} {tgt_verb}."),
                ));
            }
        }
        (0..)
            .zip(pairs)
            .map(|(index, pair)| Sampled { index, pair })
            .collect()
    }

    fn link(pairs: &[Pair]) -> Vec<PairLinks> {
        LinkSample::choose(&text()).link(&pairs.iter().collect::<Vec<_>>())
    }

    #[test]
    fn sentences_are_chosen_and_neither_pages_nor_empty_sides() {
        let LinkSample(chosen) = LinkSample::choose(&text());
        assert_eq!(chosen.len(), 16);
        assert_eq!(chosen[0], ["The dog sleeps", "Der Hund schläft"]);
    }

    #[test]
    fn words_that_nothing_translates_have_no_link() {
        let pairs = [
            Pair::new("The dog sleeps.", "Der Hund schläft, der Bär singt!"),
            Pair::new("The cat eats.", "Der Kater isst."),
        ];
        let [joined, right] = &link(&pairs)[..] else {
            panic!("each pair has its links");
        };
        let words: Vec<&str> = joined.unlinked[1]
            .iter()
            .map(|word| &pairs[0].tgt[word.clone()])
            .collect();
        assert_eq!(words, ["der", "Bär", "singt"]);
        let linked: Vec<[&str; 2]> = right
            .links
            .iter()
            .map(|[src, tgt]| [&pairs[1].src[src.clone()], &pairs[1].tgt[tgt.clone()]])
            .collect();
        assert_eq!(linked, [["The", "Der"], ["cat", "Kater"], ["eats", "isst"]]);
        assert!(right.unlinked.iter().all(Vec::is_empty), "{right:?}");
    }

    #[test]
    fn what_is_not_aligned_has_neither_links_nor_unlinked_words() {
        let page = Pair::new("dog", "Hund ".repeat(MAX_WORDS + 1));
        let long = Pair::new("dog ".repeat(100), "Hund ".repeat(100));
        let empty = Pair::new("The dog sleeps.", "...");
        let all = link(&[page, long, empty, Pair::new("The cat.", "Der Kater.")]);
        assert_eq!(
            all[..3],
            [const {
                PairLinks {
                    links: vec![],
                    unlinked: [vec![], vec![]],
                }
            }; 3]
        );
        assert_eq!(all[3].links.len(), 2);
        assert!(link(&[]).is_empty());
    }
}
