//! A batch of lines through a model: translations, and what a request wants to know of them.

use polyglow_predict::attention::{unit_links, word_attention};
use polyglow_predict::runner::Runner;
use polyglow_predict::translate::Request;

use crate::engine::{LinkedTranslation, TranslateOptions};

/// Translations whose attention is computed at a time. The attention of all layers stays in memory
/// until the last of them is read, so this bounds the memory.
const ATTENTION_CHUNK: usize = 32;
/// Bytes of the longest line whose translation is linked with it: attention takes memory by the
/// square of the length.
const MAX_LINKED_BYTES: usize = 4_000;

/// A line and one of its translations.
type Pair<'l> = (&'l Request, &'l mut LinkedTranslation);

/// Translates lines with a model and returns the translations of each, the best first.
///
/// # Errors
/// A line cannot be translated with these options; the message says why.
pub(crate) fn translate(
    runner: &Runner,
    options: &TranslateOptions,
    lines: &[Request],
) -> Result<Vec<Vec<LinkedTranslation>>, String> {
    let mut translations = runner
        .translate(lines, &options.search)
        .map_err(|error| error.to_string())?;
    let sources: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    // Before attention and links, which are those of the final words.
    runner
        .replace_unknown(&sources, &mut translations)
        .map_err(|error| error.to_string())?;
    let mut linked = Vec::with_capacity(translations.len());
    for best in translations {
        let best = best.into_iter().map(|translation| LinkedTranslation {
            translation,
            attention: Vec::new(),
            links: Vec::new(),
        });
        linked.push(best.collect());
    }
    if options.attention {
        add_attention(runner, lines, &mut linked)?;
    }
    if options.links {
        add_links(runner, lines, &mut linked)?;
    }
    Ok(linked)
}

/// Sets the attention of all translations: that of their words in the last layer.
fn add_attention(
    runner: &Runner,
    lines: &[Request],
    translations: &mut [Vec<LinkedTranslation>],
) -> Result<(), String> {
    let mut pairs: Vec<Pair> = Vec::new();
    for (line, best) in lines.iter().zip(translations) {
        pairs.extend(best.iter_mut().map(|translation| (line, translation)));
    }
    for pairs in pairs.chunks_mut(ATTENTION_CHUNK) {
        let attention = word_attention(runner, &texts(pairs)).map_err(|error| error.to_string())?;
        for ((_, translation), mut layers) in pairs.iter_mut().zip(attention) {
            translation.attention = layers.pop().unwrap_or_default();
        }
    }
    Ok(())
}

/// Sets the links of the best translations of all lines but very long ones.
fn add_links(
    runner: &Runner,
    lines: &[Request],
    translations: &mut [Vec<LinkedTranslation>],
) -> Result<(), String> {
    let mut pairs: Vec<Pair> = Vec::new();
    for (line, best) in lines.iter().zip(translations) {
        if line.text.len() <= MAX_LINKED_BYTES
            && let Some(best) = best.first_mut()
        {
            pairs.push((line, best));
        }
    }
    for pairs in pairs.chunks_mut(ATTENTION_CHUNK) {
        let linked = unit_links(runner, &texts(pairs)).map_err(|error| error.to_string())?;
        for ((_, translation), unit_links) in pairs.iter_mut().zip(linked) {
            translation.links = unit_links;
        }
    }
    Ok(())
}

/// Returns the texts of pairs, source and target.
fn texts<'p>(pairs: &'p [Pair]) -> Vec<[&'p str; 2]> {
    pairs
        .iter()
        .map(|(line, translation)| [&*line.text, &*translation.translation.text])
        .collect()
}
