//! The numbers of sentences in a request: what their draws depend on besides the seed, where
//! samples are drawn.

use polyglow_predict::translate::Request;

use crate::document::Document;

/// Bits of the number of a text; the number of a sentence in it is in those above.
const TEXT_BITS: u32 = 20;

/// The number of a sentence: texts are counted from 1, as the lines of a file are, and sentences in
/// a text from 0, so that the draws of a text do not depend on how many sentences the texts before
/// it have.
pub(crate) fn number(text: usize, sentence: usize) -> u64 {
    (text as u64 + 1) | (sentence as u64) << TEXT_BITS
}

/// The sentences of some texts, each with its number.
pub(crate) fn requests(documents: &[Document]) -> Vec<Request> {
    let mut requests = Vec::new();
    for (text, document) in documents.iter().enumerate() {
        for (sentence, source) in document.sentences().into_iter().enumerate() {
            let number = Some(number(text, sentence));
            requests.push(Request {
                text: source.to_owned(),
                number,
                ..Request::default()
            });
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_numbered_by_their_text_and_by_their_place_in_it() {
        let documents = ["One. Two.", "", "Three."].map(|text| Document::of_text(text, "en"));
        let numbers: Vec<Option<u64>> = requests(&documents)
            .iter()
            .map(|request| request.number)
            .collect();
        assert_eq!(numbers, [Some(1), Some(1 | 1 << 20), Some(3)]);
    }
}
