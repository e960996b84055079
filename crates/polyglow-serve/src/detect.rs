//! Detection of the language of a text, among those that can be translated.

use isolang::Language;
use whatlang::dev::{RawLangInfo, raw_detect, raw_detect_script};
use whatlang::{Detector, Info, Lang, Script};

/// The confidence from which on a text is in the detected language, and in no other.
const CERTAIN: f64 = 0.5;
/// The largest confidence that a text is in the most similar of the known languages if another
/// language is detected.
const MAX_SIMILAR: f64 = 0.1;
/// The trigram score of texts in languages that are not similar to the detected one. Measured on a
/// sentence or two in each of 60 languages: texts in the detected language have 0.15 to 0.5; those
/// in a language that the detector does not know have 0.04 to 0.2, unless it knows a close
/// relative.
const UNRELATED_SCORE: f64 = 0.1;
/// The margin over [`UNRELATED_SCORE`] by which texts in the detected language score better.
const SCORE_MARGIN: f64 = 0.1;
/// The confidence by a script that other languages have, too: Tigrinya is written like Amharic.
const SHARED_SCRIPT: f64 = 0.4;
/// Letters of no language that the detector knows: of Icelandic and Maltese; of Kazakh, Kyrgyz,
/// Tatar, Mongolian and Tajik; of Pashto, Sindhi, Uyghur and Kurdish; of Assamese.
const FOREIGN: &str = "þðħ әғқңөұүһҗҷҳӣӯ ټډړږښګڼېۍڪٿڏڙٽڀڻڄڃڦڳڱڌڇۇۆۈۋەڭڕڵێ ৰৱ";
/// The largest share of such letters, as in names, in a text of a language that the detector knows.
const MAX_FOREIGN: f64 = 0.02;

/// A language and its confidence, in percent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Detected {
    pub(crate) code: String,
    pub(crate) confidence: f64,
}

/// Returns the English name of a language, or its code if the name is unknown.
pub(crate) fn name(code: &str) -> &str {
    language(code).map_or(code, |language| language.to_name())
}

/// Returns the name of a language with its code, for messages.
pub(crate) fn name_with_code(code: &str) -> String {
    format!("{} ({code})", name(code))
}

/// Returns the language of a code. Variants such as `zh-Hans` and `pt_BR` are known by their first
/// part.
fn language(code: &str) -> Option<Language> {
    let first = code.split(['-', '_']).next().unwrap_or(code).to_lowercase();
    Language::from_639_1(&first).or_else(|| Language::from_639_3(&first))
}

/// Returns the language of a text among some codes; `None` if it is in none of these, or cannot be
/// detected.
///
/// A single code is the answer for every text, with the confidence that the text is in it. A text
/// that is similar to several languages, as most of a few words are, is in the most similar of the
/// codes, with little confidence.
pub(crate) fn detect(text: &str, codes: &[String]) -> Option<Detected> {
    let guess = Guess::new(text);
    if let [code] = codes {
        let guess = guess.filter(|guess| Some(guess.lang) == lang(code));
        return Some(Detected {
            code: code.clone(),
            confidence: percent(guess.map_or(0.0, |guess| guess.confidence)),
        });
    }
    let guess = guess?;
    let known: Vec<(Lang, &String)> = codes
        .iter()
        .filter_map(|code| Some((lang(code)?, code)))
        .collect();
    if let Some(code) = code_of(guess.lang, &known) {
        return Some(Detected {
            code,
            confidence: percent(guess.confidence),
        });
    }
    // Chinese characters alone may be Japanese, too.
    if guess.confidence >= CERTAIN && guess.lang != Lang::Cmn {
        return None;
    }
    let langs = known.iter().map(|(lang, _)| *lang).collect();
    let similar = Detector::with_allowlist(langs).detect(text)?;
    Some(Detected {
        code: code_of(similar.lang(), &known)?,
        confidence: percent(similar.confidence().min(MAX_SIMILAR)),
    })
}

/// Returns the code of a language of the detector.
fn code_of(lang: Lang, known: &[(Lang, &String)]) -> Option<String> {
    let entry = known.iter().find(|(known, _)| *known == lang);
    entry.map(|(_, code)| (*code).clone())
}

/// The detector's guess among all languages that it knows.
struct Guess {
    lang: Lang,
    /// The confidence, from 0 to 1.
    confidence: f64,
}

impl Guess {
    /// Guesses the language of a text; `None` if it has no letters of a script that the detector
    /// knows.
    fn new(text: &str) -> Option<Self> {
        let info = whatlang::detect(text)?;
        let confidence = info.confidence() * share_of_script(text, &info) * fit(text, &info);
        Some(Self {
            lang: info.lang(),
            confidence: if confidence.is_finite() {
                confidence
            } else {
                0.0
            },
        })
    }
}

/// Returns the share of a text's letters in the script of the detected language, 0 to 1.
fn share_of_script(text: &str, info: &Info) -> f64 {
    let scripts: &[Script] = match info.lang() {
        Lang::Jpn => &[Script::Hiragana, Script::Katakana, Script::Mandarin],
        Lang::Kor => &[Script::Hangul, Script::Mandarin],
        _ => &[info.script()],
    };
    let mut in_script = 0;
    for (script, count) in raw_detect_script(text).counters {
        if scripts.contains(&script) {
            in_script += count;
        }
    }
    (in_script as f64 / num_letters(text) as f64).min(1.0)
}

/// Returns how well a text fits the detected language, 0 to 1. The detector's own confidence
/// compares the languages that it knows with each other, so it is high also for texts in languages
/// that it does not know, such as Kazakh, which it takes for Belarusian.
fn fit(text: &str, info: &Info) -> f64 {
    let num_foreign = text
        .to_lowercase()
        .chars()
        .filter(|&letter| letter != ' ' && FOREIGN.contains(letter))
        .count();
    if num_foreign as f64 > MAX_FOREIGN * num_letters(text) as f64 {
        return 0.0;
    }
    if let Some(RawLangInfo::MultiScript(scores)) = raw_detect(text).lang_info {
        let scores = scores.trigram_raw_outcome.scores;
        let detected = scores.iter().find(|(lang, _)| *lang == info.lang());
        let score = detected.map_or(0.0, |(_, score)| *score);
        return ((score - UNRELATED_SCORE) / SCORE_MARGIN).clamp(0.0, 1.0);
    }
    // Languages without scores are detected by their script alone, of which the detector knows one
    // language.
    if info.lang() == Lang::Amh {
        SHARED_SCRIPT
    } else {
        1.0
    }
}

fn num_letters(text: &str) -> usize {
    text.chars()
        .filter(|character| character.is_alphabetic())
        .count()
}

/// Returns the language of the detector for a code; `None` if it knows none.
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

/// Returns a confidence in percent, with one decimal place.
fn percent(confidence: f64) -> f64 {
    (1000.0 * confidence).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(codes: &[&str]) -> Vec<String> {
        codes.iter().map(|&code| code.to_owned()).collect()
    }

    #[test]
    fn languages_have_names() {
        for (code, expected) in [
            ("en", "English"),
            ("de", "German"),
            ("zh-Hans", "Chinese"),
            ("xx", "xx"),
        ] {
            assert_eq!(name(code), expected);
        }
    }

    #[test]
    fn a_language_is_detected_among_some_codes() {
        for (text, among, expected) in [
            (
                "Das ist ein ganz gewöhnlicher deutscher Satz.",
                &["en", "de", "zh"][..],
                "de",
            ),
            (
                "This is quite an ordinary English sentence.",
                &["en", "de", "zh"],
                "en",
            ),
            ("这是一个普通的句子。", &["en", "de", "zh"], "zh"),
        ] {
            let detected = detect(text, &codes(among)).expect("it is one of them");
            assert_eq!(detected.code, expected);
            assert!(
                detected.confidence > 0.0 && detected.confidence <= 100.0,
                "{detected:?}"
            );
        }
        for (text, range) in [
            ("This is quite an ordinary English sentence.", 50.0..=100.0),
            ("Das ist ein ganz gewöhnlicher deutscher Satz.", 0.0..=1e-9),
        ] {
            let detected = detect(text, &codes(&["en"])).expect("there is one");
            assert!(range.contains(&detected.confidence), "{detected:?}");
        }
    }

    #[test]
    fn a_language_that_is_not_among_them_is_unknown_or_has_little_confidence() {
        let cases = [
            // The detector knows these, and does not know those.
            "J'ai oublié mes clés au bureau, donc je dois attendre que ma femme rentre du travail.",
            "Wczoraj wieczorem zgubiłem klucze i musiałem czekać na klatce schodowej.",
            "Снощи забравих ключовете в офиса и трябваше да чакам жена ми да се прибере от работа.",
            "Í gærkvöldi gleymdi ég lyklunum á skrifstofunni og þurfti að bíða þangað til konan mín kom heim.",
            "Atzo gauean giltzak bulegoan ahaztu nituen, eta emaztea lanetik itzuli arte itxaron behar izan nuen.",
            "Rinne mé dearmad ar na heochracha san oifig aréir, agus b'éigean dom fanacht.",
            "Mbrëmë i harrova çelësat në zyrë dhe u desh të prisja derisa gruaja ime u kthye nga puna.",
            "Jana usiku nilisahau funguo zangu ofisini, kwa hiyo ilibidi nisubiri mpaka mke wangu aliporudi.",
            "Ilbieraħ filgħaxija nsejt iċ-ċwievet fl-uffiċċju, u kelli nistenna sakemm marti ġiet lura.",
            "Gbogbo ènìyàn ni a bí ní òmìnira; iyì àti ẹ̀tọ́ kọ̀ọ̀kan sì dọ́gba.",
            // Scripts that the detector does not know, or that no code has.
            "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ, ສິດທິ, ເສລີພາບ",
            "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་",
            "ᏂᎦᏓ ᎠᏂᏴᏫ ᏂᎨᎫᏓᎸᎾ ᎠᎴ ᎤᏂᏠᏱ",
            "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน",
            "모든 인간은 태어날 때부터 자유로우며",
            // No language at all.
            "",
            " \n\t",
            "1234567890 3.14 €",
            "-- !? … 👍 🎉",
            "asdf qwer zxcv hjkl uiop",
            "OK",
            "x",
        ];
        // Whichever languages the server has: some that the detector knows, or one that it
        // does not know.
        for among in [
            &["en", "de"][..],
            &["en", "is"],
            &["sw", "en"],
            &["en", "ru"],
            &["ja", "en"],
        ] {
            for text in cases {
                let confidence =
                    detect(text, &codes(among)).map_or(0.0, |detected| detected.confidence);
                assert!(confidence <= 10.0, "{among:?} {confidence} {text}");
            }
        }
        // Similar in script alone to one of them.
        for (text, among) in [
            (
                "Кеше кешке кілтімді кеңседе ұмытып кетіппін, сондықтан әйелім жұмыстан келгенше күттім.",
                "be",
            ),
            (
                "Дишаб калидҳоямро дар идора фаромӯш кардам ва маҷбур шудам то баргаштани занам интизор шавам.",
                "uk",
            ),
            (
                "د بشر ټول افراد آزاد نړۍ ته راځي او د حيثيت او حقوقو له پلوه سره برابر دي.",
                "fa",
            ),
            ("জন্মগতভাবে সকলো মানুহ মৰ্য্যাদা আৰু অধিকাৰত সমান আৰু স্বতন্ত্ৰ।", "bn"),
            ("ብመንፅር ክብርን መሰልን ኩሎም ሰባት እንትውለዱ ነፃን ማዕሪን እዮም፡፡", "am"),
            (
                "Mbrëmë i harrova çelësat në zyrë dhe u desh të prisja derisa gruaja ime u kthye nga puna.",
                "fr",
            ),
        ] {
            let confidence =
                detect(text, &codes(&["en", among])).map_or(0.0, |detected| detected.confidence);
            assert!(confidence < 50.0, "{among} {confidence} {text}");
        }
    }

    #[test]
    fn a_few_words_are_in_the_most_similar_language_with_little_confidence() {
        let codes = ["de", "en", "ja", "ru"].map(str::to_owned);
        for (text, expected) in [
            ("Guten Tag", "de"),
            ("Der Hund schläft.", "de"),
            ("The dog sleeps.", "en"),
            ("This is a test.", "en"),
            ("東京", "ja"),
            ("すべての人間", "ja"),
            ("Скажите, пожалуйста, где здесь ближайшая аптека?", "ru"),
        ] {
            assert_eq!(
                detect(text, &codes).expect("it is in one of them").code,
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_language_in_a_script_that_others_write_differently_is_certain() {
        let codes = ["de", "el", "he", "th", "ko", "zh", "ar", "hi"].map(str::to_owned);
        for (text, expected) in [
            ("Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι.", "el"),
            (
                "שכחתי את המפתחות במשרד ולכן נאלצתי לחכות עד שאשתי תחזור מהעבודה.",
                "he",
            ),
            ("มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน", "th"),
            ("모든 인간은 태어날 때부터 자유로우며", "ko"),
            ("人人生而自由，在尊严和权利上一律平等。", "zh"),
            (
                "نسيت مفاتيحي في المكتب أمس، فاضطررت إلى الانتظار حتى عادت زوجتي من العمل.",
                "ar",
            ),
            (
                "कल रात मैं अपनी चाबियाँ दफ़्तर में भूल गया था, इसलिए मुझे इंतज़ार करना पड़ा।",
                "hi",
            ),
        ] {
            let detected = detect(text, &codes).expect("it is one of them");
            assert!(
                detected.code == expected && detected.confidence > 50.0,
                "{detected:?}"
            );
        }
    }
}
