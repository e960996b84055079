//! What the words of a translation look at.

use std::ops::Range;

use burn::tensor::Transaction;
use polyglow_data::alignment::Link;
use polyglow_data::padded::Padded;
use polyglow_model::{Inspect, Pair};

use crate::device::upload_rows;
use crate::error::Result;
use crate::runner::Runner;

/// The attention of target words to source words: a row for each target word, with a weight for
/// each source word; empty for words that were not read.
pub type WordAttention = Vec<Vec<f32>>;

/// A pair in ids, with the word that each of them belongs to.
struct Tokens {
    src: Vec<u32>,
    tgt: Vec<u32>,
    src_words: Vec<usize>,
    tgt_words: Vec<usize>,
}

impl Tokens {
    /// Without what is beyond the longest length of a model.
    fn cut(mut self, longest: usize) -> Self {
        for ids in [&mut self.src, &mut self.tgt] {
            ids.truncate(longest);
        }
        for words in [&mut self.src_words, &mut self.tgt_words] {
            words.truncate(longest);
        }
        self
    }

    fn width(&self) -> usize {
        self.src.len().max(self.tgt.len()) + 1
    }
}

/// For each pair, `[source, target]`, and each decoder layer, from the lowest, what target words
/// look at, heads averaged.
///
/// Words are what whitespace divides. The attention to a word is the sum over its tokens, that of a
/// target word the mean over its tokens, each taken where the token is predicted; attention to EOS
/// does not count. Sides that are longer than the model are cut, so that the words beyond have no
/// weights. Of several models the first is used.
///
/// # Errors
/// A line cannot be encoded.
pub fn word_attention<M: Inspect<Inputs: From<Pair>>>(
    runner: &Runner<M>,
    pairs: &[[&str; 2]],
) -> Result<Vec<Vec<WordAttention>>> {
    let longest = runner.longest;
    let mut tokens = Vec::with_capacity(pairs.len());
    for [src, tgt] in pairs {
        let (src, src_words) = runner.members[0].src.encode_words(src)?;
        let (tgt, tgt_words) = runner.tgt.encode_words(tgt)?;
        let pair = Tokens {
            src,
            tgt,
            src_words,
            tgt_words,
        };
        tokens.push(pair.cut(longest));
    }
    token_attention(runner, &tokens)
}

/// A unit of the source and the unit of the target that is translated from it, in bytes: words, or
/// tokens in a script that has no spaces between words.
pub type UnitLink = (Range<usize>, Range<usize>);

/// For each pair, `[source, target]`, a link for each unit of the target: to the source unit with
/// the most attention in the last decoder layer, heads averaged. There are none if the model has no
/// attention to the source. As [`word_attention`] else.
///
/// # Errors
/// A line cannot be encoded.
pub fn unit_links<M: Inspect<Inputs: From<Pair>>>(
    runner: &Runner<M>,
    pairs: &[[&str; 2]],
) -> Result<Vec<Vec<UnitLink>>> {
    let mut tokens = Vec::with_capacity(pairs.len());
    let mut units = Vec::with_capacity(pairs.len());
    for [src, tgt] in pairs {
        let src = runner.members[0].src.encode_units(src)?;
        let tgt = runner.tgt.encode_units(tgt)?;
        let pair = Tokens {
            src: src.ids,
            tgt: tgt.ids,
            src_words: src.unit_of,
            tgt_words: tgt.unit_of,
        };
        tokens.push(pair.cut(runner.longest));
        units.push((src.units, tgt.units));
    }
    let mut links = Vec::with_capacity(pairs.len());
    for ((src, tgt), mut layers) in units.iter().zip(token_attention(runner, &tokens)?) {
        let last = strongest(&layers.pop().unwrap_or_default());
        links.push(
            last.into_iter()
                .map(|(from, to)| (src[from].clone(), tgt[to].clone()))
                .collect(),
        );
    }
    Ok(links)
}

/// Returns for each pair and each layer the attention of target words to source words.
fn token_attention<M: Inspect<Inputs: From<Pair>>>(
    runner: &Runner<M>,
    tokens: &[Tokens],
) -> Result<Vec<Vec<WordAttention>>> {
    let member = &runner.members[0];
    let target = &runner.tgt;
    runner.shortest_first(tokens, Tokens::width, |rows| {
        let (sources, targets): (Vec<_>, Vec<_>) =
            rows.iter().map(|row| (&row.src, &row.tgt)).unzip();
        let special = member.src.special();
        let multiple = runner.pad_multiple;
        let src = Padded::ended(&sources, special.eos, special.pad, multiple);
        let tgt_in = Padded::begun(
            &targets,
            target.special().bos,
            target.special().pad,
            multiple,
        );
        let [src_ids, tgt_ids] = [&src, &tgt_in].map(|rows| upload_rows(rows, &runner.device));
        let layers = member.model.cross_attention(
            Pair {
                src: src_ids.into(),
                tgt_in: tgt_ids,
            }
            .into(),
        );
        let mut found = vec![Vec::new(); rows.len()];
        for layer in layers
            .into_iter()
            .fold(Transaction::default(), Transaction::register)
            .execute()
        {
            let weights: Vec<f32> = layer.iter().collect();
            let weights = weights.chunks(tgt_in.len * src.len);
            for ((row, weights), found) in rows.iter().zip(weights).zip(&mut found) {
                found.push(gathered(row, weights, src.len));
            }
        }
        Ok(found)
    })
}

/// The source word with the most attention for each target word; the first of equals, so that equal
/// weights give equal links.
pub fn strongest(words: &WordAttention) -> Vec<Link> {
    let best = |row: &Vec<f32>| {
        (0..row.len())
            .rev()
            .max_by(|&left, &right| row[left].total_cmp(&row[right]))
    };
    words
        .iter()
        .enumerate()
        .filter_map(|(tgt, row)| Some((best(row)?, tgt)))
        .collect()
}

/// The attention of words, from that of their tokens.
fn gathered(tokens: &Tokens, weights: &[f32], src_len: usize) -> WordAttention {
    let Tokens {
        src_words,
        tgt_words,
        ..
    } = tokens;
    let count = |words: &[usize]| words.last().map_or(0, |last| last + 1);
    let mut found = vec![Vec::new(); count(tgt_words)];
    for (&tgt, query) in tgt_words.iter().zip(weights.chunks(src_len)) {
        let row: &mut Vec<f32> = &mut found[tgt];
        row.resize(count(src_words), 0.0);
        let share = 1.0 / tgt_words.iter().filter(|word| **word == tgt).count() as f32;
        src_words
            .iter()
            .zip(query)
            .for_each(|(&word, weight)| row[word] += share * weight);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_linked_with_what_it_looks_at_most() {
        assert_eq!(
            strongest(&vec![
                vec![0.35, 0.45],
                vec![0.1, 0.0],
                vec![],
                vec![0.5, 0.5]
            ]),
            [(1, 0), (0, 1), (0, 3)]
        );
    }

    #[test]
    fn words_gather_the_attention_of_their_tokens() {
        // Three source tokens in two words and the end mark; three target tokens in two words.
        let tokens = Tokens {
            src: Vec::new(),
            tgt: Vec::new(),
            src_words: vec![0, 1, 1],
            tgt_words: vec![0, 0, 1],
        };
        let weights = [
            0.4, 0.3, 0.2, 0.1, 0.3, 0.2, 0.2, 0.3, 0.1, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 1.0,
        ];
        let words = gathered(&tokens, &weights, 4);
        let expected = [[0.35, 0.45], [0.1, 0.0]];
        for (found, expected) in words.iter().flatten().zip(expected.as_flattened()) {
            assert!((found - expected).abs() < 1e-6, "{words:?}");
        }
    }
}
