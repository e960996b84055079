//! Which source word each target word is translated from, by the attention of the decoder to the source.

use burn::tensor::Transaction;
use polyglow_data::alignment::Link;
use polyglow_data::corpus::Pair;
use polyglow_data::example::Example;
use polyglow_data::sources::PairBatch;
use polyglow_model::{Inspect, Pair as Inputs};

use crate::device::upload_rows;
use crate::error::Result;
use crate::predict::runner::Runner;

/// A pair in ids, with the word that each of them belongs to.
struct Tokens {
    example: Example,
    src_words: Vec<usize>,
    tgt_words: Vec<usize>,
}

impl Tokens {
    fn width(&self) -> usize {
        self.example.src.len().max(self.example.tgt.len()) + 1
    }
}

/// The attention of target words to source words: a row for each target word, with a weight for each source word; empty for
/// words that were not read.
pub type WordAttention = Vec<Vec<f32>>;

/// For each pair and each decoder layer, from the lowest, a link for every target word: to the source word with the most
/// [attention].
///
/// # Errors
/// A line cannot be encoded.
pub fn align<M: Inspect<Inputs: From<Inputs>>>(runner: &Runner<M>, pairs: &[Pair]) -> Result<Vec<Vec<Vec<Link>>>> {
    let layers = attention(runner, pairs)?;
    Ok(layers.iter().map(|layers| layers.iter().map(strongest).collect()).collect())
}

/// For each pair and each decoder layer, from the lowest, what target words look at, heads averaged.
///
/// Words are what whitespace divides. The attention to a word is the sum over its tokens, that of a target word the mean
/// over its tokens, each taken where the token is predicted; attention to the end mark does not count. Sides that are
/// longer than the model are cut, so that the words beyond have no weights. Of several models the first is asked.
///
/// # Errors
/// A line cannot be encoded.
pub fn attention<M: Inspect<Inputs: From<Inputs>>>(
    runner: &Runner<M>,
    pairs: &[Pair],
) -> Result<Vec<Vec<WordAttention>>> {
    let (member, tgt) = (&runner.members[0], &runner.tgt);
    let cut = |(ids, words): (Vec<u32>, Vec<usize>)| {
        let len = ids.len().min(runner.longest);
        (ids[..len].to_vec(), words[..len].to_vec())
    };
    let encode = |pair: &Pair| {
        let (src, src_words) = cut(member.src.encode_words(&pair.src)?);
        let (tgt, tgt_words) = cut(tgt.encode_words(&pair.tgt)?);
        Ok(Tokens { example: Example { src, tgt }, src_words, tgt_words })
    };
    let tokens: Vec<Tokens> = pairs.iter().map(encode).collect::<Result<_>>()?;
    runner.shortest_first(&tokens, Tokens::width, |rows| {
        let examples: Vec<Example> = rows.iter().map(|row| row.example.clone()).collect();
        let batch = PairBatch::new(&examples, member.src.special(), tgt.special(), runner.pad_multiple);
        let (src, tgt_in) = (upload_rows(&batch.src, &runner.device), upload_rows(&batch.tgt_in, &runner.device));
        let layers = member.model.cross_attention(Inputs { src, tgt_in }.into());
        let mut found = vec![Vec::new(); rows.len()];
        for layer in layers.into_iter().fold(Transaction::default(), Transaction::register).execute() {
            let weights: Vec<f32> = layer.iter().collect();
            let weights = weights.chunks(batch.tgt_in.len * batch.src.len);
            for ((row, weights), found) in rows.iter().zip(weights).zip(&mut found) {
                found.push(of_words(row, weights, batch.src.len));
            }
        }
        Ok(found)
    })
}

/// The attention of words, from that of their tokens.
fn of_words(tokens: &Tokens, weights: &[f32], src_len: usize) -> WordAttention {
    let Tokens { src_words, tgt_words, .. } = tokens;
    let count = |words: &[usize]| words.last().map_or(0, |last| last + 1);
    let mut found = vec![Vec::new(); count(tgt_words)];
    for (&tgt, query) in tgt_words.iter().zip(weights.chunks(src_len)) {
        let row: &mut Vec<f32> = &mut found[tgt];
        row.resize(count(src_words), 0.0);
        let share = 1.0 / tgt_words.iter().filter(|word| **word == tgt).count() as f32;
        src_words.iter().zip(query).for_each(|(&word, weight)| row[word] += share * weight);
    }
    found
}

/// The source word with the most attention for each target word; the first of equals, so that equal weights give equal links.
pub fn strongest(words: &WordAttention) -> Vec<Link> {
    let best = |row: &Vec<f32>| (0..row.len()).rev().max_by(|&left, &right| row[left].total_cmp(&row[right]));
    words.iter().enumerate().filter_map(|(tgt, row)| Some((best(row)?, tgt))).collect()
}

/// The alignment error rate (Och and Ney, 2003) of `found` against `gold`, all of whose links are sure:
/// `1 - 2 |found and gold| / (|found| + |gold|)`, 0 to 1. Links of target words without a gold link are not counted;
/// there is at least one gold link.
pub fn error_rate<'a>(found: impl IntoIterator<Item = &'a Vec<Link>>, gold: &[Vec<Link>]) -> f64 {
    let (mut common, mut all) = (0, 0);
    for (found, gold) in found.into_iter().zip(gold) {
        let counted = found.iter().filter(|(_, tgt)| gold.iter().any(|(_, linked)| linked == tgt));
        common += counted.clone().filter(|link| gold.contains(link)).count();
        all += counted.count() + gold.len();
    }
    1.0 - 2.0 * common as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_gather_the_attention_of_their_tokens() {
        // Three source tokens in two words and the end mark; three target tokens in two words.
        let tokens = Tokens { example: Example::default(), src_words: vec![0, 1, 1], tgt_words: vec![0, 0, 1] };
        let weights = [0.4, 0.3, 0.2, 0.1, 0.3, 0.2, 0.2, 0.3, 0.1, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 1.0];
        let words = of_words(&tokens, &weights, 4);
        let expected = [[0.35, 0.45], [0.1, 0.0]];
        for (found, expected) in words.iter().flatten().zip(expected.as_flattened()) {
            assert!((found - expected).abs() < 1e-6, "{words:?}");
        }
        assert_eq!(strongest(&words), [(1, 0), (0, 1)]);
    }

    #[test]
    fn the_error_rate_is_that_of_och_and_ney_on_linked_words() {
        let gold = [vec![(0, 0), (1, 1)], vec![(0, 1), (1, 1)]];
        assert!(error_rate(&gold, &gold).abs() < 1e-12);
        // Of three counted links one is right; word 2 of the first pair has no gold link.
        let found = [vec![(0, 0), (0, 1), (1, 2)], vec![(2, 1)]];
        assert!((error_rate(&found, &gold) - (1.0 - 2.0 / 7.0)).abs() < 1e-12);
    }
}
