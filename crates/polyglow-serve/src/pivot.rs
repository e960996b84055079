//! Translation of documents by one model, or by two over a pivot language.

use polyglow_model::search::SearchRequest;
use polyglow_predict::translate::Request;

use crate::document::{Document, run_aside};
use crate::engine::{LinkedTranslation, TranslateOptions};
use crate::failure::Failure;
use crate::html::{Link, Translation};
use crate::numbering;
use crate::server::Shared;

impl Shared {
    /// Returns up to `n_best` translations of each document, the best first. `route` names the
    /// models, one after the other; without a model, each document is its own translation.
    ///
    /// # Errors
    /// Too many requests wait; it takes too long; the models fail.
    pub(crate) async fn translate_documents(
        &self,
        route: &[usize],
        documents: Vec<Document>,
        n_best: usize,
    ) -> Result<Vec<Vec<String>>, Failure> {
        // Links cost another pass through the model, and only tags inside sentences need them.
        let links = documents.iter().any(Document::needs_links);
        let sentences = numbering::requests(&documents);
        let translations = self.translate_through(route, &sentences, n_best, links);
        let translations = tokio::time::timeout(self.limits.time, translations)
            .await
            .unwrap_or_else(|_| Err(Failure::timeout()))?;
        let num_bytes = documents.iter().map(Document::num_bytes).sum::<usize>() * n_best;
        run_aside(num_bytes, move || {
            versions(&documents, &translations, n_best)
        })
        .await
    }

    /// Returns the best translations of each sentence: one by each model but the last, `n_best` by
    /// that. With `links`, the parts of a translation are linked with those of the sentence.
    async fn translate_through(
        &self,
        route: &[usize],
        sentences: &[Request],
        n_best: usize,
        links: bool,
    ) -> Result<Vec<Vec<Translation>>, Failure> {
        let mut translations: Vec<Vec<Translation>> = sentences.iter().map(untranslated).collect();
        if sentences.is_empty() || route.is_empty() {
            return Ok(translations);
        }
        // One permit for all models: with a permit for each, a full queue could turn the request
        // away after its first translation.
        let permit = self.engine.permit()?;
        for (step, &model) in route.iter().enumerate() {
            let is_last = step + 1 == route.len();
            let options = TranslateOptions {
                model,
                search: SearchRequest {
                    n_best: if is_last { n_best } else { 1 },
                    ..SearchRequest::default()
                },
                attention: false,
                links,
            };
            let sources: Vec<Translation> = translations
                .into_iter()
                .map(|mut best| best.swap_remove(0))
                .collect();
            let requests = sources
                .iter()
                .zip(sentences)
                .map(|(source, sentence)| request(source, sentence))
                .collect();
            let hypotheses = self
                .engine
                .translate_all(&permit, options, requests)
                .await?;
            translations = Vec::with_capacity(hypotheses.len());
            for (best, source) in hypotheses.into_iter().zip(&sources) {
                // The first model links with the sentence itself. Later ones link with the text of
                // the model before, whose links lead on to the sentence.
                let pivot = Some(source).filter(|_| step > 0);
                let best = best.into_iter();
                translations.push(best.map(|one| translation(one, pivot)).collect());
            }
        }
        Ok(translations)
    }
}

/// Returns each document with the best translations of its sentences, with the second best, and so
/// on up to `n_best`.
fn versions(
    documents: &[Document],
    mut translations: &[Vec<Translation>],
    n_best: usize,
) -> Vec<Vec<String>> {
    let mut versions = Vec::with_capacity(documents.len());
    for document in documents {
        let (own, rest) = translations.split_at(document.sentences().len());
        translations = rest;
        let ranks = 0..n_best;
        versions.push(
            ranks
                .map(|rank| document.with(&with_rank(own, rank)))
                .collect(),
        );
    }
    versions
}

/// Returns the translation of each sentence with this rank, or its last if it has fewer.
fn with_rank(sentences: &[Vec<Translation>], rank: usize) -> Vec<Translation> {
    let mut translations = Vec::with_capacity(sentences.len());
    for best in sentences {
        let ranked = best.get(rank).or(best.last());
        translations.push(ranked.cloned().unwrap_or_default());
    }
    translations
}

/// Returns a sentence as the only translation of itself.
fn untranslated(sentence: &Request) -> Vec<Translation> {
    vec![Translation {
        text: sentence.text.clone(),
        links: Vec::new(),
    }]
}

/// Returns the request to translate `source`, numbered as `sentence`: samples are drawn by these
/// numbers, so they stay those of the client's text in each step.
fn request(source: &Translation, sentence: &Request) -> Request {
    Request {
        text: source.text.clone(),
        number: sentence.number,
        part: sentence.part,
        ..Request::default()
    }
}

/// Returns a translation with its links to the sentence of the client. `pivot` is the text that was
/// translated, if that is a translation itself.
fn translation(linked: LinkedTranslation, pivot: Option<&Translation>) -> Translation {
    let links: Vec<Link> = linked
        .links
        .into_iter()
        .map(|(source, target)| Link { source, target })
        .collect();
    let links = match pivot {
        Some(pivot) => join_links(&pivot.links, &links),
        None => links,
    };
    Translation {
        text: linked.translation.text,
        links,
    }
}

/// Joins links to a pivot text with links from it, where they share bytes of it.
fn join_links(to_pivot: &[Link], from_pivot: &[Link]) -> Vec<Link> {
    let mut links = Vec::new();
    for from in from_pivot {
        for to in to_pivot {
            if to.target.start < from.source.end && from.source.start < to.target.end {
                links.push(Link {
                    source: to.source.clone(),
                    target: from.target.clone(),
                });
            }
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn link(source: Range<usize>, target: Range<usize>) -> Link {
        Link { source, target }
    }

    #[test]
    fn links_lead_over_a_pivot_text() {
        let first = [link(0..3, 4..7), link(4..9, 0..3)];
        let second = [link(0..7, 0..2), link(4..7, 3..5), link(8..9, 6..7)];
        let expected = [link(0..3, 0..2), link(4..9, 0..2), link(0..3, 3..5)];
        assert_eq!(join_links(&first, &second), expected);
    }
}
