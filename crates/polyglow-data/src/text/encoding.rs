//! The encoding of a text that is not UTF-8 as it should be, guessed from its bytes, so that an
//! error can say how to convert it.

#[cfg(feature = "training")]
pub(crate) mod guess;

/// An encoding other than UTF-8, or damage to UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// It is in UTF-16, by the name that `iconv` has for its order of bytes: `UTF-16` where a
    /// byte-order mark tells it.
    Utf16(&'static str),
    /// It was in UTF-16 and was converted as if every byte were a character.
    ConvertedUtf16,
    /// It is in UTF-8 but for a few bytes.
    Damaged,
    /// It is probably in the encoding of this name, which `iconv` knows.
    Legacy(&'static str),
    /// It begins in UTF-8, and from a line on it is probably in the encoding of this name.
    Changed(&'static str),
}

impl Encoding {
    /// Says what is wrong with a file, to follow its name in a message.
    pub(crate) const fn problem(self) -> &'static str {
        match self {
            Self::Utf16(_) => "is in UTF-16, not in UTF-8",
            Self::ConvertedUtf16 => {
                "was in UTF-16 and was converted as if it were in another encoding"
            }
            Self::Damaged => "is in UTF-8, but some bytes of it are damaged",
            Self::Legacy(_) => "is not in UTF-8",
            Self::Changed(_) => "is in UTF-8 at first, and here in another encoding",
        }
    }

    /// Returns the hint for the user: how to convert the file.
    pub(crate) fn advice(self) -> String {
        match self {
            Self::Utf16(name) => format!("convert the file: `iconv -f {name} -t UTF-8 OLD > NEW`"),
            Self::ConvertedUtf16 => {
                "convert the original with `iconv -f UTF-16 -t UTF-8 OLD > NEW`, or this file back and \
                again: `iconv -f UTF-8 -t LATIN1 OLD | iconv -f UTF-16 -t UTF-8 > NEW`"
                    .to_owned()
            }
            Self::Damaged => {
                "restore this line from its origin; of parallel training text, `data.clean = true` or `polyglow clean` reads \
                lines in Windows-1252, and removes damaged ones; the rest of the text is in UTF-8, so do not convert the file: \
                `iconv -c -f UTF-8 -t UTF-8 OLD > NEW` drops the damaged bytes and keeps every line, without its letters"
                    .to_owned()
            }
            Self::Changed(name) => {
                format!(
                    "the file was put together of several, and from this line on it looks like {name}: convert that part \
                     alone, `tail -n +LINE OLD | iconv -f {name} -t UTF-8`, and put it behind the lines before, \
                     `head -n LINES OLD`; of parallel training text, `polyglow clean` or `data.clean = true` reads lines \
                     in Windows-1252, and removes others"
                )
            }
            Self::Legacy(name) => {
                format!(
                    "convert the file, which looks like {name}: `iconv -f {name} -t UTF-8 OLD > NEW`, then look at letters with \
                     accents; if they are wrong, it is another encoding, such as MACINTOSH, CP850 or CP437"
                )
            }
        }
    }
}
