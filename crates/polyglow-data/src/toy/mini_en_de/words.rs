//! The dictionary of `mini-en-de`: every word of both languages, as tables.

use super::lexicon::Frame::{self, Accusative, Dative, Ditransitive, Intransitive};
use super::lexicon::NounClass::{self, Animal, Human, Openable, Place, Thing};
use super::lexicon::{
    Adjective, Adverb, Entry, Governor, Noun, ObjectPronoun, Preposition, SubjectPronoun, Verb,
};
use super::morphology::Gender::{self, Feminine, Masculine, Neuter};
use super::morphology::Number::{Plural, Singular};
use super::morphology::Person::{First, Second};
use super::morphology::{Agreement, EnglishPresent, Present};
use super::verb_group::Tense;

const ANYTHING: &[NounClass] = &[Human, Animal, Thing, Openable, Place];
pub(super) const ANIMATE: &[NounClass] = &[Human, Animal];
pub(super) const PEOPLE: &[NounClass] = &[Human];
pub(super) const PLACES: &[NounClass] = &[Place];
const INANIMATE: &[NounClass] = &[Thing, Openable, Place];
const OBJECTS: &[NounClass] = &[Thing, Openable];
const NON_HUMAN: &[NounClass] = &[Animal, Thing, Openable, Place];
const MOVABLE: &[NounClass] = &[Animal, Thing, Openable];
const LIFTABLE: &[NounClass] = &[Human, Animal, Thing];
const VISITABLE: &[NounClass] = &[Human, Place];
const OPENABLE: &[NounClass] = &[Openable];

pub(super) static NOUNS: [Noun; 32] = [
    noun(["man", "men"], ["Mann", "Männer"], Masculine, Human),
    noun(["woman", "women"], ["Frau", "Frauen"], Feminine, Human),
    noun(["child", "children"], ["Kind", "Kinder"], Neuter, Human),
    noun(["girl", "girls"], ["Mädchen", "Mädchen"], Neuter, Human),
    noun(
        ["teacher", "teachers"],
        ["Lehrer", "Lehrer"],
        Masculine,
        Human,
    ),
    noun(
        ["sister", "sisters"],
        ["Schwester", "Schwestern"],
        Feminine,
        Human,
    ),
    noun(["doctor", "doctors"], ["Arzt", "Ärzte"], Masculine, Human),
    noun(
        ["friend", "friends"],
        ["Freund", "Freunde"],
        Masculine,
        Human,
    ),
    noun(
        ["daughter", "daughters"],
        ["Tochter", "Töchter"],
        Feminine,
        Human,
    ),
    noun(["dog", "dogs"], ["Hund", "Hunde"], Masculine, Animal),
    noun(["cat", "cats"], ["Katze", "Katzen"], Feminine, Animal),
    noun(["horse", "horses"], ["Pferd", "Pferde"], Neuter, Animal),
    noun(["bird", "birds"], ["Vogel", "Vögel"], Masculine, Animal),
    noun(["mouse", "mice"], ["Maus", "Mäuse"], Feminine, Animal),
    noun(["book", "books"], ["Buch", "Bücher"], Neuter, Openable),
    noun(
        ["letter", "letters"],
        ["Brief", "Briefe"],
        Masculine,
        Openable,
    ),
    noun(["door", "doors"], ["Tür", "Türen"], Feminine, Openable),
    noun(
        ["window", "windows"],
        ["Fenster", "Fenster"],
        Neuter,
        Openable,
    ),
    noun(["apple", "apples"], ["Apfel", "Äpfel"], Masculine, Thing),
    noun(["flower", "flowers"], ["Blume", "Blumen"], Feminine, Thing),
    noun(["picture", "pictures"], ["Bild", "Bilder"], Neuter, Thing),
    noun(["lamp", "lamps"], ["Lampe", "Lampen"], Feminine, Thing),
    noun(["chair", "chairs"], ["Stuhl", "Stühle"], Masculine, Thing),
    noun(["car", "cars"], ["Auto", "Autos"], Neuter, Thing),
    noun(["shirt", "shirts"], ["Hemd", "Hemden"], Neuter, Thing),
    noun(["bag", "bags"], ["Tasche", "Taschen"], Feminine, Thing),
    noun(
        ["garden", "gardens"],
        ["Garten", "Gärten"],
        Masculine,
        Place,
    ),
    noun(["house", "houses"], ["Haus", "Häuser"], Neuter, Place),
    noun(
        ["street", "streets"],
        ["Straße", "Straßen"],
        Feminine,
        Place,
    ),
    noun(["tree", "trees"], ["Baum", "Bäume"], Masculine, Place),
    noun(
        ["church", "churches"],
        ["Kirche", "Kirchen"],
        Feminine,
        Place,
    ),
    noun(["village", "villages"], ["Dorf", "Dörfer"], Neuter, Place),
];

pub(super) static ADJECTIVES: [Adjective; 16] = [
    adjective("big", "groß", ANYTHING),
    adjective("small", "klein", ANYTHING),
    adjective("old", "alt", ANYTHING),
    adjective("young", "jung", ANIMATE),
    adjective("red", "rot", INANIMATE),
    adjective("green", "grün", INANIMATE),
    adjective("beautiful", "schön", ANYTHING),
    adjective("new", "neu", INANIMATE),
    adjective("good", "gut", ANYTHING),
    adjective("black", "schwarz", INANIMATE),
    adjective("clever", "klug", ANIMATE),
    adjective("tired", "müd", ANIMATE),
    adjective("white", "weiß", INANIMATE),
    adjective("cheap", "billig", INANIMATE),
    adjective("heavy", "schwer", OBJECTS),
    adjective("strange", "seltsam", ANYTHING),
];

/// One verb per row: base form, third person, participle; prefix; infinitive, singular forms,
/// participle; frame.
#[rustfmt::skip]
pub(super) static VERBS: [Verb; 25] = [
    verb(["see", "sees", "seen"], "", ["sehen", "sehe", "siehst", "sieht", "gesehen"], Accusative(ANYTHING)),
    verb(["find", "finds", "found"], "", ["finden", "finde", "findest", "findet", "gefunden"], Accusative(ANYTHING)),
    verb(["buy", "buys", "bought"], "", ["kaufen", "kaufe", "kaufst", "kauft", "gekauft"], Accusative(NON_HUMAN)),
    verb(["love", "loves", "loved"], "", ["lieben", "liebe", "liebst", "liebt", "geliebt"], Accusative(ANIMATE)),
    verb(["look for", "looks for", "looked for"], "", ["suchen", "suche", "suchst", "sucht", "gesucht"], Accusative(ANYTHING)),
    verb(["carry", "carries", "carried"], "", ["tragen", "trage", "trägst", "trägt", "getragen"], Accusative(MOVABLE)),
    verb(["paint", "paints", "painted"], "", ["malen", "male", "malst", "malt", "gemalt"], Accusative(ANYTHING)),
    verb(["hear", "hears", "heard"], "", ["hören", "höre", "hörst", "hört", "gehört"], Accusative(ANIMATE)),
    verb(["visit", "visits", "visited"], "", ["besuchen", "besuche", "besuchst", "besucht", "besucht"], Accusative(VISITABLE)),
    verb(["forget", "forgets", "forgotten"], "", ["vergessen", "vergesse", "vergisst", "vergisst", "vergessen"], Accusative(ANYTHING)),
    verb(["call", "calls", "called"], "an", ["rufen", "rufe", "rufst", "ruft", "gerufen"], Accusative(PEOPLE)),
    verb(["open", "opens", "opened"], "auf", ["machen", "mache", "machst", "macht", "gemacht"], Accusative(OPENABLE)),
    verb(["pick up", "picks up", "picked up"], "ab", ["holen", "hole", "holst", "holt", "geholt"], Accusative(LIFTABLE)),
    verb(["invite", "invites", "invited"], "ein", ["laden", "lade", "lädst", "lädt", "geladen"], Accusative(PEOPLE)),
    verb(["help", "helps", "helped"], "", ["helfen", "helfe", "hilfst", "hilft", "geholfen"], Dative(ANIMATE)),
    verb(["thank", "thanks", "thanked"], "", ["danken", "danke", "dankst", "dankt", "gedankt"], Dative(PEOPLE)),
    verb(["answer", "answers", "answered"], "", ["antworten", "antworte", "antwortest", "antwortet", "geantwortet"], Dative(PEOPLE)),
    verb(["sleep", "sleeps", "slept"], "", ["schlafen", "schlafe", "schläfst", "schläft", "geschlafen"], Intransitive),
    verb(["laugh", "laughs", "laughed"], "", ["lachen", "lache", "lachst", "lacht", "gelacht"], Intransitive),
    verb(["dance", "dances", "danced"], "", ["tanzen", "tanze", "tanzt", "tanzt", "getanzt"], Intransitive),
    verb(["wait", "waits", "waited"], "", ["warten", "warte", "wartest", "wartet", "gewartet"], Intransitive),
    verb(["work", "works", "worked"], "", ["arbeiten", "arbeite", "arbeitest", "arbeitet", "gearbeitet"], Intransitive),
    verb(["give", "gives", "given"], "", ["geben", "gebe", "gibst", "gibt", "gegeben"], Ditransitive(OBJECTS)),
    verb(["show", "shows", "shown"], "", ["zeigen", "zeige", "zeigst", "zeigt", "gezeigt"], Ditransitive(NON_HUMAN)),
    verb(["send", "sends", "sent"], "", ["schicken", "schicke", "schickst", "schickt", "geschickt"], Ditransitive(OBJECTS)),
];

pub(super) const HAVE: Governor = governor(["have", "has"], ["haben", "habe", "hast", "hat"]);
pub(super) const WILL: Governor = governor(["will", "will"], ["werden", "werde", "wirst", "wird"]);
pub(super) const CAN: Governor = governor(["can", "can"], ["können", "kann", "kannst", "kann"]);
pub(super) const MUST: Governor = governor(["must", "must"], ["müssen", "muss", "musst", "muss"]);
pub(super) const WANT: Governor = governor(["want", "wants"], ["wollen", "will", "willst", "will"]);
/// English needs "do" for questions and negation where there is no other auxiliary; German has
/// nothing like it.
pub(super) const DO: EnglishPresent = EnglishPresent {
    base: "do",
    third_singular: "does",
};

/// Verbs that report a clause with "that".
pub(super) static REPORTING: [Governor; 2] = [
    governor(["know", "knows"], ["wissen", "weiß", "weißt", "weiß"]),
    governor(
        ["believe", "believes"],
        ["glauben", "glaube", "glaubst", "glaubt"],
    ),
];

pub(super) const POSSESSIVES: [Entry; 6] = [
    ("my", "mein"),
    ("your", "dein"),
    ("his", "sein"),
    ("her", "ihr"),
    ("our", "unser"),
    ("their", "ihr"),
];

pub(super) const NUMERALS: [Entry; 6] = [
    ("two", "zwei"),
    ("three", "drei"),
    ("four", "vier"),
    ("five", "fünf"),
    ("six", "sechs"),
    ("seven", "sieben"),
];

/// Conjunctions after a main clause; both send the German verb to the end.
pub(super) const REASONS: [Entry; 2] = [("because", "weil"), ("although", "obwohl")];
/// Conjunctions of a clause that comes first.
pub(super) const CONDITIONS: [Entry; 1] = [("if", "wenn")];
pub(super) const THAT: Entry = ("that", "dass");
pub(super) const NOT: Entry = ("not", "nicht");

pub(super) static SUBJECT_PRONOUNS: [SubjectPronoun; 6] = [
    subject_pronoun(
        "I",
        "ich",
        Agreement {
            person: First,
            number: Singular,
        },
    ),
    subject_pronoun(
        "you",
        "du",
        Agreement {
            person: Second,
            number: Singular,
        },
    ),
    subject_pronoun("he", "er", Agreement::third(Singular)),
    subject_pronoun("she", "sie", Agreement::third(Singular)),
    subject_pronoun(
        "we",
        "wir",
        Agreement {
            person: First,
            number: Plural,
        },
    ),
    subject_pronoun("they", "sie", Agreement::third(Plural)),
];

pub(super) static OBJECT_PRONOUNS: [ObjectPronoun; 4] = [
    object_pronoun(
        "me",
        ["mich", "mir"],
        Agreement {
            person: First,
            number: Singular,
        },
    ),
    object_pronoun("him", ["ihn", "ihm"], Agreement::third(Singular)),
    object_pronoun(
        "us",
        ["uns", "uns"],
        Agreement {
            person: First,
            number: Plural,
        },
    ),
    object_pronoun("them", ["sie", "ihnen"], Agreement::third(Plural)),
];

pub(super) static ADVERBS: [Adverb; 5] = [
    adverb("today", "heute", &Tense::ALL),
    adverb("now", "jetzt", &[Tense::Present, Tense::Modal]),
    adverb("often", "oft", &[Tense::Present]),
    adverb("tomorrow", "morgen", &[Tense::Future]),
    adverb("yesterday", "gestern", &[Tense::Perfect]),
];

/// All take the dative, because the places stay where they are.
pub(super) static PREPOSITIONS: [Preposition; 4] = [
    Preposition {
        english: "in",
        german: "in",
        with_dem: Some("im"),
    },
    Preposition {
        english: "behind",
        german: "hinter",
        with_dem: None,
    },
    Preposition {
        english: "near",
        german: "bei",
        with_dem: Some("beim"),
    },
    Preposition {
        english: "in front of",
        german: "vor",
        with_dem: None,
    },
];

// Shorter ways to write the tables above.

const fn noun(
    english: [&'static str; 2],
    german: [&'static str; 2],
    gender: Gender,
    class: NounClass,
) -> Noun {
    Noun {
        english,
        german,
        gender,
        class,
    }
}

const fn adjective(
    english: &'static str,
    german: &'static str,
    classes: &'static [NounClass],
) -> Adjective {
    Adjective {
        english,
        german,
        classes,
    }
}

const fn verb(
    [base, third_singular, english_participle]: [&'static str; 3],
    prefix: &'static str,
    [infinitive, first, second, third, german_participle]: [&'static str; 5],
    frame: Frame,
) -> Verb {
    Verb {
        english: EnglishPresent {
            base,
            third_singular,
        },
        english_participle,
        prefix,
        german: Present {
            infinitive,
            singular: [first, second, third],
        },
        german_participle,
        frame,
    }
}

const fn governor(
    [base, third_singular]: [&'static str; 2],
    [infinitive, first, second, third]: [&'static str; 4],
) -> Governor {
    Governor {
        english: EnglishPresent {
            base,
            third_singular,
        },
        german: Present {
            infinitive,
            singular: [first, second, third],
        },
    }
}

const fn subject_pronoun(
    english: &'static str,
    german: &'static str,
    agreement: Agreement,
) -> SubjectPronoun {
    SubjectPronoun {
        english,
        german,
        agreement,
    }
}

const fn object_pronoun(
    english: &'static str,
    [accusative, dative]: [&'static str; 2],
    agreement: Agreement,
) -> ObjectPronoun {
    ObjectPronoun {
        english,
        accusative,
        dative,
        agreement,
    }
}

const fn adverb(english: &'static str, german: &'static str, tenses: &'static [Tense]) -> Adverb {
    Adverb {
        english,
        german,
        tenses,
    }
}
