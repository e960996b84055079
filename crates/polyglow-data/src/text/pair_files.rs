//! Files of pairs, in each form in which [`Corpus`](crate::corpus::Corpus) reads them.

mod packed;

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;
use std::str::FromStr;

use quick_xml::escape::escape;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::file::NewFile;
use crate::pair::Pair;
use packed::{Packed, Packing};

/// The text before the units of a translation memory, up to the language of the source.
const TMX_HEAD: &str = concat!(
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<tmx version=\"1.4\">\n",
    "<header creationtool=\"polyglow\" creationtoolversion=\"",
    env!("CARGO_PKG_VERSION"),
    "\" segtype=\"sentence\" o-tmf=\"text\" adminlang=\"en\" datatype=\"plaintext\" srclang=\"",
);
/// The text behind the units of a translation memory.
const TMX_TAIL: &str = "</body>\n</tmx>\n";

/// A form in which pairs are written. By name: `lines` for a file for each side, `tsv` for one with a
/// tab between the sides, `tmx` for a translation memory, each also with `.gz` or `.zst` behind it,
/// and `zip` for an archive with a file for each side, as OPUS has them.
///
/// ```
/// use polyglow_data::pair_files::PairFormat;
///
/// let format: PairFormat = "tsv.gz".parse()?;
/// assert_eq!(format.file_names("train", ["en", "de"]), ["train.tsv.gz"]);
/// let lines = PairFormat::default();
/// assert_eq!(lines.file_names("train", ["en", "de"]), ["train.en", "train.de"]);
/// assert!("csv".parse::<PairFormat>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairFormat {
    layout: Layout,
    packing: Packing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Layout {
    #[default]
    Lines,
    Tsv,
    Tmx,
    Zip,
}

impl PairFormat {
    /// Returns all forms.
    pub fn all() -> impl Iterator<Item = Self> {
        let packed = [Layout::Lines, Layout::Tsv, Layout::Tmx].into_iter();
        let packed = packed.flat_map(|layout| {
            Packing::ALL
                .into_iter()
                .map(move |packing| Self { layout, packing })
        });
        packed.chain([Self {
            layout: Layout::Zip,
            packing: Packing::Plain,
        }])
    }

    /// Returns the names of the files of pairs in these languages, which begin with `stem`.
    pub fn file_names(self, stem: &str, languages: [&str; 2]) -> Vec<String> {
        let ending = self.packing.ending();
        match self.layout {
            Layout::Lines => languages
                .map(|language| format!("{stem}.{language}{ending}"))
                .to_vec(),
            Layout::Tsv => vec![format!("{stem}.tsv{ending}")],
            Layout::Tmx => vec![format!("{stem}.tmx{ending}")],
            Layout::Zip => vec![format!("{stem}.zip")],
        }
    }

    /// Returns what `data.train` names to read these files.
    pub fn config_name(self, stem: &str) -> String {
        match self.layout {
            Layout::Lines => stem.to_owned(),
            _ => self.file_names(stem, [""; 2]).remove(0),
        }
    }
}

impl Display for PairFormat {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let layout = match self.layout {
            Layout::Lines => "lines",
            Layout::Tsv => "tsv",
            Layout::Tmx => "tmx",
            Layout::Zip => "zip",
        };
        write!(formatter, "{layout}{}", self.packing.ending())
    }
}

impl FromStr for PairFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::all()
            .find(|format| format.to_string() == name)
            .ok_or_else(|| {
                let names: Vec<String> = Self::all().map(|format| format.to_string()).collect();
                format!("the forms are {}", names.join(", "))
            })
    }
}

/// Files of pairs that are being written, each under a temporary name until all are complete.
pub struct PairFiles {
    languages: [String; 2],
    outputs: Outputs,
}

enum Outputs {
    Lines([Packed; 2]),
    Tsv(Packed),
    Tmx(Packed),
    Zip(Box<Archive>),
}

/// An archive of which the source side is being written, while the target side waits in a file without
/// a name: a member can only begin where the one before ends.
struct Archive {
    zip: ZipWriter<BufWriter<NewFile>>,
    tgt: BufWriter<File>,
    tgt_name: String,
}

impl PairFiles {
    /// Creates the files in a directory, whose names begin with `stem`.
    ///
    /// # Errors
    /// A file cannot be created.
    pub fn create(
        dir: &Path,
        stem: &str,
        languages: [&str; 2],
        format: PairFormat,
    ) -> io::Result<Self> {
        let names = format.file_names(stem, languages);
        let create = |name: &String| Packed::create(&dir.join(name), format.packing);
        let outputs = match format.layout {
            Layout::Lines => Outputs::Lines([create(&names[0])?, create(&names[1])?]),
            Layout::Tsv => Outputs::Tsv(create(&names[0])?),
            Layout::Tmx => {
                let mut file = create(&names[0])?;
                write!(file, "{TMX_HEAD}{}\"/>\n<body>\n", escape(languages[0]))?;
                Outputs::Tmx(file)
            }
            Layout::Zip => {
                let [src_name, tgt_name] = languages
                    .map(|language| format!("{stem}.{}-{}.{language}", languages[0], languages[1]));
                let file = NewFile::create(&dir.join(&names[0]))?;
                let mut zip = ZipWriter::new(BufWriter::new(file));
                zip.start_file(src_name, member_options())?;
                Outputs::Zip(Box::new(Archive {
                    zip,
                    tgt: BufWriter::new(tempfile::tempfile_in(dir)?),
                    tgt_name,
                }))
            }
        };
        Ok(Self {
            languages: languages.map(str::to_owned),
            outputs,
        })
    }

    /// Writes a pair.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn write(&mut self, pair: &Pair) -> io::Result<()> {
        let Pair { src, tgt } = pair;
        match &mut self.outputs {
            Outputs::Lines([src_file, tgt_file]) => {
                writeln!(src_file, "{src}")?;
                writeln!(tgt_file, "{tgt}")
            }
            Outputs::Tsv(file) => {
                let [src, tgt] = [src, tgt].map(|side| side.replace('\t', " "));
                writeln!(file, "{src}\t{tgt}")
            }
            Outputs::Tmx(file) => {
                write!(file, "<tu>")?;
                for (side, language) in [src, tgt].into_iter().zip(&self.languages) {
                    let text: String = side.chars().map(allowed_in_xml).collect();
                    let [language, text] = [escape(language), escape(&text)];
                    write!(file, "<tuv xml:lang=\"{language}\"><seg>{text}</seg></tuv>")?;
                }
                writeln!(file, "</tu>")
            }
            Outputs::Zip(archive) => {
                writeln!(archive.zip, "{src}")?;
                writeln!(archive.tgt, "{tgt}")
            }
        }
    }

    /// Completes the files, and gives them their names.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn commit(self) -> io::Result<()> {
        match self.outputs {
            Outputs::Lines([src, tgt]) => {
                src.commit()?;
                tgt.commit()
            }
            Outputs::Tsv(file) => file.commit(),
            Outputs::Tmx(mut file) => {
                file.write_all(TMX_TAIL.as_bytes())?;
                file.commit()
            }
            Outputs::Zip(archive) => archive.commit(),
        }
    }
}

impl Archive {
    fn commit(self) -> io::Result<()> {
        let Self {
            mut zip,
            tgt,
            tgt_name,
        } = self;
        let mut tgt = tgt.into_inner()?;
        tgt.rewind()?;
        zip.start_file(tgt_name, member_options())?;
        io::copy(&mut tgt, &mut zip)?;
        zip.finish()?.into_inner()?.commit()
    }
}

/// Members may be longer than 4 GiB, and the bytes of an archive do not depend on when it was written.
fn member_options() -> SimpleFileOptions {
    SimpleFileOptions::default()
        .large_file(true)
        .last_modified_time(zip::DateTime::default())
}

/// A character, or a blank in place of one that XML has no way to write.
fn allowed_in_xml(character: char) -> char {
    match character {
        '\t' | '\n' | '\r' => character,
        '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => ' ',
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Content, DataConfig, Split, TrainFiles};
    use crate::corpus::Corpus;

    #[test]
    fn a_corpus_reads_what_was_written_in_each_form() {
        let mut pairs: Vec<Pair> = [
            ("<b>1 & 2</b> \"so\" 'it' ]]>", "&lt; ist <"),
            ("", "nur hier"),
            ("日本語 🙂", "é"),
        ]
        .map(|(src, tgt)| Pair {
            src: src.to_owned(),
            tgt: tgt.to_owned(),
        })
        .to_vec();
        // More than a buffer, and more than one frame of zstd.
        for number in 0..60_000 {
            pairs.push(Pair {
                src: format!("the line of number {number}"),
                tgt: format!("die Zeile mit der Nummer {number}"),
            });
        }
        for format in PairFormat::all() {
            let dir = tempfile::tempdir().expect("a directory");
            let mut files =
                PairFiles::create(dir.path(), "out", ["en", "de"], format).expect("it is created");
            for pair in &pairs {
                files.write(pair).expect("it is written");
            }
            files.commit().expect("it is complete");
            let mut names: Vec<String> = std::fs::read_dir(dir.path())
                .expect("it is there")
                .map(|entry| {
                    entry
                        .expect("an entry")
                        .file_name()
                        .into_string()
                        .expect("UTF-8")
                })
                .collect();
            names.sort();
            let mut expected = format.file_names("out", ["en", "de"]);
            expected.sort();
            assert_eq!(names, expected);
            let config = DataConfig {
                train: Some(TrainFiles::One(dir.path().join(format.config_name("out")))),
                src: Some("en".to_owned()),
                tgt: Some("de".to_owned()),
                ..DataConfig::default()
            };
            let corpus = Corpus::open(&config, Content::PAIRS, Split::Train).expect("it is found");
            let read: Vec<Pair> = corpus
                .pairs()
                .collect::<Result<_, _>>()
                .expect("it is read");
            assert!(read == pairs, "{format}: {:?}", &read[..3]);
        }
    }

    #[test]
    fn what_a_form_has_no_way_to_write_becomes_a_blank() {
        let pair = Pair {
            src: "a\tb\u{1}c".to_owned(),
            tgt: "d".to_owned(),
        };
        for (format, expected) in [("tsv", "a b\u{1}c\td\n"), ("tmx", "<seg>a\tb c</seg>")] {
            let dir = tempfile::tempdir().expect("a directory");
            let format: PairFormat = format.parse().expect("a form");
            let mut files =
                PairFiles::create(dir.path(), "out", ["en", "de"], format).expect("it is created");
            files.write(&pair).expect("it is written");
            files.commit().expect("it is complete");
            let path = dir.path().join(format.config_name("out"));
            let text = std::fs::read_to_string(path).expect("it is there");
            assert!(text.contains(expected), "{text}");
        }
    }
}
