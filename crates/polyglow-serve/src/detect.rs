//! Which language a text is in, among those that can be translated.

use isolang::Language;
use whatlang::{Detector, Lang};

/// A language and how sure it is, in percent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Detected {
    pub(crate) code: String,
    pub(crate) confidence: f64,
}

/// The English name of a language, or its code where none is known.
pub(crate) fn name(code: &str) -> &str {
    language(code).map_or(code, |language| language.to_name())
}

/// Variants such as `zh-Hans` and `pt_BR` are known by their first part.
fn language(code: &str) -> Option<Language> {
    let first = code.split(['-', '_']).next().unwrap_or(code).to_lowercase();
    Language::from_639_1(&first).or_else(|| Language::from_639_3(&first))
}

/// The language of a text among some codes; `None` if it is in none of those that can be told.
///
/// Of a single code nothing has to be told: it is the answer, with the confidence that the text is in it.
pub(crate) fn detect(text: &str, codes: &[String]) -> Option<Detected> {
    let known: Vec<(Lang, &String)> = codes.iter().filter_map(|code| Some((lang(code)?, code))).collect();
    if let [code] = codes {
        let found = whatlang::detect(text).filter(|found| Some(found.lang()) == lang(code));
        return Some(Detected {
            code: code.clone(),
            confidence: found.map_or(0.0, |found| percent(found.confidence())),
        });
    }
    let found = Detector::with_allowlist(known.iter().map(|(lang, _)| *lang).collect()).detect(text)?;
    let code = known.iter().find(|(lang, _)| *lang == found.lang())?.1.clone();
    Some(Detected { code, confidence: percent(found.confidence()) })
}

fn lang(code: &str) -> Option<Lang> {
    Lang::from_code(match language(code)?.to_639_3() {
        // The detector's own choice among the codes of a language.
        "zho" => "cmn",
        "fas" => "pes",
        "nor" => "nob",
        "msa" | "zsm" => "ind",
        other => other,
    })
}

fn percent(confidence: f64) -> f64 {
    (1000.0 * confidence).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_have_names() {
        for (code, expected) in [("en", "English"), ("de", "German"), ("zh-Hans", "Chinese"), ("xx", "xx")] {
            assert_eq!(name(code), expected);
        }
    }

    #[test]
    fn a_language_is_found_among_those_asked_for() {
        let codes = |codes: &[&str]| codes.iter().map(|&code| code.to_owned()).collect::<Vec<_>>();
        for (text, among, expected) in [
            ("Das ist ein ganz gewöhnlicher deutscher Satz.", &["en", "de", "zh"][..], "de"),
            ("This is quite an ordinary English sentence.", &["en", "de", "zh"], "en"),
            ("这是一个普通的句子。", &["en", "de", "zh"], "zh"),
        ] {
            let found = detect(text, &codes(among)).expect("it is one of them");
            assert_eq!(found.code, expected);
            assert!(found.confidence > 0.0 && found.confidence <= 100.0, "{found:?}");
        }
        let only = |text| detect(text, &codes(&["en"])).expect("there is one").confidence;
        assert!(only("This is quite an ordinary English sentence.") > 50.0);
        assert!(only("Das ist ein ganz gewöhnlicher deutscher Satz.") < 1e-9);
    }
}
