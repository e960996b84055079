//! What can go wrong between a text file and a batch, with the place where it happened.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Every error of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system refused to read or write a file.
    #[error("cannot access `{path}`", path = .path.display())]
    Io {
        /// File or directory concerned.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// No file lies at any of the places where a corpus side may be.
    #[error("`{key}`: there is no file `{path}`, nor `{path}.gz`", path = .path.display())]
    MissingFile {
        /// The configuration key that asks for it, such as `data.valid`.
        key: String,
        /// The uncompressed name that was tried first.
        path: PathBuf,
    },
    /// A file that would be written holds something else.
    #[error("`{path}` is there already, with other content", path = .path.display())]
    Occupied {
        /// File concerned.
        path: PathBuf,
    },
    /// A line is not UTF-8.
    #[error("`{path}` line {line}: invalid UTF-8 at byte {byte} of the line", path = .path.display())]
    InvalidUtf8 {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// First bad byte of the line, counted from 1.
        byte: usize,
    },
    /// The two sides of a corpus do not have the same number of lines.
    #[error(
        "`{src}` has {src_lines} lines but `{tgt}` has {tgt_lines}: line {line} has no partner",
        src = .src.display(), tgt = .tgt.display(), line = .src_lines.min(.tgt_lines) + 1
    )]
    LineCount {
        /// Source file.
        src: PathBuf,
        /// Lines in the source file.
        src_lines: u64,
        /// Target file.
        tgt: PathBuf,
        /// Lines in the target file.
        tgt_lines: u64,
    },
    /// A line is no list of alignment links.
    #[error("`{path}` line {line}: `{text}` is no list of links such as `0-0 1-2`", path = .path.display())]
    Alignment {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// What stands there.
        text: String,
    },
    /// There is not one line of alignment links for each pair.
    #[error(
        "`{path}` and the corpus `{corpus}` differ in length: one has a line {line} and the other has not",
        path = .path.display()
    )]
    AlignmentCount {
        /// File of the links.
        path: PathBuf,
        /// The first line that only one of them has, counted from 1.
        line: u64,
        /// The text that they belong to.
        corpus: String,
    },
    /// A link names a word that its pair does not have.
    #[error("`{path}` line {line}: a link names a word that this line of `{corpus}` does not have", path = .path.display())]
    LinkBeyond {
        /// File of the links.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// The text that they belong to.
        corpus: String,
    },
    /// A line of a TSV file does not hold exactly a source and a target.
    #[error("`{path}` line {line}: {found} tab-separated columns instead of 2", path = .path.display())]
    Columns {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// Columns on that line.
        found: usize,
    },
    /// A line of a labeled file is not a label and a text, and one tab between them.
    #[error("`{path}` line {line}: {problem}", path = .path.display())]
    Label {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A line is not a word and its vector.
    #[error("`{path}` line {line}: {problem}", path = .path.display())]
    Vectors {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A file or folder is not the images, or the labels of images, that it should be.
    #[error("`{path}`: {problem}", path = .path.display())]
    Image {
        /// File or folder concerned.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A corpus or vocabulary holds no lines.
    #[error("`{path}` is empty: it has no line 1", path = .path.display())]
    Empty {
        /// File, or name of the embedded corpus.
        path: PathBuf,
    },
    /// Every pair of the training text was left out.
    #[error("no pair is left to train on: {reasons}")]
    NothingKept {
        /// How many pairs were left out, by reason.
        reasons: String,
    },
    /// A configuration key has a value that cannot be used.
    #[error("`{key}` {problem}")]
    Config {
        /// Full name of the key, such as `data.max_len`.
        key: &'static str,
        /// What is wrong with it, to be read after the key.
        problem: String,
    },
    /// A tokenizer could not be trained, read or applied.
    #[error("tokenizer `{name}`: {problem}")]
    Tokenizer {
        /// Path of the file, or kind of the tokenizer.
        name: String,
        /// What the tokenizer library said.
        problem: String,
    },
    /// A tokenizer lacks one of the four special tokens.
    #[error("tokenizer `{name}` has no {role} token: none of {tried} is in its vocabulary")]
    MissingSpecial {
        /// Path of the file, or kind of the tokenizer.
        name: String,
        /// What the token is for.
        role: &'static str,
        /// Spellings that were looked for.
        tried: String,
    },
    /// BPE dropout needs a BPE tokenizer whose merges fully explain its tokens.
    #[error("BPE dropout is not possible with this tokenizer: {problem}")]
    Dropout {
        /// What stands in the way.
        problem: String,
    },
    /// The id cache does not hold what its header says.
    #[error("id cache `{path}` is damaged: {problem}", path = .path.display())]
    Cache {
        /// Cache file.
        path: PathBuf,
        /// What does not fit.
        problem: String,
    },
    /// An n-gram model cannot be learned from these ids.
    #[error("n-gram model: {problem}")]
    Ngram {
        /// What stands in the way.
        problem: String,
    },
    /// One pair alone is larger than a batch may be.
    #[error("{place} needs {tokens} positions on one side, more than `train.max_tokens` = {max_tokens}")]
    LargerThanBatch {
        /// Index of the example in the cache.
        example: u32,
        /// Where the pair stands: its file and line, if they are known.
        place: String,
        /// Positions of its longer side, padded.
        tokens: usize,
        /// The budget per batch.
        max_tokens: usize,
    },
}

impl DataError {
    /// What the user can do about it, where that is not plain from the message.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::MissingFile { .. } => {
                "relative paths start at the current directory; a corpus is named by the part before the language: \
                 `train = \"data/train\"` with `src = \"en\"` reads `data/train.en`"
            }
            Self::Occupied { .. } => "give another directory, or remove the file",
            Self::InvalidUtf8 { .. } => "convert the file, for example with `iconv -f LATIN1 -t UTF-8`",
            Self::LineCount { .. } => {
                "line n of one side must translate line n of the other; look for lines that were split, joined or dropped"
            }
            Self::Columns { .. } => {
                "a TSV corpus has `source<TAB>target` on each line; `cut -f1,2` drops further columns"
            }
            Self::Label { .. } => "each line has `label<TAB>text`, with the labels of the training text",
            Self::Vectors { .. } => {
                "each line has a word and its numbers, after a line `words numbers` (word2vec's text format) or without one \
                 (GloVe's)"
            }
            Self::NothingKept { .. } => "raise `data.max_len` or `data.max_length_ratio`, or look at the text",
            Self::MissingSpecial { .. } => {
                "add the token to the tokenizer's vocabulary, or let a new tokenizer be trained by leaving out `tokenizer.path`"
            }
            Self::Dropout { .. } => "set `tokenizer.dropout = 0.0`, or `tokenizer.kind` to \"bpe\" or \"word-bpe\"",
            Self::Cache { .. } => "delete the file; it is built again from the corpus",
            Self::LargerThanBatch { .. } => {
                "raise `train.max_tokens`, or lower `data.max_len`; of a text in windows `data.context_len`, and for word \
                 vectors `data.window` or `data.negatives`"
            }
            Self::Alignment { .. } => "a link is `source-target`, word numbers from 0, with spaces between links",
            Self::AlignmentCount { .. } => {
                "there must be a line of links for each pair; a blank one where there is none"
            }
            Self::LinkBeyond { .. } => {
                "words are what whitespace divides, counted from 0; the alignments may be of other text"
            }
            Self::Empty { .. } => "is it the right file, and was it written to its end?",
            Self::Tokenizer { .. } => {
                "a `tokenizer.json` comes from polyglow or from Hugging Face's `tokenizers`; leave out `tokenizer.path` to \
                 learn a new one"
            }
            _ => return None,
        })
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
