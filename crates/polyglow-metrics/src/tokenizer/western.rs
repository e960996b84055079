//! `13a`: the tokenization of mteval-v13a.pl, for text in which words are written apart.

use super::rewrite::{split_off_first, split_off_second, surround};

/// Entities of XML in the order in which sacreBLEU replaces them: `&amp;quot;` stays `&quot;`,
/// `&amp;lt;` becomes `<`.
const ENTITIES: [(&str, &str); 4] = [
    ("&quot;", "\""),
    ("&amp;", "&"),
    ("&lt;", "<"),
    ("&gt;", ">"),
];

/// Follows `Tokenizer13a`; the spaces around the line let the rules for pairs apply to its first
/// and last character.
///
/// sacreBLEU adds them after its replacements, to the same effect, as no replacement involves a
/// space.
pub(super) fn tokenize(line: &str) -> String {
    let line = format!(" {line} ");
    let line = if line.contains("<skipped>") {
        line.replace("<skipped>", "")
    } else {
        line
    };
    let line = if line.contains('\n') {
        line.replace("-\n", "").replace('\n', " ")
    } else {
        line
    };
    split_periods_and_dashes(&split_western_symbols(&replace_entities(line)))
}

/// Decodes the four entities of XML.
pub(crate) fn replace_entities(line: String) -> String {
    if !line.contains('&') {
        return line;
    }
    ENTITIES.iter().fold(line, |line, (entity, character)| {
        line.replace(entity, character)
    })
}

/// Makes a token of each ASCII punctuation mark and symbol but the apostrophe, comma, dash and
/// period.
pub(crate) fn split_western_symbols(line: &str) -> String {
    surround(line, |c| {
        c.is_ascii_punctuation() && !matches!(c, '\'' | ',' | '-' | '.')
    })
}

/// Splits off periods and commas except between digits, then dashes after a digit.
pub(crate) fn split_periods_and_dashes(line: &str) -> String {
    let line = split_off_second(line, |first, second| {
        is_period_or_comma(second) && !first.is_ascii_digit()
    });
    let line = split_off_first(&line, |first, second| {
        is_period_or_comma(first) && !second.is_ascii_digit()
    });
    if !line.contains('-') {
        return line;
    }
    split_off_second(&line, |first, second| {
        second == '-' && first.is_ascii_digit()
    })
}

fn is_period_or_comma(c: char) -> bool {
    matches!(c, '.' | ',')
}
