//! `zh`: each Chinese character is a token of its own, the rest is split as Western text.

use super::{split_periods_and_dashes, split_western_symbols, surround};
use crate::python;

/// Follows `TokenizerZh`, which shares its last rules with `13a` but adds no space around the line:
/// a period after a digit at the end of the line stays with the number.
pub(super) fn tokenize(line: &str) -> String {
    let line = surround(python::trim(line), is_chinese);
    split_periods_and_dashes(&split_western_symbols(&line))
}

/// Whether sacreBLEU takes the character for a Chinese one.
///
/// It means to include the supplementary planes, but writes their bounds with four digits, as in
/// `\u20000`, which Python reads as the two characters U+2000 and `0`. Compared as strings, such
/// bounds hold U+2001 to U+2A6D, with much punctuation and all arrows in it, and U+2F81 to U+2FA1.
/// Equal scores need equal ranges.
fn is_chinese(c: char) -> bool {
    matches!(c,
        '\u{2001}'..='\u{2a6d}'
        | '\u{2e80}'..='\u{2fdf}'
        | '\u{2ff0}'..='\u{303f}'
        | '\u{3100}'..='\u{312f}'
        | '\u{31a0}'..='\u{31bf}'
        | '\u{31c0}'..='\u{31ef}'
        | '\u{3200}'..='\u{4db5}'
        | '\u{4e00}'..='\u{9fbb}'
        | '\u{f900}'..='\u{fa2d}'
        | '\u{fa30}'..='\u{fa6a}'
        | '\u{fa70}'..='\u{fad9}'
        | '\u{fe10}'..='\u{fe1f}'
        | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ffef}')
}
