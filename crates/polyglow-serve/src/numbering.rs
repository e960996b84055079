//! The numbers of the sentences of a request. Where samples are drawn, the draws of a sentence
//! depend on its numbers and the seed alone.

use polyglow_predict::translate::Request;

use crate::document::Document;

/// Returns the number of the text with this index: texts are counted from 1, as the lines of a file
/// are.
pub(crate) fn number(text: usize) -> u64 {
    text as u64 + 1
}

/// Returns the sentences of texts, each with the number of its text and its own index in it. The
/// draws of a text so do not depend on the number of sentences in the texts before it.
pub(crate) fn requests(documents: &[Document]) -> Vec<Request> {
    let mut requests = Vec::new();
    for (text, document) in documents.iter().enumerate() {
        for (part, source) in (0..).zip(document.sentences()) {
            let number = Some(number(text));
            requests.push(Request {
                text: source.to_owned(),
                number,
                part,
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
    fn sentences_are_numbered_by_their_text_and_by_their_index_in_it() {
        let documents = ["One. Two.", "", "Three."].map(|text| Document::from_text(text, "en"));
        let numbers: Vec<_> = requests(&documents)
            .iter()
            .map(|request| (request.number, request.part))
            .collect();
        assert_eq!(numbers, [(Some(1), 0), (Some(1), 1), (Some(3), 0)]);
    }
}
