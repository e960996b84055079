//! Learning a vocabulary from text: the same text gives the same `tokenizer.json`, byte for byte.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use rayon::prelude::*;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::unigram::{Unigram, UnigramTrainer};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{AddedToken, ModelWrapper};

use super::super::LibraryTokenizer;
use super::super::config::{Kind, TokenizerConfig};
use super::super::guard::failed;
use super::{Progress, Stage, pipeline};
use crate::error::DataError;
use crate::lines::Lines;
use crate::special;

/// Lines that are split into words at a time. It affects which rare words are dropped, so it is not
/// configurable.
const LINES_PER_CHUNK: usize = 16_384;
/// Bytes of text at which a chunk ends with fewer lines: the library's words take a hundred times
/// the memory of the text.
const BYTES_PER_CHUNK: usize = 1 << 25;
/// Maximum number of distinct words that are counted, which bounds the memory; the rarest are
/// dropped.
const MAX_COUNTED: usize = 1_000_000;
/// Maximum number of distinct words to train on. The trainers need about 1 KiB for each, and rarer
/// words hardly affect a vocabulary.
const MAX_TRAINED: usize = 250_000;
/// Longer words are cut before vocabularies of word pieces are learned from them, which takes
/// quadratic time in the length of a word. Most are noise; but a text whose script has no spaces
/// may be made of them.
const MAX_WORD_CHARS: usize = 256;
/// Maximum sum of all word counts: the library counts pairs in 32 bits.
const MAX_OCCURRENCES: u64 = 1 << 29;
/// A pair of symbols that occurs once does not become a token.
const MIN_PAIR_COUNT: u64 = 2;
/// The step between the scores that the library's unigram trainer gives to rare characters.
const RARE_CHARACTER_STEP: f64 = 0.0001;

/// Trains the configured kind of tokenizer on `lines`.
pub(super) fn learn(
    config: &TokenizerConfig,
    lines: impl Iterator<Item = Result<String, DataError>>,
    progress: &mut Progress,
) -> Result<LibraryTokenizer, DataError> {
    let name = config.kind.name();
    // Symbols are added behind all others, and are no part of what is learned.
    let config = &TokenizerConfig {
        vocab_size: config.vocab_size - config.symbols.len(),
        ..config.clone()
    };
    let lines = lines.map(|line| Ok(without_symbols(line?, &config.symbols)));
    let mut tokenizer =
        pipeline::assemble(config, empty_model().map_err(failed(name))?).map_err(failed(name))?;
    let words = count_words(&tokenizer, lines, config, progress)?;
    if words.is_empty() {
        return Err(DataError::Tokenizer {
            name: name.to_owned(),
            problem: "the text has no words".to_owned(),
        });
    }
    progress(Stage::LearningVocabulary, config.vocab_size as u64);
    tokenizer.with_model(match config.kind {
        Kind::Bpe => byte_level_bpe(config, words).map_err(failed(name))?,
        Kind::WordBpe => {
            // Each character has a token within a word and one at its end.
            check_room(config, &words, 2)?;
            word_bpe(config, words).map_err(failed(name))?
        }
        Kind::Unigram => {
            check_room(config, &words, 1)?;
            unigram(config, words).map_err(failed(name))?
        }
        Kind::Word | Kind::Char | Kind::Whitespace => {
            let kept = words
                .into_iter()
                .map(|(word, _)| word)
                .take(config.vocab_size - special::TOKENS.len());
            word_level(kept).map_err(failed(name))?
        }
    });
    tokenizer
        .add_special_tokens(pipeline::special_tokens())
        .map_err(failed(name))?;
    Ok(tokenizer)
}

/// Returns a line with a space in place of each symbol.
fn without_symbols(line: String, symbols: &[String]) -> String {
    symbols
        .iter()
        .fold(line, |line, symbol| line.replace(symbol, " "))
}

/// Refuses a vocabulary that has no room for every character of the words, each of which takes
/// `tokens_each` tokens.
fn check_room(
    config: &TokenizerConfig,
    words: &[(String, u64)],
    tokens_each: usize,
) -> Result<(), DataError> {
    let characters = words
        .iter()
        .flat_map(|(word, _)| word.chars())
        .collect::<HashSet<_>>()
        .len();
    let needed = tokens_each * characters + special::TOKENS.len();
    if config.vocab_size < needed {
        return Err(DataError::VocabularyTooSmall {
            vocab_size: config.vocab_size,
            characters,
            needed,
        });
    }
    Ok(())
}

/// Makes a `whitespace` tokenizer from the tokens in the file `vocab`, one per line.
pub(super) fn from_file(
    config: &TokenizerConfig,
    vocab: &Path,
) -> Result<LibraryTokenizer, DataError> {
    let name = vocab.display().to_string();
    let mut tokens = Vec::new();
    for line in Lines::open(vocab)? {
        // Published vocabularies have a count or an id in a second column; a token itself contains
        // no whitespace.
        tokens.extend(line?.split_whitespace().next().map(str::to_owned));
    }
    if tokens.is_empty() {
        return Err(DataError::Empty {
            path: vocab.to_owned(),
        });
    }
    let model = word_level(tokens.into_iter()).map_err(failed(&name))?;
    pipeline::assemble(config, model).map_err(failed(&name))
}

/// Makes a tokenizer that encodes a text as a single token: each of `tokens` is a whole text.
pub(super) fn whole_texts(
    tokens: impl Iterator<Item = String>,
) -> Result<LibraryTokenizer, DataError> {
    let mut tokenizer = LibraryTokenizer::new(word_level(tokens).map_err(failed("labels"))?);
    tokenizer
        .add_special_tokens(pipeline::special_tokens())
        .map_err(failed("labels"))?;
    Ok(tokenizer)
}

/// Makes a tokenizer that encodes each whitespace-separated word as a single token, one of
/// `tokens`.
pub(super) fn whole_words(
    tokens: impl Iterator<Item = String>,
) -> Result<LibraryTokenizer, DataError> {
    let mut tokenizer = whole_texts(tokens)?;
    tokenizer.with_pre_tokenizer(Some(WhitespaceSplit));
    Ok(tokenizer)
}

/// Counts the words of `lines` on all cores; the most frequent come first, equals in the order of
/// their characters.
fn count_words(
    tokenizer: &LibraryTokenizer,
    lines: impl Iterator<Item = Result<String, DataError>>,
    config: &TokenizerConfig,
    progress: &mut Progress,
) -> Result<Vec<(String, u64)>, DataError> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut lines = lines.peekable();
    let mut read = 0;
    while lines.peek().is_some() {
        let chunk = next_chunk(&mut lines)?;
        read += chunk.len() as u64;
        let counts_by_core = chunk.par_iter().try_fold(HashMap::new, |mut counts, line| {
            for word in pipeline::words(tokenizer, line)? {
                *counts.entry(word).or_insert(0) += 1;
            }
            Ok(counts)
        });
        let chunk_counts = counts_by_core
            .try_reduce(HashMap::new, |left, right| Ok(add(left, right)))
            .map_err(failed(config.kind.name()))?;
        counts = add(counts, chunk_counts);
        // After every chunk, so that memory is bounded for any text.
        drop_rare(&mut counts);
        progress(Stage::CountingWords, read);
    }
    if matches!(config.kind, Kind::Bpe | Kind::WordBpe | Kind::Unigram) {
        cut_long_words(&mut counts);
    }
    // The order of a hash map is random; that of the words decides which are kept, and the ids of
    // whole words.
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort_unstable_by(|(left, left_count), (right, right_count)| {
        right_count.cmp(left_count).then_with(|| left.cmp(right))
    });
    words.truncate(MAX_TRAINED.max(config.vocab_size));
    Ok(words)
}

/// Reads the next lines, as many as are split at a time.
fn next_chunk(
    lines: &mut impl Iterator<Item = Result<String, DataError>>,
) -> Result<Vec<String>, DataError> {
    let mut chunk = Vec::new();
    let mut bytes = 0;
    while chunk.len() < LINES_PER_CHUNK && bytes < BYTES_PER_CHUNK {
        let Some(line) = lines.next().transpose()? else {
            break;
        };
        bytes += line.len();
        chunk.push(line);
    }
    Ok(chunk)
}

/// Whether a word has more than [`MAX_WORD_CHARS`] characters.
fn is_long(word: &str) -> bool {
    // A word with so few bytes cannot have too many characters, and need not be counted.
    word.len() > MAX_WORD_CHARS && word.chars().count() > MAX_WORD_CHARS
}

/// Replaces long words with pieces of at most [`MAX_WORD_CHARS`] characters.
fn cut_long_words(counts: &mut HashMap<String, u64>) {
    let long: Vec<(String, u64)> = counts.extract_if(|word, _| is_long(word)).collect();
    for (word, count) in long {
        let characters: Vec<char> = word.chars().collect();
        for piece in characters.chunks(MAX_WORD_CHARS) {
            *counts.entry(piece.iter().collect()).or_insert(0) += count;
        }
    }
}

/// Adds up the counts of two maps; the larger one takes in the smaller.
fn add(mut left: HashMap<String, u64>, mut right: HashMap<String, u64>) -> HashMap<String, u64> {
    if left.len() < right.len() {
        std::mem::swap(&mut left, &mut right);
    }
    for (word, count) in right {
        *left.entry(word).or_insert(0) += count;
    }
    left
}

/// Drops the rarest words until at most [`MAX_COUNTED`] are left.
fn drop_rare(counts: &mut HashMap<String, u64>) {
    let mut rare = 1;
    while counts.len() > MAX_COUNTED {
        counts.retain(|_, count| *count > rare);
        rare += 1;
    }
}

/// Learns a byte-level BPE from counted words.
fn byte_level_bpe(
    config: &TokenizerConfig,
    words: Vec<(String, u64)>,
) -> tokenizers::Result<ModelWrapper> {
    // All 256 bytes are in the vocabulary, whether they occur in the text or not, so that any text
    // can be encoded.
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(config.vocab_size)
        .min_frequency(MIN_PAIR_COUNT)
        .special_tokens(pipeline::special_tokens())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    learn_merges(&trainer, BPE::builder().build()?, words)
}

/// Learns a BPE of the characters of words from counted words.
fn word_bpe(
    config: &TokenizerConfig,
    words: Vec<(String, u64)>,
) -> tokenizers::Result<ModelWrapper> {
    // The trainer numbers the characters that end words in the order of a randomized hash map.
    // Listed in advance, they get the same ids every time; and as all characters are listed, none
    // is unknown at the end of a word.
    let characters: BTreeSet<char> = words.iter().flat_map(|(word, _)| word.chars()).collect();
    let endings = characters
        .iter()
        .map(|character| format!("{character}{}", pipeline::END_OF_WORD));
    let first = pipeline::special_tokens()
        .into_iter()
        .chain(endings.map(|token| AddedToken::from(token, false)));
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(config.vocab_size)
        .min_frequency(MIN_PAIR_COUNT)
        .special_tokens(first.collect())
        .end_of_word_suffix(pipeline::END_OF_WORD.to_owned())
        .build();
    let model = BPE::builder()
        .unk_token(special::UNK.to_owned())
        .end_of_word_suffix(pipeline::END_OF_WORD.to_owned())
        .build()?;
    learn_merges(&trainer, model, words)
}

/// Learns the merges of a BPE model from counted words.
fn learn_merges(
    trainer: &BpeTrainer,
    mut model: BPE,
    words: Vec<(String, u64)>,
) -> tokenizers::Result<ModelWrapper> {
    let occurrences: u64 = words.iter().map(|(_, count)| count).sum();
    // Every count stays at least 1, so that no word is lost.
    let divisor = occurrences.div_ceil(MAX_OCCURRENCES);
    let words = words
        .into_iter()
        .map(|(word, count)| (word.into(), count.div_ceil(divisor)))
        .collect();
    trainer.do_train(&words, &mut model)?;
    Ok(model.into())
}

/// Learns the pieces of a unigram model from counted words.
fn unigram(
    config: &TokenizerConfig,
    words: Vec<(String, u64)>,
) -> tokenizers::Result<ModelWrapper> {
    let trainer = UnigramTrainer::builder()
        .show_progress(false)
        .vocab_size(config.vocab_size as u32)
        .special_tokens(pipeline::special_tokens())
        .unk_token(Some(special::UNK.to_owned()))
        .build()?;
    let words: Vec<_> = words
        .into_iter()
        .map(|(word, count)| (word, u32::try_from(count).unwrap_or(u32::MAX)))
        .collect();
    let mut model = Unigram::default();
    // With several threads the expected counts would be summed in an order that changes from run to
    // run.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    pool.install(|| trainer.do_train(words, &mut model))?;
    let pieces = in_fixed_order(model.iter().cloned().collect());
    Ok(Unigram::from(pieces, Some(3), false)?.into())
}

/// Makes the order and the scores of the pieces deterministic.
///
/// The trainer orders pieces of equal score at random, and gives characters that are too rare to be
/// kept the lowest score plus a multiple of a small step, in the order of a randomized hash map.
/// Here the same scores are assigned again in the order of the characters.
fn in_fixed_order(mut pieces: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let mut learned = pieces.split_off(special::TOKENS.len());
    let mut num_characters = 0;
    let mut lowest = f64::INFINITY;
    for (piece, score) in &learned {
        if is_character(piece) {
            num_characters += 1;
            lowest = lowest.min(*score);
        }
    }
    let ceiling = lowest + RARE_CHARACTER_STEP * f64::from(num_characters);
    let mut rare: Vec<&mut (String, f64)> = learned
        .iter_mut()
        .filter(|(piece, score)| is_character(piece) && *score <= ceiling)
        .collect();
    let mut scores: Vec<f64> = rare.iter().map(|piece| piece.1).collect();
    scores.sort_unstable_by(f64::total_cmp);
    rare.sort_unstable_by(|left, right| left.0.cmp(&right.0));
    for (piece, score) in rare.into_iter().zip(scores) {
        piece.1 = score;
    }
    learned.sort_unstable_by(|left, right| {
        right
            .1
            .total_cmp(&left.1)
            .then_with(|| left.0.cmp(&right.0))
    });
    pieces.extend(learned);
    pieces
}

/// Whether a piece is a single character.
fn is_character(piece: &str) -> bool {
    piece.chars().nth(1).is_none()
}

/// Makes a vocabulary of the special tokens and then `tokens`, without duplicates.
fn word_level(tokens: impl Iterator<Item = String>) -> tokenizers::Result<ModelWrapper> {
    let mut seen = HashSet::new();
    let all = special::TOKENS
        .iter()
        .map(|&token| token.to_owned())
        .chain(tokens);
    let distinct: Vec<String> = all.filter(|token| seen.insert(token.clone())).collect();
    let vocab = distinct.into_iter().zip(0..).collect();
    Ok(WordLevel::builder()
        .vocab(vocab)
        .unk_token(special::UNK.to_owned())
        .build()?
        .into())
}

fn empty_model() -> tokenizers::Result<ModelWrapper> {
    word_level(std::iter::empty())
}
