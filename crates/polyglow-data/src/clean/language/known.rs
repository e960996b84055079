//! Languages that are known without a text of the user's: what crawled text has by mistake.

use super::identifier::NgramCounts;

/// The words of a language a line, with their counts, made by `scripts/language_words.py`.
const WORDS: &str = include_str!("known.txt");

/// Returns the codes of the known languages.
pub fn codes() -> impl Iterator<Item = &'static str> {
    WORDS.lines().filter_map(|line| line.split('\t').next())
}

/// Returns the n-grams of the known languages, in the order of [`codes`].
pub fn counts() -> impl Iterator<Item = NgramCounts> {
    WORDS.lines().map(|line| {
        let mut counts = NgramCounts::default();
        let words = line.split_once('\t').map_or("", |(_, words)| words);
        let mut entries = words.split(' ').peekable();
        while let Some(word) = entries.next() {
            // A word that occurs once has no count behind it.
            let times =
                entries.next_if(|next| next.starts_with(|first: char| first.is_ascii_digit()));
            let times = times.and_then(|times| times.parse().ok()).unwrap_or(1);
            counts.add(word, times);
        }
        counts
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean::language::identifier::Identifier;

    #[test]
    fn sentences_are_in_their_languages() {
        let codes: Vec<&str> = codes().collect();
        let identifier = Identifier::learn(&counts().collect::<Vec<_>>());
        for (code, text) in [
            (
                "fr",
                "Il faut que nous partions avant la nuit, sinon nous serons en retard.",
            ),
            (
                "de",
                "Wir müssen vor der Nacht gehen, sonst kommen wir zu spät.",
            ),
            ("sw", "Watoto wote wanapenda kucheza nje ya nyumba yao."),
            ("ru", "Мы должны уйти до наступления ночи, иначе опоздаем."),
            (
                "uk",
                "Ми повинні піти до настання ночі, інакше запізнимося.",
            ),
            ("zh", "我们必须在天黑之前离开。"),
            ("tr", "Gece olmadan gitmeliyiz, yoksa geç kalacağız."),
        ] {
            let scores = identifier.scores(text);
            let best =
                (0..codes.len()).max_by(|&left, &right| scores[left].total_cmp(&scores[right]));
            assert_eq!(best.map(|best| codes[best]), Some(code), "{text}");
        }
    }
}
