//! Texts and pages as sentences, with everything between them.

use polyglow_predict::sentences::{self, gap};
use tokio::task::spawn_blocking;

use crate::failure::Failure;
use crate::html::{Options, Page, Translation};

/// Bytes of texts from which on they are read on another thread. Reading fewer takes less than a
/// millisecond, and while they waited for another thread, later requests would overtake.
const MIN_BYTES_FOR_THREAD: usize = 1 << 14;

/// A part of a text.
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
    /// Splits a text into lines, and lines into sentences, by the abbreviations of its language.
    pub(crate) fn from_text(text: &str, language: &str) -> Self {
        let mut parts = Vec::new();
        for part in sentences::parts(text, language) {
            parts.push(match part {
                sentences::Part::Kept(kept) => Part::Kept(kept.to_owned()),
                sentences::Part::Sentence(sentence) => Part::Sentence(sentence.to_owned()),
            });
        }
        Self::Text(parts)
    }

    /// Takes a text as one sentence.
    pub(crate) fn from_sentence(text: &str) -> Self {
        Self::Text(vec![Part::Sentence(text.to_owned())])
    }

    /// Splits the text of a page into sentences, without the tags inside them.
    pub(crate) fn from_html(page: &str, options: Options) -> Self {
        Self::Page(Page::read(page, options))
    }

    /// Returns the parts of a text. A page has none: its tags are placed only once all translations
    /// are known.
    pub(crate) fn parts(&self) -> &[Part] {
        match self {
            Self::Text(parts) => parts,
            Self::Page(_) => &[],
        }
    }

    /// Returns the sentences, in order.
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

    /// Returns whether [`Self::with`] uses links between words.
    pub(crate) fn needs_links(&self) -> bool {
        matches!(self, Self::Page(page) if page.needs_links())
    }

    /// Returns the text or page with translations in place of its sentences, of which there are as
    /// many.
    pub(crate) fn with(&self, translations: &[Translation]) -> String {
        let parts = match self {
            Self::Text(parts) => parts,
            Self::Page(page) => return page.with(translations),
        };
        let mut translations = translations.iter();
        let mut text = String::new();
        let mut follows_sentence = false;
        for part in parts {
            match part {
                Part::Kept(kept) => {
                    text.push_str(kept);
                    follows_sentence = false;
                }
                Part::Sentence(_) => {
                    let next = translations.next();
                    let translation = next.map_or("", |next| &next.text);
                    // Where the source has no space, as in Chinese, the target may need one.
                    if follows_sentence {
                        text.push_str(gap(&text, translation));
                    }
                    text.push_str(translation);
                    follows_sentence = true;
                }
            }
        }
        text
    }
}

/// Runs `work` on texts and pages of `num_bytes`: on another thread if they are long, so that this
/// thread answers other requests meanwhile.
///
/// # Errors
/// The work panics on another thread.
pub(crate) async fn run_aside<T: Send + 'static>(
    num_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if num_bytes < MIN_BYTES_FOR_THREAD {
        return Ok(work());
    }
    spawn_blocking(work).await.map_err(|_| Failure::internal())
}

/// Returns the sentence that a part is, if it is one.
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
    async fn only_work_on_long_texts_runs_on_another_thread() {
        for (num_bytes, is_here) in [
            (MIN_BYTES_FOR_THREAD - 1, true),
            (MIN_BYTES_FOR_THREAD, false),
        ] {
            let worker = run_aside(num_bytes, || std::thread::current().id())
                .await
                .expect("it does not panic");
            assert_eq!(worker == std::thread::current().id(), is_here);
        }
        let failure = run_aside(MIN_BYTES_FOR_THREAD, || panic!("this is a test"))
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
