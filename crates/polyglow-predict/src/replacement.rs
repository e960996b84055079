//! Unknown words of translations, replaced by the source words that they are aligned to (Jean et
//! al., 2015; Luong et al., 2015).

use std::ops::Range;

use polyglow_data::script::is_unspaced;
use polyglow_model::{Generate, Inspect, Pair};
use unicode_segmentation::UnicodeSegmentation;

use crate::attention::{UnitLink, unit_links};
use crate::error::Result;
use crate::runner::Runner;
use crate::tasks::Reads;
use crate::translate::Translated;

/// Characters that are copied from a script without spaces, at most: a longer token is no word, but
/// a sentence.
const MOST_COPIED: usize = 8;
/// Translations whose attention is computed at a time: that of all layers is in memory until the
/// last is taken.
const AT_A_TIME: usize = 32;

impl<M: Generate + Inspect<Inputs: From<Pair>>> Runner<M> {
    /// Replaces the unknown words of translations by the source words that they look at most in the
    /// last layer, so that no text has an `<unk>`. `translations` are those of each of the
    /// `sources`, in their order.
    ///
    /// Punctuation that a translation has around an unknown word stays, and that of the source word
    /// is left out. In a script without spaces between words the unknown token alone is replaced;
    /// of a source in such a script, the tokens that it looks at are taken. Where a model has no
    /// attention to the source, the source word or character at the same share of the line is
    /// taken; without a source word, the unknown one is left out.
    ///
    /// # Errors
    /// A text cannot be encoded.
    pub fn replace_unknown(
        &self,
        sources: &[&str],
        translations: &mut [Vec<Translated>],
    ) -> Result<()> {
        let unknown = self.tgt.token(self.tgt.special().unk).unwrap_or_default();
        let mut affected: Vec<(&str, &mut String)> = Vec::new();
        for (source, hypotheses) in sources.iter().zip(translations) {
            let texts = hypotheses.iter_mut().map(|hypothesis| &mut hypothesis.text);
            affected.extend(
                texts
                    .filter(|text| has_unknown(text, &unknown))
                    .map(|text| (*source, text)),
            );
        }
        for affected in affected.chunks_mut(AT_A_TIME) {
            let links = self.links(affected)?;
            for ((source, text), links) in affected.iter_mut().zip(links) {
                **text = replaced(text, &unknown, source, &links);
            }
        }
        Ok(())
    }

    /// The links of the words of each text; none where a model has no attention to the source.
    fn links(&self, pairs: &[(&str, &mut String)]) -> Result<Vec<Vec<UnitLink>>> {
        if self.task.facts().reads != Reads::Pair {
            return Ok(vec![Vec::new(); pairs.len()]);
        }
        let pairs: Vec<[&str; 2]> = pairs
            .iter()
            .map(|(source, text)| [*source, text.as_str()])
            .collect();
        unit_links(self, &pairs)
    }
}

/// Whether a text has the unknown token: as a word of its own, or within a word if it cannot be
/// mistaken for letters.
fn has_unknown(text: &str, unknown: &str) -> bool {
    text.split_whitespace()
        .any(|word| !occurrences(word, unknown).is_empty())
}

/// The bytes of the unknown tokens in a word. One of letters is no part of a longer run of letters,
/// but in a script without spaces words stand beside it.
fn occurrences(word: &str, unknown: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if unknown.is_empty() {
        return found;
    }
    let is_plain = unknown.chars().all(char::is_alphanumeric);
    for (start, _) in word.match_indices(unknown) {
        let end = start + unknown.len();
        let is_apart = !word[..start].ends_with(is_spaced_letter)
            && !word[end..].starts_with(is_spaced_letter);
        if is_apart || !is_plain {
            found.push(start..end);
        }
    }
    found
}

/// Whether a character is a letter or digit of a script that has spaces between words.
fn is_spaced_letter(character: char) -> bool {
    character.is_alphanumeric() && !is_unspaced(character)
}

/// A text with source words in the positions of its unknown ones.
fn replaced(text: &str, unknown: &str, source: &str, links: &[UnitLink]) -> String {
    let copying = Copying {
        source,
        sources: units(source, ""),
        targets: units(text, unknown),
        links,
    };
    let mut replaced = String::with_capacity(text.len());
    let mut end = 0;
    for Range {
        start,
        end: word_end,
    } in words(text)
    {
        replaced.push_str(&text[end..start]);
        end = word_end;
        let word = &text[start..end];
        let tokens = occurrences(word, unknown);
        if tokens.is_empty() {
            replaced.push_str(word);
            continue;
        }
        let with_copies = if word.contains(is_unspaced) {
            copying.replace_tokens(word, start, &tokens)
        } else {
            copying.replace_word(word, start, &tokens)
        };
        if with_copies.is_empty() {
            replaced.truncate(replaced.trim_end().len());
        }
        replaced.push_str(&with_copies);
    }
    replaced.push_str(&text[end..]);
    replaced.trim().to_owned()
}

/// The units and links by which source words are copied.
struct Copying<'t> {
    source: &'t str,
    /// The units of the source and of the translation, by their bytes.
    sources: Vec<Range<usize>>,
    targets: Vec<Range<usize>>,
    links: &'t [UnitLink],
}

impl Copying<'_> {
    /// A word in a script without spaces, which begins at a byte of the translation, with a copy in
    /// place of each unknown token, but one of tokens side by side that are of the same part of the
    /// source.
    fn replace_tokens(&self, word: &str, start: usize, tokens: &[Range<usize>]) -> String {
        let mut replaced = String::new();
        let mut end = 0;
        let mut previous = None;
        for token in tokens {
            let is_beside = token.start == end;
            replaced.push_str(&word[end..token.start]);
            end = token.end;
            let copied = self.copied(start + token.start..start + token.end);
            if !is_beside || copied != previous {
                replaced.push_str(
                    copied
                        .clone()
                        .map_or("", |copied| bare(&self.source[copied])),
                );
            }
            previous = copied;
        }
        replaced.push_str(&word[end..]);
        replaced
    }

    /// A copy in place of the unknown tokens of a word, where only punctuation is around them, or
    /// else in place of the whole word, since what is known of it is a part of the same word.
    fn replace_word(&self, word: &str, start: usize, tokens: &[Range<usize>]) -> String {
        let Some(copied) = self.copied(start..start + word.len()) else {
            return String::new();
        };
        let copied = &self.source[copied];
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
            return word.to_owned();
        };
        let before = &word[..first.start];
        let after = &word[last.end..];
        let has_letters = before
            .chars()
            .chain(after.chars())
            .any(char::is_alphanumeric);
        if has_letters || before.is_empty() && after.is_empty() {
            // Punctuation of a script without spaces is not that of the translation.
            return if copied.contains(is_unspaced) {
                bare(copied)
            } else {
                copied
            }
            .to_owned();
        }
        format!("{before}{}{after}", bare(copied))
    }

    /// The bytes of the source that a part of the translation is of; none if the source has no
    /// words.
    fn copied(&self, target: Range<usize>) -> Option<Range<usize>> {
        let link = self
            .links
            .iter()
            .find(|(_, linked)| linked.start < target.end && target.start < linked.end);
        link.and_then(|(linked, _)| self.whole_units(linked))
            .or_else(|| self.at_same_share(target.start))
    }

    /// The units that a linked part of the source is in, since that may be a part of a word in
    /// another script; none if they are too many for one word.
    fn whole_units(&self, linked: &Range<usize>) -> Option<Range<usize>> {
        let first = self
            .sources
            .partition_point(|unit| unit.end <= linked.start);
        let end = self.sources.partition_point(|unit| unit.start < linked.end);
        let units = self
            .sources
            .get(first..end)
            .filter(|units| units.len() <= MOST_COPIED)?;
        Some(units.first()?.start..units.last()?.end)
    }

    /// The source unit at the same share of the text as the unit around a byte of the translation.
    fn at_same_share(&self, target: usize) -> Option<Range<usize>> {
        let index = self.targets.partition_point(|unit| unit.end <= target);
        let source = index * self.sources.len() / self.targets.len().max(1);
        self.sources.get(source).cloned()
    }
}

/// The bytes of the units of a text, in order: words, or in a word of a script without spaces each
/// character of it, each unknown token and each run of letters of other scripts. Punctuation is
/// part of the unit before it.
fn units(text: &str, unknown: &str) -> Vec<Range<usize>> {
    let mut units: Vec<Range<usize>> = Vec::new();
    for Range { start, end } in words(text) {
        let word = &text[start..end];
        if !word.contains(is_unspaced) {
            units.push(start..end);
            continue;
        }
        let tokens = occurrences(word, unknown);
        let mut is_after_letter = false;
        for (at, character) in word.grapheme_indices(true) {
            let is_inside_token = tokens
                .iter()
                .any(|token| token.start < at && at < token.end);
            let is_letter = character.starts_with(is_spaced_letter);
            let begins_token = tokens.iter().any(|token| token.start == at);
            let begins_unit =
                character.starts_with(char::is_alphanumeric) && !(is_letter && is_after_letter);
            let bytes = start + at..start + at + character.len();
            match units.last_mut() {
                Some(last) if at > 0 && (is_inside_token || !begins_token && !begins_unit) => {
                    last.end = bytes.end;
                }
                _ => units.push(bytes),
            }
            is_after_letter = is_letter;
        }
    }
    units
}

/// The bytes of the words of a text, which white space divides.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut end = 0;
    for part in text.split_inclusive(char::is_whitespace) {
        let word = part.trim_end();
        if !word.is_empty() {
            words.push(end..end + word.len());
        }
        end += part.len();
    }
    words
}

/// A word without the punctuation around it; one that is nothing else as it is.
fn bare(word: &str) -> &str {
    // A mark that belongs to a letter, such as a tone of Thai, is no punctuation.
    let mut letters = word
        .grapheme_indices(true)
        .filter(|(_, grapheme)| grapheme.starts_with(char::is_alphanumeric));
    let Some((start, first)) = letters.next() else {
        return word;
    };
    let (last_start, last) = letters.next_back().unwrap_or((start, first));
    &word[start..last_start + last.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links between the words with these numbers, `(source, target)`.
    fn word_links(source: &str, target: &str, links: &[(usize, usize)]) -> Vec<UnitLink> {
        let (source, target) = (words(source), words(target));
        let link = |(from, to): &(usize, usize)| {
            Some((source.get(*from)?.clone(), target.get(*to)?.clone()))
        };
        links.iter().filter_map(link).collect()
    }

    /// A text with the part `copied` of the source linked to each of its unknown tokens in turn.
    fn replaced_by(text: &str, source: &str, copied: &[&str]) -> String {
        let linked = copied.iter().map(|part| {
            let start = source.find(part).expect("it is a part of the source");
            start..start + part.len()
        });
        let tokens = text
            .match_indices("<unk>")
            .map(|(start, token)| start..start + token.len());
        let links: Vec<UnitLink> = linked.zip(tokens).collect();
        replaced(text, "<unk>", source, &links)
    }

    #[test]
    fn unknown_words_become_the_source_words_that_they_look_at_most() {
        for (text, source, expected) in [
            ("die <unk> <unk>", "Anna Brown the", "die Anna Brown"),
            (
                "die  Katze\u{a0}<unk>",
                "Anna Brown the",
                "die  Katze\u{a0}Brown",
            ),
            // Punctuation is that of the translation, once.
            (
                "die (<unk>) <unk>,",
                "Anna, Brown. the",
                "die (Anna) Brown,",
            ),
            // What is known of a word in part is left out.
            (
                "die un<unk>n <unk><unk>!",
                "Anna, Brown the",
                "die Anna, Brown!",
            ),
            ("die <unk>. a", "-- Brown the", "die --. a"),
            ("<unk>", "", ""),
            ("a <unk> b", " ", "a b"),
        ] {
            let links = word_links(source, text, &[(2, 0), (0, 1), (1, 2)]);
            assert_eq!(replaced(text, "<unk>", source, &links), expected, "{text}");
        }
    }

    #[test]
    fn without_attention_the_source_word_at_the_same_share_of_the_line_is_taken() {
        assert_eq!(
            replaced("<unk> b <unk> <unk>", "<unk>", "one two", &[]),
            "one b two two"
        );
        // The words beyond the longest that the model reads have no weights.
        let links = word_links("one two", "a <unk>", &[(0, 0)]);
        assert_eq!(replaced("a <unk>", "<unk>", "one two", &links), "a two");
        for (text, source, expected) in [
            // The third of five characters, and the second of two words.
            ("我们<unk>来了", "一二三四五", "我们三来了"),
            ("come <unk>", "二一", "come 一"),
            ("我<unk>", "one two", "我two"),
            ("<unk>ดี", "ที่บ้าน", "ที่ดี"),
        ] {
            assert_eq!(replaced(text, "<unk>", source, &[]), expected, "{text}");
        }
    }

    #[test]
    fn a_target_without_spaces_has_source_words_in_place_of_its_unknown_tokens() {
        for (text, source, copied, expected) in [
            (
                "我喜欢<unk>的狗。",
                "I like Rex's dog.",
                &["Rex's"][..],
                "我喜欢Rex's的狗。",
            ),
            (
                "<unk>和<unk>来了。",
                "Max and “Rex” came.",
                &["Max", "“Rex”"],
                "Max和Rex来了。",
            ),
            // Side by side of one word they are one copy, and of two words two.
            (
                "我喜欢<unk><unk>。",
                "I like Rex.",
                &["Rex.", "Rex."],
                "我喜欢Rex。",
            ),
            (
                "我喜欢<unk><unk>。",
                "I like Rex Max",
                &["Rex", "Max"],
                "我喜欢RexMax。",
            ),
            (
                "<unk>さんは犬が好きです。",
                "Kowalski likes dogs.",
                &["Kowalski"],
                "Kowalskiさんは犬が好きです。",
            ),
            ("ฉันชอบ<unk>", "I like Rex.", &["Rex."], "ฉันชอบRex"),
            // A word of its own, where a tokenizer divides words by spaces.
            (
                "我 喜欢 <unk> 。",
                "I like Rex.",
                &["Rex."],
                "我 喜欢 Rex. 。",
            ),
        ] {
            assert_eq!(replaced_by(text, source, copied), expected, "{text}");
        }
    }

    #[test]
    fn of_a_source_without_spaces_the_linked_characters_are_copied() {
        for (text, source, copied, expected) in [
            (
                "I like <unk>.",
                "我喜欢北京。",
                &["北京"][..],
                "I like 北京.",
            ),
            // Punctuation of the token is left out, also where there is none in the translation.
            ("the <unk> sleeps", "睡着的狗。", &["狗。"], "the 狗 sleeps"),
            // Of a word in another script all is taken, in place of a whole word.
            ("<unk>'s dog", "我喜欢Rex的狗。", &["ex"], "Rex dog"),
            ("(<unk>)", "我喜欢Rex的狗。", &["R"], "(Rex)"),
            ("<unk> came", "ที่บ้านสมชาย", &["ที่"], "ที่ came"),
            // A token that is a sentence is no word: the sixth of ten characters stands at the same
            // share.
            (
                "a <unk>",
                "一二三四五六七八九十",
                &["一二三四五六七八九十"],
                "a 六",
            ),
        ] {
            assert_eq!(replaced_by(text, source, copied), expected, "{text}");
        }
    }

    #[test]
    fn between_scripts_without_spaces_characters_are_copied_one_for_one() {
        for (text, source, copied, expected) in [
            (
                "我喜欢<unk>的狗。",
                "私は太郎の犬が好きです。",
                &["太郎"][..],
                "我喜欢太郎的狗。",
            ),
            (
                "<unk>と<unk>。",
                "張偉和李娜。",
                &["張偉", "李娜。"],
                "張偉と李娜。",
            ),
            ("ฉันชอบ<unk>ครับ", "我喜欢猫。", &["猫。"], "ฉันชอบ猫ครับ"),
            ("我<unk><unk>来", "太郎来", &["太", "郎"], "我太郎来"),
        ] {
            assert_eq!(replaced_by(text, source, copied), expected, "{text}");
        }
    }

    #[test]
    fn a_token_of_letters_is_unknown_as_a_word_alone() {
        assert!(has_unknown("the UNK sleeps", "UNK") && !has_unknown("JUNK", "UNK"));
        assert!(has_unknown("a[UNK]b", "[UNK]") && !has_unknown("the dog", "<unk>"));
        assert!(
            has_unknown("我喜欢UNK的狗", "UNK")
                && !has_unknown("我喜欢JUNK的狗", "UNK")
                && !has_unknown("a", "")
        );
        assert_eq!(
            replaced("我喜欢UNK的狗", "UNK", "Rex", &[]),
            "我喜欢Rex的狗"
        );
    }
}
