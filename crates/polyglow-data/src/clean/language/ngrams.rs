//! N-grams of characters, by which languages are told apart.

use std::sync::LazyLock;

use unicode_normalization::char::is_combining_mark;

/// The longest n-gram of characters.
const LONGEST: usize = 5;
/// The orders of n-grams: one to five characters, and whole words.
pub(super) const ORDERS: usize = LONGEST + 1;
/// The orders of single characters and of whole words, counted from 0.
pub(super) const LETTERS: usize = 0;
pub(super) const WORDS: usize = LONGEST;

/// The states from which the hashes of n-grams and of words begin, so that a short word differs
/// from the n-gram of the same characters.
const NGRAM_START: u64 = 0x100;
const WORD_START: u64 = 0x777;

/// The lower case of each character of the Basic Multilingual Plane if it is a letter or a mark, and a
/// blank otherwise: looked up once, because Unicode's tables are slow to search. `None` for those with
/// several lower-case letters, and for surrogates.
static LOWER_CASE: LazyLock<Vec<Option<char>>> = LazyLock::new(|| {
    let lower_case = |code| {
        let mut lower = char::from_u32(code)?.to_lowercase();
        let first = lower.next()?;
        lower.next().is_none().then(|| letter(first))
    };
    (0..0x1_0000).map(lower_case).collect()
});

/// Returns the words of a text in NFC, with a blank before and behind each: letters and marks in lower
/// case.
pub(super) fn normalized(text: &str) -> Vec<char> {
    let mut words = vec![' '];
    let mut push = |letter| {
        if letter != ' ' || words.last() != Some(&' ') {
            words.push(letter);
        }
    };
    for character in text.chars() {
        match LOWER_CASE.get(character as usize) {
            Some(&Some(letter)) => push(letter),
            _ => character.to_lowercase().map(letter).for_each(&mut push),
        }
    }
    push(' ');
    words
}

/// Returns a character if it is a letter or a mark, and a blank otherwise.
fn letter(character: char) -> char {
    if character.is_alphabetic() || is_combining_mark(character) {
        character
    } else {
        ' '
    }
}

/// Calls `visit` with the order, from 0, and the hash of each n-gram of [`normalized`] text. None
/// crosses a blank; one may stand at an end, which tells the beginnings and ends of words apart.
pub(super) fn each_ngram(text: &[char], mut visit: impl FnMut(usize, u64)) {
    for start in 0..text.len() {
        let mut hash = NGRAM_START;
        for (order, &character) in text[start..].iter().take(LONGEST).enumerate() {
            hash = extended(hash, character);
            let is_blank = character == ' ';
            if order > 0 || !is_blank {
                visit(order, hash ^ (order as u64 + 1));
            }
            if order > 0 && is_blank {
                break;
            }
        }
    }
    for word in text.split(|character| *character == ' ') {
        if !word.is_empty() {
            let hash = word
                .iter()
                .fold(WORD_START, |hash, &next| extended(hash, next));
            visit(WORDS, hash);
        }
    }
}

/// Adds a character to a hash.
fn extended(hash: u64, character: char) -> u64 {
    let product = (hash ^ u64::from(character)).wrapping_mul(crate::random::GOLDEN_GAMMA);
    product ^ (product >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ngrams_do_not_cross_words() {
        let text: String = normalized("It's  A1!").into_iter().collect();
        assert_eq!(text, " it s a ");
        let text: String = normalized("İ\u{1d400}\u{10400}").into_iter().collect();
        assert_eq!(text, " i\u{307}\u{1d400}\u{10428} ");
        let mut counts = [0; ORDERS];
        each_ngram(&normalized("it s"), |order, _| counts[order] += 1);
        // i t s; " i" "it" "t " " s" "s "; " it" "it " " s "; " it "; three words' worth of none.
        assert_eq!(counts, [3, 5, 3, 1, 0, 2]);
    }

    #[test]
    fn a_word_is_no_ngram_of_its_characters() {
        let mut hashes = Vec::new();
        each_ngram(&normalized("a"), |_, hash| hashes.push(hash));
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!((count, hashes.len()), (5, 5));
    }
}
