//! The two rewriting rules that all tokenizers are made of.

/// Puts a space on both sides of every character that `is_token` accepts.
pub(crate) fn surround(text: &str, is_token: impl Fn(char) -> bool) -> String {
    let mut spaced = String::with_capacity(2 * text.len());
    let mut copied = 0;
    for (start, token) in text.match_indices(is_token) {
        spaced.extend([&text[copied..start], " ", token, " "]);
        copied = start + token.len();
    }
    spaced.push_str(&text[copied..]);
    spaced
}

/// Puts a space on both sides of the first character of every pair that `is_pair` accepts.
///
/// Pairs are found from left to right and share no character, as the matches of a regular
/// expression.
pub(crate) fn split_off_first(text: &str, is_pair: impl Fn(char, char) -> bool) -> String {
    rewrite_pairs(text, is_pair, |first, second| [' ', first, ' ', second])
}

/// Puts a space on both sides of the second character of every pair, found as by
/// [`split_off_first`].
pub(crate) fn split_off_second(text: &str, is_pair: impl Fn(char, char) -> bool) -> String {
    rewrite_pairs(text, is_pair, |first, second| [first, ' ', second, ' '])
}

fn rewrite_pairs(
    text: &str,
    is_pair: impl Fn(char, char) -> bool,
    write: impl Fn(char, char) -> [char; 4],
) -> String {
    let mut rewritten = String::with_capacity(2 * text.len());
    let mut copied = 0;
    let mut rest = text.char_indices().peekable();
    while let Some((start, first)) = rest.next() {
        if let Some((_, second)) = rest.next_if(|&(_, second)| is_pair(first, second)) {
            rewritten.push_str(&text[copied..start]);
            rewritten.extend(write(first, second));
            copied = start + first.len_utf8() + second.len_utf8();
        }
    }
    rewritten.push_str(&text[copied..]);
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_do_not_overlap() {
        let is_pair = |first, second| first != '1' && second == '.';
        assert_eq!(split_off_second("a..1.", is_pair), "a . .1.");
        assert_eq!(split_off_first("..a", |first, _| first == '.'), " . .a");
    }
}
