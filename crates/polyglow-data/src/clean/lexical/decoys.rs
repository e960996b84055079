//! Noise that is made of the text itself, with which heads learn what no translation looks like.

use super::features::Side;
use super::vocabulary::Vocabulary;
use crate::clean::words::word_ranges;
use crate::random::Random;

/// Words, or characters of a script without blanks, of both sides before one of them is cut.
const CUT_WORDS: usize = 5;
/// The largest distance, in pairs of a fold of the sample, from which the target of a pair
/// misaligned nearby is taken. In text of a million pairs, of which the sample has every fifth,
/// that is up to 500 lines.
const NEARBY: usize = 20;

/// A kind of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The target belongs to another source.
    Misaligned,
    /// The end of the target, or of the source, is missing.
    CutTarget,
    CutSource,
    /// Another sentence follows in the target, or in the source.
    JoinedTarget,
    JoinedSource,
}

impl Kind {
    /// All kinds.
    pub(super) const ALL: [Self; 5] = [
        Self::Misaligned,
        Self::CutTarget,
        Self::CutSource,
        Self::JoinedTarget,
        Self::JoinedSource,
    ];

    /// Its name, for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Misaligned => "misaligned",
            Self::CutTarget => "cut target",
            Self::CutSource => "cut source",
            Self::JoinedTarget => "joined target",
            Self::JoinedSource => "joined source",
        }
    }

    /// The ways in which noise of this kind comes about; their shares are estimated. A head learns
    /// from the decoys of the first alone: with harder ones beside them its scores lie closer
    /// together.
    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Misaligned => &[Method::AnyTarget, Method::NearbyTarget],
            Self::CutTarget => &[Method::Cut(1)],
            Self::CutSource => &[Method::Cut(0)],
            Self::JoinedTarget => &[Method::Joined(1)],
            Self::JoinedSource => &[Method::Joined(0)],
        }
    }
}

/// A way to make a decoy of a pair. Sides are 0, the source, and 1, the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// With the target of any pair.
    AnyTarget,
    /// With the target of a pair that stands nearby: of a document that was aligned wrongly, or of
    /// a text that is sorted, these say nearly the same, and are as long.
    NearbyTarget,
    /// Without the end of a side.
    Cut(usize),
    /// With another sentence behind a side.
    Joined(usize),
}

/// A side of a decoy: one of the text, or a new one.
pub(super) enum DecoySide<'a> {
    Same(&'a Side),
    New(Side),
}

impl DecoySide<'_> {
    pub(super) fn get(&self) -> &Side {
        match self {
            DecoySide::Same(side) => side,
            DecoySide::New(side) => side,
        }
    }
}

/// A pair that is no translation.
pub(super) type Decoy<'a> = [DecoySide<'a>; 2];

/// A pair of the text.
pub(super) type Sides<'a> = [&'a Side; 2];

/// Makes a decoy of a pair, by its index in the pairs of a fold; `None` if it does not become one.
/// A sentence comes from the same fold as what it is put beside: words that the tables have not
/// seen are then as frequent in decoys as in the text.
pub(super) fn decoy<'a>(
    method: Method,
    pairs: &[Sides<'a>],
    index: usize,
    vocabularies: &[Vocabulary; 2],
    random: &mut Random,
) -> Option<Decoy<'a>> {
    match method {
        Method::AnyTarget => with_target_of(pairs, index, random.below(pairs.len())),
        Method::NearbyTarget => {
            let distance = 1 + random.below(NEARBY);
            let other = if random.below(2) == 0 {
                index + distance
            } else {
                index.checked_sub(distance)?
            };
            with_target_of(pairs, index, other)
        }
        Method::Cut(side) => cut(pairs[index], side, &vocabularies[side], random),
        Method::Joined(side) => {
            let second = pairs[random.below(pairs.len())][side];
            Some(joined(pairs[index], side, second, &vocabularies[side]))
        }
    }
}

/// Puts the target of another pair beside the source of one; `None` if it says the same, or there
/// is no such pair.
fn with_target_of<'a>(pairs: &[Sides<'a>], index: usize, other: usize) -> Option<Decoy<'a>> {
    let [own, other] = [pairs[index], *pairs.get(other)?];
    let says_the_same = [0, 1]
        .iter()
        .any(|&side| own[side].words == other[side].words);
    (!says_the_same).then_some([DecoySide::Same(own[0]), DecoySide::Same(other[1])])
}

/// Cuts one side of a pair to 30 to 70 % of its words, or of its characters where it has no blanks;
/// `None` if it has too few words.
fn cut<'a>(
    pair: Sides<'a>,
    side: usize,
    vocabulary: &Vocabulary,
    random: &mut Random,
) -> Option<Decoy<'a>> {
    if pair
        .iter()
        .any(|side| word_ranges(&side.text).len() < CUT_WORDS)
    {
        return None;
    }
    let text = &pair[side].text;
    let share = 0.3 + 0.4 * random.uniform();
    let kept = |len: usize| ((len as f64 * share) as usize).max(1);
    let text = if text.contains(' ') {
        let words: Vec<&str> = text.split(' ').collect();
        words[..kept(words.len())].join(" ")
    } else {
        text.chars().take(kept(text.chars().count())).collect()
    };
    let new = Side::encode(text, vocabulary);
    // Heads see no pair without words on a side.
    (!new.words.is_empty()).then(|| replaced(pair, side, new))
}

/// Puts another sentence behind one side of a pair.
fn joined<'a>(pair: Sides<'a>, side: usize, second: &Side, vocabulary: &Vocabulary) -> Decoy<'a> {
    let first = pair[side];
    let blank = if first.text.contains(' ') { " " } else { "" };
    let text = format!("{}{blank}{}", first.text, second.text);
    replaced(pair, side, Side::encode(text, vocabulary))
}

fn replaced([src, tgt]: Sides<'_>, side: usize, new: Side) -> Decoy<'_> {
    if side == 0 {
        [DecoySide::New(new), DecoySide::Same(tgt)]
    } else {
        [DecoySide::Same(src), DecoySide::New(new)]
    }
}
