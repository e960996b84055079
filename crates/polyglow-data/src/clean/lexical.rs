//! Pairs whose sides do not say the same: misaligned ones, and ones of which a side is cut or has
//! another sentence joined to it.
//!
//! A table learns from the text itself which words translate which (`table.rs`), each pair is
//! measured by words, lengths and signs (`features.rs`), and a head for each kind of noise learns
//! to tell it from translations (`regression.rs`), with noise of that kind that is made of the text
//! (`decoys.rs`). How low a score must be follows from the text as well (`threshold.rs`). One head
//! for all kinds, or one threshold, would be much worse.

mod decoys;
mod features;
mod regression;
mod surface;
mod table;
mod threshold;
mod vocabulary;

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::clean::sample::{Sampled, choose_within};
use crate::example::Reason;
use crate::pair::Pair;
use crate::random::{Random, mix, shuffle};
use decoys::{Decoy, Kind, Method, Sides, decoy};
use features::{Features, Fold, Lengths, Side};
use regression::{Labeled, Regression};
use table::{Words, num_cells};
use threshold::{Budget, Threshold};
use vocabulary::Vocabulary;

/// Pairs with words on both sides below which nothing is learned.
pub(super) const FEW_PAIRS: usize = 2_000;
/// The folds that the pairs are divided into. Tables of more pairs know more; each fold more takes
/// the time of two more tables.
const FOLDS: usize = 5;
/// The cells of the pairs that tables are learned from, at most: words of a source times words of
/// its target. They decide on time and memory.
const MOST_CELLS: usize = 32_000_000;
/// The least share of noise among what a head removes.
const PRECISION: f64 = 0.8;
/// The largest share of its decoys that may score below a head's threshold: right pairs are among
/// the last hundredths. Of two German and Czech texts, half of them noise, 0.98 lost 1.04 and 1.06 %
/// of the right pairs, and 0.96 lost 0.78 and 0.71 % of them; the noise that was found fell by 0.2
/// and 0.3 %.
const MAX_DECOY_SHARE: f64 = 0.96;
/// Pairs of the text that a head learns from, and pairs that each method makes decoys of.
const POSITIVES: usize = 20_000;
const DECOYS: usize = 8_000;
/// The tables and heads of a round learn without what those of the round before removed.
const ROUNDS: usize = 3;
/// The weight of all decoys together, for one of the text.
const DECOY_WEIGHT: f64 = 0.5;
/// The key of the random numbers.
const KEY: u64 = 0x6c65_7869_6361_6c00;

/// The reason of a pair whose sides are parts of different pairs.
pub const MISALIGNED: Reason = Reason {
    key: "misaligned",
    title: "whose target is that of another source",
};
/// The reason of a pair of which a side ends too early.
pub const CUT: Reason = Reason {
    key: "cut",
    title: "of which a side is cut",
};
/// The reason of a pair of which a side says more than the other.
pub const JOINED: Reason = Reason {
    key: "joined",
    title: "of which a side has another sentence joined to it",
};

/// Tells pairs whose sides do not say the same.
pub struct Lexical {
    vocabularies: [Vocabulary; 2],
    model: Model,
}

/// The word tables and heads that one round learns.
struct Model {
    /// For each fold of the pairs the tables that were learned from the others: see [`fold`].
    folds: Vec<Fold>,
    lengths: Lengths,
    heads: Vec<Head>,
}

/// A classifier for one kind of noise, with its threshold.
struct Head {
    kind: Kind,
    regression: Regression,
    threshold: Threshold,
}

impl Head {
    /// Learns to tell decoys of a kind from a text, which has some noise of that kind itself;
    /// `decoys` are those of each of its methods, of which it learns from the first, and `earlier`
    /// the heads of the round before, none in the first.
    ///
    /// What is refused for another reason would look like right pairs that are lost: it is left out
    /// of the text, and so are decoys that would be. What another head refuses for the same reason
    /// stays: without it a head would see none of the right pairs that it takes together with that
    /// one.
    fn learn(kind: Kind, decoys: &[Vec<Features>], text: &[Features], earlier: &[Self]) -> Self {
        let own = reason(kind);
        let has_no_other_reason = |features: &&Features| {
            refuse(earlier, features).is_none_or(|refusing| reason(refusing) == own)
        };
        let without_other_reasons = |all: &[Features]| -> Vec<Features> {
            all.iter().filter(has_no_other_reason).copied().collect()
        };
        let decoys: Vec<Vec<Features>> = decoys
            .iter()
            .map(|of_method| without_other_reasons(of_method))
            .collect();
        let text = without_other_reasons(text);
        let is_refused = |features: &Features| refuse(earlier, features).is_some();
        let mut order: Vec<usize> = (0..text.len()).collect();
        shuffle(&mut order, KEY);
        let mut examples: Vec<Labeled> = order
            .iter()
            .take(POSITIVES)
            .map(|&index| Labeled {
                features: text[index],
                is_translation: true,
                weight: if is_refused(&text[index]) { 0.0 } else { 1.0 },
            })
            .collect();
        let all: f64 = examples.iter().map(|example| example.weight).sum();
        let weight = DECOY_WEIGHT * all / decoys[0].len().max(1) as f64;
        examples.extend(decoys[0].iter().map(|&features| Labeled {
            features,
            is_translation: false,
            weight,
        }));
        let regression = Regression::learn(&examples);
        let scores = |all: &[Features]| -> Vec<f64> {
            all.par_iter()
                .map(|features| regression.score(features))
                .collect()
        };
        let decoys = decoys.iter().map(|of_method| scores(of_method)).collect();
        let threshold = Threshold::draw(decoys, scores(&text), budget(kind));
        Self {
            kind,
            regression,
            threshold,
        }
    }

    /// Returns the score of a pair minus the threshold: below 0 it is noise.
    fn margin(&self, features: &Features) -> f64 {
        self.regression.score(features) - self.threshold.score
    }
}

/// A pair of the sample as heads read it.
struct Item {
    src: Side,
    tgt: Side,
    fold: usize,
}

impl Item {
    fn words(&self) -> Words<'_> {
        (&self.src.words, &self.tgt.words)
    }
}

impl Lexical {
    /// Learns from pairs that are mostly translations; `None` if they are too few to say anything.
    pub fn learn(sample: &[Sampled]) -> Option<Self> {
        let mut vocabularies = [Vocabulary::default(), Vocabulary::default()];
        let mut items = Vec::with_capacity(sample.len());
        for Sampled { index, pair } in sample {
            let src = vocabularies[0].add(&pair.src);
            let tgt = vocabularies[1].add(&pair.tgt);
            if !src.is_empty() && !tgt.is_empty() {
                items.push(Item {
                    src: Side::new(pair.src.clone(), src),
                    tgt: Side::new(pair.tgt.clone(), tgt),
                    fold: fold(*index),
                });
            }
        }
        if items.len() < FEW_PAIRS {
            return None;
        }
        let mut refused = vec![None; items.len()];
        let mut model: Option<Model> = None;
        for _ in 0..ROUNDS {
            let heads = model.map_or_else(Vec::new, |model| model.heads);
            let (round, features) = Model::learn(&vocabularies, &items, &refused, &heads);
            refused = features
                .iter()
                .map(|features| round.refuse(features))
                .collect();
            model = Some(round);
        }
        model.map(|model| Self {
            vocabularies,
            model,
        })
    }

    /// Says why a repaired pair, of a number in its corpus, is no translation; `None` if it may be
    /// one.
    pub fn judge(&self, index: u64, pair: &Pair) -> Option<Reason> {
        let features = self.features(index, pair)?;
        self.model.refuse(&features).map(reason)
    }

    /// Returns how far a pair is above the limit of each kind of noise, by a name of the kind:
    /// below 0 it is removed. Nothing of a pair without words on a side.
    pub fn margins(&self, index: u64, pair: &Pair) -> Vec<(&'static str, f64)> {
        let Some(features) = self.features(index, pair) else {
            return Vec::new();
        };
        let heads = self.model.heads.iter();
        heads
            .map(|head| (head.kind.name(), head.margin(&features)))
            .collect()
    }

    /// Measures a repaired pair; `None` without words on a side.
    fn features(&self, index: u64, pair: &Pair) -> Option<Features> {
        let [src, tgt] = [(&pair.src, 0), (&pair.tgt, 1)]
            .map(|(text, side)| Side::encode(text.clone(), &self.vocabularies[side]));
        if src.words.is_empty() || tgt.words.is_empty() {
            return None;
        }
        Some(self.model.features(&src, &tgt, fold(index)))
    }

    /// Returns the estimated share of each kind of noise among the pairs that are not refused for
    /// another reason, by the key of its reason.
    pub fn estimates(&self) -> BTreeMap<&'static str, f64> {
        let mut estimates: BTreeMap<&'static str, f64> = BTreeMap::new();
        for Head {
            kind, threshold, ..
        } in &self.model.heads
        {
            *estimates.entry(reason(*kind).key).or_default() += threshold.noise;
        }
        estimates
    }
}

impl Model {
    /// Learns tables from the items that the round before has not refused, and heads from all of
    /// them; returns their features. `earlier` are the heads of the round before, none in the
    /// first.
    fn learn(
        vocabularies: &[Vocabulary; 2],
        items: &[Item],
        refused: &[Option<Kind>],
        earlier: &[Head],
    ) -> (Self, Vec<Features>) {
        let right: Vec<&Item> = items
            .iter()
            .zip(refused)
            .filter(|(_, refused)| refused.is_none())
            .map(|(item, _)| item)
            .collect();
        let cells: Vec<usize> = right.iter().map(|item| num_cells(item.words())).collect();
        let (pairs, folds): (Vec<Words>, Vec<usize>) = choose_within(MOST_CELLS, &cells, KEY)
            .into_iter()
            .map(|index| (right[index].words(), right[index].fold))
            .unzip();
        let sizes = [0, 1].map(|side| vocabularies[side].size());
        let folds = Fold::learn_all(&pairs, &folds, FOLDS, sizes);
        let lengths: Vec<(usize, usize)> = right
            .iter()
            .map(|item| (item.src.words.len(), item.tgt.words.len()))
            .collect();
        let mut model = Self {
            folds,
            lengths: Lengths::learn(&lengths),
            heads: Vec::new(),
        };
        let features: Vec<Features> = items
            .par_iter()
            .map(|item| model.features(&item.src, &item.tgt, item.fold))
            .collect();
        let pairs = by_fold(&right);
        let learn_head = |&kind: &Kind| {
            let decoys: Vec<Vec<Features>> = kind
                .methods()
                .par_iter()
                .map(|&method| model.decoy_features(method, vocabularies, &pairs))
                .collect();
            Head::learn(kind, &decoys, &features, earlier)
        };
        model.heads = Kind::ALL.par_iter().map(learn_head).collect();
        (model, features)
    }

    /// Makes decoys of pairs that are right, given by folds in the order of the text, and measures
    /// them.
    fn decoy_features(
        &self,
        method: Method,
        vocabularies: &[Vocabulary; 2],
        pairs: &[Vec<Sides>],
    ) -> Vec<Features> {
        let mut random = Random::new(KEY);
        let mut all = Vec::new();
        for (fold, pairs) in pairs.iter().enumerate() {
            let mut chosen: Vec<usize> = (0..pairs.len()).collect();
            shuffle(&mut chosen, KEY);
            chosen.truncate(DECOYS / FOLDS);
            let decoys: Vec<Decoy> = chosen
                .into_iter()
                .filter_map(|index| decoy(method, pairs, index, vocabularies, &mut random))
                .collect();
            let features = decoys
                .par_iter()
                .map(|[src, tgt]| self.features(src.get(), tgt.get(), fold));
            all.extend(features.collect::<Vec<_>>());
        }
        all
    }

    fn features(&self, src: &Side, tgt: &Side, fold: usize) -> Features {
        self.folds[fold].features(src, tgt, &self.lengths)
    }

    /// Returns the kind of noise that a pair looks like most, if it scores below that head's
    /// threshold.
    fn refuse(&self, features: &Features) -> Option<Kind> {
        refuse(&self.heads, features)
    }
}

/// Returns the kind of the head whose threshold a pair is farthest below, if it is below one.
fn refuse(heads: &[Head], features: &Features) -> Option<Kind> {
    let mut lowest = (0.0, None);
    for head in heads {
        let margin = head.margin(features);
        if margin < lowest.0 {
            lowest = (margin, Some(head.kind));
        }
    }
    lowest.1
}

/// Returns the sides of the items of each fold, in their order.
fn by_fold<'a>(items: &[&'a Item]) -> Vec<Vec<Sides<'a>>> {
    let mut pairs: Vec<Vec<Sides>> = vec![Vec::new(); FOLDS];
    for item in items {
        pairs[item.fold].push([&item.src, &item.tgt]);
    }
    pairs
}

/// Returns the fold that a pair belongs to, by its number in the corpus: at random, since noise may
/// stand in every second line.
fn fold(index: u64) -> usize {
    (mix(&[KEY, index]) % FOLDS as u64) as usize
}

fn reason(kind: Kind) -> Reason {
    match kind {
        Kind::Misaligned => MISALIGNED,
        Kind::CutTarget | Kind::CutSource => CUT,
        Kind::JoinedTarget | Kind::JoinedSource => JOINED,
    }
}

/// The budget of right pairs that a head may lose. Cut and joined pairs are easy to tell, so that
/// their budget is small. They are few, so that up to twice as many pairs at a score as the decoys
/// predict are taken for noise.
fn budget(kind: Kind) -> Budget {
    match kind {
        Kind::Misaligned => Budget {
            loss: 0.0042,
            precision: PRECISION,
            mismatch: 1.0,
            max_decoy_share: MAX_DECOY_SHARE,
        },
        Kind::CutTarget | Kind::CutSource => Budget {
            loss: 0.0005,
            precision: PRECISION,
            mismatch: 2.0,
            // Even the highest of these decoys look like the cut sides of texts: a smaller share
            // would leave noise in and save no right pairs.
            max_decoy_share: 1.0,
        },
        Kind::JoinedTarget | Kind::JoinedSource => Budget {
            loss: 0.0008,
            precision: PRECISION,
            mismatch: 2.0,
            max_decoy_share: MAX_DECOY_SHARE,
        },
    }
}
