//! BPE dropout (Provilkov et al., 2020): merges are skipped at random.

use std::collections::HashMap;

use serde::Deserialize;

use super::{Draws, impossible, read_model};
use crate::error::DataError;
use crate::tokenizer::Tokenizer;

/// The merges of a BPE tokenizer, by ids.
pub(super) struct MergeTable {
    /// Rank and product of each pair that can be merged; the lowest rank is merged first.
    merges: HashMap<(u32, u32), (u32, u32)>,
    /// The characters (or bytes) of each token; a token that is not the product of merges stands
    /// for itself.
    symbols: Vec<Vec<u32>>,
    /// The probability that a merge is skipped.
    probability: f64,
}

/// The BPE model in a `tokenizer.json`.
#[derive(Deserialize)]
struct TokenizerJson {
    model: ModelJson,
}

#[derive(Deserialize)]
struct ModelJson {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    merges: Vec<(String, String)>,
    vocab: serde_json::Value,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

impl ModelJson {
    /// Reads the model of a tokenizer, and makes sure that merges make all its tokens.
    fn read(tokenizer: &Tokenizer) -> Result<Self, DataError> {
        let problem = "the tokenizer's model is not byte pair encoding";
        let model = read_model::<TokenizerJson>(tokenizer, problem)?.model;
        if model.kind.as_deref() != Some("BPE") {
            return Err(impossible(problem));
        }
        if model.byte_fallback || model.ignore_merges {
            return Err(impossible("some tokens are not made by merges"));
        }
        if model
            .continuing_subword_prefix
            .as_ref()
            .is_some_and(|prefix| !prefix.is_empty())
        {
            return Err(impossible("tokens carry a prefix inside words"));
        }
        Ok(model)
    }
}

/// The id of a token that takes part in a merge.
fn merged_id(vocab: &HashMap<String, u32>, token: &str) -> Result<u32, DataError> {
    vocab
        .get(token)
        .copied()
        .ok_or_else(|| impossible("a merge has no token"))
}

impl MergeTable {
    /// Reads the merges of `tokenizer`.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if it is not a plain BPE tokenizer.
    pub(super) fn new(tokenizer: &Tokenizer, probability: f64) -> Result<Self, DataError> {
        let model = ModelJson::read(tokenizer)?;
        let vocab: HashMap<String, u32> = serde_json::from_value(model.vocab)
            .map_err(|_| impossible("the vocabulary of the tokenizer cannot be read"))?;
        let mut merges = HashMap::with_capacity(model.merges.len());
        for (rank, (left, right)) in (0..).zip(&model.merges) {
            let pair = (merged_id(&vocab, left)?, merged_id(&vocab, right)?);
            let product = merged_id(&vocab, &format!("{left}{right}"))?;
            merges.insert(pair, (rank, product));
        }
        let mut symbols: Vec<Vec<u32>> = (0..tokenizer.vocab_size() as u32)
            .map(|id| vec![id])
            .collect();
        let suffix = model.end_of_word_suffix.unwrap_or_default();
        // A token that no merge makes, such as a special token, stands for itself.
        for &(_, product) in merges.values() {
            let token = tokenizer.token(product).unwrap_or_default();
            if let Some(parts) = split(&token, &suffix, &vocab) {
                symbols[product as usize] = parts;
            }
        }
        Ok(Self {
            merges,
            symbols,
            probability,
        })
    }

    /// Segments a word again, and appends its ids to `sampled`.
    pub(super) fn sample(
        &self,
        word: impl Iterator<Item = u32>,
        draws: &mut Draws,
        sampled: &mut Vec<u32>,
    ) {
        let symbols = word.flat_map(|id| &self.symbols[id as usize]).copied();
        sampled.extend(self.merge(symbols.collect(), draws));
    }

    /// Applies the merge of the lowest rank, the leftmost first, until no merge is left or all are
    /// dropped.
    ///
    /// Each possible merge is dropped independently at each step (algorithm 1 of the paper).
    fn merge(&self, mut symbols: Vec<u32>, draws: &mut Draws) -> Vec<u32> {
        loop {
            let candidates = symbols.windows(2).enumerate().filter_map(|(index, pair)| {
                let &(rank, product) = self.merges.get(&(pair[0], pair[1]))?;
                (draws.next() >= self.probability).then_some((rank, index, product))
            });
            let Some((_, index, product)) = candidates.min() else {
                return symbols;
            };
            symbols[index] = product;
            symbols.remove(index + 1);
        }
    }
}

/// Returns the ids of the characters of `token`, the last of which carries `suffix` if the token
/// does; `None` if a character is not in the vocabulary.
fn split(token: &str, suffix: &str, vocab: &HashMap<String, u32>) -> Option<Vec<u32>> {
    let without_suffix = token
        .strip_suffix(suffix)
        .filter(|stem| !suffix.is_empty() && !stem.is_empty());
    let stem = without_suffix.unwrap_or(token);
    let last = stem.chars().count().checked_sub(1)?;
    let mut ids = Vec::with_capacity(last + 1);
    for (index, character) in stem.chars().enumerate() {
        let ending = if without_suffix.is_some() && index == last {
            suffix
        } else {
            ""
        };
        ids.push(*vocab.get(&format!("{character}{ending}"))?);
    }
    Some(ids)
}
