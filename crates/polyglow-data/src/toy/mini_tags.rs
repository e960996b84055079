//! The `mini-tags` corpus: the English sentences of `mini-en-de` with the part of speech of each
//! word, from the grammar.
//!
//! The tags are those of Universal Dependencies: `ADJ`, `ADP`, `ADV`, `AUX`, `DET`, `NOUN`, `NUM`,
//! `PART`, `PRON`, `PUNCT`, `SCONJ` and `VERB`. They say which part the grammar has given a word in
//! its sentence: "that" is `SCONJ` in "she knows that he sleeps", and `PRON` in "the book that he
//! buys"; no other word is in two classes. As in the English treebanks, possessives are `PRON`,
//! "to" and "not" are `PART`, and each word of an expression has a tag of its own: "look for" is
//! `VERB ADP`, "in front of" is `ADP NOUN ADP`. Words such as "today" are `ADV`.

use std::path::Path;

use super::mini_en_de::{self, Sentence};
use super::{Toy, write_files};
use crate::error::DataError;
use crate::pair::Pair;

/// The sentences of `mini-en-de` in English, with the part of speech of each word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MiniTags;

impl MiniTags {
    /// The name of the corpus in configs and commands.
    pub const NAME: &str = "mini-tags";

    /// The names of the splits, `train` first: those of [`Toy::MiniEnDe`].
    pub const SPLITS: &[&str] = Toy::MiniEnDe.splits();

    /// Generates one split; `None` if the corpus has no split of that name.
    ///
    /// The source of a pair is a sentence, its target the tags; both have single spaces between
    /// them. Sentences and their order are those of [`Toy::split`], and so is the cost.
    ///
    /// ```
    /// use polyglow_data::toy::MiniTags;
    ///
    /// let test = MiniTags.pairs("test").expect("there is a split of that name");
    /// assert_eq!(test[0].src.split(' ').count(), test[0].tgt.split(' ').count());
    /// ```
    pub fn pairs(self, split: &str) -> Option<Vec<Pair>> {
        self.generate()
            .into_iter()
            .find_map(|(name, pairs)| (name == split).then_some(pairs))
    }

    /// Generates all splits, in the order of [`MiniTags::SPLITS`]; the pairs are those of
    /// [`MiniTags::pairs`].
    pub fn generate(self) -> Vec<(&'static str, Vec<Pair>)> {
        let mut splits: Vec<_> = mini_en_de::draw()
            .into_iter()
            .map(|(split, sentences)| (split, sentences.into_iter().map(tagged).collect()))
            .collect();
        splits.sort_by_key(|(name, _)| Self::SPLITS.iter().position(|split| split == name));
        splits
    }

    /// Writes `<split>.conll` for every split into `dir`: `word<TAB>tag` on each line, and a blank
    /// line after each sentence. Creates `dir` if it does not exist.
    ///
    /// # Errors
    /// As [`Toy::write`].
    pub fn write(self, dir: &Path) -> Result<(), DataError> {
        let mut files = Vec::new();
        for (split, pairs) in self.generate() {
            let mut text = String::new();
            for pair in pairs {
                for (word, tag) in pair.src.split(' ').zip(pair.tgt.split(' ')) {
                    text.extend([word, "\t", tag, "\n"]);
                }
                text.push('\n');
            }
            files.push((format!("{split}.conll"), text));
        }
        write_files(dir, files)
    }
}

fn tagged(sentence: Sentence) -> Pair {
    Pair {
        src: sentence.pair.src,
        tgt: sentence.tags,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// The words that have each tag somewhere in the corpus.
    fn words_of_tags() -> BTreeMap<String, BTreeSet<String>> {
        let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pair in MiniTags.generate().iter().flat_map(|(_, pairs)| pairs) {
            for (word, tag) in pair.src.split(' ').zip(pair.tgt.split(' ')) {
                words
                    .entry(tag.to_owned())
                    .or_default()
                    .insert(word.to_owned());
            }
        }
        words
    }

    #[test]
    fn each_word_of_the_translation_corpus_has_a_tag() {
        for ((split, pairs), (same, tagged)) in
            Toy::MiniEnDe.generate().iter().zip(MiniTags.generate())
        {
            assert_eq!(*split, same);
            assert_eq!(pairs.len(), tagged.len());
            for (pair, tagged) in pairs.iter().zip(tagged) {
                assert_eq!(pair.src, tagged.src);
                let num_words = tagged.src.split(' ').count();
                assert_eq!(num_words, tagged.tgt.split(' ').count(), "{}", tagged.src);
            }
        }
    }

    #[test]
    fn a_split_is_found_by_its_name() {
        assert!(
            MiniTags
                .pairs("valid")
                .is_some_and(|pairs| pairs.len() == 500)
        );
        assert!(MiniTags.pairs("dev").is_none());
    }

    #[test]
    fn tags_are_those_of_a_reader() {
        let sentences: Vec<Pair> = MiniTags
            .generate()
            .into_iter()
            .flat_map(|(_, pairs)| pairs)
            .collect();
        for (src, tgt) in [
            (
                "do we want to show your clever teachers a letter ?",
                "AUX PRON VERB PART VERB PRON ADJ NOUN DET NOUN PUNCT",
            ),
            (
                "if she has visited their house near this village , you have not painted us .",
                "SCONJ PRON AUX VERB PRON NOUN ADP DET NOUN PUNCT PRON AUX PART VERB PRON PUNCT",
            ),
            (
                "today the child who will hear the mouse in front of the streets waits .",
                "ADV DET NOUN PRON AUX VERB DET NOUN ADP NOUN ADP DET NOUN VERB PUNCT",
            ),
            (
                "often the sister looks for his old trees .",
                "ADV DET NOUN VERB ADP PRON ADJ NOUN PUNCT",
            ),
            (
                "we have picked up the young woman .",
                "PRON AUX VERB ADP DET ADJ NOUN PUNCT",
            ),
            (
                "a friend believes that I dance .",
                "DET NOUN VERB SCONJ PRON VERB PUNCT",
            ),
            (
                "I do not buy the red book that he has opened .",
                "PRON AUX PART VERB DET ADJ NOUN PRON PRON AUX VERB PUNCT",
            ),
        ] {
            let sentence = sentences.iter().find(|pair| pair.src == src);
            assert_eq!(sentence.expect("the corpus has it").tgt, tgt, "{src}");
        }
    }

    #[test]
    fn closed_classes_have_the_words_of_a_grammar_book() {
        let words = words_of_tags();
        for (tag, expected) in [
            ("ADP", "behind for in near of up"),
            ("ADV", "now often today tomorrow yesterday"),
            ("AUX", "can do does has have must will"),
            ("DET", "a an every the these this"),
            ("NUM", "five four seven six three two"),
            ("PART", "not to"),
            (
                "PRON",
                "I he her him his me my our she that their them they us we who you your",
            ),
            ("PUNCT", ", . ?"),
            ("SCONJ", "although because if that"),
        ] {
            let found: Vec<&str> = words[tag].iter().map(String::as_str).collect();
            assert_eq!(found.join(" "), expected, "{tag}");
        }
        assert_eq!(words["ADJ"].len(), 16);
        // Both numbers of 32 nouns, and "front".
        assert_eq!(words["NOUN"].len(), 65);
        assert_eq!(words.len(), 12);
    }

    #[test]
    fn only_that_is_in_two_classes() {
        let words = words_of_tags();
        let classes = |word: &str| words.values().filter(|class| class.contains(word)).count();
        let all: BTreeSet<&String> = words.values().flatten().collect();
        let ambiguous: Vec<&&String> = all.iter().filter(|word| classes(word) > 1).collect();
        assert_eq!(ambiguous, [&"that"]);
    }
}
