//! The error type of this crate: what went wrong between a file and a batch, and where.

mod hint;

use std::error::Error as _;
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use crate::text::encoding::Encoding;

/// An error of this crate. Each names its file, line or configuration key.
///
/// With [`Debug`](fmt::Debug) it is displayed as well, with its cause and its hint, which a program
/// prints whose `main` returns it.
#[derive(Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system refused to read or write a file.
    #[error("cannot access `{path}`", path = .path.display())]
    Io {
        /// File or directory concerned.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file of a corpus does not exist, neither plain nor compressed.
    #[error("`{key}`: there is no file `{path}`{or}", path = .path.display(), or = or_compressed(.path))]
    MissingFile {
        /// The configuration key or the option that names it, such as `data.valid`.
        key: String,
        /// The uncompressed name, which was tried first.
        path: PathBuf,
    },
    /// A file that would be written already exists, with other content.
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
        /// The encoding of the text instead, guessed from its bytes.
        encoding: Encoding,
    },
    /// A text is not in UTF-8.
    #[error("`{path}` {problem}", path = .path.display(), problem = .encoding.problem())]
    Encoding {
        /// File concerned.
        path: PathBuf,
        /// The encoding that it is in.
        encoding: Encoding,
    },
    /// A text has no line feeds.
    #[error("`{path}` has no line feed: its lines end in carriage returns alone", path = .path.display())]
    CarriageReturns {
        /// File concerned.
        path: PathBuf,
    },
    /// A line is longer than any text.
    #[error("`{path}` line {line}: longer than {limit} MiB", path = .path.display(), limit = .limit >> 20)]
    LongLine {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// The longest line that is read, in bytes.
        limit: usize,
    },
    /// A path that a corpus names exists, but is not a file.
    #[error("`{key}`: `{path}` is {what}, not a file", path = .path.display())]
    NoFile {
        /// The configuration key or the option that names it.
        key: String,
        /// The path.
        path: PathBuf,
        /// The kind of thing that it is, such as `a pipe`.
        what: &'static str,
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
    /// A line of an alignment file is not a list of links.
    #[error("`{path}` line {line}: `{text}` is not a list of links such as `0-0 1-2`", path = .path.display())]
    Alignment {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// The line.
        text: String,
    },
    /// An alignment file does not have one line for each pair.
    #[error(
        "`{path}` and the corpus `{corpus}` differ in length: only one of them has a line {line}",
        path = .path.display()
    )]
    AlignmentCount {
        /// File of the links.
        path: PathBuf,
        /// The first line that exists in only one of them, counted from 1.
        line: u64,
        /// The corpus that they belong to.
        corpus: String,
    },
    /// A line of a file of scores is no number.
    #[error("`{path}` line {line}: `{text}` is no number", path = .path.display())]
    PairScore {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// The start of the line.
        text: String,
    },
    /// A file of scores does not have one for each pair.
    #[error("`{path}` has {count} scores, and the text {num_pairs} pairs", path = .path.display())]
    PairScoreCount {
        /// File of the scores.
        path: PathBuf,
        /// Its lines.
        count: u64,
        /// The pairs of the text.
        num_pairs: u64,
    },
    /// A directory has the state of another alignment.
    #[error("`{path}` has the state of an alignment of another text, or with another prior or seed", path = .path.display())]
    OtherAlignment {
        /// The directory.
        path: PathBuf,
    },
    /// A link refers to a word that its pair does not have.
    #[error("`{path}` line {line}: a link names a word that this line of `{corpus}` does not have", path = .path.display())]
    LinkBeyond {
        /// File of the links.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// The corpus that they belong to.
        corpus: String,
    },
    /// A line of a TSV file is not exactly a source and a target.
    #[error("`{path}` line {line}: {count} tab-separated columns instead of 2", path = .path.display())]
    Columns {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// Number of columns on that line.
        count: usize,
        /// The two columns that look like text, counted from 1, if there are two.
        texts: Option<[usize; 2]>,
    },
    /// A file ends too early, as a download that was cut off.
    #[error("`{path}`{at_line} {problem}", path = .path.display(), at_line = at_line(*.line))]
    CutOff {
        /// File concerned.
        path: PathBuf,
        /// Line from which on it cannot be read, counted from 1.
        line: u64,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// A file in TMX is damaged, or has no pairs of the languages.
    #[error("`{path}`{at_line} {problem}", path = .path.display(), at_line = at_line(*.line))]
    Tmx {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1; 0 for the file as a whole.
        line: u64,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// An archive does not have one readable member for each language.
    #[error("`{path}`: {problem}", path = .path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// A member of an archive is not read.
    #[error("`{path}`: {problem}", path = .path.display())]
    ArchiveMember {
        /// The archive.
        path: PathBuf,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// A file is not a zip archive, or not a complete one.
    #[error("`{path}` is not a complete zip archive: {problem}", path = .path.display())]
    BrokenArchive {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        problem: String,
    },
    /// A line of a labeled file is not a label and a text, separated by one tab.
    #[error("`{path}` line {line}: {problem}", path = .path.display())]
    Label {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// A line of a tagged file is not a word and its tag.
    #[error("`{path}` line {line}: {problem}", path = .path.display())]
    Tagged {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// A tagged sentence has not as many tags as words.
    #[error("`{corpus}`, sentence {sentence}: {words} words and {tags} tags")]
    UnpairedTags {
        /// The name of the corpus.
        corpus: String,
        /// The sentence, counted from 1.
        sentence: u64,
        /// Its number of words.
        words: usize,
        /// Its number of tags.
        tags: usize,
    },
    /// A line of a file of word vectors is not a word and its vector.
    #[error("`{path}` line {line}: {problem}", path = .path.display())]
    Vectors {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1.
        line: u64,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// A file of captions is wrong, or an image of it.
    #[error("`{path}`{at_line} {problem}", path = .path.display(), at_line = at_line(*.line))]
    Captions {
        /// File concerned.
        path: PathBuf,
        /// Line, counted from 1; 0 for the file as a whole.
        line: u64,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// A file or folder of images, or of their labels, is wrong.
    #[error("`{path}`: {problem}", path = .path.display())]
    Image {
        /// File or folder concerned.
        path: PathBuf,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// Cleaning leaves nothing of a text.
    #[error(
        "no pair of {pairs} stays: `{reason}` removes {count} of them, more than any other reason"
    )]
    NothingStays {
        /// The pairs of the text.
        pairs: u64,
        /// The key of the reason that removes most.
        reason: &'static str,
        /// The pairs that it removes.
        count: u64,
    },
    /// A corpus or vocabulary has no lines.
    #[error("`{path}` is empty: it has no line 1", path = .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A source of batches has planned an epoch without any.
    #[error("the training data yields no batch")]
    NoBatch,
    /// The filter has rejected every pair of the training text.
    #[error("every training pair is left out: {reasons}")]
    NothingKept {
        /// The number of pairs that were left out, by reason.
        reasons: String,
    },
    /// A configuration key has a wrong value.
    #[error("`{key}` {problem}")]
    Config {
        /// Full name of the key, such as `data.max_len`.
        key: &'static str,
        /// The problem; the message is the key followed by this.
        problem: String,
    },
    /// A tokenizer could not be trained, read or applied.
    #[error("tokenizer `{name}`: {problem}")]
    Tokenizer {
        /// Path of the file, or kind of the tokenizer.
        name: String,
        /// The message of the tokenizers library, or what else is wrong.
        problem: String,
    },
    /// A tokenizer lacks one of the four special tokens.
    #[error("tokenizer `{name}` has no {role} token: none of {tried} is in its vocabulary")]
    MissingSpecial {
        /// Path of the file, or kind of the tokenizer.
        name: String,
        /// The role of the token, such as `padding`.
        role: &'static str,
        /// The spellings that were tried.
        tried: String,
    },
    /// A vocabulary lacks a tag.
    #[error("tokenizer `{name}`: there is no tag `{tag}`; {known}")]
    MissingTag {
        /// Path of the file, or kind of the tokenizer.
        name: String,
        /// The tag.
        tag: String,
        /// The tags that it has, in words.
        known: String,
    },
    /// A vocabulary that has no room for every character of the text: unigram needs a token for
    /// each, and word-bpe two.
    #[error(
        "`tokenizer.vocab_size = {vocab_size}` has no room for the {characters} characters of the text and the special tokens, \
         which take {needed} tokens"
    )]
    VocabularyTooSmall {
        /// The configured number of tokens.
        vocab_size: usize,
        /// Different characters of the text.
        characters: usize,
        /// Tokens that they and the special tokens take.
        needed: usize,
    },
    /// Words cannot be segmented anew in every epoch: BPE dropout needs a BPE tokenizer all of whose
    /// tokens are made by merges, sampling a unigram model, and both suitable rows.
    #[error("words cannot be segmented anew in every epoch: {problem}")]
    Segmentation {
        /// Why that is not possible.
        problem: String,
    },
    /// The content of the id cache contradicts its header.
    #[error("id cache `{path}` is damaged: {problem}", path = .path.display())]
    Cache {
        /// Cache file.
        path: PathBuf,
        /// The problem, which the message names after the file.
        problem: String,
    },
    /// An n-gram model cannot be learned from these ids.
    #[error("n-gram model: {problem}")]
    Ngram {
        /// Why it is not possible.
        problem: String,
    },
    /// A single example exceeds the size of a batch.
    #[error(
        "{name} needs {tokens} positions on one side, which is more than `train.max_tokens` = {max_tokens}"
    )]
    LargerThanBatch {
        /// Index of the example in the cache.
        example: u32,
        /// Its file and line if they are known, or else its index, for the message.
        name: String,
        /// Padded length of its longer side, in tokens.
        tokens: usize,
        /// Maximum number of tokens in a batch.
        max_tokens: usize,
    },
}

/// Writes the message with its cause, and the hint on a line of its own.
impl fmt::Debug for DataError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")?;
        if let Some(cause) = self.source() {
            write!(formatter, ": {cause}")?;
        }
        match self.hint() {
            Some(hint) => write!(formatter, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Names the compressed forms of a missing file, to follow its name.
fn or_compressed(path: &Path) -> String {
    #[cfg(feature = "training")]
    return crate::corpus::compressed_names(path);
    #[cfg(not(feature = "training"))]
    return format!(", nor a compressed one, `{}.gz`", path.display());
}

/// Formats the number of a line, to follow the name of its file; nothing for line 0.
fn at_line(line: u64) -> String {
    if line == 0 {
        String::new()
    } else {
        format!(" line {line}:")
    }
}

impl DataError {
    /// Whether a file ends too early.
    #[cfg(feature = "training")]
    pub(crate) fn is_early_end(&self) -> bool {
        matches!(self, Self::CutOff { .. })
    }

    /// Returns a function that makes an error of this crate of one of the system's about `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_an_error_prints_its_message_and_its_hint() {
        let missing = std::io::Error::other("no such disk");
        let error: Box<dyn std::error::Error> = Box::new(DataError::io(Path::new("a.en"))(missing));
        assert_eq!(format!("{error:?}"), "cannot access `a.en`: no such disk");
        let error = DataError::Occupied {
            path: "a.en".into(),
        };
        let expected = "`a.en` is there already, with other content\nhint: give another directory, or remove the file";
        assert_eq!(format!("{error:?}"), expected);
    }
}
