//! Which words of single pairs translate each other, as reports and explanations show it.
//!
//! A pair alone says little: it is aligned ([`crate::align`]) together with other pairs of its text.

use std::ops::Range;

use crate::align::{AlignOptions, Aligner, Bitext, MAX_WORDS, ScoredLink, Symmetrization};
use crate::clean::lexical::Sampled;
use crate::clean::sample::within;
use crate::clean::words::word_ranges;
use crate::pair::Pair;

/// The cells of the other pairs, at most: words of a source times words of its target. They decide on
/// the time, which is one or two seconds on two cores.
const MOST_CELLS: usize = 1_000_000;
/// How probable a link must be. In 600 right pairs with another target behind their own (German,
/// Czech and Japanese) the words that were added have no link with an F1 of 0.65 to 0.82 at 0.35, and
/// of 0.73 to 0.89 at 0.5.
const THRESHOLD: f64 = 0.5;
/// The key of the random choice of the other pairs.
const KEY: u64 = 0x6c69_6e6b_7300;

/// The links between the words of a pair. Words are those of the rules (see [`word_ranges`]), by the
/// bytes where they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairLinks {
    /// Words of the source and of the target that translate each other.
    pub links: Vec<[Range<usize>; 2]>,
    /// The words of the source and of the target that have no link; none of a pair with more than
    /// [`MAX_WORDS`] words on a side, which is not aligned.
    pub without: [Vec<Range<usize>>; 2],
}

/// Pairs of a text, together with which others are aligned.
pub(super) struct LinkSample(Vec<Pair>);

impl LinkSample {
    /// Chooses some of the pairs of a text at random.
    pub(super) fn choose(text: Vec<Sampled>) -> Self {
        let cells: Vec<usize> = text
            .iter()
            .map(|sampled| num_cells(&sampled.pair))
            .collect();
        let mut chosen = within(MOST_CELLS, &cells, KEY).into_iter().peekable();
        let mut pairs = Vec::with_capacity(chosen.len());
        for (index, Sampled { pair, .. }) in text.into_iter().enumerate() {
            if chosen.next_if_eq(&index).is_some() {
                pairs.push(pair);
            }
        }
        Self(pairs)
    }

    /// Aligns pairs, and returns the links of each.
    pub(super) fn link(&self, pairs: &[&Pair]) -> Vec<PairLinks> {
        if pairs.is_empty() {
            return Vec::new();
        }
        let mut text = Bitext::default();
        for pair in self.0.iter().chain(pairs.iter().copied()) {
            let [src, tgt] = [&pair.src, &pair.tgt].map(|side| joined(side));
            text.push(&src, &tgt);
        }
        let aligner = Aligner::new(&text, AlignOptions::default());
        let marginals = aligner.align(rayon::current_num_threads());
        let of_pair = |(index, pair): (usize, &&Pair)| {
            let symmetrization = Symmetrization::Posterior {
                threshold: THRESHOLD,
            };
            PairLinks::new(pair, &marginals.links(self.0.len() + index, symmetrization))
        };
        pairs.iter().enumerate().map(of_pair).collect()
    }
}

impl PairLinks {
    /// Finds where linked words, and words without a link, stand in a pair.
    fn new(pair: &Pair, links: &[ScoredLink]) -> Self {
        let words = [&pair.src, &pair.tgt].map(|side| word_ranges(side));
        if words.iter().any(|words| words.len() > MAX_WORDS) {
            return Self::default();
        }
        let [src, tgt] = &words;
        let links = links.iter().map(|scored| scored.link);
        let without = [
            unlinked(src, links.clone().map(|(from, _)| from)),
            unlinked(tgt, links.clone().map(|(_, to)| to)),
        ];
        Self {
            links: links
                .map(|(from, to)| [src[from].clone(), tgt[to].clone()])
                .collect(),
            without,
        }
    }
}

/// Returns the words of a side that are not among those that have links.
fn unlinked(words: &[Range<usize>], linked: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut are_linked = vec![false; words.len()];
    for word in linked {
        are_linked[word] = true;
    }
    let words = words.iter().zip(are_linked);
    words
        .filter(|(_, is_linked)| !is_linked)
        .map(|(word, _)| word.clone())
        .collect()
}

fn num_cells(pair: &Pair) -> usize {
    word_ranges(&pair.src).len() * word_ranges(&pair.tgt).len()
}

/// Returns the words of a side with blanks between them.
fn joined(side: &str) -> String {
    let words: Vec<&str> = word_ranges(side)
        .into_iter()
        .map(|word| &side[word])
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(src: &str, tgt: &str) -> Pair {
        Pair {
            src: src.to_owned(),
            tgt: tgt.to_owned(),
        }
    }

    /// Aligns pairs together with a text of four nouns and four verbs.
    fn link(pairs: &[Pair]) -> Vec<PairLinks> {
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
        let mut text = Vec::new();
        for (noun, tgt_noun) in nouns {
            for (verb, tgt_verb) in verbs {
                let pair = pair(
                    &format!("The {noun} {verb}."),
                    &format!("Der {tgt_noun} {tgt_verb}."),
                );
                text.push(Sampled { index: 0, pair });
            }
        }
        LinkSample::choose(text).link(&pairs.iter().collect::<Vec<_>>())
    }

    #[test]
    fn words_that_nothing_translates_have_no_link() {
        let pairs = [
            pair("The dog sleeps.", "Der Hund schläft, der Bär singt!"),
            pair("The cat eats.", "Der Kater isst."),
        ];
        let [joined, right] = &link(&pairs)[..] else {
            panic!("each pair has its links");
        };
        let words: Vec<&str> = joined.without[1]
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
        assert!(right.without.iter().all(Vec::is_empty), "{right:?}");
    }

    #[test]
    fn a_page_on_one_line_has_neither_links_nor_words_without_one() {
        let page = pair("The dog sleeps.", &"Hund ".repeat(MAX_WORDS + 1));
        assert_eq!(link(&[page]), [PairLinks::default()]);
        assert!(link(&[]).is_empty());
    }
}
