//! The toy corpora as a user gets them: the files, the splits, the alignments.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::LazyLock;

use polyglow_data::toy::{AlignedPair, Toy};
use sha2::{Digest, Sha256};

/// Hashes of the files that an independent Python program wrote from the same grammar and the same
/// seeds.
const MINI_EN_DE_FILES: [(&str, &str); 15] = [
    (
        "train.en",
        "f37320ea68eb225b1b6cd6067f9f3da4921124c7d50de39dfb527e55a16f9b27",
    ),
    (
        "train.de",
        "3e7daa168e70d1aec05e7d9d4befdec697f3f82e0538a06eb503e41a653df0ba",
    ),
    (
        "train.align",
        "f856c4b0f223e96efcf024790f9b53e8195a25d9215fe8615cfd5d9165123862",
    ),
    (
        "valid.en",
        "80252abbf53915990ceef69e83a797527c9b9db0913c9b64de81cbfe73dab219",
    ),
    (
        "valid.de",
        "8fb2d4e628217263e25683598f64378b1e94e235e9f4ae1b7b4787c8c35a12ad",
    ),
    (
        "valid.align",
        "1a8c6220d9bcb396b704f7dd7501725f4017a39de55d751206c75f76d8f778c1",
    ),
    (
        "test.en",
        "f379df237f30d134b906e19cec0e8fe1da44a300c8d9694787d8ebf29e1ed259",
    ),
    (
        "test.de",
        "5c4b333d2dd65449adff6765f02033f2a592d7ac39706f20ddde9c7f94f8a9dc",
    ),
    (
        "test.align",
        "0cd002975367694852f6b872b8fec4d4ce41f7a09d9f4a1ce7e2b21f9d4146a0",
    ),
    (
        "test_comp.en",
        "20937abbccc40ab3f9c96e3c713fec4783c4eab201b219c341ec1a10c4934813",
    ),
    (
        "test_comp.de",
        "286cfac9fe6db7c6c983acfac012623f1605892a5e07e00f79c17356479a4bd8",
    ),
    (
        "test_comp.align",
        "8c457fd787bf8deeb87c9ef5912464bc6de83038fc4509188858eae6ed099270",
    ),
    (
        "test_deep.en",
        "6f45a439de873dae2633b3ae8153cfb720aaa517d789f0cf698e91362c5d97f5",
    ),
    (
        "test_deep.de",
        "0a95d6fa1347789523a3b439678d2c381431cdf45fd5659ea042d2b0652e2a04",
    ),
    (
        "test_deep.align",
        "bf6597763c7ba443c3f57a15b1037826f1f0c5866bc18be9b4b2999172cf6bfd",
    ),
];

type Splits = Vec<(&'static str, Vec<AlignedPair>)>;

static MINI_EN_DE: LazyLock<Splits> = LazyLock::new(|| Toy::MiniEnDe.generate());
static DIGITS: LazyLock<Splits> = LazyLock::new(|| Toy::Digits.generate());

#[test]
fn mini_en_de_files_equal_those_of_the_reference_generator() {
    let dir = tempfile::tempdir().unwrap();
    Toy::MiniEnDe.write(dir.path()).unwrap();
    for (file, expected) in MINI_EN_DE_FILES {
        let bytes = fs::read(dir.path().join(file)).unwrap();
        assert_eq!(hexadecimal(&Sha256::digest(bytes)), expected, "{file}");
    }
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        MINI_EN_DE_FILES.len()
    );
}

#[test]
fn splits_have_the_promised_names_and_sizes() {
    let sizes = |splits: &Splits| {
        splits
            .iter()
            .map(|(name, pairs)| (*name, pairs.len()))
            .collect::<Vec<_>>()
    };
    let mini_en_de = [
        ("train", 20_000),
        ("valid", 500),
        ("test", 1_000),
        ("test_comp", 1_000),
        ("test_deep", 500),
    ];
    assert_eq!(sizes(&MINI_EN_DE), mini_en_de);
    assert_eq!(
        sizes(&DIGITS),
        [
            ("train", 20_000),
            ("valid", 500),
            ("test", 500),
            ("test_long", 500)
        ]
    );
    assert!(
        MINI_EN_DE
            .iter()
            .map(|(name, _)| name)
            .eq(Toy::MiniEnDe.splits())
    );
    assert!(DIGITS.iter().map(|(name, _)| name).eq(Toy::Digits.splits()));
}

#[test]
fn a_name_finds_its_corpus_and_its_split() {
    for toy in Toy::ALL {
        assert_eq!(Toy::from_name(toy.name()), Some(toy));
    }
    assert_eq!(Toy::from_name("mini-de-en"), None);
    for (name, pairs) in &*DIGITS {
        assert_eq!(Toy::Digits.split(name).as_ref(), Some(pairs));
    }
    assert_eq!(Toy::Digits.split("test_deep"), None);
}

#[test]
fn no_mini_en_de_sentence_occurs_twice() {
    let mut sources = HashSet::new();
    for (split, pairs) in &*MINI_EN_DE {
        for pair in pairs {
            assert!(sources.insert(&pair.src), "{split}: {}", pair.src);
        }
    }
}

#[test]
fn every_source_has_one_translation() {
    let mut translations = HashMap::new();
    for pair in all_pairs(&MINI_EN_DE).chain(all_pairs(&DIGITS)) {
        assert_eq!(
            *translations.entry(&pair.src).or_insert(&pair.tgt),
            &pair.tgt,
            "{}",
            pair.src
        );
    }
}

#[test]
fn most_test_translations_change_the_order_of_words() {
    let (_, pairs) = MINI_EN_DE.iter().find(|(name, _)| *name == "test").unwrap();
    let crossing = pairs
        .iter()
        .filter(|pair| has_crossing_links(&pair.alignment))
        .count();
    assert!(
        crossing * 100 > 80 * pairs.len(),
        "{crossing} of {}",
        pairs.len()
    );
}

#[test]
fn training_knows_every_word_of_the_tests() {
    let words = |pairs: &[AlignedPair]| -> HashSet<String> {
        pairs
            .iter()
            .flat_map(|pair| pair.src.split(' ').chain(pair.tgt.split(' ')))
            .map(str::to_owned)
            .collect()
    };
    let known = words(&MINI_EN_DE[0].1);
    for (split, pairs) in &MINI_EN_DE[1..] {
        let unknown: Vec<_> = words(pairs).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{split}: {unknown:?}");
    }
}

#[test]
fn alignments_are_sorted_and_stay_inside_the_sentences() {
    for pair in all_pairs(&MINI_EN_DE).chain(all_pairs(&DIGITS)) {
        let (src_len, tgt_len) = (pair.src.split(' ').count(), pair.tgt.split(' ').count());
        assert!(
            pair.alignment
                .iter()
                .all(|&(src, tgt)| src < src_len && tgt < tgt_len),
            "{pair:?}"
        );
        assert!(
            pair.alignment.is_sorted_by(|left, right| left < right),
            "{pair:?}"
        );
    }
}

#[test]
fn digits_are_reversed_and_aligned() {
    for pair in all_pairs(&DIGITS) {
        let (src, tgt): (Vec<&str>, Vec<&str>) =
            (pair.src.split(' ').collect(), pair.tgt.split(' ').collect());
        assert!(src.iter().eq(tgt.iter().rev()), "{pair:?}");
        assert_eq!(pair.alignment.len(), src.len());
        assert!(
            pair.alignment
                .iter()
                .all(|&(left, right)| left + right + 1 == src.len()),
            "{pair:?}"
        );
    }
}

#[test]
fn digits_keep_their_lengths() {
    for (split, pairs) in &*DIGITS {
        let expected: HashSet<usize> = if *split == "test_long" {
            (13..=24).collect()
        } else {
            (1..=12).collect()
        };
        let lengths: HashSet<usize> = pairs
            .iter()
            .map(|pair| pair.src.split(' ').count())
            .collect();
        assert_eq!(lengths, expected, "{split}");
    }
}

#[test]
fn digit_strings_longer_than_three_occur_once() {
    let mut seen = HashSet::new();
    let long = all_pairs(&DIGITS).filter(|pair| pair.alignment.len() > 3);
    for pair in long {
        assert!(seen.insert(&pair.src), "{}", pair.src);
    }
}

#[test]
fn so_many_held_out_sentences_are_in_training_as_the_documentation_says() {
    let in_train = |splits: &'static Splits| {
        let train: HashSet<&String> = splits[0].1.iter().map(|pair| &pair.src).collect();
        let count = |pairs: &[AlignedPair]| {
            pairs
                .iter()
                .filter(|pair| train.contains(&pair.src))
                .count()
        };
        splits[1..]
            .iter()
            .map(|(name, pairs)| (*name, count(pairs)))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        in_train(&DIGITS),
        [("valid", 111), ("test", 121), ("test_long", 0)]
    );
    assert_eq!(
        in_train(&MINI_EN_DE),
        [
            ("valid", 0),
            ("test", 0),
            ("test_comp", 0),
            ("test_deep", 0)
        ]
    );
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    fs::write(&blocked, "").unwrap();
    let message = Toy::Digits.write(&blocked).unwrap_err().to_string();
    assert!(message.contains(&*blocked.to_string_lossy()), "{message}");
}

fn all_pairs(splits: &'static Splits) -> impl Iterator<Item = &'static AlignedPair> {
    splits.iter().flat_map(|(_, pairs)| pairs)
}

/// Whether any two links cross, so that no translation word by word could be right.
fn has_crossing_links(alignment: &[(usize, usize)]) -> bool {
    alignment.iter().any(|left| {
        alignment
            .iter()
            .any(|right| left.0 < right.0 && left.1 > right.1)
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
