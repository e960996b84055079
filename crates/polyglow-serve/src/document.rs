//! Texts and pages as sentences, with all that is between them.

use polyglow_predict::sentences::{self, gap};
use tokio::task::spawn_blocking;

use crate::failure::Failure;
use crate::html::{Options, Page, Translation};

/// Bytes of texts that are worth a thread: reading fewer takes less than a millisecond, and the way to
/// another thread would let later requests overtake.
const LONG: usize = 1 << 14;

/// What a text is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// Spaces, line breaks, symbols.
    Kept(String),
    /// A sentence, which is to be translated.
    Sentence(String),
}

impl Part {
    fn num_bytes(&self) -> usize {
        match self {
            Self::Kept(text) | Self::Sentence(text) => text.len(),
        }
    }
}

/// A text or a page in parts.
#[derive(Clone, Debug)]
pub(crate) enum Document {
    Text(Vec<Part>),
    Page(Page),
}

impl Document {
    /// Cuts a text into lines, and lines into sentences, by the abbreviations of a language.
    pub(crate) fn from_text(text: &str, language: &str) -> Self {
        let part = |part| match part {
            sentences::Part::Kept(kept) => Part::Kept(kept.to_owned()),
            sentences::Part::Sentence(sentence) => Part::Sentence(sentence.to_owned()),
        };
        Self::Text(
            sentences::parts(text, language)
                .into_iter()
                .map(part)
                .collect(),
        )
    }

    /// A text that is not cut.
    pub(crate) fn from_sentence(text: &str) -> Self {
        Self::Text(vec![Part::Sentence(text.to_owned())])
    }

    /// Cuts the text of a page into sentences, without the tags inside them.
    pub(crate) fn from_html(page: &str, options: Options) -> Self {
        Self::Page(Page::read(page, options))
    }

    /// The parts of a text; a page has none, since it is whole only with its translations.
    pub(crate) fn parts(&self) -> &[Part] {
        match self {
            Self::Text(parts) => parts,
            Self::Page(_) => &[],
        }
    }

    /// The sentences, in order.
    pub(crate) fn sentences(&self) -> Vec<&str> {
        match self {
            Self::Text(parts) => parts.iter().filter_map(sentence).collect(),
            Self::Page(page) => page.sentences().collect(),
        }
    }

    /// Returns the length of the text or page that was read, in bytes.
    pub(crate) fn num_bytes(&self) -> usize {
        match self {
            Self::Text(parts) => parts.iter().map(Part::num_bytes).sum(),
            Self::Page(page) => page.num_bytes(),
        }
    }

    /// Whether links between words are of use.
    pub(crate) fn needs_links(&self) -> bool {
        matches!(self, Self::Page(page) if page.needs_links())
    }

    /// The text or page with these in place of its sentences, as many as there are.
    pub(crate) fn with(&self, translations: &[Translation]) -> String {
        let parts = match self {
            Self::Text(parts) => parts,
            Self::Page(page) => return page.with(translations),
        };
        let mut translations = translations.iter();
        let mut text = String::new();
        let mut follows_sentence = false;
        for part in parts {
            let is_sentence = matches!(part, Part::Sentence(_));
            match part {
                Part::Kept(kept) => text.push_str(kept),
                Part::Sentence(_) => {
                    let translation = translations
                        .next()
                        .map_or("", |translation| &translation.text);
                    if follows_sentence {
                        text.push_str(gap(&text, translation));
                    }
                    text.push_str(translation);
                }
            }
            follows_sentence = is_sentence;
        }
        text
    }
}

/// Runs work on `num_bytes` of texts and pages: that on long ones on another thread, so that this
/// one answers other requests meanwhile.
///
/// # Errors
/// Work on another thread panics.
pub(crate) async fn run_aside<T: Send + 'static>(
    num_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if num_bytes < LONG {
        return Ok(work());
    }
    spawn_blocking(work).await.map_err(|_| Failure::broken())
}

fn sentence(part: &Part) -> Option<&str> {
    match part {
        Part::Sentence(sentence) => Some(sentence),
        Part::Kept(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(document: &Document) -> String {
        let translation = |text: &str| Translation {
            text: text.to_uppercase(),
            links: Vec::new(),
        };
        let translations: Vec<Translation> =
            document.sentences().into_iter().map(translation).collect();
        document.with(&translations)
    }

    #[test]
    fn spaces_and_what_has_no_words_stay() {
        for (text, expected) in [
            ("", ""),
            (" \n\n ", " \n\n "),
            (
                "  one two.  Three!\n\nfour\r\n",
                "  ONE TWO.  THREE!\n\nFOUR\r\n",
            ),
            ("--- 👍 …", "--- 👍 …"),
            ("a 👍", "A 👍"),
            ("• one\n→ two 😆 Three", "• ONE\n→ TWO 😆 THREE"),
        ] {
            assert_eq!(translated(&Document::from_text(text, "en")), expected);
        }
    }

    #[tokio::test]
    async fn work_on_long_texts_alone_runs_on_another_thread() {
        for (num_bytes, is_here) in [(LONG - 1, true), (LONG, false)] {
            let worker = run_aside(num_bytes, || std::thread::current().id())
                .await
                .expect("it does not panic");
            assert_eq!(worker == std::thread::current().id(), is_here);
        }
        let failure = run_aside(LONG, || panic!("this is a test"))
            .await
            .expect_err("it panics");
        assert_eq!(
            failure.status,
            axum::http::StatusCode::INTERNAL_SERVER_ERROR
        );
    }

    #[test]
    fn lines_are_cut_where_sentences_end() {
        for (language, text, expected) in [
            ("en", "One. Two? Three", &["One.", "Two?", "Three"][..]),
            (
                "en",
                "Mr. Smith met J. Doe. They left.",
                &["Mr. Smith met J. Doe.", "They left."],
            ),
            ("de", "Er kam um 3.15 Uhr.", &["Er kam um 3.15 Uhr."]),
            (
                "de",
                "Am 3. Oktober 1990 war der 1. FC Köln da.",
                &["Am 3. Oktober 1990 war der 1. FC Köln da."],
            ),
            ("zh", "我来了。你呢？", &["我来了。", "你呢？"]),
            ("en", "It was Mr.", &["It was Mr."]),
        ] {
            assert_eq!(Document::from_text(text, language).sentences(), expected);
        }
    }
}
