//! The role of a text, by the words of its name.

/// Words in the names of files for training, validation and testing.
const NAMES: [(Role, &[&str]); 3] = [
    (Role::Train, &["train", "training", "trn"]),
    (
        Role::Valid,
        &[
            "valid",
            "validation",
            "val",
            "dev",
            "devel",
            "development",
            "tune",
            "tuning",
            "flores200dev",
        ],
    ),
    (
        Role::Test,
        &["test", "tst", "eval", "evaluation", "devtest", "heldout"],
    ),
];

/// The set that a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Train,
    Valid,
    Test,
}

/// Tells what a text is for, by the words of its name.
pub(super) fn role(name: &str) -> Option<Role> {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|character: char| !character.is_alphanumeric())
        .collect();
    let (role, _) = NAMES
        .iter()
        .find(|(_, known)| words.iter().any(|word| is_known(word, known)))?;
    Some(*role)
}

/// Whether a word of a name is a known one, with digits or the `news` of the WMT before it, too:
/// `test2016` and `newstest2014` are tests.
fn is_known(word: &str, known: &[&str]) -> bool {
    let word = word.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let without_news = word.strip_prefix("news").unwrap_or(word);
    known.contains(&word) || known.contains(&without_news)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_are_known() {
        for (name, expected) in [
            ("Europarl.train.en-fr", Some(Role::Train)),
            ("newstest2014", Some(Role::Test)),
            ("newsdev2015", Some(Role::Valid)),
            ("tst2012", Some(Role::Test)),
            ("val", Some(Role::Valid)),
            ("validation.tsv", Some(Role::Valid)),
            ("contest", None),
            ("constrained", None),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }
}
