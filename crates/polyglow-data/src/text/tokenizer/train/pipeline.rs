//! The steps around the vocabulary for each kind of tokenizer: normalizer, pre-tokenizer and
//! decoder.

use tokenizers::decoders::bpe::BPEDecoder;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as DecoderSequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::normalizers::{Lowercase, NFC, NFKC, Prepend, Sequence as NormalizerSequence};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::Metaspace;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{
    AddedToken, DecoderWrapper, ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper,
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
    SplitDelimiterBehavior,
};

use super::super::config::{Kind, Normalization, TokenizerConfig};
use super::super::normalizer::TextNormalizer;
use super::super::{LibraryTokenizer, clean_text};
use crate::special;

/// The suffix of the last character of a word in `kind = "word-bpe"`.
pub(super) const END_OF_WORD: &str = "</w>";

/// Combines `model` with the normalizer, pre-tokenizer and decoder of the configured kind.
pub(super) fn assemble(
    config: &TokenizerConfig,
    model: ModelWrapper,
) -> tokenizers::Result<LibraryTokenizer> {
    let mut tokenizer = LibraryTokenizer::new(model);
    tokenizer.with_normalizer(normalizer(config)?)?;
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer(config.kind)?));
    tokenizer.with_decoder(decoder(config.kind));
    tokenizer.add_special_tokens(special_tokens())?;
    Ok(tokenizer)
}

/// The special tokens as the library wants them, in the order of their ids.
pub(super) fn special_tokens() -> Vec<AddedToken> {
    special::TOKENS
        .iter()
        .map(|token| AddedToken::from(*token, true))
        .collect()
}

/// Splits `text` into words. A vocabulary is trained on words, and no token crosses their
/// boundaries.
pub(super) fn words(tokenizer: &LibraryTokenizer, text: &str) -> tokenizers::Result<Vec<String>> {
    let mut normalized = NormalizedString::from(text);
    if let Some(normalizer) = tokenizer.get_normalizer() {
        normalizer.normalize(&mut normalized)?;
    }
    let mut words = PreTokenizedString::from(normalized);
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        pre_tokenizer.pre_tokenize(&mut words)?;
    }
    let splits = words.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
    Ok(splits
        .into_iter()
        .map(|(word, _, _)| word.to_owned())
        .filter(|word| !word.is_empty())
        .collect())
}

/// The normalization steps of a config, in the order in which they are applied.
fn normalizer(config: &TokenizerConfig) -> tokenizers::Result<Option<TextNormalizer>> {
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    if config.clean_text {
        for step in clean_text::steps() {
            steps.push(serde_json::from_value(step)?);
        }
    }
    match config.normalization {
        Normalization::Nfc => steps.push(NFC.into()),
        Normalization::Nfkc => steps.push(NFKC.into()),
        Normalization::None => {}
    }
    if config.lowercase {
        steps.push(Lowercase.into());
    }
    if config.kind == Kind::Bpe {
        // The first word gets a space in front, as all others have one. It is added even if there
        // is a space already, so that the decoder can remove exactly one, and leading spaces
        // survive where text is not cleaned.
        steps.push(Prepend::new(" ".to_owned()).into());
    }
    if steps.is_empty() {
        return Ok(None);
    }
    let all = NormalizerSequence::new(steps).into();
    Ok(Some(TextNormalizer::new(all)?))
}

/// Cuts text into words, which tokens never cross.
fn pre_tokenizer(kind: Kind) -> tokenizers::Result<PreTokenizerWrapper> {
    Ok(match kind {
        Kind::Bpe => ByteLevel::new(false, false, true).into(),
        Kind::Unigram => Metaspace::default().into(),
        Kind::WordBpe | Kind::Word | Kind::Whitespace => WhitespaceSplit.into(),
        Kind::Char => {
            let any = SplitPattern::Regex(r"[\s\S]".to_owned());
            Split::new(any, SplitDelimiterBehavior::Isolated, false)?.into()
        }
    })
}

/// Joins tokens to text; undoes the spelling of the vocabulary.
fn decoder(kind: Kind) -> Option<DecoderWrapper> {
    match kind {
        Kind::Bpe => {
            let bytes = ByteLevel::new(false, false, true).into();
            Some(DecoderSequence::new(vec![bytes, Strip::new(' ', 1, 0).into()]).into())
        }
        Kind::WordBpe => Some(BPEDecoder::new(END_OF_WORD.to_owned()).into()),
        Kind::Unigram => Some(Metaspace::default().into()),
        Kind::Char => Some(Fuse::new().into()),
        // Without a decoder, the library joins tokens with spaces.
        Kind::Word | Kind::Whitespace => None,
    }
}
