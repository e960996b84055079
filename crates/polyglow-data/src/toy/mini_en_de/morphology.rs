//! Inflection: the forms that gender, number, case and person ask for in German, and person in
//! English.

/// The German cases that the grammar uses; the genitive does not occur.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Case {
    Nominative,
    Accusative,
    Dative,
}

/// The gender of a German noun. It shows in the singular only.
#[derive(Clone, Copy)]
pub(super) enum Gender {
    Masculine,
    Feminine,
    Neuter,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Number {
    Singular,
    Plural,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Person {
    First,
    Second,
    Third,
}

/// The person and number that a finite verb copies from its subject.
#[derive(Clone, Copy)]
pub(super) struct Agreement {
    pub(super) person: Person,
    pub(super) number: Number,
}

/// The case, gender and number that article, adjectives and noun of one noun phrase share.
#[derive(Clone, Copy)]
pub(super) struct Inflection {
    pub(super) case: Case,
    pub(super) gender: Gender,
    pub(super) number: Number,
}

/// The inflection of the adjectives after a determiner: the less the determiner shows, the more
/// they must.
#[derive(Clone, Copy)]
pub(super) enum Declension {
    /// After *der*, *dieser*, *jeder*, which show gender and case themselves.
    Weak,
    /// After *ein* and the possessives, which show them in some forms only.
    Mixed,
    /// After numerals, which show nothing.
    Strong,
}

/// The present tense of a German verb.
#[derive(Clone, Copy)]
pub(super) struct Present {
    /// The infinitive, which is also the form of all persons in the plural.
    pub(super) infinitive: &'static str,
    /// The forms of the first, second and third person singular.
    pub(super) singular: [&'static str; 3],
}

/// The present tense of an English verb.
#[derive(Clone, Copy)]
pub(super) struct EnglishPresent {
    /// The form of all persons but one.
    pub(super) base: &'static str,
    /// The form of the third person singular.
    pub(super) third_singular: &'static str,
}

/// Rows: nominative, accusative, dative. Columns: masculine, feminine, neuter, plural.
type Paradigm = [[&'static str; 4]; 3];

const DEFINITE_ARTICLES: Paradigm = [
    ["der", "die", "das", "die"],
    ["den", "die", "das", "die"],
    ["dem", "der", "dem", "den"],
];
/// The endings of *dies-* and *jed-*.
const DER_WORD_ENDINGS: Paradigm = [
    ["er", "e", "es", "e"],
    ["en", "e", "es", "e"],
    ["em", "er", "em", "en"],
];
/// The endings of *ein*, *kein* and the possessives.
const EIN_WORD_ENDINGS: Paradigm = [
    ["", "e", "", "e"],
    ["en", "e", "", "e"],
    ["em", "er", "em", "en"],
];
const WEAK_ENDINGS: Paradigm = [
    ["e", "e", "e", "en"],
    ["en", "e", "e", "en"],
    ["en", "en", "en", "en"],
];
const MIXED_ENDINGS: Paradigm = [
    ["er", "e", "es", "en"],
    ["en", "e", "es", "en"],
    ["en", "en", "en", "en"],
];
const STRONG_ENDINGS: Paradigm = [
    ["er", "e", "es", "e"],
    ["en", "e", "es", "e"],
    ["em", "er", "em", "en"],
];

impl Agreement {
    pub(super) const fn third(number: Number) -> Self {
        Self {
            person: Person::Third,
            number,
        }
    }
}

impl Inflection {
    /// The form of *der, die, das*; also of the relative pronoun, which differs from it in the
    /// dative plural only.
    pub(super) const fn definite_article(self) -> &'static str {
        self.look_up(&DEFINITE_ARTICLES)
    }

    /// The ending of *dies-* and *jed-*.
    pub(super) const fn der_word_ending(self) -> &'static str {
        self.look_up(&DER_WORD_ENDINGS)
    }

    /// The ending of *ein* and of the possessives.
    pub(super) const fn ein_word_ending(self) -> &'static str {
        self.look_up(&EIN_WORD_ENDINGS)
    }

    /// The ending of adjectives.
    pub(super) const fn adjective_ending(self, declension: Declension) -> &'static str {
        self.look_up(match declension {
            Declension::Weak => &WEAK_ENDINGS,
            Declension::Mixed => &MIXED_ENDINGS,
            Declension::Strong => &STRONG_ENDINGS,
        })
    }

    /// The noun itself, which takes *-n* in the dative plural unless it ends in *-n* or *-s*.
    pub(super) fn noun_form(self, [singular, plural]: [&str; 2]) -> String {
        match (self.number, self.case) {
            (Number::Singular, _) => singular.to_owned(),
            (Number::Plural, Case::Dative) if !plural.ends_with(['n', 's']) => format!("{plural}n"),
            (Number::Plural, _) => plural.to_owned(),
        }
    }

    const fn look_up(self, paradigm: &Paradigm) -> &'static str {
        let column = match self.number {
            Number::Singular => self.gender as usize,
            Number::Plural => 3,
        };
        paradigm[self.case as usize][column]
    }
}

impl Present {
    pub(super) const fn form(&self, agreement: Agreement) -> &'static str {
        match agreement.number {
            Number::Singular => self.singular[agreement.person as usize],
            Number::Plural => self.infinitive,
        }
    }
}

impl EnglishPresent {
    pub(super) fn form(&self, agreement: Agreement) -> &'static str {
        match (agreement.person, agreement.number) {
            (Person::Third, Number::Singular) => self.third_singular,
            _ => self.base,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dative_plural_adds_n_once() {
        let plural = Inflection {
            case: Case::Dative,
            gender: Gender::Neuter,
            number: Number::Plural,
        };
        assert_eq!(plural.noun_form(["Kind", "Kinder"]), "Kindern");
        assert_eq!(plural.noun_form(["Frau", "Frauen"]), "Frauen");
        assert_eq!(plural.noun_form(["Auto", "Autos"]), "Autos");
    }

    #[test]
    fn adjectives_show_what_the_determiner_does_not() {
        let masculine = Inflection {
            case: Case::Nominative,
            gender: Gender::Masculine,
            number: Number::Singular,
        };
        assert_eq!(
            masculine.adjective_ending(Declension::Weak),
            "e",
            "der alte Mann"
        );
        assert_eq!(
            masculine.adjective_ending(Declension::Mixed),
            "er",
            "ein alter Mann"
        );
    }
}
