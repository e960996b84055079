//! Noise that is made of the text itself, with which heads learn what no translation looks like.

use super::features::Side;
use super::vocabulary::Vocabulary;
use crate::random::Random;

/// Words of both sides before one of them is cut.
const CUT_WORDS: usize = 5;
/// How far, in the order of their lengths, the target of another pair may be taken from.
const NEIGHBORS: usize = 12;

/// What is wrong with a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The target belongs to another source, whose own target is about as long. One head for these
    /// and the next kind would take a usual length for a sign of noise.
    MisalignedNear,
    /// The target belongs to any other source.
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
    pub(super) const ALL: [Self; 6] = [
        Self::MisalignedNear,
        Self::Misaligned,
        Self::CutTarget,
        Self::CutSource,
        Self::JoinedTarget,
        Self::JoinedSource,
    ];

    /// Its name, for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MisalignedNear => "misaligned, of like length",
            Self::Misaligned => "misaligned",
            Self::CutTarget => "cut target",
            Self::CutSource => "cut source",
            Self::JoinedTarget => "joined target",
            Self::JoinedSource => "joined source",
        }
    }
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

/// Makes decoys of a kind from pairs of one fold. A sentence comes from the same fold as what it is
/// put beside: words that the tables have not seen are then as frequent in decoys as in the text.
pub(super) fn decoys<'a>(
    kind: Kind,
    pairs: &[Sides<'a>],
    vocabularies: &[Vocabulary; 2],
    random: &mut Random,
) -> Vec<Decoy<'a>> {
    match kind {
        Kind::MisalignedNear => misaligned_near(pairs, random),
        Kind::Misaligned => misaligned(pairs, random),
        Kind::CutTarget => cut(pairs, 1, vocabularies, random),
        Kind::CutSource => cut(pairs, 0, vocabularies, random),
        Kind::JoinedTarget => joined(pairs, 1, random),
        Kind::JoinedSource => joined(pairs, 0, random),
    }
}

/// Gives each pair the target of one that is about as long.
fn misaligned_near<'a>(pairs: &[Sides<'a>], random: &mut Random) -> Vec<Decoy<'a>> {
    let mut by_length: Vec<usize> = (0..pairs.len()).collect();
    by_length.sort_by_key(|&index| pairs[index][1].words.len());
    let mut decoys = Vec::with_capacity(pairs.len());
    for (rank, &index) in by_length.iter().enumerate() {
        let distance = 1 + random.below(NEIGHBORS);
        let other = if random.below(2) == 0 {
            rank + distance
        } else {
            rank + pairs.len() - distance.min(pairs.len())
        };
        let near = by_length[other % pairs.len()];
        decoys.extend(with_target_of(pairs, index, near));
    }
    decoys
}

/// Gives each pair the target of a random pair.
fn misaligned<'a>(pairs: &[Sides<'a>], random: &mut Random) -> Vec<Decoy<'a>> {
    let indices = 0..pairs.len();
    indices
        .filter_map(|index| with_target_of(pairs, index, random.below(pairs.len())))
        .collect()
}

/// Puts the target of another pair beside the source of one; `None` if it is the same.
fn with_target_of<'a>(pairs: &[Sides<'a>], index: usize, other: usize) -> Option<Decoy<'a>> {
    let [src, tgt] = [pairs[index][0], pairs[other][1]];
    (other != index).then_some([DecoySide::Same(src), DecoySide::Same(tgt)])
}

/// Cuts one side of pairs with enough words to 30 to 70 % of its words, or of its characters where it has
/// no blanks.
fn cut<'a>(
    pairs: &[Sides<'a>],
    side: usize,
    vocabularies: &[Vocabulary; 2],
    random: &mut Random,
) -> Vec<Decoy<'a>> {
    let mut decoys = Vec::new();
    for pair in pairs {
        if pair.iter().any(|side| side.words.len() < CUT_WORDS) {
            continue;
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
        decoys.push(replaced(
            *pair,
            side,
            Side::encode(text, &vocabularies[side]),
        ));
    }
    decoys
}

/// Puts another sentence behind one side of pairs.
fn joined<'a>(pairs: &[Sides<'a>], side: usize, random: &mut Random) -> Vec<Decoy<'a>> {
    let mut decoys = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let first = pair[side];
        let second = pairs[random.below(pairs.len())][side];
        let blank = if first.text.contains(' ') { " " } else { "" };
        let text = format!("{}{blank}{}", first.text, second.text);
        let words = [&*first.words, &*second.words].concat();
        decoys.push(replaced(*pair, side, Side::new(text, words)));
    }
    decoys
}

fn replaced([src, tgt]: Sides<'_>, side: usize, new: Side) -> Decoy<'_> {
    if side == 0 {
        [DecoySide::New(new), DecoySide::Same(tgt)]
    } else {
        [DecoySide::Same(src), DecoySide::New(new)]
    }
}
