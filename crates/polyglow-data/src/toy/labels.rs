//! The English sentences of `mini-en-de` with labels from the grammar, for text classification.

use std::path::Path;

use super::mini_en_de::{self, Sentence, SentenceKind, Tense};
use super::{Toy, lines, write_files};
use crate::error::DataError;
use crate::labeled::{LabelSet, LabeledText};

/// The English sentences of [`Toy::MiniEnDe`] with labels of one kind.
///
/// The sentences, the splits and their order are those of the translation corpus. The words of a
/// sentence show its type; the tense is that of the main clause, while other clauses have tenses of
/// their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabeledToy {
    /// `statement`, `question`, `reason` ("... because ..."), `condition` ("if ... , ...") or
    /// `report` ("she knows that ..."). The corpus is called `mini-en-de-types`.
    Types,
    /// `present`, `perfect`, `future`, or `modal` for "can", "must" and "want to". The corpus is
    /// called `mini-en-de-tenses`.
    Tenses,
    /// Both, such as `question-perfect`: 17 labels, because reports are in the present. The corpus
    /// is called `mini-en-de-types-tenses`.
    TypesAndTenses,
}

impl LabeledToy {
    /// Every labeled corpus.
    pub const ALL: [Self; 3] = [Self::Types, Self::Tenses, Self::TypesAndTenses];

    /// Finds the corpus that a config or a command names, such as `mini-en-de-types`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|toy| toy.name() == name)
    }

    /// The name by which [`LabeledToy::from_name`] finds the corpus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Types => "mini-en-de-types",
            Self::Tenses => "mini-en-de-tenses",
            Self::TypesAndTenses => "mini-en-de-types-tenses",
        }
    }

    /// The names of the splits, `train` first.
    pub const fn splits(self) -> &'static [&'static str] {
        Toy::MiniEnDe.splits()
    }

    /// The labels that the sentences have.
    pub fn labels(self) -> LabelSet {
        let kinds = SentenceKind::ALL.into_iter();
        let both = kinds.flat_map(|kind| Tense::ALL.map(|tense| (kind, tense)));
        let possible =
            both.filter(|&(kind, tense)| kind != SentenceKind::Report || tense == Tense::Present);
        LabelSet::new(possible.map(|(kind, tense)| self.label(kind, tense)))
    }

    /// Generates all splits, in the order of [`LabeledToy::splits`].
    pub fn generate(self) -> Vec<(&'static str, Vec<LabeledText>)> {
        let mut splits = Vec::new();
        for (split, sentences) in mini_en_de::draw() {
            let texts = sentences.into_iter().map(|sentence| self.labeled(sentence));
            splits.push((split, texts.collect()));
        }
        splits.sort_by_key(|(name, _)| self.splits().iter().position(|split| split == name));
        splits
    }

    /// Writes `<split>.tsv` for every split into `dir`, one `label<TAB>text` per line. Creates
    /// `dir` if it does not exist.
    ///
    /// # Errors
    /// As [`Toy::write`].
    pub fn write(self, dir: &Path) -> Result<(), DataError> {
        let mut files = Vec::new();
        for (split, texts) in self.generate() {
            let text = lines(texts.iter().map(LabeledText::to_string));
            files.push((format!("{split}.tsv"), text));
        }
        write_files(dir, files)
    }

    fn labeled(self, sentence: Sentence) -> LabeledText {
        LabeledText {
            label: self.label(sentence.kind, sentence.tense),
            text: sentence.pair.src,
        }
    }

    fn label(self, kind: SentenceKind, tense: Tense) -> String {
        let kind = match kind {
            SentenceKind::Statement => "statement",
            SentenceKind::Question => "question",
            SentenceKind::Reason => "reason",
            SentenceKind::Condition => "condition",
            SentenceKind::Report => "report",
        };
        let tense = match tense {
            Tense::Present => "present",
            Tense::Perfect => "perfect",
            Tense::Future => "future",
            Tense::Modal => "modal",
        };
        match self {
            Self::Types => kind.to_owned(),
            Self::Tenses => tense.to_owned(),
            Self::TypesAndTenses => format!("{kind}-{tense}"),
        }
    }
}
