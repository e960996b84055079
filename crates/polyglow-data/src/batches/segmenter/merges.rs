//! BPE dropout (Provilkov et al., 2020): different segmentations of the same words in every epoch.

use std::collections::HashMap;

use serde::Deserialize;

use crate::batching::BatchingConfig;
use crate::error::DataError;
use crate::example::Example;
use crate::id_cache::IdCache;
use crate::random::{Purpose, mix, unit};
use crate::tokenizer::{Tokenizer, Tokenizers, WORD_START};

/// Segmentations that are drawn until one is short enough; after these the segmentation without
/// dropout is taken.
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
        Ok(Self {
            src: MergeTable::new(&tokenizers.src)?,
            tgt: MergeTable::new(&tokenizers.tgt)?,
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
        Ok(self.segment(&marked, config, example, epoch))
    }

    /// Segments the ids of an example again, which are marked where words begin.
    pub(crate) fn segment(
        &self,
        marked: &Example,
        config: &BatchingConfig,
        example: u32,
        epoch: u64,
    ) -> Example {
        let row = [config.seed, epoch, u64::from(example)];
        let src_limit = config.planned_len(marked.src.len());
        let tgt_limit = config.planned_len(marked.tgt.len());
        Example {
            src: self.sample_side(
                &self.src,
                &marked.src,
                src_limit,
                Purpose::SrcSegmentation,
                row,
            ),
            tgt: self.sample_side(
                &self.tgt,
                &marked.tgt,
                tgt_limit,
                Purpose::TgtSegmentation,
                row,
            ),
        }
    }

    /// Segments one side again, into at most `limit` ids. `row` is the seed, the epoch and the
    /// example.
    fn sample_side(
        &self,
        table: &MergeTable,
        marked: &[u32],
        limit: usize,
        purpose: Purpose,
        row: [u64; 3],
    ) -> Vec<u32> {
        let [seed, epoch, example] = row;
        for draw in 0..MAX_DRAWS {
            let key = purpose.mix(&[seed, epoch, example, draw]);
            let sampled = table.sample(marked, self.probability, key);
            if sampled.len() <= limit {
                return sampled;
            }
        }
        marked.iter().map(|id| id & !WORD_START).collect()
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

impl ModelJson {
    /// Reads the model of a tokenizer, and makes sure that merges make all its tokens.
    fn read(tokenizer: &Tokenizer) -> Result<Self, DataError> {
        let json: TokenizerJson = serde_json::from_str(&tokenizer.to_json()?)
            .map_err(|_| impossible("its model is not byte pair encoding"))?;
        let model = json.model;
        if model.kind.as_deref() != Some("BPE") {
            return Err(impossible("its model is not byte pair encoding"));
        }
        if model.byte_fallback || model.ignore_merges {
            return Err(impossible("some of its tokens are not made by merges"));
        }
        if model
            .continuing_subword_prefix
            .as_ref()
            .is_some_and(|prefix| !prefix.is_empty())
        {
            return Err(impossible("its tokens carry a prefix inside words"));
        }
        Ok(model)
    }
}

/// Makes the error that dropout cannot be used with a tokenizer.
fn impossible(problem: &str) -> DataError {
    DataError::Dropout {
        problem: problem.to_owned(),
    }
}

/// The id of a token that takes part in a merge.
fn merged_id(vocab: &HashMap<String, u32>, token: &str) -> Result<u32, DataError> {
    vocab
        .get(token)
        .copied()
        .ok_or_else(|| impossible("a merge has no token"))
}

/// Decides for one merge after the other whether it is dropped.
struct Draws {
    key: u64,
    count: u64,
    probability: f64,
}

impl Draws {
    /// Draws whether the next merge is dropped.
    fn is_dropped(&mut self) -> bool {
        self.count += 1;
        unit(mix(&[self.key, self.count])) < self.probability
    }
}

impl MergeTable {
    /// Reads the merges of `tokenizer`.
    ///
    /// # Errors
    /// [`DataError::Dropout`] if it is not a plain BPE tokenizer.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, DataError> {
        let model = ModelJson::read(tokenizer)?;
        let vocab: HashMap<String, u32> = serde_json::from_value(model.vocab)
            .map_err(|_| impossible("its vocabulary cannot be read"))?;
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
        Ok(Self { merges, symbols })
    }

    /// Segments the words of `marked` ids again, skipping each merge with `probability`.
    pub(crate) fn sample(&self, marked: &[u32], probability: f64, key: u64) -> Vec<u32> {
        let mut sampled = Vec::with_capacity(marked.len());
        let mut draws = Draws {
            key,
            count: 0,
            probability,
        };
        // No merge crosses the boundary of a word.
        for word in marked.chunk_by(|_, next| next & WORD_START == 0) {
            let symbols = word
                .iter()
                .flat_map(|id| &self.symbols[(id & !WORD_START) as usize])
                .copied()
                .collect();
            sampled.extend(self.merge(symbols, &mut draws));
        }
        sampled
    }

    /// Applies the merge of the lowest rank, the leftmost first, until no merge is left or all are
    /// dropped.
    ///
    /// Each possible merge is dropped independently at each step (algorithm 1 of the paper).
    fn merge(&self, mut symbols: Vec<u32>, draws: &mut Draws) -> Vec<u32> {
        loop {
            let candidates = symbols.windows(2).enumerate().filter_map(|(index, pair)| {
                let &(rank, product) = self.merges.get(&(pair[0], pair[1]))?;
                (!draws.is_dropped()).then_some((rank, index, product))
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
