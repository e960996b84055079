//! The attention on a pair as one HTML file with its own data, style and script, which needs no
//! network.

use maud::{PreEscaped, html};
use polyglow_predict::attention::PairAttention;
use polyglow_train::Result;

use crate::document::{document, note};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Returns an HTML page that shows the attention on a pair, `src` and `tgt`: the reader chooses
/// layers and heads, and sees the weight of each cell.
///
/// Weights are rounded to three decimals, which is more than eyes can tell apart.
///
/// ```
/// use polyglow_predict::attention::{Map, PairAttention};
/// use polyglow_view::attention::render;
///
/// let tokens = |text: &str| text.split(' ').map(str::to_owned).collect();
/// let cross = Map {
///     queries: tokens("der Hund"),
///     keys: tokens("the dog"),
///     weights: vec![vec![vec![0.75, 0.25, 0.0, 1.0]]],
/// };
/// // This model has no self-attention.
/// let none = || Map { queries: Vec::new(), keys: Vec::new(), weights: Vec::new() };
/// let attention = PairAttention { encoder: none(), decoder: none(), cross };
/// let page = render(&attention, "the dog", "der Hund")?;
/// assert!(page.starts_with("<!DOCTYPE html>"));
/// # Ok::<(), polyglow_train::TrainError>(())
/// ```
///
/// # Errors
/// The weights cannot be written as JSON.
pub fn render(attention: &PairAttention, src: &str, tgt: &str) -> Result<String> {
    // `</script>` in a token would end the script element early.
    let data = serde_json::to_string(&rounded(attention))?.replace('<', "\\u003c");
    let kinds = [
        ("cross", "decoder to source", &attention.cross),
        ("encoder", "encoder", &attention.encoder),
        ("decoder", "decoder", &attention.decoder),
    ];
    let body = html! {
        h1 { "Attention" }
        p { bdi { (src) } br; "→ " bdi { (tgt) } }
        div #controls {
            span {
                "attention "
                @for (kind, name, map) in kinds {
                    @if !map.weights.is_empty() { button data-kind=(kind) { (name) } }
                }
            }
            label { "layer " select #layer {} }
            label { "head " select #head {} }
        }
        p #words aria-live="polite" {
            "Each row is a query, named by its token; the stronger the color of a cell, the more it looks at that column. "
            "Hover or click."
        }
        (note(kinds.iter().flat_map(|(_, _, map)| map.queries.iter().chain(&map.keys))))
        div #map {}
        h2 { "All layers and heads" }
        p.note { "Click one to see it large. Keys: arrow up and down for layers, left and right for heads." }
        div #all {}
        noscript { "This page draws with JavaScript, which is switched off." }
        script #data type="application/json" { (PreEscaped(data)) }
        script { (PreEscaped(SCRIPT)) }
    };
    Ok(document(&format!("attention: {src}"), STYLE, &body))
}

/// The attention with weights of three decimals.
fn rounded(attention: &PairAttention) -> PairAttention {
    let mut rounded = attention.clone();
    let maps = [
        &mut rounded.encoder,
        &mut rounded.decoder,
        &mut rounded.cross,
    ];
    for map in maps {
        for weight in map.weights.iter_mut().flatten().flatten() {
            *weight = (*weight * 1000.0).round() / 1000.0;
        }
    }
    rounded
}

#[cfg(test)]
mod tests {
    use polyglow_predict::attention::Map;

    use super::*;

    #[test]
    fn text_is_never_markup() {
        let map = || Map {
            queries: vec!["</script><b>".to_owned()],
            keys: vec!["k".to_owned()],
            weights: vec![vec![vec![0.123_456]]],
        };
        let attention = PairAttention {
            encoder: map(),
            decoder: map(),
            cross: map(),
        };
        let page = render(&attention, "<i>", "&").expect("it is JSON");
        assert!(
            page.contains("<bdi>&lt;i&gt;</bdi>")
                && page.contains("→ <bdi>&amp;</bdi>")
                && !page.contains("<b>"),
            "{page}"
        );
        assert!(page.contains("0.123]") && page.contains("\\u003c/script>"));
    }

    #[test]
    fn the_page_says_what_its_marks_and_colors_mean_on_light_and_dark_paper() {
        let page = |token: &str| {
            let map = || Map {
                queries: vec![token.to_owned()],
                keys: vec![],
                weights: vec![vec![vec![]]],
            };
            render(
                &PairAttention {
                    encoder: map(),
                    decoder: map(),
                    cross: map(),
                },
                "",
                "",
            )
            .expect("it is JSON")
        };
        assert!(
            page("▁très").contains("▁ is a space.") && page("⟨E5⟩").contains("a byte such as E5")
        );
        let plain = page("très");
        assert!(!plain.contains("▁ is") && !plain.contains("a byte such"));
        assert!(
            !plain.contains("darker") && !plain.contains("lighter"),
            "the other paper would turn it round"
        );
    }
}
