//! Which language a text is in, among those that can be translated.

use isolang::Language;
use whatlang::dev::{RawLangInfo, raw_detect, raw_detect_script};
use whatlang::{Detector, Info, Lang, Script};

/// From this confidence on a text is in the language that it seems to be in, and in no other.
const CERTAIN: f64 = 0.5;
/// The confidence that a text is in the most similar of some languages where it seems to be in
/// another, at most.
const SIMILAR: f64 = 0.1;
/// The score by trigrams of texts in languages that are not similar to one, and how much better
/// texts in the language are. Measured on a sentence or two in each of 60 languages: in the right
/// language they have 0.15 to 0.5, and in those that the detector does not know, 0.04 to 0.2 where
/// no close relative is known.
const WORST: f64 = 0.1;
const BETTER: f64 = 0.1;
/// Confidence by a script that other languages have, too: Tigrinya is written as Amharic is.
const SHARED_SCRIPT: f64 = 0.4;
/// Letters that no language has which the detector knows: of Icelandic and Maltese; of Kazakh,
/// Kyrgyz, Tatar, Mongolian and Tajik; of Pashto, Sindhi, Uyghur and Kurdish; of Assamese.
const FOREIGN: &str = "þðħ әғқңөұүһҗҷҳӣӯ ټډړږښګڼېۍڪٿڏڙٽڀڻڄڃڦڳڱڌڇۇۆۈۋەڭڕڵێ ৰৱ";
/// The largest share of such letters, as in names, in a text of a language that the detector knows.
const MOST_FOREIGN: f64 = 0.02;

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

/// The language of a text among some codes; `None` if it is in none of those, or cannot be told.
///
/// Of a single code nothing has to be told: it is the answer, with the confidence that the text is
/// in it. A text that is similar to several languages, as most of a few words are, is in the most
/// similar of the codes, with little confidence.
pub(crate) fn detect(text: &str, codes: &[String]) -> Option<Detected> {
    let known: Vec<(Lang, &String)> = codes
        .iter()
        .filter_map(|code| Some((lang(code)?, code)))
        .collect();
    let code_of = |found: Lang| {
        known
            .iter()
            .find(|(lang, _)| *lang == found)
            .map(|(_, code)| (*code).clone())
    };
    let found = Guess::of(text);
    if let [code] = codes {
        let confidence = found
            .filter(|found| Some(found.lang) == lang(code))
            .map_or(0.0, |found| found.confidence);
        return Some(Detected {
            code: code.clone(),
            confidence: percent(confidence),
        });
    }
    let found = found?;
    if let Some(code) = code_of(found.lang) {
        return Some(Detected {
            code,
            confidence: percent(found.confidence),
        });
    }
    // Chinese characters alone may be Japanese, too.
    if found.confidence >= CERTAIN && found.lang != Lang::Cmn {
        return None;
    }
    let similar =
        Detector::with_allowlist(known.iter().map(|(lang, _)| *lang).collect()).detect(text)?;
    let confidence = similar.confidence().min(SIMILAR);
    Some(Detected {
        code: code_of(similar.lang())?,
        confidence: percent(confidence),
    })
}

/// What the detector says of a text among all languages that it knows.
struct Guess {
    lang: Lang,
    /// How sure it is, 0 to 1.
    confidence: f64,
}

impl Guess {
    /// `None` for a text without letters of a script that the detector knows.
    fn of(text: &str) -> Option<Self> {
        let found = whatlang::detect(text)?;
        let lang = found.lang();
        let confidence = found.confidence() * share_of_script(text, &found) * fit(text, &found);
        Some(Self {
            lang,
            confidence: if confidence.is_finite() {
                confidence
            } else {
                0.0
            },
        })
    }
}

/// The share of a text's letters that are of the script of a language, 0 to 1.
fn share_of_script(text: &str, found: &Info) -> f64 {
    let scripts: &[Script] = match found.lang() {
        Lang::Jpn => &[Script::Hiragana, Script::Katakana, Script::Mandarin],
        Lang::Kor => &[Script::Hangul, Script::Mandarin],
        _ => &[found.script()],
    };
    let counts = raw_detect_script(text).counters.into_iter();
    let in_script: usize = counts
        .filter(|(script, _)| scripts.contains(script))
        .map(|(_, count)| count)
        .sum();
    (in_script as f64 / num_letters(text) as f64).min(1.0)
}

/// How well a text fits a language, 0 to 1. The detector's confidence says how much better than all
/// others that it knows, and is high also for languages that it does not know, as Kazakh, which it
/// takes for Belarusian.
fn fit(text: &str, found: &Info) -> f64 {
    let num_foreign = text
        .to_lowercase()
        .chars()
        .filter(|&letter| letter != ' ' && FOREIGN.contains(letter))
        .count();
    if num_foreign as f64 > MOST_FOREIGN * num_letters(text) as f64 {
        return 0.0;
    }
    if let Some(RawLangInfo::MultiScript(scores)) = raw_detect(text).lang_info {
        let trigrams = scores
            .trigram_raw_outcome
            .scores
            .iter()
            .find(|(lang, _)| *lang == found.lang());
        let score = trigrams.map_or(0.0, |(_, score)| *score);
        return ((score - WORST) / BETTER).clamp(0.0, 1.0);
    }
    // These are told by their script alone, of which the detector knows one language.
    if found.lang() == Lang::Amh {
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
    fn a_language_is_found_among_those_asked_for() {
        let codes = |codes: &[&str]| {
            codes
                .iter()
                .map(|&code| code.to_owned())
                .collect::<Vec<_>>()
        };
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
            let found = detect(text, &codes(among)).expect("it is one of them");
            assert_eq!(found.code, expected);
            assert!(
                found.confidence > 0.0 && found.confidence <= 100.0,
                "{found:?}"
            );
        }
        let only = |text| {
            detect(text, &codes(&["en"]))
                .expect("there is one")
                .confidence
        };
        assert!(only("This is quite an ordinary English sentence.") > 50.0);
        assert!(only("Das ist ein ganz gewöhnlicher deutscher Satz.") < 1e-9);
    }

    #[test]
    fn a_language_that_is_not_among_them_is_unknown_or_has_little_confidence() {
        let codes = |codes: &[&str]| {
            codes
                .iter()
                .map(|&code| code.to_owned())
                .collect::<Vec<_>>()
        };
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
        // Whatever the server reads: languages that the detector knows, or one that it does not
        // know beside others.
        for among in [
            &["en", "de"][..],
            &["en", "is"],
            &["sw", "en"],
            &["en", "ru"],
            &["ja", "en"],
        ] {
            for text in cases {
                let confidence = detect(text, &codes(among)).map_or(0.0, |found| found.confidence);
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
                detect(text, &codes(&["en", among])).map_or(0.0, |found| found.confidence);
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
            let found = detect(text, &codes).expect("it is one of them");
            assert!(
                found.code == expected && found.confidence > 50.0,
                "{found:?}"
            );
        }
    }
}
