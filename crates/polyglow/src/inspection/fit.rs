//! Whether the lines of both sides belong together: long sentences have long translations, and
//! numbers stay numbers. Where one side has lost a line, that holds for neighbors in its place;
//! where it was shuffled, for nothing.

use polyglow_data::pair::Pair;

/// Lines whose order is tested together: enough for a correlation, few enough to locate a lost
/// line.
const BLOCK: usize = 500;
/// Lines from which a correlation is meaningful.
const FEWEST: usize = 100;
/// Lines by which a side may be shifted.
const FARTHEST: isize = 10;
/// Correlation of lengths below which lines do not belong together.
const UNRELATED: f64 = 0.15;
/// Correlation of lengths from which lines do belong together.
const RELATED: f64 = 0.4;
/// Share of the lines with numbers that share one, from which lines belong together whatever their
/// lengths.
const SHARED: f64 = 0.5;
/// Lines with numbers on both sides that are needed to look at them.
const FEWEST_NUMBERS: usize = 20;

/// A pair, as far as it matters here.
#[derive(Clone, Debug)]
struct Line {
    file: String,
    number: u64,
    /// Logarithms of the lengths in characters; NaN where a side is empty.
    lens: [f64; 2],
    numbers: [Vec<String>; 2],
}

/// Looks at the pairs of a split: at all of them together, and block by block for lines that belong
/// to neighbors.
#[derive(Default)]
pub(super) struct Fit {
    lens: Moments,
    /// Pairs with numbers on both sides, and those of them that share one.
    with_numbers: usize,
    sharing: usize,
    block: Vec<Line>,
    shift: Option<Disorder>,
}

/// A side in another order than its partner.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Disorder {
    /// From this file and line on, targets stand `by` lines below their sources, or above them if
    /// `by` is negative.
    Shifted { file: String, line: u64, by: isize },
    /// Lines of the whole text do not belong together: the correlation of their lengths is low.
    Shuffled { correlation: f64 },
}

impl Fit {
    /// Adds the next pair.
    pub(super) fn add(&mut self, file: &str, line: u64, pair: &Pair) {
        if self.block.len() >= BLOCK || self.block.first().is_some_and(|first| first.file != file) {
            self.finish_block();
        }
        let sides = [&pair.src, &pair.tgt];
        let lens = sides.map(|side| (side.trim().chars().count() as f64).ln());
        let lens = lens.map(|len| if len.is_finite() { len } else { f64::NAN });
        let line = Line {
            file: file.to_owned(),
            number: line,
            lens,
            numbers: sides.map(|side| numbers(side)),
        };
        self.lens.add(lens);
        if let Some(shares) = share_numbers(&line, &line) {
            self.with_numbers += 1;
            self.sharing += usize::from(shares);
        }
        self.block.push(line);
    }

    fn finish_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        if block.len() >= FEWEST && self.shift.is_none() {
            self.shift = shift_of(&block);
        }
    }

    /// The correlation of the lengths of both sides; none for text that is too short, or whose
    /// lines all have one length.
    pub(super) fn correlation(&self) -> Option<f64> {
        self.lens.correlation()
    }

    /// Returns in which way a side is in another order than its partner; `None` if it is not.
    pub(super) fn disorder(&mut self) -> Option<Disorder> {
        self.finish_block();
        let shared = share_of(self.sharing, self.with_numbers).is_some_and(|share| share >= SHARED);
        let shuffled = self
            .correlation()
            .filter(|correlation| *correlation < UNRELATED && !shared);
        self.shift
            .take()
            .or(shuffled.map(|correlation| Disorder::Shuffled { correlation }))
    }
}

/// Returns where a block's targets are shifted, and by how many lines; `None` if they are not.
fn shift_of(block: &[Line]) -> Option<Disorder> {
    if correlation_at(block, 0) >= UNRELATED || belong_at(block, 0) {
        return None;
    }
    let mut fitting = Vec::new();
    for offset in -FARTHEST..=FARTHEST {
        let correlation = correlation_at(block, offset);
        if offset != 0 && (correlation >= RELATED || belong_at(block, offset)) {
            fitting.push((offset, correlation));
        }
    }
    let (by, _) = fitting.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Disorder::Shifted {
        file: block[0].file.clone(),
        line: block[0].number,
        by,
    })
}

/// Whether the numbers of sources and of the targets `offset` lines after them say that they belong
/// together.
fn belong_at(block: &[Line], offset: isize) -> bool {
    shared(block, offset).is_some_and(|share| share >= SHARED)
}

/// Returns the correlation of the lengths of sources and of the targets `offset` lines after them;
/// 0 of too few lines.
fn correlation_at(block: &[Line], offset: isize) -> f64 {
    let mut lens = Moments::default();
    for (src, tgt) in shifted(block, offset) {
        lens.add([src.lens[0], tgt.lens[1]]);
    }
    lens.correlation().unwrap_or(0.0)
}

/// Pairs each source with the target `offset` lines after it.
fn shifted(block: &[Line], offset: isize) -> impl Iterator<Item = (&Line, &Line)> {
    let skip_src = offset.min(0).unsigned_abs();
    let skip_tgt = offset.max(0).unsigned_abs();
    block.iter().skip(skip_src).zip(block.iter().skip(skip_tgt))
}

/// Sums over pairs of lengths.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    sums: [f64; 2],
    squares: [f64; 2],
    products: f64,
}

impl Moments {
    /// Adds a pair, unless a side has no length.
    fn add(&mut self, [src, tgt]: [f64; 2]) {
        if src.is_nan() || tgt.is_nan() {
            return;
        }
        self.count += 1.0;
        self.sums = [self.sums[0] + src, self.sums[1] + tgt];
        self.squares = [self.squares[0] + src * src, self.squares[1] + tgt * tgt];
        self.products += src * tgt;
    }

    /// Pearson's correlation; none of few pairs, or where one side has the same length everywhere.
    fn correlation(&self) -> Option<f64> {
        if self.count < FEWEST as f64 {
            return None;
        }
        let means = self.sums.map(|sum| sum / self.count);
        // Rounding may give a variance a little below 0.
        let [src, tgt] = [0, 1]
            .map(|side| (self.squares[side] / self.count - means[side] * means[side]).max(0.0));
        let spread = (src * tgt).sqrt();
        // Below a hundredth of a logarithm, lengths differ by single characters, which is noise.
        (spread > 1e-4).then(|| (self.products / self.count - means[0] * means[1]) / spread)
    }
}

/// The share of the pairs with numbers on both sides that share one; none where there are too few.
fn shared(block: &[Line], offset: isize) -> Option<f64> {
    let lines = shifted(block, offset).filter_map(|(src, tgt)| share_numbers(src, tgt));
    let sharing: Vec<bool> = lines.collect();
    share_of(
        sharing.iter().filter(|shares| **shares).count(),
        sharing.len(),
    )
}

fn share_of(sharing: usize, with_numbers: usize) -> Option<f64> {
    (with_numbers >= FEWEST_NUMBERS).then(|| sharing as f64 / with_numbers as f64)
}

/// Whether a source and a target share a number; none unless both have one.
fn share_numbers(src: &Line, tgt: &Line) -> Option<bool> {
    let src = &src.numbers[0];
    let tgt = &tgt.numbers[1];
    (!src.is_empty() && !tgt.is_empty()).then(|| src.iter().any(|number| tgt.contains(number)))
}

fn numbers(text: &str) -> Vec<String> {
    let numbers = text
        .split(|character: char| !character.is_ascii_digit())
        .filter(|number| !number.is_empty());
    numbers.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Translations with about as many words, and a number here and there.
    fn pairs(count: u64) -> Vec<Pair> {
        let words = |line: u64| 1 + line.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize % 1000 % 23;
        let pair = |line: u64| Pair {
            src: "word ".repeat(words(line)),
            tgt: "Wort ".repeat(words(line) + usize::from(line.is_multiple_of(3))),
        };
        (1..=count).map(pair).collect()
    }

    fn look(pairs: &[Pair]) -> Fit {
        let mut fit = Fit::default();
        for (index, pair) in pairs.iter().enumerate() {
            fit.add("a.en", index as u64 + 1, pair);
        }
        fit
    }

    /// The targets in another order.
    fn with_targets(pairs: &[Pair], of: impl Fn(usize) -> usize) -> Vec<Pair> {
        let pair = |(index, pair): (usize, &Pair)| Pair {
            src: pair.src.clone(),
            tgt: pairs[of(index)].tgt.clone(),
        };
        pairs.iter().enumerate().map(pair).collect()
    }

    #[test]
    fn lines_that_belong_together_are_in_order() {
        let mut fit = look(&pairs(1200));
        assert_eq!(fit.disorder(), None);
        assert!(
            fit.correlation()
                .is_some_and(|correlation| correlation > 0.9)
        );
    }

    #[test]
    fn text_that_is_sorted_by_length_is_in_order() {
        let mut all = pairs(3000);
        all.sort_by_key(|pair| pair.src.len());
        assert_eq!(look(&all).disorder(), None);
    }

    #[test]
    fn a_lost_line_is_found_by_its_place() {
        let all = pairs(2000);
        // The target lost its line 1001, so the target of each line is that of the next one.
        let shifted = with_targets(&all, |index| {
            if index < 1000 {
                index
            } else {
                (index + 1).min(1999)
            }
        });
        let expected = Disorder::Shifted {
            file: "a.en".to_owned(),
            line: 1001,
            by: -1,
        };
        assert_eq!(look(&shifted).disorder(), Some(expected));
    }

    #[test]
    fn a_shuffled_side_is_found_and_short_or_uniform_text_says_nothing() {
        let all = pairs(1000);
        let shuffled = with_targets(&all, |index| index * 387 % 1000);
        assert!(matches!(
            look(&shuffled).disorder(),
            Some(Disorder::Shuffled { .. })
        ));
        assert_eq!(look(&shuffled[..99]).disorder(), None);
        let uniform = vec![
            Pair {
                src: "a b".to_owned(),
                tgt: "c".to_owned()
            };
            500
        ];
        assert_eq!(
            (look(&uniform).disorder(), look(&uniform).correlation()),
            (None, None)
        );
    }

    #[test]
    fn numbers_tell_lines_that_belong_together_whatever_their_lengths() {
        let all = pairs(400);
        let mut shuffled = with_targets(&all, |index| index * 387 % 400);
        for (index, pair) in shuffled.iter_mut().enumerate() {
            *pair = Pair {
                src: format!("{} {index}", pair.src),
                tgt: format!("{index} {}", pair.tgt),
            };
        }
        assert_eq!(look(&shuffled).disorder(), None);
    }
}
