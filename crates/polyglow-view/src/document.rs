//! The frame of every page: one HTML file that needs nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Colors for light and dark screens, and the text that all pages have.
const THEME: &str = include_str!("theme.css");

/// A whole page. `style` follows the theme and may override it; neither is escaped.
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
