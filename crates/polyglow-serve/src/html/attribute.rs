//! Attributes whose values people read.

use std::ops::Range;

use polyglow_predict::sentences::{Part, parts};

use super::markup::Tag;
use super::piece::{Piece, escape_value, push_kept};
use super::sentence::{Sentence, Sentences};

/// The names of these attributes.
const READ: [&str; 4] = ["alt", "aria-label", "placeholder", "title"];

/// Returns the pieces of a tag: the sentences in the values of attributes that people read are
/// added to `sentences`, all else is kept.
pub(super) fn translated(tag: &Tag, sentences: &mut Sentences) -> Vec<Piece> {
    let mut read: Vec<(Range<usize>, &str)> = Vec::new();
    for attribute in &tag.attributes {
        let is_read =
            READ.contains(&&*attribute.name) && attribute.value.contains(char::is_alphanumeric);
        if is_read && let Some(range) = value_range(tag.raw, attribute.start + attribute.name.len())
        {
            read.push((range, &attribute.value));
        }
    }
    // The library gives attributes in the order of their names.
    read.sort_by_key(|(range, _)| range.start);
    let mut pieces = Vec::new();
    let mut end = 0;
    for (range, value) in read {
        push_kept(&mut pieces, &tag.raw[end..range.start]);
        // Quotation marks in any case: the value may have had none, and a translation has spaces.
        push_kept(&mut pieces, "\"");
        push_value(&mut pieces, value, sentences);
        push_kept(&mut pieces, "\"");
        end = range.end;
    }
    push_kept(&mut pieces, &tag.raw[end..]);
    pieces
}

/// Appends a value, of which each sentence is added to `sentences`.
fn push_value(pieces: &mut Vec<Piece>, value: &str, sentences: &mut Sentences) {
    // The first of the sentences that directly follow each other.
    let mut first = None;
    for part in parts(value, &sentences.language) {
        match part {
            Part::Kept(kept) => {
                first = None;
                let mut escaped = String::new();
                escape_value(kept, &mut escaped);
                push_kept(pieces, &escaped);
            }
            Part::Sentence(text) => {
                let index = sentences.next_index();
                pieces.extend(first.map(|first| Piece::Gap(first..index)));
                first = first.or(Some(index));
                pieces.push(Piece::Value(sentences.push(Sentence {
                    text: text.to_owned(),
                    marks: Vec::new(),
                })));
            }
        }
    }
}

/// Returns the bytes of the value whose name ends at `name_end`, quotation marks included; `None`
/// if there is none.
fn value_range(tag: &str, name_end: usize) -> Option<Range<usize>> {
    let after_name = tag.get(name_end..)?.trim_ascii_start();
    let value = after_name.strip_prefix('=')?.trim_ascii_start();
    let start = tag.len() - value.len();
    let len = match value.chars().next()? {
        quote @ ('"' | '\'') => value[1..].find(quote)? + 2,
        _ => value.find(|character: char| character.is_ascii_whitespace() || character == '>')?,
    };
    Some(start..start + len)
}
