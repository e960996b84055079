//! TMX, the exchange format of translation memories, as pairs; versions 1.1 to 1.4b.
//!
//! The file is read one translation unit at a time, in memory that neither its length nor its
//! content can raise: a DOCTYPE is skipped and never fetched, and its entities are not expanded.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead};
use std::mem;
use std::path::{Path, PathBuf};

use quick_xml::encoding::{DecodingReader, detect_encoding};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use crate::compression::decompress;
use crate::error::DataError;
use crate::lines::MAX_LINE_BYTES;
use crate::pair::Pair;
use crate::text::encoding::guess;

mod bounded;
mod language;

use bounded::Bounded;
pub(super) use language::Language;

/// Elements in a segment whose content is markup of the original document, not text.
const MARKUP: [&str; 6] = ["bpt", "ept", "it", "ph", "sub", "ut"];
/// The deepest nesting of elements: TMX itself needs less than ten.
const MAX_DEPTH: usize = 64;
/// The most languages that a message lists.
const MOST_LISTED: usize = 20;

/// Iterates over the units of a file that have both languages, in bounded memory. Others are
/// skipped; a file without any unit of both languages is an error.
pub(super) struct TmxPairs {
    reader: Reader<Bounded<Box<dyn BufRead + Send>>>,
    buffer: Vec<u8>,
    path: PathBuf,
    languages: [Language; 2],
    /// The number of elements that are open.
    depth: usize,
    unit: Unit,
    /// Whether a unit had both languages.
    any: bool,
    /// Languages of the file, for the error of a file without pairs.
    seen: BTreeSet<String>,
}

/// A `<tu>` as far as it was read.
#[derive(Default)]
struct Unit {
    sides: [Option<String>; 2],
    /// The side of the open `<tuv>`; `None` for another language.
    side: Option<usize>,
    /// The text of the open `<seg>`; `None` outside of one, and in one that is not needed.
    segment: Option<String>,
    /// The depth of the open element whose content is no text.
    markup: Option<usize>,
}

impl TmxPairs {
    /// Opens a file, plain, gzip or zstd, in UTF-8, in UTF-16, or in the encoding that its XML
    /// declaration names.
    ///
    /// # Errors
    /// [`DataError::Io`] if it cannot be opened; [`DataError::Encoding`] for UTF-16 without a
    /// byte-order mark and a declaration. The iterator yields errors for wrong content.
    pub(super) fn open(path: &Path, languages: [Language; 2]) -> Result<Self, DataError> {
        let text = open_text(path)?;
        let mut reader = Reader::from_reader(Bounded::new(text));
        reader.config_mut().expand_empty_elements = true;
        Ok(Self {
            reader,
            buffer: Vec::new(),
            path: path.to_owned(),
            languages,
            depth: 0,
            unit: Unit::default(),
            any: false,
            seen: BTreeSet::new(),
        })
    }

    /// Reads the next unit with both languages; `None` at the end of the file.
    fn read_pair(&mut self) -> Result<Option<Pair>, DataError> {
        let mut buffer = mem::take(&mut self.buffer);
        let pair = self.read_events(&mut buffer);
        self.buffer = buffer;
        pair
    }

    fn read_events(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Pair>, DataError> {
        loop {
            buffer.clear();
            self.reader.get_mut().allow(MAX_LINE_BYTES);
            let event = match self.reader.read_event_into(buffer) {
                Ok(event) => event,
                Err(error) => return Err(self.unreadable(&error)),
            };
            match event {
                Event::Start(element) => self.open_element(&element)?,
                Event::End(element) => {
                    if let Some(pair) = self.close_element(element.local_name().as_ref()) {
                        return Ok(Some(pair));
                    }
                }
                Event::Text(text) => self.add_text(&text)?,
                Event::CData(text) => self.add_text(&text)?,
                Event::GeneralRef(reference) => self.add_reference(&reference)?,
                Event::Eof => return self.check_end().map(|()| None),
                Event::Empty(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_) => {}
            }
        }
    }

    fn open_element(&mut self, element: &BytesStart) -> Result<(), DataError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let problem = format!("elements are nested more than {MAX_DEPTH} deep");
            return Err(self.wrong(problem));
        }
        let name = element.local_name();
        let name: &str = name.as_ref();
        if self.depth == 1 && name != "tmx" {
            let problem = format!("is no TMX: its first element is `<{name}>`, not `<tmx>`");
            return Err(self.wrong(problem));
        }
        match name {
            "tu" => self.unit = Unit::default(),
            "tuv" => self.unit.side = self.side(element)?,
            "seg" => self.unit.open_segment(),
            _ if MARKUP.contains(&name) && self.unit.markup.is_none() => {
                self.unit.markup = Some(self.depth);
            }
            _ => {}
        }
        Ok(())
    }

    /// Closes an element; returns the pair of a unit with both languages.
    fn close_element(&mut self, name: &str) -> Option<Pair> {
        if self.unit.markup == Some(self.depth) {
            self.unit.markup = None;
        }
        self.depth = self.depth.saturating_sub(1);
        match name {
            "seg" => self.unit.close_segment(),
            "tuv" => self.unit.side = None,
            "tu" => {
                if let [Some(src), Some(tgt)] = mem::take(&mut self.unit).sides {
                    self.any = true;
                    return Some(Pair { src, tgt });
                }
            }
            _ => {}
        }
        None
    }

    /// Returns the side whose language a `<tuv>` has: where both fit, the one that says more of its
    /// region.
    fn side(&mut self, element: &BytesStart) -> Result<Option<usize>, DataError> {
        let mut language = None;
        for attribute in element.attributes() {
            let attribute = attribute
                .map_err(|error| self.wrong(format!("is not well-formed XML: {error}")))?;
            match attribute.key.as_ref() {
                "xml:lang" => {
                    language = Some(attribute.value);
                    break;
                }
                "lang" => language = Some(attribute.value),
                _ => {}
            }
        }
        let Some(code) = language else {
            return Ok(None);
        };
        if self.seen.len() < MOST_LISTED {
            self.seen.insert(code.trim().to_lowercase());
        }
        let language = Language::new(&code);
        let sides = [0, 1].into_iter();
        let fitting = sides.filter(|&side| self.languages[side].includes(&language));
        Ok(fitting.max_by_key(|&side| self.languages[side].num_subtags()))
    }

    /// Adds text to the open segment, if there is one.
    fn add_text(&mut self, text: &str) -> Result<(), DataError> {
        if self.unit.markup.is_some() {
            return Ok(());
        }
        let Some(segment) = &mut self.unit.segment else {
            return Ok(());
        };
        if segment.len() + text.len() > MAX_LINE_BYTES {
            return Err(DataError::LongLine {
                path: self.path.clone(),
                line: self.reader.get_ref().line(),
                limit: MAX_LINE_BYTES,
            });
        }
        segment.push_str(text);
        Ok(())
    }

    /// Adds the character of `&#n;` or of one of XML's five entities to the open segment.
    fn add_reference(&mut self, reference: &BytesRef) -> Result<(), DataError> {
        if self.unit.segment.is_none() || self.unit.markup.is_some() {
            return Ok(());
        }
        if reference.is_char_ref() {
            let character = reference.resolve_char_ref();
            let character = character.map_err(|error| self.unreadable(&error))?;
            let mut buffer = [0; 4];
            let text = character.map(|character| &*character.encode_utf8(&mut buffer));
            return self.add_text(text.unwrap_or_default());
        }
        let name: &str = reference;
        let Some(text) = resolve_predefined_entity(name) else {
            let problem = format!(
                "`&{name};` is none of XML's own entities, and those of a DOCTYPE are not read"
            );
            return Err(self.wrong(problem));
        };
        self.add_text(text)
    }

    /// Makes sure that the file is complete and has a pair.
    fn check_end(&self) -> Result<(), DataError> {
        if self.depth > 0 {
            return Err(self.cut_off("ends before `</tmx>`: the file is cut off".to_owned()));
        }
        if self.any {
            return Ok(());
        }
        let there = if self.seen.is_empty() {
            "no languages at all".to_owned()
        } else {
            let quoted = self.seen.iter().map(|code| format!("`{code}`"));
            quoted.collect::<Vec<_>>().join(", ")
        };
        let [src, tgt] = &self.languages;
        Err(DataError::Tmx {
            path: self.path.clone(),
            line: 0,
            problem: format!("has no `<tu>` with both `{src}` and `{tgt}`; its units have {there}"),
        })
    }

    /// Makes the error that the file cannot be read on.
    fn unreadable(&mut self, error: &quick_xml::Error) -> DataError {
        match error {
            quick_xml::Error::Encoding(error) => self.wrong(error.to_string()),
            quick_xml::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.cut_off("cannot be read on: the compressed data ends too early".to_owned())
            }
            quick_xml::Error::Io(error) => self.wrong(format!("cannot be read on: {error}")),
            error => {
                let problem = format!("is not well-formed XML: {error}");
                if self.reader.get_mut().is_at_end() {
                    self.cut_off(problem)
                } else {
                    self.wrong(problem)
                }
            }
        }
    }

    /// Makes the error that the file ends too early.
    fn cut_off(&self, problem: String) -> DataError {
        DataError::CutOff {
            path: self.path.clone(),
            line: self.reader.get_ref().line(),
            problem,
        }
    }

    /// Makes an error at the line that was read last.
    fn wrong(&self, problem: String) -> DataError {
        DataError::Tmx {
            path: self.path.clone(),
            line: self.reader.get_ref().line(),
            problem,
        }
    }
}

/// Opens a file, and decompresses and decodes it where that is needed.
fn open_text(path: &Path) -> Result<Box<dyn BufRead + Send>, DataError> {
    let file = File::open(path).map_err(DataError::io(path))?;
    let mut bytes = decompress(file, path)?;
    let start = bytes.fill_buf().map_err(DataError::io(path))?;
    let detected = detect_encoding(start);
    if detected.is_none()
        && let Some(encoding) = guess::from_start(start)
    {
        return Err(DataError::Encoding {
            path: path.to_owned(),
            encoding,
        });
    }
    let declared = match Reader::from_reader(start).read_event() {
        Ok(Event::Decl(declaration)) => declaration.encoder(),
        _ => None,
    };
    let is_wide = detected.is_some_and(|detected| !detected.encoding().is_ascii_compatible());
    if is_wide {
        return Ok(Box::new(DecodingReader::new(bytes)));
    }
    // A declaration of UTF-16 may be left from before a conversion to UTF-8.
    match declared.filter(|encoding| encoding.is_ascii_compatible()) {
        Some(encoding) if encoding.name() != "UTF-8" => {
            let mut text = DecodingReader::new(bytes);
            text.set_encoding(encoding);
            Ok(Box::new(text))
        }
        _ => Ok(bytes),
    }
}

impl Iterator for TmxPairs {
    type Item = Result<Pair, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_pair().transpose()
    }
}

impl Unit {
    /// Begins a segment, if it is the first of its language.
    fn open_segment(&mut self) {
        let is_needed = self.side.is_some_and(|side| self.sides[side].is_none());
        if is_needed && self.segment.is_none() {
            self.segment = Some(String::new());
        }
    }

    fn close_segment(&mut self) {
        if let (Some(side), Some(segment)) = (self.side, self.segment.take()) {
            self.sides[side] = Some(one_line(segment));
        }
    }
}

/// Replaces each line break, with the indentation around it, by one blank; there is none at the
/// ends.
fn one_line(text: String) -> String {
    if !text.contains(['\n', '\r']) {
        return text;
    }
    let lines = text
        .split(['\n', '\r'])
        .map(|line| line.trim_matches([' ', '\t']));
    lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
