//! The frame of every page: one HTML file that needs nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Colors for light and dark screens, and the text that all pages have.
const THEME: &str = include_str!("theme.css");

/// A paragraph that explains the signs which stand in tokens for spaces and for invisible
/// characters; empty if no token has one.
pub(crate) fn note<'a>(tokens: impl IntoIterator<Item = &'a String>) -> Markup {
    let mut has_space = false;
    let mut has_code = false;
    for token in tokens {
        has_space |= token.contains('▁');
        has_code |= token.contains('⟨');
    }
    html! {
        @if has_space || has_code {
            p.note {
                @if has_space { "▁ is a space. " }
                @if has_code { "⟨ ⟩ encloses what is no visible character: a byte such as E5, or a code such as U+200B." }
            }
        }
    }
}

/// A whole page as HTML. `style` is CSS that follows the theme and may override it; neither is
/// escaped, so both must come from this program.
pub(crate) fn document(title: &str, style: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(THEME)) (PreEscaped(style)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}
