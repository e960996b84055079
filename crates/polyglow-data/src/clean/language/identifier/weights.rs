//! The weight of each n-gram for each language.
//!
//! A sentence has hundreds of n-grams, and their weights lie anywhere in tens of megabytes. So the
//! table is as dense as it can be, common n-grams stand side by side, and those of a sentence are
//! looked up in loops whose reads do not wait for each other: slots, then the sizes of rows, then rows.

/// Languages that have an n-gram before its row has a weight for every language, which vectors add
/// faster. With 122 languages, any number from 12 to 48 is about as fast.
const DENSE: usize = 24;
/// The width of dense rows is a multiple of this.
const LANES: usize = 16;
/// Bits of an entry of a sparse row that are the language; the others are those of its weight, of
/// which they leave 15 behind the binary point.
const LANGUAGE_BITS: u32 = 0xff;

/// The weights of n-grams, by their hashes.
pub(super) struct NgramWeights {
    num_languages: usize,
    /// A hash table with linear probing.
    slots: Vec<Slot>,
    /// Sparse rows: the number of entries, then the entries.
    sparse: Vec<u32>,
    /// `[row, language]`: dense rows.
    dense: Vec<f32>,
}

/// The position of an n-gram's row. It is all 0 where there is none. Of two n-grams whose hashes agree
/// in the upper half, and nearly in the slot, the second has the row of the first: that is rarer than one
/// pair in billions.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The upper half of the hash; the lower half says where the slot may stand.
    key: u32,
    row: Row,
}

/// The position of a row: twice the index of its first element in `sparse`, or twice the index among dense
/// rows, plus 1. No row has the position 0.
#[derive(Clone, Copy, Default, PartialEq)]
struct Row(u32);

impl Row {
    const NONE: Self = Self(0);

    fn is_dense(self) -> bool {
        self.0 % 2 == 1
    }

    fn index(self) -> usize {
        self.0 as usize / 2
    }
}

impl NgramWeights {
    /// Makes a table for at most `num_ngrams` n-grams and 256 languages.
    pub(super) fn new(num_languages: usize, num_ngrams: usize) -> Self {
        // At most two of three slots are occupied.
        let num_slots = (num_ngrams + num_ngrams / 2 + 1).next_power_of_two();
        Self {
            num_languages,
            slots: vec![Slot::default(); num_slots],
            sparse: vec![0],
            dense: Vec::new(),
        }
    }

    /// Adds an n-gram that is not in the table, of no more than it was made for, with its languages.
    pub(super) fn insert(&mut self, hash: u64, weights: &[(u8, f32)]) {
        let row = if weights.len() < DENSE {
            let start = self.sparse.len();
            self.sparse.push(weights.len() as u32);
            let entries = weights.iter().map(|&(language, weight)| {
                (weight.to_bits() & !LANGUAGE_BITS) | u32::from(language)
            });
            self.sparse.extend(entries);
            Row(2 * start as u32)
        } else {
            let start = self.dense.len();
            self.dense.resize(start + self.width(), 0.0);
            for &(language, weight) in weights {
                self.dense[start + usize::from(language)] = weight;
            }
            Row(2 * (start / self.width()) as u32 + 1)
        };
        let mut index = self.first_slot(hash);
        while self.slots[index].row != Row::NONE {
            index = self.next_slot(index);
        }
        self.slots[index] = Slot {
            key: key(hash),
            row,
        };
    }

    /// Returns the sum of the weights of n-grams for each language, and how many of them are in the
    /// table.
    pub(super) fn sums(&self, hashes: &[u64]) -> (Vec<f32>, usize) {
        let first_slots: Vec<Slot> = hashes
            .iter()
            .map(|&hash| self.slots[self.first_slot(hash)])
            .collect();
        let rows: Vec<Row> = hashes
            .iter()
            .zip(first_slots)
            .map(|(&hash, first)| self.row(hash, first))
            .filter(|&row| row != Row::NONE)
            .collect();
        let sizes: Vec<u32> = rows
            .iter()
            .map(|row| self.sparse[if row.is_dense() { 0 } else { row.index() }])
            .collect();
        let num_known = rows.len();
        // Any language of an entry is within 256, so that the compiler leaves out the checks.
        let mut sums = [0.0; 256];
        for (row, size) in rows.into_iter().zip(sizes) {
            if row.is_dense() {
                let weights = &self.dense[row.index() * self.width()..][..self.width()];
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum += weight;
                }
            } else {
                for entry in &self.sparse[row.index() + 1..][..size as usize] {
                    let language = (entry & LANGUAGE_BITS) as usize;
                    sums[language] += f32::from_bits(entry & !LANGUAGE_BITS);
                }
            }
        }
        (sums[..self.num_languages].to_vec(), num_known)
    }

    /// Returns the row of an n-gram, whose first slot was read already.
    fn row(&self, hash: u64, first: Slot) -> Row {
        let mut slot = first;
        let mut index = self.first_slot(hash);
        while slot.row != Row::NONE && slot.key != key(hash) {
            index = self.next_slot(index);
            slot = self.slots[index];
        }
        slot.row
    }

    fn first_slot(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn next_slot(&self, index: usize) -> usize {
        (index + 1) & (self.slots.len() - 1)
    }

    fn width(&self) -> usize {
        self.num_languages.next_multiple_of(LANES)
    }
}

fn key(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes of which several meet in one slot, and some differ in the upper half alone.
    fn hash(ngram: u64) -> u64 {
        (ngram << 32) | (ngram % 7)
    }

    #[test]
    fn each_ngram_adds_its_own_weights() {
        let num_languages = 60;
        // The n-gram i is one of the languages 0 to i, with the weight 1/4 + i.
        let weights = |ngram: u64| -> Vec<(u8, f32)> {
            (0..=ngram as u8)
                .map(|language| (language, 0.25 + ngram as f32))
                .collect()
        };
        let mut table = NgramWeights::new(num_languages, num_languages);
        for ngram in 0..num_languages as u64 {
            table.insert(hash(ngram), &weights(ngram));
        }
        assert!(!table.dense.is_empty() && table.sparse.len() > DENSE);
        for ngram in 0..num_languages as u64 {
            let (sums, num_known) = table.sums(&[hash(ngram), hash(ngram), hash(1000 + ngram)]);
            let expected: Vec<f32> = (0..num_languages as u64)
                .map(|language| {
                    if language <= ngram {
                        0.5 + 2.0 * ngram as f32
                    } else {
                        0.0
                    }
                })
                .collect();
            assert_eq!((sums, num_known), (expected, 2), "{ngram}");
        }
    }

    #[test]
    fn an_empty_table_adds_nothing() {
        let sums = NgramWeights::new(2, 0).sums(&[1, 2]);
        assert_eq!(sums, (vec![0.0, 0.0], 0));
    }
}
