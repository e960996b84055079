//! Attributes that people read.

use std::ops::Range;

use polyglow_predict::sentences::{Part, parts};

use super::markup::Tag;
use super::piece::{Piece, escape_value, push_kept};
use super::sentence::{Sentence, Sentences};

/// The attributes whose values are text.
const READ: [&str; 4] = ["alt", "aria-label", "placeholder", "title"];

/// A tag, with gaps for the sentences in the values of the attributes that people read.
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
    read.sort_by_key(|(range, _)| range.start);
    let mut pieces = Vec::new();
    let mut end = 0;
    for (range, value) in read {
        push_kept(&mut pieces, &tag.raw[end..range.start]);
        push_kept(&mut pieces, "\"");
        push_value(&mut pieces, value, sentences);
        push_kept(&mut pieces, "\"");
        end = range.end;
    }
    push_kept(&mut pieces, &tag.raw[end..]);
    pieces
}

fn push_value(pieces: &mut Vec<Piece>, value: &str, sentences: &mut Sentences) {
    // The first of the sentences that follow each other with nothing between.
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

/// The bytes of a value, quotation marks included, whose name ends at `name_end`; `None` if there
/// is none.
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
