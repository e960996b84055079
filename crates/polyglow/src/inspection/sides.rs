//! Warnings about whole sides of a split: they are swapped, of another language, or in another
//! order.

use super::fit::Disorder;
use super::warning::Warning;
use polyglow_data::clean::language::{Profile, code, is_known, scripts_of};

/// The margin by which exchanged sides of two splits must be more alike than those of the same
/// name.
const MORE_ALIKE: f64 = 0.05;

/// A split as a whole.
pub(super) struct Whole {
    pub(super) split: String,
    /// Of the source and of the target.
    pub(super) profiles: [Profile; 2],
    pub(super) disorder: Option<Disorder>,
}

/// Warns of sides that look swapped, of another language, or in another order than their partner,
/// for splits of which the first is the training text.
pub(super) fn find(languages: &[String; 2], wholes: &mut [Whole]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let Some((train, held_out)) = wholes.split_first() else {
        return warnings;
    };
    for whole in std::iter::once(train).chain(held_out) {
        warnings.extend(language_warnings(&whole.split, &whole.profiles, languages));
        if let Some(disorder) = &whole.disorder {
            warnings.push(of_disorder(&whole.split, disorder));
        }
    }
    for whole in held_out.iter().filter(|whole| is_exchanged(train, whole)) {
        let swapped = format!("{}: the sides look swapped", whole.split);
        // The names of the languages may have given the same warning.
        if !warnings
            .iter()
            .any(|warning| warning.message.starts_with(&swapped))
        {
            let message = format!(
                "{swapped}: its source is like the target of `train`, and its target like that source"
            );
            let hint = "exchange the two files of one of these splits".to_owned();
            warnings.push(Warning { message, hint });
        }
    }
    warnings
}

/// Warns of sides that are not in their languages; the warnings call the text by its name.
pub(crate) fn language_warnings(
    name: &str,
    [src_profile, tgt_profile]: &[Profile; 2],
    [src, tgt]: &[String; 2],
) -> Vec<Warning> {
    let looks = [looks_like(src_profile, src), looks_like(tgt_profile, tgt)];
    if let [Some(src_looks), Some(tgt_looks)] = &looks
        && looks_like(src_profile, tgt).is_none()
        && looks_like(tgt_profile, src).is_none()
    {
        let message = format!(
            "{name}: the sides look swapped: the source looks like {src_looks} and the target like {tgt_looks}, and \
             their languages are `{src}` and `{tgt}`"
        );
        let hint = "exchange the names of the files, or of the languages, so that each side is what it is called";
        return vec![Warning::new(message, hint)];
    }
    let mut warnings = Vec::new();
    for ((side, language), looks) in [("source", src), ("target", tgt)].into_iter().zip(looks) {
        if let Some(looks) = looks {
            let message =
                format!("{name}: the {side} looks like {looks}, and its language is `{language}`");
            warnings.push(Warning::new(message, "look whether it is the right file"));
        }
    }
    warnings
}

/// Describes what a text looks like; `None` if it may be in `language`, or says too little.
fn looks_like(profile: &Profile, language: &str) -> Option<String> {
    let scripts = scripts_of(language);
    let script = profile.script()?;
    if !scripts.is_empty() && !scripts.contains(&script) {
        return Some(format!("text in the script {script:?}"));
    }
    let (guess, name) = profile.language()?;
    (is_known(language) && guess != code(language)).then(|| name.to_owned())
}

/// Whether the source of a split is like the target of the training text, and its target like that
/// text's source.
fn is_exchanged(train: &Whole, other: &Whole) -> bool {
    let [src, tgt] = &train.profiles;
    let [other_src, other_tgt] = &other.profiles;
    other_src.similarity(tgt) > other_src.similarity(src) + MORE_ALIKE
        && other_tgt.similarity(src) > other_tgt.similarity(tgt) + MORE_ALIKE
}

fn of_disorder(split: &str, disorder: &Disorder) -> Warning {
    match disorder {
        Disorder::Shifted { file, line, by } => {
            let lines = by.unsigned_abs();
            let direction = if *by > 0 { "below" } else { "above" };
            Warning {
                message: format!(
                    "{split}: from about line {line} of `{file}` on, the target of a line stands {lines} {} {direction} it",
                    if lines == 1 { "line" } else { "lines" }
                ),
                hint: "a line is missing or too many on one side; find it before that line"
                    .to_owned(),
            }
        }
        Disorder::Shuffled { correlation } => Warning {
            message: format!(
                "{split}: lines do not look like translations of each other: the correlation of their lengths is {correlation:.2}, \
                 and no number of lines between them makes it higher"
            ),
            hint: "look at some pairs: is one side in another order, or of another text?"
                .to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = "the cat is not in the house and it was here";
    const GERMAN: &str = "die Katze ist nicht in dem Haus und sie war auch hier";
    const JAPANESE: &str = "猫は家の中にいませんでした";

    fn whole(split: &str, sides: [&str; 2]) -> Whole {
        let profiles = sides.map(|text| {
            let mut profile = Profile::default();
            (0..30).for_each(|_| profile.add(text));
            profile
        });
        Whole {
            split: split.to_owned(),
            profiles,
            disorder: None,
        }
    }

    fn messages(languages: [&str; 2], wholes: &mut [Whole]) -> Vec<String> {
        find(&languages.map(str::to_owned), wholes)
            .into_iter()
            .map(|warning| warning.message)
            .collect()
    }

    #[test]
    fn sides_that_are_what_they_are_called_are_not_odd() {
        assert!(
            messages(
                ["en", "de"],
                &mut [
                    whole("train", [ENGLISH, GERMAN]),
                    whole("valid", [ENGLISH, GERMAN])
                ]
            )
            .is_empty()
        );
        assert!(messages(["src", "tgt"], &mut [whole("train", [ENGLISH, JAPANESE])]).is_empty());
        assert!(messages(["en", "ja"], &mut [whole("train", [ENGLISH, JAPANESE])]).is_empty());
    }

    #[test]
    fn swapped_sides_are_told_by_their_names_and_by_the_training_text() {
        let [found] = &messages(["en", "de"], &mut [whole("train", [GERMAN, ENGLISH])])[..] else {
            panic!("one")
        };
        assert!(
            found.starts_with("train: the sides look swapped: the source looks like German"),
            "{found}"
        );
        let [found] = &messages(["ja", "en"], &mut [whole("train", [ENGLISH, JAPANESE])])[..]
        else {
            panic!("one")
        };
        assert!(found.contains("the sides look swapped"), "{found}");
        let mut unnamed = [
            whole("train", [ENGLISH, GERMAN]),
            whole("valid", [GERMAN, ENGLISH]),
        ];
        let [found] = &messages(["src", "tgt"], &mut unnamed)[..] else {
            panic!("one")
        };
        assert!(
            found.starts_with("valid: the sides look swapped: its source is like the target"),
            "{found}"
        );
    }

    #[test]
    fn a_side_of_another_language_is_named() {
        let found = messages(["en", "fr"], &mut [whole("train", [ENGLISH, GERMAN])]);
        assert_eq!(
            found,
            ["train: the target looks like German, and its language is `fr`"]
        );
        let found = messages(["en", "de"], &mut [whole("test", [ENGLISH, JAPANESE])]);
        assert!(
            found[0].starts_with("test: the target looks like text in the script"),
            "{found:?}"
        );
    }

    #[test]
    fn disorder_is_told_with_its_place() {
        let disorder = Disorder::Shifted {
            file: "a.en".to_owned(),
            line: 501,
            by: -1,
        };
        let mut shifted = [Whole {
            disorder: Some(disorder),
            ..whole("train", [ENGLISH, GERMAN])
        }];
        let expected =
            "train: from about line 501 of `a.en` on, the target of a line stands 1 line above it";
        assert_eq!(messages(["en", "de"], &mut shifted), [expected]);
    }
}
