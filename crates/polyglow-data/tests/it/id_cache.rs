//! The id cache returns what was encoded, and detects that it must be built again.

use std::path::PathBuf;

use polyglow_data::config::{Content, DataConfig, Split, TrainFiles, WeightedPath};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::example::{Candidate, CorpusReport, Example, Filter, LengthFilter, Reason};
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::Pair;
use polyglow_data::tokenizer::{Kind, Stage, TokenizerConfig, Tokenizers};
use tempfile::TempDir;

const FILTER: LengthFilter = LengthFilter {
    max_len: 6,
    max_length_ratio: 3.0,
};
const LINES: &str =
    "a b c\tA B C\n\tA\nb\tA B C D\nc b a\tC B\na a a a a a a\tA B C D\nzebra a\tA zebra\n";

struct Setup {
    dir: TempDir,
    corpus: Corpus,
    tokenizers: Tokenizers,
}

fn setup(lines: &str, vocab_size: usize) -> Setup {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text.tsv");
    std::fs::write(&path, lines).unwrap();
    let data = DataConfig {
        train: Some(TrainFiles::One(path)),
        src: Some("en".to_owned()),
        tgt: Some("de".to_owned()),
        ..DataConfig::default()
    };
    let corpus = Corpus::open(&data, Content::PAIRS, Split::Train).unwrap();
    let config = TokenizerConfig {
        kind: Kind::Word,
        vocab_size,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&config, &corpus, &mut |_, _| {}).unwrap();
    Setup {
        dir,
        corpus,
        tokenizers,
    }
}

impl Setup {
    fn path(&self) -> PathBuf {
        self.dir.path().join("cache/train.ids")
    }

    /// Opens the cache, and returns whether it was built.
    fn open(
        &self,
        filter: Option<&dyn Filter>,
    ) -> Result<(IdCache, CorpusReport, bool), DataError> {
        let mut built = false;
        let mut progress = |stage, _| built |= stage == Stage::Encoding;
        let (cache, report) = IdCache::open_or_build(
            &self.path(),
            &self.corpus,
            &self.tokenizers,
            filter,
            &mut progress,
        )?;
        Ok((cache, report, built))
    }
}

fn examples(cache: &IdCache) -> Vec<Example> {
    (0..cache.len() as u32)
        .map(|example| cache.example(example).unwrap())
        .collect()
}

#[test]
fn the_cache_holds_the_ids_of_the_pairs_that_are_kept() {
    // Eleven tokens fit: four special ones, and every word but the zebra.
    let setup = setup(LINES, 11);
    let (cache, report, _) = setup.open(Some(&FILTER)).unwrap();
    let encode = |pair: &Pair| Example {
        src: setup.tokenizers.src.encode(&pair.src).unwrap(),
        tgt: setup.tokenizers.tgt.encode(&pair.tgt).unwrap(),
    };
    let pairs: Vec<Pair> = setup.corpus.pairs().collect::<Result<_, _>>().unwrap();
    assert_eq!(examples(&cache), [0, 3, 5].map(|line| encode(&pairs[line])));
    assert_eq!(
        [0, 1, 2].map(|example| cache.lengths(example)),
        [(3, 3), (3, 2), (2, 2)]
    );
    assert_eq!(
        [0, 1, 2].map(|example| cache.origin(example).unwrap().1),
        [1, 4, 6]
    );
    assert_eq!(cache.lines().unwrap(), [1, 4, 6]);
    assert!(cache.origin(0).unwrap().0.ends_with("text.tsv"));
    assert_eq!(
        (
            report.pairs,
            report.kept,
            report.count(Reason::EMPTY),
            report.count(Reason::RATIO),
            report.count(Reason::TOO_LONG)
        ),
        (6, 3, 1, 1, 1)
    );
    assert_eq!(
        (report.src.tokens, report.src.unknown, report.src.longest),
        (8, 1, 3)
    );
    assert_eq!(
        (report.tgt.tokens, report.tgt.unknown, report.tgt.longest),
        (7, 1, 3)
    );
}

/// Leaves out pairs with a word.
struct Without(&'static str);

impl Filter for Without {
    fn reject(&self, candidate: &Candidate) -> Option<Reason> {
        let reason = Reason {
            key: "word",
            title: "with the word",
        };
        candidate.pair.src.contains(self.0).then_some(reason)
    }

    fn settings(&self) -> String {
        format!("without {}", self.0)
    }
}

#[test]
fn a_rule_of_ones_own_is_counted_under_its_own_name() {
    let setup = setup(LINES, 12);
    let all = LINES.lines().count() as u64;
    let with_a = LINES
        .lines()
        .filter(|line| line.split('\t').next().is_some_and(|src| src.contains('a')));
    let with_a = with_a.count() as u64;
    let (_, report, _) = setup.open(Some(&Without("a"))).unwrap();
    assert!(0 < with_a && with_a < all);
    assert_eq!(
        (report.kept, report.left_out["word"]),
        (all - with_a, with_a)
    );
    let counts = format!("0 by length ratio, {with_a} by word");
    assert!(report.to_string().ends_with(&counts), "{report}");
    // Another rule rejects other pairs, so the ids are made anew.
    let (_, report, _) = setup.open(Some(&Without("nothing has this"))).unwrap();
    assert_eq!(report.kept, all);
}

#[test]
fn the_examples_of_each_part_lie_together() {
    let setup = setup(LINES, 12);
    let second = setup.dir.path().join("more.tsv");
    std::fs::write(&second, "\tA\nb\tB\nc\tC\n").unwrap();
    let list = [("text.tsv", 1.0), ("more.tsv", 0.5)];
    let list = list.map(|(name, weight)| WeightedPath {
        weight,
        ..WeightedPath::new(setup.dir.path().join(name))
    });
    let data = DataConfig {
        train: Some(TrainFiles::Weighted(list.to_vec())),
        src: Some("en".to_owned()),
        tgt: Some("de".to_owned()),
        ..DataConfig::default()
    };
    let corpus = Corpus::open(&data, Content::PAIRS, Split::Train).unwrap();
    let setup = Setup { corpus, ..setup };
    let (cache, report, _) = setup.open(Some(&FILTER)).unwrap();
    assert_eq!(cache.parts(), [(0..3, 1.0), (3..5, 0.5)]);
    let (name, line) = cache.origin(3).unwrap();
    assert_eq!((name, line), (&*second.display().to_string(), 2));
    assert_eq!((report.parts[1].pairs, report.parts[1].kept), (3, 2));
}

/// The cache of three pairs under character tokens, with alignments.
fn aligned(links: &str) -> Result<IdCache, DataError> {
    let dir = tempfile::tempdir().unwrap();
    let [text, alignments] = ["text.tsv", "text.align"].map(|name| dir.path().join(name));
    std::fs::write(&text, "ab c\tX YZ\n\tA\nd\tV\n").unwrap();
    std::fs::write(&alignments, links).unwrap();
    let data = DataConfig {
        train: Some(TrainFiles::One(text)),
        alignments: Some(alignments),
        src: Some("en".to_owned()),
        tgt: Some("de".to_owned()),
        ..DataConfig::default()
    };
    let corpus = Corpus::open(&data, Content::PAIRS, Split::Train)?;
    let config = TokenizerConfig {
        kind: Kind::Char,
        vocab_size: 40,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&config, &corpus, &mut |_, _| {})?;
    let path = dir.path().join("train.ids");
    let open =
        || IdCache::open_or_build(&path, &corpus, &tokenizers, Some(&FILTER), &mut |_, _| {});
    open()?;
    Ok(open()?.0)
}

#[test]
fn links_between_words_become_links_between_their_tokens() {
    let cache = aligned("0-1 1-0\n\n0-0\n").unwrap();
    assert!(cache.is_aligned());
    assert_eq!((cache.len(), cache.lengths(0)), (2, (4, 4)));
    // A space of its own belongs to the word before it: `ab ` is linked to `YZ`, and `c` to `X `.
    assert_eq!(
        cache.links(0).unwrap(),
        [
            (3, 0),
            (3, 1),
            (0, 2),
            (1, 2),
            (2, 2),
            (0, 3),
            (1, 3),
            (2, 3)
        ]
    );
    assert_eq!(cache.links(1).unwrap(), [(0, 0)]);
    assert_eq!(cache.num_links(), Some(9));
    assert_eq!(cache.origin(1).unwrap().1, 3);
    assert_eq!(cache.example(1).unwrap().src.len(), 1);
}

#[test]
fn alignments_that_do_not_fit_the_text_are_errors_that_name_the_line() {
    let error = |links| aligned(links).err().unwrap().to_string();
    assert!(error("0-1\n\n").contains("only one of them has a line 3"));
    assert!(error("0-1\n\n0-0\n\n").contains("only one of them has a line 4"));
    assert!(error("0-1\n\n0-1\n").contains("text.align` line 3: a link names a word"));
    assert!(error("0-1\n\n0:1\n").contains("text.align` line 3: `0:1` is not a list of links"));
}

#[test]
fn without_a_filter_every_pair_is_kept() {
    let (cache, report, _) = setup(LINES, 12).open(None).unwrap();
    assert_eq!((cache.len(), report.kept), (6, 6));
    assert!(!cache.is_aligned() && cache.links(0).unwrap().is_empty());
    assert_eq!(cache.lengths(1), (0, 1));
    assert!(cache.example(1).unwrap().src.is_empty());
}

#[test]
fn a_second_opening_builds_nothing_and_reports_the_same() {
    let setup = setup(LINES, 12);
    let (first, report, built) = setup.open(Some(&FILTER)).unwrap();
    let (second, again, rebuilt) = setup.open(Some(&FILTER)).unwrap();
    assert!(built && !rebuilt);
    assert_eq!(report, again);
    assert_eq!(examples(&first), examples(&second));
}

#[test]
fn other_text_tokens_or_limits_build_the_cache_again() {
    let setup = setup(LINES, 12);
    assert!(setup.open(Some(&FILTER)).unwrap().2);
    assert!(
        setup
            .open(Some(&LengthFilter {
                max_len: 7,
                ..FILTER
            }))
            .unwrap()
            .2
    );
    assert!(setup.open(Some(&FILTER)).unwrap().2);
    std::fs::write(
        setup.dir.path().join("text.tsv"),
        LINES.replace("c b a", "c a b"),
    )
    .unwrap();
    assert!(setup.open(Some(&FILTER)).unwrap().2);
    let config = TokenizerConfig {
        kind: Kind::Char,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&config, &setup.corpus, &mut |_, _| {}).unwrap();
    let setup = Setup {
        tokenizers,
        ..setup
    };
    assert!(setup.open(Some(&FILTER)).unwrap().2);
}

#[test]
fn a_damaged_cache_is_built_again() {
    let setup = setup(LINES, 12);
    let (cache, _, _) = setup.open(Some(&FILTER)).unwrap();
    let (expected, bytes) = (examples(&cache), std::fs::read(setup.path()).unwrap());
    let mut damages: Vec<Vec<u8>> = [0, 10, bytes.len() / 2, bytes.len() - 1]
        .map(|end| bytes[..end].to_vec())
        .into();
    for index in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[index] ^= 0x11;
        damages.push(flipped);
    }
    for damaged in damages {
        std::fs::write(setup.path(), &damaged).unwrap();
        let (cache, _, built) = setup.open(Some(&FILTER)).unwrap();
        assert!(
            built,
            "a damaged cache of {} bytes was accepted",
            damaged.len()
        );
        assert_eq!(examples(&cache), expected);
    }
}

#[test]
fn a_failed_build_leaves_nothing_behind() {
    let setup = setup(LINES, 12);
    std::fs::write(setup.dir.path().join("text.tsv"), "a\tA\nb\n").unwrap();
    let error = setup.open(None).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, DataError::Columns { line: 2, .. }),
        "{error}"
    );
    assert_eq!(
        std::fs::read_dir(setup.dir.path().join("cache"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_corpus_without_any_pair_that_is_kept_is_an_error_with_counts() {
    let setup = setup("a b\tA\n\tB\n", 12);
    let error = setup
        .open(Some(&LengthFilter {
            max_len: 1,
            ..FILTER
        }))
        .map(|_| ())
        .unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("0 of 2 pairs kept") && message.contains("1 too long"),
        "{message}"
    );
}

#[test]
fn a_large_vocabulary_and_many_examples_survive_too() {
    let line = |number: usize| format!("w{number} w{}\tw{}\n", number % 977, number % 31);
    let lines: String = (0..40_000).map(line).collect();
    let setup = setup(&lines, 50_000);
    let (cache, report, _) = setup.open(None).unwrap();
    assert!(setup.tokenizers.src.vocab_size() > 1 << 15);
    assert_eq!((report.kept, report.src.unknown), (40_000, 0));
    for example in [0, 63, 64, 12_345, 39_999] {
        let Example { src, tgt } = cache.example(example).unwrap();
        let text = [src, tgt]
            .map(|ids| setup.tokenizers.src.decode(&ids).unwrap())
            .join("\t");
        assert_eq!(format!("{text}\n"), line(example as usize));
        assert_eq!(cache.origin(example).unwrap().1, u64::from(example) + 1);
    }
}
