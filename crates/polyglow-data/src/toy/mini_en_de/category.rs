//! The grammar's categories of English words, by the names of Universal Dependencies.

/// The category of a word of the dictionary, or of an expression of several such as "look for".
#[derive(Clone, Copy)]
pub(super) enum Category {
    Adjective,
    Adverb,
    /// A verb that a question puts before its subject: "do", "have", "will", "can", "must".
    Auxiliary,
    /// "because", "although", "if", and the "that" of a report.
    Conjunction,
    Determiner,
    Noun,
    Numeral,
    /// "not", and the "to" of an infinitive.
    Particle,
    Preposition,
    /// Also a possessive such as "my", as in the English treebanks, and a relative pronoun.
    Pronoun,
    Punctuation,
    Verb,
}

impl Category {
    /// The part of speech of the word at `index` of an expression of this category.
    pub(super) const fn tag(self, index: usize) -> &'static str {
        match (self, index) {
            (Self::Adjective, _) => "ADJ",
            (Self::Adverb, _) => "ADV",
            (Self::Auxiliary, _) => "AUX",
            (Self::Conjunction, _) => "SCONJ",
            (Self::Determiner, _) => "DET",
            // "in front of"
            (Self::Noun, _) | (Self::Preposition, 1) => "NOUN",
            (Self::Numeral, _) => "NUM",
            (Self::Particle, _) => "PART",
            (Self::Pronoun, _) => "PRON",
            (Self::Punctuation, _) => "PUNCT",
            (Self::Verb, 0) => "VERB",
            // "look for", "pick up"
            (Self::Preposition | Self::Verb, _) => "ADP",
        }
    }
}
