//! Translation memories become pairs, or an error that says where.

use std::io::Write;
use std::path::MAIN_SEPARATOR;

use flate2::Compression;
use flate2::write::GzEncoder;
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::pair::Pair;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE tmx SYSTEM \"tmx14.dtd\">\n\
    <tmx version=\"1.4\"><header srclang=\"en\" datatype=\"plaintext\"/>\n<body>\n";
const TAIL: &str = "</body></tmx>\n";

fn unit(en: &str, fr: &str) -> String {
    let tuv = |language, text| format!("<tuv xml:lang=\"{language}\"><seg>{text}</seg></tuv>");
    format!("<tu>{}{}</tu>\n", tuv("en", en), tuv("fr", fr))
}

fn tmx(units: &str) -> String {
    format!("{HEAD}{units}{TAIL}")
}

fn read_as(name: &str, bytes: &[u8], [src, tgt]: [&str; 2]) -> Result<Vec<[String; 2]>, DataError> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(name), bytes).unwrap();
    let config = DataConfig {
        train: Some(TrainFiles::One(dir.path().join("text.tmx"))),
        src: Some(src.to_owned()),
        tgt: Some(tgt.to_owned()),
        ..DataConfig::default()
    };
    let pairs = Corpus::open(&config, Content::PAIRS, Split::Train)?.pairs();
    pairs
        .map(|pair| pair.map(|Pair { src, tgt }| [src, tgt]))
        .collect()
}

fn read(text: &str, languages: [&str; 2]) -> Result<Vec<[String; 2]>, DataError> {
    read_as("text.tmx", text.as_bytes(), languages)
}

/// The message of the error, without the folder.
fn problem(bytes: &[u8]) -> String {
    let error = read_as("text.tmx", bytes, ["en", "fr"]).unwrap_err();
    let message = format!("{error:?}");
    let start = message.find("text.tmx").unwrap();
    assert!(message[..start].ends_with(MAIN_SEPARATOR), "{message}");
    message[start..].to_owned()
}

/// The source of a pair whose source segment has this content.
fn segment(content: &str) -> String {
    let pairs = read(&tmx(&unit(content, "x")), ["en", "fr"]).unwrap();
    pairs[0][0].clone()
}

#[test]
fn all_compressions_and_encodings_of_a_file_give_the_same_pairs() {
    let text = tmx(&unit(
        "The dog &amp; the cat.",
        "Le chien &#38; le chat, déjà.",
    ));
    let expected = [["The dog & the cat.", "Le chien & le chat, déjà."]];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let zstd = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
    let wide = text.replace("UTF-8", "UTF-16");
    let units = || std::iter::once(0xfeff).chain(wide.encode_utf16());
    let latin = text.replace("UTF-8", "ISO-8859-1");
    let latin = latin.chars().map(|character| character as u8).collect();
    for (name, bytes) in [
        ("text.tmx", text.clone().into_bytes()),
        ("text.tmx", format!("\u{feff}{text}").into_bytes()),
        ("text.tmx.gz", gzip.finish().unwrap()),
        ("text.tmx.zst", zstd.clone()),
        ("text.tmx", zstd),
        ("text.tmx", units().flat_map(u16::to_le_bytes).collect()),
        ("text.tmx", units().flat_map(u16::to_be_bytes).collect()),
        (
            "text.tmx",
            units().skip(1).flat_map(u16::to_le_bytes).collect(),
        ),
        ("text.tmx", latin),
        ("text.tmx", wide.into_bytes()),
    ] {
        assert_eq!(
            read_as(name, &bytes, ["en", "fr"]).unwrap(),
            expected,
            "{name}"
        );
    }
}

#[test]
fn languages_match_by_their_primary_subtags_and_by_regions_where_they_are_named() {
    let text = tmx(
        "<tu><tuv xml:lang=\"EN-us\"><seg>truck</seg></tuv><tuv xml:lang=\"en-GB\"><seg>lorry</seg></tuv>\
         <tuv lang=\"pt_PT\"><seg>autocarro</seg></tuv><tuv xml:lang=\"pt-BR\" lang=\"xx\"><seg>ônibus</seg></tuv></tu>\
         <tu><tuv xml:lang=\"en\"><seg>alone</seg></tuv><tuv><seg>nothing</seg></tuv></tu>",
    );
    for (languages, expected) in [
        (["en", "pt"], ["truck", "autocarro"]),
        (["pt_br", "en"], ["ônibus", "truck"]),
        (["en_gb", "pt-BR"], ["lorry", "ônibus"]),
        (["pt", "pt_br"], ["autocarro", "ônibus"]),
        (["en-GB", "en"], ["lorry", "truck"]),
    ] {
        assert_eq!(read(&text, languages).unwrap(), [expected], "{languages:?}");
    }
    let error = read(&text, ["en_au", "de"]).unwrap_err();
    let message = format!("{error:?}");
    let expected = "text.tmx` has no `<tu>` with both `en-au` and `de`; its units have `en`, `en-gb`, `en-us`, `pt-br`, `pt_pt`\nhint: ";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn segments_are_the_text_that_a_translator_sees() {
    for (content, text) in [
        (
            "a <bpt i=\"1\">&lt;b></bpt>b<ept i=\"1\">&lt;/b></ept> c",
            "a b c",
        ),
        (
            "a<it pos=\"begin\">[</it> b<ph>{<sub>title</sub>}</ph><ut>x</ut> c<ph/>",
            "a b c",
        ),
        ("a <hi type=\"x\">b <ph>{}</ph><hi>c</hi></hi> d", "a b c d"),
        ("<bpt><sub>a<it>b</it>c</sub>d</bpt>e", "e"),
        ("<![CDATA[a < b && c]]>", "a < b && c"),
        ("a<!-- no --><?no?>b", "ab"),
        ("\n  a\r\n  b\n\n c \t\n", "a b c"),
        ("a&#10;b&#xD;c&#x9;d", "a b c\td"),
        ("a\u{2028}b\u{85}c", "a\u{2028}b\u{85}c"),
        ("&lt;&gt;&amp;&quot;&apos;&#x1F600;", "<>&\"'\u{1F600}"),
        ("&amp;lt;", "&lt;"),
        (" a ", " a "),
        ("", ""),
    ] {
        assert_eq!(segment(content), text, "{content}");
    }
    let empty = "<tu><tuv xml:lang='en'><seg/></tuv><tuv xml:lang='fr'><note>n</note><prop>p</prop><seg>a</seg></tuv></tu>";
    assert_eq!(read(&tmx(empty), ["en", "fr"]).unwrap(), [["", "a"]]);
}

#[test]
fn cut_and_damaged_files_are_errors_with_a_line() {
    let text = tmx(&unit("The dog.", "Le chien.").repeat(3));
    let first_unit = text.find("<tu>").unwrap();
    let second_unit = first_unit + unit("The dog.", "Le chien.").len();
    for end in [
        second_unit,
        second_unit + 3,
        second_unit + 30,
        text.len() - 2,
    ] {
        let problem = problem(&text.as_bytes()[..end]);
        let line = text[..end].matches('\n').count() + 1;
        assert!(
            problem.starts_with(&format!("text.tmx` line {line}: ")),
            "{end}: {problem}"
        );
        assert!(
            problem.contains("\nhint: was it downloaded completely?"),
            "{problem}"
        );
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    assert!(problem(&gzip[..gzip.len() - 12]).contains("cannot be read on"));
    for (wrong, expected) in [
        (tmx("<tu>\n</tuv>"), "line 6: is not well-formed XML"),
        (tmx("<tu a=1></tu>"), "has no `<tu>` with both"),
        (tmx(&unit("a & b", "c")), "line 5: is not well-formed XML"),
        (tmx(&unit("&#0;", "c")), "line 5: is not well-formed XML"),
        (
            "<html>\n</html>".to_owned(),
            "line 1: is no TMX: its first element is `<html>`",
        ),
        (tmx(""), "its units have no languages at all"),
        (String::new(), "has no `<tu>`"),
        ("no XML".to_owned(), "has no `<tu>`"),
    ] {
        let problem = problem(wrong.as_bytes());
        assert!(problem.contains(expected), "{problem}");
    }
    let invalid = tmx(&unit("a\u{0}b", "c"))
        .replace('\0', "\u{fffd}")
        .into_bytes();
    let place = invalid
        .windows(3)
        .position(|bytes| bytes == "\u{fffd}".as_bytes())
        .unwrap();
    let invalid = [&invalid[..place], b"\xff", &invalid[place + 3..]].concat();
    let expected = "text.tmx` line 5: cannot decode input using UTF-8";
    assert!(
        problem(&invalid).starts_with(expected),
        "{}",
        problem(&invalid)
    );
}

#[test]
fn entities_of_a_doctype_are_neither_expanded_nor_fetched() {
    let bomb = "<?xml version=\"1.0\"?>\n<!DOCTYPE tmx [\n<!ENTITY a \"]><tu>\">\n\
        <!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">\n<!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\">\n\
        <!ENTITY passwords SYSTEM \"file:///etc/passwd\">\n]>\n<tmx><body>\n";
    let file = |units: String| format!("{bomb}{units}{TAIL}");
    let read_bomb = |units| read(&file(units), ["en", "fr"]);
    assert_eq!(read_bomb(unit("a", "b")).unwrap(), [["a", "b"]]);
    for entity in ["c", "passwords", "nbsp"] {
        let error = read_bomb(unit(&format!("a&{entity};"), "b")).unwrap_err();
        let expected = format!("text.tmx` line 9: `&{entity};` is none of XML's own entities");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn nesting_and_lengths_without_end_are_errors() {
    let deep = |depth: usize| format!("{}a{}", "<hi>".repeat(depth), "</hi>".repeat(depth));
    assert_eq!(segment(&deep(50)), "a");
    let message = problem(tmx(&unit(&deep(1_000_000), "b")).as_bytes());
    assert!(
        message.contains("line 5: elements are nested more than 64 deep"),
        "{message}"
    );
    let long = "a".repeat(17 << 20);
    let message = problem(tmx(&unit(&long, "b")).as_bytes());
    assert!(
        message.contains("cannot be read on: a tag or a text is longer than"),
        "{message}"
    );
    let attribute = format!("<tu a=\"{long}\"/>");
    assert!(problem(tmx(&attribute).as_bytes()).contains("a tag or a text is longer"));
    let pieces = format!("{}<ph/>", "a".repeat(1 << 20)).repeat(17);
    assert!(problem(tmx(&unit(&pieces, "b")).as_bytes()).contains("longer than 16 MiB"));
}

#[test]
fn hashes_tell_files_and_languages() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text.tmx");
    std::fs::write(&path, tmx(&unit("a", "b"))).unwrap();
    let hash = |src: &str, tgt: &str| {
        let config = DataConfig {
            train: Some(TrainFiles::One(path.clone())),
            src: Some(src.to_owned()),
            tgt: Some(tgt.to_owned()),
            ..DataConfig::default()
        };
        let corpus = Corpus::open(&config, Content::PAIRS, Split::Train).unwrap();
        corpus.content_hash().unwrap()
    };
    assert_eq!(hash("en", "fr"), hash("EN", "fr"));
    assert_ne!(hash("en", "fr"), hash("fr", "en"));
}
