//! BPE dropout (Provilkov et al., 2020): different segmentations of the same words in every epoch.

use std::collections::HashMap;

use serde::Deserialize;

use crate::batching::BatchingConfig;
use crate::error::DataError;
use crate::example::Example;
use crate::id_cache::IdCache;
use crate::random::{Purpose, mix, unit};
use crate::tokenizer::{Tokenizer, Tokenizers, WORD_START};

/// How often a segmentation is drawn before giving up on one that is short enough, and taking the
/// one without dropout.
const MAX_DRAWS: u64 = 8;

/// Samples segmentations of both sides from the ids without dropout; the text is not needed.
pub struct BpeDropout {
    src: MergeTable,
    tgt: MergeTable,
    probability: f64,
}

/// The merges of a BPE tokenizer, by ids.
pub(crate) struct MergeTable {
    /// Rank and product of each pair that can be merged; the lowest rank is merged first.
    merges: HashMap<(u32, u32), (u32, u32)>,
    /// The characters (or bytes) of each token; a token that is not the product of merges stands
    /// for itself.
    symbols: Vec<Vec<u32>>,
}

impl BpeDropout {
    /// Prepares dropout with `probability`, in `[0, 1)`, per merge.
    ///
    /// # Errors
    /// [`DataError::Dropout`] if a side is not a plain BPE tokenizer.
    pub fn new(tokenizers: &Tokenizers, probability: f64) -> Result<Self, DataError> {
        let (src, tgt) = (
            MergeTable::new(&tokenizers.src)?,
            MergeTable::new(&tokenizers.tgt)?,
        );
        Ok(Self {
            src,
            tgt,
            probability,
        })
    }

    /// Reads `example` and segments it again: a pure function of the seed, the epoch and the
    /// example.
    ///
    /// A segmentation longer than [`BatchingConfig::planned_len`] is drawn again, so that batches
    /// keep their planned size.
    ///
    /// # Errors
    /// As [`IdCache::example`].
    pub fn sample(
        &self,
        cache: &IdCache,
        config: &BatchingConfig,
        example: u32,
        epoch: u64,
    ) -> Result<Example, DataError> {
        let marked = cache.marked_example(example)?;
        let side = |table: &MergeTable, ids: &[u32], purpose: Purpose| {
            let limit = config.planned_len(ids.len());
            (0..MAX_DRAWS)
                .map(|draw| purpose.mix(&[config.seed, epoch, u64::from(example), draw]))
                .map(|key| table.sample(ids, self.probability, key))
                .find(|ids| ids.len() <= limit)
                .unwrap_or_else(|| ids.iter().map(|id| id & !WORD_START).collect())
        };
        Ok(Example {
            src: side(&self.src, &marked.src, Purpose::SrcSegmentation),
            tgt: side(&self.tgt, &marked.tgt, Purpose::TgtSegmentation),
        })
    }
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

impl MergeTable {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, DataError> {
        let refused = |problem: &str| DataError::Dropout {
            problem: problem.to_owned(),
        };
        let json: TokenizerJson = serde_json::from_str(&tokenizer.to_json()?)
            .map_err(|_| refused("its model is not byte pair encoding"))?;
        let model = json.model;
        if model.kind.as_deref() != Some("BPE") {
            return Err(refused("its model is not byte pair encoding"));
        }
        if model.byte_fallback || model.ignore_merges {
            return Err(refused("some of its tokens are not made by merges"));
        }
        if model
            .continuing_subword_prefix
            .is_some_and(|prefix| !prefix.is_empty())
        {
            return Err(refused("its tokens carry a prefix inside words"));
        }
        let vocab: HashMap<String, u32> = serde_json::from_value(model.vocab)
            .map_err(|_| refused("its vocabulary cannot be read"))?;
        let mut merges = HashMap::with_capacity(model.merges.len());
        for (rank, (left, right)) in (0..).zip(&model.merges) {
            let known = |token: &str| {
                vocab
                    .get(token)
                    .copied()
                    .ok_or_else(|| refused("a merge has no token"))
            };
            merges.insert(
                (known(left)?, known(right)?),
                (rank, known(&format!("{left}{right}"))?),
            );
        }
        let mut symbols: Vec<Vec<u32>> = (0..tokenizer.vocab_size() as u32)
            .map(|id| vec![id])
            .collect();
        let suffix = model.end_of_word_suffix.unwrap_or_default();
        for &(_, product) in merges.values() {
            let token = tokenizer.token(product).unwrap_or_default();
            if let Some(parts) = split(&token, &suffix, &vocab) {
                symbols[product as usize] = parts;
            }
        }
        Ok(Self { merges, symbols })
    }

    /// Segments the words of `marked` ids again, skipping each merge with `probability`.
    pub(crate) fn sample(&self, marked: &[u32], probability: f64, key: u64) -> Vec<u32> {
        let mut sampled = Vec::with_capacity(marked.len());
        let mut draws = 0;
        let mut draw = move || {
            draws += 1;
            unit(mix(&[key, draws])) < probability
        };
        for word in marked.chunk_by(|_, next| next & WORD_START == 0) {
            let symbols = word
                .iter()
                .flat_map(|id| &self.symbols[(id & !WORD_START) as usize])
                .copied()
                .collect();
            sampled.extend(self.merge(symbols, &mut draw));
        }
        sampled
    }

    /// Applies the merge of the lowest rank, the leftmost first, until no merge is left or all are
    /// dropped.
    ///
    /// Each possible merge is dropped independently at each step (algorithm 1 of the paper).
    fn merge(&self, mut symbols: Vec<u32>, mut is_dropped: impl FnMut() -> bool) -> Vec<u32> {
        loop {
            let candidates = symbols.windows(2).enumerate().filter_map(|(place, pair)| {
                let &(rank, product) = self.merges.get(&(pair[0], pair[1]))?;
                (!is_dropped()).then_some((rank, place, product))
            });
            let Some((_, place, product)) = candidates.min() else {
                return symbols;
            };
            symbols[place] = product;
            symbols.remove(place + 1);
        }
    }
}

/// The ids of the characters of `token`, the last of which carries `suffix` if the token does.
fn split(token: &str, suffix: &str, vocab: &HashMap<String, u32>) -> Option<Vec<u32>> {
    let (stem, ends_word) = match token.strip_suffix(suffix) {
        Some(stem) if !suffix.is_empty() && !stem.is_empty() => (stem, true),
        _ => (token, false),
    };
    let last = stem.chars().count().checked_sub(1)?;
    let spell = |(place, character): (usize, char)| {
        let ending = if ends_word && place == last {
            suffix
        } else {
            ""
        };
        vocab.get(&format!("{character}{ending}")).copied()
    };
    stem.chars().enumerate().map(spell).collect()
}
