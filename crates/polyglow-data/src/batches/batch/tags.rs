//! Texts with a tag for each word.

use crate::alignment::Link;
use crate::example::Example;
use crate::padded::Padded;
use crate::special::SpecialIds;

/// Padded texts, and the tags of their words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TagBatch {
    /// The texts, each with EOS, `[batch, len]`.
    pub texts: Padded,
    /// At the first token of each word its tag, as an id of the tags' tokenizer, and padding
    /// elsewhere, `[batch, len]` row by row.
    pub tags: Vec<i32>,
    /// The number of tags.
    pub num_tags: usize,
}

impl TagBatch {
    /// Makes a batch of texts in the sources of examples, and tags in their targets. The links of
    /// an example, sorted by tags, lead from the tokens of each word to its tag; a word without
    /// tokens has none. `pad_tag` is the id of padding among the tags.
    pub fn new(
        examples: &[Example],
        links: &[Vec<Link>],
        text: SpecialIds,
        pad_tag: u32,
        pad_multiple: usize,
    ) -> Self {
        let rows: Vec<&[u32]> = examples.iter().map(|example| &*example.src).collect();
        let texts = Padded::ended(&rows, text.eos, text.pad, pad_multiple);
        let mut tags = vec![pad_tag as i32; texts.ids.len()];
        let mut num_tags = 0;
        let rows = tags.chunks_mut(texts.len.max(1));
        for ((row, example), links) in rows.zip(examples).zip(links) {
            for word in links.chunk_by(|left, right| left.1 == right.1) {
                // Only the first token of a word is scored, so that a word counts once however many
                // tokens it has.
                let (token, tag) = word[0];
                row[token] = example.tgt[tag] as i32;
                num_tags += 1;
            }
        }
        Self {
            texts,
            tags,
            num_tags,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_stands_at_the_first_token_of_its_word() {
        let examples = [
            Example {
                src: vec![10, 11, 12, 13],
                tgt: vec![20, 21],
            },
            // Its second word has no tokens.
            Example {
                src: vec![14],
                tgt: vec![22, 23],
            },
        ];
        let links = [vec![(0, 0), (1, 1), (2, 1), (3, 1)], vec![(0, 0)]];
        let special = SpecialIds {
            pad: 0,
            bos: 1,
            eos: 2,
            unk: 3,
        };
        let batch = TagBatch::new(&examples, &links, special, 9, 1);
        assert_eq!(batch.texts.ids, [10, 11, 12, 13, 2, 14, 2, 0, 0, 0]);
        assert_eq!(batch.tags, [20, 21, 9, 9, 9, 22, 9, 9, 9, 9]);
        assert_eq!(batch.num_tags, 3);
    }
}
