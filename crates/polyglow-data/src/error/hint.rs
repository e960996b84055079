//! Hints: what the user can do about each error.

use std::path::{Path, PathBuf};

use super::DataError;

impl DataError {
    /// Returns what the user can do about the error; `None` if the message already says so.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InvalidUtf8 { encoding, .. } | Self::Encoding { encoding, .. } => {
                Some(encoding.advice())
            }
            Self::Columns { .. } => Some(self.columns_hint()),
            Self::MissingFile { path, .. } if has_tab(path) => Some(format!(
                "`{}` is there, and its first line has a tab: a file with both sides is read if its name ends in `.tsv`",
                path_without_language(path).display()
            )),
            _ => {
                let fixed = self
                    .file_hint()
                    .or_else(|| self.layout_hint())
                    .or_else(|| self.training_hint());
                fixed.map(str::to_owned)
            }
        }
    }

    /// The hint for a TSV file with a wrong number of columns.
    fn columns_hint(&self) -> String {
        let advice = match self {
            Self::Columns { count: 1, .. } => "this one has no tab".to_owned(),
            Self::Columns {
                texts: Some([src, tgt]),
                ..
            } => format!("`cut -f{src},{tgt} OLD > NEW` keeps the two columns that look like text"),
            _ => "`cut -f1,2 OLD > NEW` keeps the first two columns".to_owned(),
        };
        format!("a TSV corpus has `source<TAB>target` on each line; {advice}")
    }

    /// The hint of an error about a file as a whole.
    fn file_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::CarriageReturns { .. } => {
                "give each line a line feed: `tr '\\r' '\\n' < OLD > NEW`"
            }
            Self::LongLine { .. } => {
                "has the file lost its line ends? A text goes into lines of at most 2,000 characters with `fold -s -w 2000 OLD > NEW`"
            }
            Self::NoFile {
                what: "a folder", ..
            } => {
                "a corpus is named by its files, up to the language: `train = \"data/train\"` reads `data/train.en`"
            }
            Self::NoFile { .. } => {
                "a corpus is read several times, and a pipe only once: write its content to a file first"
            }
            Self::MissingFile { .. } => {
                "relative paths start at the current directory; a corpus is named by the part before the language: \
                 `train = \"data/train\"` with `src = \"en\"` reads `data/train.en`"
            }
            Self::Occupied { .. } => "give another directory, or remove the file",
            Self::LineCount { .. } => {
                "line n of one side must translate line n of the other; look for lines that were split, joined or dropped"
            }
            Self::NothingStays { .. } => {
                "`polyglow clean CONFIG --dry-run` shows examples, `--explain 1` says why of a line, and \
                 `--without GROUP`, or `data.clean.without`, leaves filters out"
            }
            Self::Empty { .. } => "is it the right file, and was it written completely?",
            Self::Tmx { line: 0, .. } => {
                "`data.src` and `data.tgt` are language codes of the file: `en` takes `en-US`, too"
            }
            Self::Tmx { .. } => {
                "`xmllint --noout FILE` tests a file; `docs/text.md` says what is read of TMX"
            }
            Self::CutOff { .. } => {
                "was it downloaded completely? `gzip -dc` and `zstd -dc` write what can be read, and `polyglow clean --lenient` \
                 cleans it, of zstd without the end"
            }
            Self::BrokenArchive { .. } => {
                "was it downloaded completely? `unzip -t FILE` tests an archive"
            }
            Self::ArchiveMember { .. } => {
                "if you trust where it comes from, unpack it with another program, and name the two files"
            }
            Self::Archive { .. } => {
                "an archive has one member for each language, such as `Tatoeba.en-fr.en` and `Tatoeba.en-fr.fr` for `src = \"en\"` \
                 and `tgt = \"fr\"`; of another one, unpack the two files, and name what stands before their languages"
            }
            _ => return None,
        })
    }

    /// The hint of an error about the layout of a line, or of the lines of two files.
    fn layout_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Captions { .. } => "`docs/captions.md` has the layouts that are read",
            Self::Label { .. } => {
                "each line has `label<TAB>text`, with the labels of the training text"
            }
            Self::Tagged { .. } => {
                "each line has a word and, in the last column, its tag; a blank line ends a sentence (`docs/tagging.md`)"
            }
            Self::UnpairedTags { .. } => "each word needs one tag; spaces are between words",
            Self::Vectors { .. } => {
                "each line has a word and its numbers, after a line `words numbers` (word2vec's text format) or without one \
                 (GloVe's)"
            }
            Self::Alignment { .. } => {
                "a link is `source-target`, word numbers from 0, separated by spaces"
            }
            Self::AlignmentCount { .. } => {
                "there must be one line of links per pair, blank for a pair without links"
            }
            Self::PairScore { .. } => {
                "each line has one number, the higher the better the pair; if the scores are the third column of a TSV file, \
                 `cut -f3` extracts them"
            }
            Self::PairScoreCount { .. } => {
                "line n must be the score of line n; of several corpora one after the other"
            }
            Self::OtherAlignment { .. } => {
                "go on with that text and these settings, or remove the directory to begin anew"
            }
            Self::LinkBeyond { .. } => {
                "words are separated by whitespace and counted from 0; are these the alignments of another text?"
            }
            _ => return None,
        })
    }

    /// The hint of an error about tokenizers, the id cache and batches.
    fn training_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoBatch => {
                "check that the corpus is not empty, and that its weight leaves some of it"
            }
            Self::NothingKept { .. } => {
                "raise `data.max_len` or `data.max_length_ratio`, or check the text"
            }
            Self::MissingSpecial { .. } => {
                "add the token to the tokenizer's vocabulary, or let a new tokenizer be trained by leaving out `tokenizer.path`"
            }
            Self::VocabularyTooSmall { .. } => {
                "raise `tokenizer.vocab_size`, to twice that number or more, or set `tokenizer.kind = \"bpe\"`, which cuts rare \
                 characters into bytes"
            }
            Self::Segmentation { .. } => {
                "leave out `tokenizer.dropout`, which goes with the kinds \"bpe\" and \"word-bpe\", and \
                 `tokenizer.sampling_alpha`, which goes with \"unigram\""
            }
            Self::Cache { .. } => "delete the file; it is built again from the corpus",
            Self::LargerThanBatch { .. } => {
                "raise `train.max_tokens`, or lower `data.max_len` (for text in windows `data.context_len`, for word vectors \
                 `data.words.window` or `data.words.negatives`)"
            }
            Self::MissingTag { .. } => {
                "a vocabulary gets the tags of the corpora that it is learned from; a fork gets new ones with \
                 `--new-vocabulary`"
            }
            Self::Tokenizer { .. } => {
                "a `tokenizer.json` comes from polyglow or from Hugging Face's `tokenizers`; leave out `tokenizer.path` to \
                 learn a new one"
            }
            _ => return None,
        })
    }
}

/// The path of a corpus without the language at its end, as a configuration names it.
fn path_without_language(path: &Path) -> PathBuf {
    path.with_extension("")
}

/// Whether the path of a missing side without its language is a file whose first line has a tab,
/// such as `all.txt` where `all.txt.en` is missing.
fn has_tab(path: &Path) -> bool {
    let path = path_without_language(path);
    if !path.is_file() {
        return false;
    }
    let Ok(mut file) = std::fs::File::open(path) else {
        return false;
    };
    let mut start = [0; 4096];
    let read = std::io::Read::read(&mut file, &mut start).unwrap_or(0);
    let first = start[..read].split(|byte| *byte == b'\n').next();
    first.is_some_and(|line| line.contains(&b'\t'))
}
