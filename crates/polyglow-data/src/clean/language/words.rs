//! The small words of some languages: articles, pronouns, conjunctions. Hardly a sentence is
//! without one.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A language that is known by its words.
pub(super) struct Language {
    /// Its two-letter code.
    pub code: &'static str,
    /// Its three-letter codes.
    pub long: &'static [&'static str],
    /// Its name.
    pub name: &'static str,
    words: &'static str,
}

/// The languages that are known by their words.
pub(super) const LANGUAGES: [Language; 17] = [
    Language {
        code: "en",
        long: &["eng"],
        name: "English",
        words: "the of and to in is that it was for with are this you not have be on they what",
    },
    Language {
        code: "de",
        long: &["deu", "ger"],
        name: "German",
        words: "der die das und ist nicht ein eine zu den mit sich auf für dem ich sie es von auch",
    },
    Language {
        code: "fr",
        long: &["fra", "fre"],
        name: "French",
        words: "le la les des et est une un que pas dans pour qui il elle sur avec au je vous",
    },
    Language {
        code: "es",
        long: &["spa"],
        name: "Spanish",
        words: "el la los las que de y en un una por con no se para es su lo como está",
    },
    Language {
        code: "it",
        long: &["ita"],
        name: "Italian",
        words: "il la di che è un una per non sono con del della gli si le da anche più nel",
    },
    Language {
        code: "pt",
        long: &["por"],
        name: "Portuguese",
        words: "o a os as que de e um uma não para com do da em se por mais como você",
    },
    Language {
        code: "nl",
        long: &["nld", "dut"],
        name: "Dutch",
        words: "de het een van en is niet dat op te zijn met voor er hij ze ook aan ik maar",
    },
    Language {
        code: "sv",
        long: &["swe"],
        name: "Swedish",
        words: "och att det som en är på av inte den med jag ett har han de till för var vi",
    },
    Language {
        code: "da",
        long: &["dan"],
        name: "Danish",
        words: "og at det er en på af ikke den med jeg et har han de til som for var hvad",
    },
    Language {
        code: "pl",
        long: &["pol"],
        name: "Polish",
        words: "i w na się nie z do jest to że jak jego po ale za od przez są tym czy",
    },
    Language {
        code: "cs",
        long: &["ces", "cze"],
        name: "Czech",
        words: "a je se na v že to s z do jako by ale za byl jsem si není jsou který",
    },
    Language {
        code: "fi",
        long: &["fin"],
        name: "Finnish",
        words: "ja on ei se että hän oli ovat mutta kun niin minä tämä myös joka hänen olen mitä en tai",
    },
    Language {
        code: "hu",
        long: &["hun"],
        name: "Hungarian",
        words: "a az és hogy nem is egy van ez meg volt csak már mint ha el de vagy én ki",
    },
    Language {
        code: "ro",
        long: &["ron", "rum"],
        name: "Romanian",
        words: "și de la în a nu cu este pe un o că care se din pentru mai sunt fost ce",
    },
    Language {
        code: "tr",
        long: &["tur"],
        name: "Turkish",
        words: "ve bir bu da de ne için çok ile ama o var ben gibi daha değil mi olarak kadar şey",
    },
    Language {
        code: "vi",
        long: &["vie"],
        name: "Vietnamese",
        words: "và là của không có một người cho được trong này với các những tôi đã rất để anh khi",
    },
    Language {
        code: "id",
        long: &["ind"],
        name: "Indonesian",
        words: "yang dan di itu dengan untuk tidak ini dari dalam adalah akan pada ke saya dia bisa ada juga mereka",
    },
];

/// The languages that have a word, as indices of the list.
static OWNERS: LazyLock<HashMap<&'static str, Vec<usize>>> = LazyLock::new(|| {
    let mut owners: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, language) in LANGUAGES.iter().enumerate() {
        for word in language.words.split(' ') {
            owners.entry(word).or_default().push(index);
        }
    }
    owners
});

/// Counts the different small words of each language in a text.
pub(super) fn hits(text: &str) -> [usize; LANGUAGES.len()] {
    let mut counts = [0; LANGUAGES.len()];
    let mut seen: Vec<&str> = Vec::new();
    let lower = text.to_lowercase();
    for word in lower.split(|character: char| !character.is_alphabetic()) {
        if let Some(owners) = OWNERS.get(word)
            && !seen.contains(&word)
        {
            seen.push(word);
            for &language in owners {
                counts[language] += 1;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_language_has_twenty_different_words() {
        for Language { code, words, .. } in &LANGUAGES {
            let all: Vec<&str> = words.split(' ').collect();
            assert_eq!(
                (all.len(), all.iter().collect::<HashSet<_>>().len()),
                (20, 20),
                "{code}"
            );
        }
    }

    #[test]
    fn a_word_counts_once_for_every_language_that_has_it() {
        let counts = hits("La la, que no!");
        let of = |code: &str| {
            counts[LANGUAGES
                .iter()
                .position(|language| language.code == code)
                .expect("it is there")]
        };
        assert_eq!((of("es"), of("fr"), of("en")), (3, 2, 0));
    }
}
