//! What a source of text is: lines of files become pairs of sentences, and tokenizers turn sentences into ids and back.

pub mod alignment;
pub mod corpus;
pub mod labeled;
pub mod lines;
pub mod ngram;
pub mod special;
pub mod tokenizer;
pub mod word_vectors;
