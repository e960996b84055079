//! Boundaries between the sentences of a line.

use std::collections::HashSet;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};
use unicode_segmentation::UnicodeSegmentation;

use super::abbreviations::{begins_german_sentence, is_abbreviation};

/// Bytes of the longest line that the library of abbreviations is called with: its time grows with the
/// square of the number of quotation marks in a line.
const LONGEST: usize = 1 << 15;
/// Languages that write ordinals as German does, with a full stop and before capital letters.
const GERMAN: [&str; 5] = ["de", "lb", "nds", "gsw", "bar"];
/// Digits of the longest number that is an ordinal; more are a year or an amount.
const ORDINAL: usize = 3;
/// Verbs of saying in Chinese, which end the clause after a quotation.
const SAID: [char; 10] = ['说', '說', '问', '問', '道', '喊', '答', '叫', '讲', '講'];
/// Dashes that may stand between sentences.
const DASHES: [char; 3] = ['-', '–', '—'];
/// Punctuation that ends a sentence before such a dash.
const TERMINATORS: [char; 4] = ['.', '!', '?', '…'];
/// "To know" in Chinese, whose last character is that of a verb of saying.
const KNOW: [char; 2] = ['知', '道'];
/// Characters of the longest clause that may end with a verb of saying.
const SAID_WITHIN: usize = 10;

/// Cuts a line into sentences, each with the white space after it.
///
/// A sentence ends where both Unicode's rules (UAX 29), which know the punctuation of every script,
/// and the abbreviation lists of Wikimedia's `sentencex` see an end, unless [`continues`] knows that
/// the sentence continues. Where a quotation mark or bracket closes, Unicode's rules decide alone,
/// except for an abbreviation in brackets. A dash by itself between sentences begins the next one,
/// which neither of the two sees.
pub(super) fn sentences<'t>(line: &'t str, language: &str) -> Vec<&'t str> {
    let language = primary(language);
    let listed = (line.len() <= LONGEST).then(|| listed_ends(line, &language));
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut letters = 0;
    for (at, part) in line
        .split_sentence_bound_indices()
        .flat_map(cut_before_dashes)
    {
        let end = at + part.len();
        let end = end + closing_after_space(&line[end..]);
        letters += count_letters(part);
        if end <= start {
            continue;
        }
        let sentence = &line[start..end];
        let rest = &line[end..];
        let is_closed = sentence.trim_end().ends_with(closes) || begins_with_dash(rest);
        let is_listed = listed.as_ref().is_none_or(|ends| ends.contains(&letters));
        let is_end = is_closed || is_listed;
        if rest.is_empty() || is_end && !continues(sentence, rest, &language) {
            sentences.push(sentence);
            start = end;
        }
    }
    sentences
}

/// Cuts a part of a line that begins at `at` before each dash that stands by itself between two
/// sentences, as in `He left. - She stayed.`
fn cut_before_dashes((at, part): (usize, &str)) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (dash, _) in part.match_indices(DASHES) {
        let ends = part[start..dash]
            .trim_end_matches(closes_or_space)
            .ends_with(TERMINATORS);
        if ends && part[..dash].ends_with(char::is_whitespace) && begins_with_dash(&part[dash..]) {
            pieces.push((at + start, &part[start..dash]));
            start = dash;
        }
    }
    pieces.push((at + start, &part[start..]));
    pieces
}

/// Returns whether a text begins with a dash by itself and a word that may begin a sentence.
fn begins_with_dash(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(DASHES) else {
        return false;
    };
    let word = rest.trim_start();
    word.len() < rest.len()
        && word.starts_with(|first: char| first.is_alphabetic() && !first.is_lowercase())
}

fn closes_or_space(character: char) -> bool {
    character.is_whitespace() || closes(character)
}

/// Returns the first part of a language code in lower case: `pt` of `pt-BR`.
fn primary(language: &str) -> String {
    let primary = language.split(['-', '_']).next();
    primary.unwrap_or_default().to_lowercase()
}

/// Returns the number of letters and digits before each end that the library sees. Byte positions
/// would not do: it and Unicode's rules put quotation marks and symbols on different sides of the same
/// end.
fn listed_ends(line: &str, language: &str) -> HashSet<usize> {
    let mut letters = 0;
    let mut ends = HashSet::new();
    for sentence in sentencex::get_sentence_boundaries(language, line) {
        letters += count_letters(&line[sentence.start_byte..sentence.end_byte]);
        ends.insert(letters);
    }
    ends
}

fn count_letters(text: &str) -> usize {
    text.chars()
        .filter(|character| character.is_alphanumeric())
        .count()
}

/// Counts the bytes of quotation marks and brackets that close after a space, as in `« Non. » Puis`,
/// with the white space after them.
fn closing_after_space(rest: &str) -> usize {
    let after = rest.trim_start_matches(closes_alone);
    let next = after.trim_start();
    let are_closing = after.len() < rest.len() && (next.is_empty() || next.len() < after.len());
    if are_closing {
        rest.len() - next.len()
    } else {
        0
    }
}

/// Returns whether a character closes a quotation or brackets.
fn closes(character: char) -> bool {
    // It may also open a quotation, which its position tells.
    character == '"' || closes_alone(character)
}

/// Returns whether a character closes a quotation or brackets and cannot open them.
fn closes_alone(character: char) -> bool {
    let closing = [
        GeneralCategory::ClosePunctuation,
        GeneralCategory::FinalPunctuation,
    ];
    closing.contains(&character.general_category())
}

/// Returns whether a sentence continues after what looks like its end.
fn continues(before: &str, after: &str, language: &str) -> bool {
    let before = before.trim_end();
    if continues_quotation(before, after) {
        return true;
    }
    // A full stop inside of brackets is that of an abbreviation, as in `Prof. (em.) Müller`, if the
    // brackets do not hold a whole sentence.
    let inside = before.trim_end_matches(is_closing_bracket);
    if inside.len() < before.len() && before.starts_with(is_opening_bracket) {
        return false;
    }
    let before = inside;
    let Some(rest) = before.strip_suffix('.') else {
        return false;
    };
    let mut words = rest.split_whitespace();
    let last = words.next_back().unwrap_or_default();
    let word = last.trim_start_matches(|character: char| !character.is_alphanumeric());
    let before_word = words.next_back();
    if before_word.is_none() && is_item(word) {
        return true;
    }
    if is_initial(word, before_word) || is_title(word) {
        return true;
    }
    // English often ends sentences with such words, as in `at 5 p.m.`
    if language != "en" && is_dotted(word) {
        return true;
    }
    let stem = after_apostrophe(word).to_lowercase();
    if is_abbreviation(&stem, language, after.starts_with(char::is_numeric)) {
        return true;
    }
    GERMAN.contains(&language) && is_ordinal(word) && !begins_german_sentence(&first_word(after))
}

/// Returns whether a quotation that ends with a sentence is part of a longer one: `「…？」と`,
/// `“…？”她问`, `«…?» — спросила`.
fn continues_quotation(before: &str, after: &str) -> bool {
    let next = after.trim_start();
    let after_dash = next.trim_start_matches(['-', '–', '—', ' ']);
    if after_dash.len() < next.len() && after_dash.starts_with(char::is_lowercase) {
        return true;
    }
    if !before.ends_with(['」', '』', '”', '’', '"', '»', '“']) {
        return false;
    }
    if next.starts_with(char::is_lowercase)
        || next.starts_with("と")
        || next.starts_with("って")
        || next.starts_with(['、', '，', ','])
    {
        return true;
    }
    // Only as many characters as decide: in a long line of many quotations, reading each clause to its
    // end would take time by the square of their number.
    let clause: Vec<char> = next
        .chars()
        .take_while(|character| !"，。！？：,.!?:".contains(*character))
        .take(SAID_WITHIN + 1)
        .collect();
    clause.len() <= SAID_WITHIN
        && clause.last().is_some_and(|last| SAID.contains(last))
        && !clause.ends_with(&KNOW)
}

fn is_opening_bracket(character: char) -> bool {
    character.general_category() == GeneralCategory::OpenPunctuation
}

fn is_closing_bracket(character: char) -> bool {
    character.general_category() == GeneralCategory::ClosePunctuation
}

/// Returns whether a word is the number or letter of an item of a list, as in `1.` or `a.`
fn is_item(word: &str) -> bool {
    let is_short = word.chars().nth(ORDINAL).is_none();
    !word.is_empty()
        && is_short
        && (word.chars().all(char::is_numeric)
            || word.chars().all(has_case) && word.chars().nth(1).is_none())
}

/// Returns whether a character is a letter of a script with capital and small letters. Other scripts,
/// such as Hangul, have words of one character.
fn has_case(character: char) -> bool {
    character.is_lowercase() || character.is_uppercase()
}

/// Returns whether a word is a single letter that abbreviates, as in `J. Smith` or `z. B.` In lower
/// case after a number a letter is a unit, and the Russian `я` is a word.
fn is_initial(word: &str, before: Option<&str>) -> bool {
    let mut letters = word.chars();
    let Some(letter) = letters.next() else {
        return false;
    };
    if letters.next().is_some() || !has_case(letter) || letter == 'я' {
        return false;
    }
    let follows_number = before.is_some_and(|before| before.ends_with(ends_number));
    let is_unit = letter.is_lowercase() && follows_number;
    !is_unit
}

/// Returns whether a character may end a number, also a Roman one.
fn ends_number(character: char) -> bool {
    character.is_numeric() || "IVX".contains(character)
}

/// Returns whether a word looks like a short title: a capital letter and one or two small ones, all
/// consonants of the Latin alphabet without accents, as `Mr` or `Dr`.
fn is_title(word: &str) -> bool {
    let mut letters = word.chars();
    let begins_with_capital = letters
        .next()
        .is_some_and(|first| first.is_ascii_uppercase());
    let is_short = matches!(letters.clone().count(), 1 | 2);
    begins_with_capital
        && is_short
        && letters.all(|letter| letter.is_ascii_lowercase())
        && !word.contains(['A', 'E', 'I', 'O', 'U', 'Y', 'a', 'e', 'i', 'o', 'u', 'y'])
}

/// Returns whether a word is letters with full stops or hyphens between them, as `z.B`, `S.p.A` or
/// `J.-P`.
fn is_dotted(word: &str) -> bool {
    let mut pieces = word.split('.').map(|piece| piece.trim_start_matches('-'));
    word.contains('.') && pieces.all(is_one_or_two_letters)
}

fn is_one_or_two_letters(piece: &str) -> bool {
    matches!(piece.chars().count(), 1 | 2) && piece.chars().all(char::is_alphabetic)
}

/// Returns the word before which an article is elided, as `on` in `L'on`.
fn after_apostrophe(word: &str) -> &str {
    word.rsplit(['\'', '’']).next().unwrap_or(word)
}

fn is_ordinal(word: &str) -> bool {
    !word.is_empty() && word.len() <= ORDINAL && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the first word of a text in lower case.
fn first_word(text: &str) -> String {
    let text = text.trim_start_matches(|character: char| !character.is_alphanumeric());
    let end = text
        .find(|character: char| !character.is_alphanumeric())
        .unwrap_or(text.len());
    text[..end].to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a text at which its sentences end, but for the last.
    fn boundaries(text: &str, sentences: &[&str]) -> HashSet<usize> {
        let mut end = 0;
        let ends = sentences.iter().map(|sentence| {
            end += sentence.len();
            end
        });
        ends.filter(|end| *end < text.len()).collect()
    }

    /// A function from a text and its language to sentences, which joined are the text.
    type Splitter = fn(&str, &str) -> Vec<String>;

    /// The sentences that the rules were written with.
    const TUNED: &str = include_str!("../../tests/sentences.txt");
    /// Sentences that were written after the rules.
    const UNSEEN: &str = include_str!("../../tests/sentences-unseen.txt");

    /// The F1 of the boundaries that a splitter finds in a file of sentences, in percent.
    fn f1(gold: &str, split: Splitter) -> f64 {
        let mut common = 0;
        let mut all = 0;
        for section in gold.split("\n[").skip(1) {
            let (language, texts) = section.split_once(']').expect("a code and texts");
            let space = if ["ja", "zh"].contains(&language) {
                ""
            } else {
                " "
            };
            for text in texts.trim().split("\n\n") {
                let lines: Vec<String> =
                    text.lines().map(|line| format!("{line}{space}")).collect();
                let text = lines.concat();
                let gold: Vec<&str> = lines.iter().map(String::as_str).collect();
                let sentences = split(&text, language);
                assert_eq!(sentences.concat(), text);
                let sentences: Vec<&str> = sentences.iter().map(String::as_str).collect();
                let predicted = boundaries(&text, &sentences);
                let gold = boundaries(&text, &gold);
                common += predicted.intersection(&gold).count();
                all += predicted.len() + gold.len();
            }
        }
        200.0 * common as f64 / all as f64
    }

    fn by_unicode(text: &str, _: &str) -> Vec<String> {
        text.split_sentence_bounds().map(str::to_owned).collect()
    }

    fn by_lists(text: &str, language: &str) -> Vec<String> {
        let sentences = sentencex::get_sentence_boundaries(language, text);
        sentences
            .into_iter()
            .map(|sentence| sentence.text.to_owned())
            .collect()
    }

    fn by_both(text: &str, language: &str) -> Vec<String> {
        sentences(text, language)
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn both_together_with_rules_are_better_than_either() {
        let [unicode, lists, both] = [by_unicode, by_lists, by_both].map(|split| f1(TUNED, split));
        // For docs/serving.md.
        println!("F1 {both:.2} beside {unicode:.2} and {lists:.2}");
        assert!(
            unicode < 90.0 && lists < 90.0 && both >= 99.0,
            "{unicode:.2} {lists:.2} {both:.2}"
        );
    }

    #[test]
    fn both_together_are_better_than_either_on_text_that_no_rule_was_written_for() {
        let [unicode, lists, both] = [by_unicode, by_lists, by_both].map(|split| f1(UNSEEN, split));
        println!("F1 {both:.2} beside {unicode:.2} and {lists:.2}");
        assert!(
            unicode < 80.0 && lists < 80.0 && both >= 93.0,
            "{unicode:.2} {lists:.2} {both:.2}"
        );
    }
}
