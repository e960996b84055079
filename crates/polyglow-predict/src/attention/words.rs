//! The attention of the words of a translation to the words of its source.

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
    /// Cuts both sides to the longest length of a model.
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

/// Returns for each pair, `[source, target]`, and each decoder layer, from the lowest, the attention of
/// target words to source words, heads averaged.
///
/// Words are divided by whitespace. The attention to a word is the sum over its tokens, that of a
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
    let longest = longest_text(runner)?;
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

/// Returns for each pair, `[source, target]`, a link for each unit of the target: to the source unit
/// with the most attention in the last decoder layer, heads averaged. There are no links if the model
/// has no attention to the source. Tokens count as in [`word_attention`].
///
/// # Errors
/// A line cannot be encoded.
pub fn unit_links<M: Inspect<Inputs: From<Pair>>>(
    runner: &Runner<M>,
    pairs: &[[&str; 2]],
) -> Result<Vec<Vec<UnitLink>>> {
    let longest = longest_text(runner)?;
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
        tokens.push(pair.cut(longest));
        units.push((src.units, tgt.units));
    }
    let mut links = Vec::with_capacity(pairs.len());
    for ((src, tgt), layers) in units.iter().zip(token_attention(runner, &tokens)?) {
        let mut pair_links = Vec::new();
        if let Some(last) = layers.last() {
            for (from, to) in strongest(last) {
                pair_links.push((src[from].clone(), tgt[to].clone()));
            }
        }
        links.push(pair_links);
    }
    Ok(links)
}

/// The most tokens of a text that the models read behind the tags of its side.
fn longest_text<M>(runner: &Runner<M>) -> Result<usize> {
    let src_tags = runner.src_tags(&runner.members[0])?;
    let num_tags = src_tags.len().max(runner.tgt_tags()?.len());
    Ok(runner.longest.saturating_sub(num_tags))
}

/// Returns for each pair and each layer the attention of target words to source words.
fn token_attention<M: Inspect<Inputs: From<Pair>>>(
    runner: &Runner<M>,
    tokens: &[Tokens],
) -> Result<Vec<Vec<WordAttention>>> {
    let member = &runner.members[0];
    let tgt_special = runner.tgt.special();
    let src_tags = runner.src_tags(member)?;
    let tgt_tags = runner.tgt_tags()?;
    runner.shortest_first(tokens, Tokens::width, |rows| {
        let sources: Vec<Vec<u32>> = rows
            .iter()
            .map(|row| [&src_tags, &row.src[..]].concat())
            .collect();
        let targets: Vec<Vec<u32>> = rows
            .iter()
            .map(|row| [&tgt_tags, &row.tgt[..]].concat())
            .collect();
        let special = member.src.special();
        let multiple = runner.pad_multiple;
        let src = Padded::ended(&sources, special.eos, special.pad, multiple);
        let tgt_in = Padded::begun(&targets, tgt_special.bos, tgt_special.pad, multiple);
        let inputs = Pair {
            src: upload_rows(&src, &runner.device).into(),
            tgt_in: upload_rows(&tgt_in, &runner.device),
        };
        let layers = member.model.cross_attention(inputs.into());
        // All layers in one transaction, since each read waits for the device.
        let layers = layers
            .into_iter()
            .fold(Transaction::default(), Transaction::register)
            .execute();
        let mut attention = vec![Vec::new(); rows.len()];
        for layer in layers {
            let weights: Vec<f32> = layer.iter().collect();
            let weights = weights.chunks(tgt_in.len * src.len);
            for ((row, weights), attention) in rows.iter().zip(weights).zip(&mut attention) {
                // Tags belong to no word.
                let queries = weights.chunks(src.len).skip(tgt_tags.len());
                let queries = queries.map(|query| &query[src_tags.len()..]);
                attention.push(sum_tokens(row, queries));
            }
        }
        Ok(attention)
    })
}

/// Returns a link from the source word with the most attention to each target word. Of source words
/// with equal attention the first is linked, so that equal weights give equal links.
pub fn strongest(words: &WordAttention) -> Vec<Link> {
    let mut links = Vec::new();
    for (tgt, row) in words.iter().enumerate() {
        // In reverse, since `max_by` returns the last of equals.
        let src = (0..row.len()).rev();
        let src = src.max_by(|&left, &right| row[left].total_cmp(&row[right]));
        links.extend(src.map(|src| (src, tgt)));
    }
    links
}

/// Returns the attention of words from that of their tokens: the sum over the tokens of a source word,
/// the mean over those of a target word. `queries` are the weights of each target token on the source
/// tokens and what follows them.
fn sum_tokens<'w>(tokens: &Tokens, queries: impl Iterator<Item = &'w [f32]>) -> WordAttention {
    let Tokens {
        src_words,
        tgt_words,
        ..
    } = tokens;
    let mut attention = vec![Vec::new(); num_words(tgt_words)];
    for (&tgt, query) in tgt_words.iter().zip(queries) {
        let row: &mut Vec<f32> = &mut attention[tgt];
        row.resize(num_words(src_words), 0.0);
        let num_tokens = tgt_words.iter().filter(|word| **word == tgt).count();
        let share = 1.0 / num_tokens as f32;
        for (&word, weight) in src_words.iter().zip(query) {
            row[word] += share * weight;
        }
    }
    attention
}

/// Returns the number of words, given the word of each token.
fn num_words(words: &[usize]) -> usize {
    words.last().map_or(0, |last| last + 1)
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
        // Three source tokens in two words and EOS; three target tokens in two words.
        let tokens = Tokens {
            src: Vec::new(),
            tgt: Vec::new(),
            src_words: vec![0, 1, 1],
            tgt_words: vec![0, 0, 1],
        };
        let weights = [
            0.4, 0.3, 0.2, 0.1, 0.3, 0.2, 0.2, 0.3, 0.1, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 1.0,
        ];
        let words = sum_tokens(&tokens, weights.chunks(4));
        let expected = [[0.35, 0.45], [0.1, 0.0]];
        for (weight, expected) in words.iter().flatten().zip(expected.as_flattened()) {
            assert!((weight - expected).abs() < 1e-6, "{words:?}");
        }
    }
}
