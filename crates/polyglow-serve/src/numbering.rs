//! The numbers of sentences in a request: what their draws depend on besides the seed, where
//! samples are drawn.

use polyglow_predict::translate::Request;

use crate::document::Document;

/// The number of a text: texts are counted from 1, as the lines of a file are.
pub(crate) fn number(text: usize) -> u64 {
    text as u64 + 1
}

/// The sentences of some texts, each with the number of its text and its own in it, so that the
/// draws of a text do not depend on how many sentences the texts before it have.
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
