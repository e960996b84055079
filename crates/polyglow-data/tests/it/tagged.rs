//! Tagged text, from files in columns to batches.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::Pair;
use polyglow_data::sources::{BatchSource, TagSource};
use polyglow_data::tagged::TaggedSentences;
use polyglow_data::tokenizer::{Segmentation, TokenizerConfig, Tokenizers};
use polyglow_data::toy::MiniTags;
use tempfile::TempDir;

fn file(name: &str, text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    (dir, path)
}

/// The sentences of a file of that name and text, as `words | tags`.
fn sentences(name: &str, text: &str) -> Result<Vec<String>, DataError> {
    let (_dir, path) = file(name, text);
    let mut sentences = Vec::new();
    for sentence in TaggedSentences::open(&path)? {
        let Pair { src, tgt } = sentence?;
        sentences.push(format!("{src} | {tgt}"));
    }
    Ok(sentences)
}

fn problem(name: &str, text: &str) -> String {
    let message = sentences(name, text).unwrap_err().to_string();
    let (_, problem) = message.split_once(name).expect("it names the file");
    problem.to_owned()
}

#[test]
fn the_columns_of_conll_2003_are_read() {
    let text = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n. . O O\n\n\nPeter NNP B-NP B-PER\nBlackburn NNP I-NP I-PER";
    assert_eq!(
        sentences("eng.train", text).unwrap(),
        ["EU rejects . | B-ORG O O", "Peter Blackburn | B-PER I-PER"]
    );
}

#[test]
fn tabs_leave_spaces_in_words_which_become_underscores() {
    let text = "\u{feff}học sinh\tNOUN\r\nđi\tVERB\r\n\r\n# \tSYM\r\n";
    assert_eq!(
        sentences("vi.conll", text).unwrap(),
        ["học_sinh đi | NOUN VERB", "# | SYM"]
    );
}

#[test]
fn the_words_of_universal_dependencies_are_those_of_the_tree() {
    let row = |id: &str, form: &str, upos: &str| {
        format!("{id}\t{form}\tlemma\t{upos}\tXPOS\t_\t0\troot\t_\tSpaceAfter=No\n")
    };
    let text = [
        "# sent_id = 1\n# text = Zum Haus\n".to_owned(),
        row("1-2", "Zum", "_"),
        row("1", "zu", "ADP"),
        row("2", "dem", "DET"),
        row("3", "Haus", "NOUN"),
        row("3.1", "ist", "VERB"),
        "\n".to_owned(),
        row("1", "#", "SYM"),
        "\n".to_owned(),
    ];
    assert_eq!(
        sentences("de.conllu", &text.concat()).unwrap(),
        ["zu dem Haus | ADP DET NOUN", "# | SYM"]
    );
}

#[test]
fn what_is_not_a_word_with_its_tag_is_named() {
    assert_eq!(
        problem("a.conll", "the DET\ndog\n"),
        "` line 2: 1 columns instead of 2, as before"
    );
    assert_eq!(
        problem("a.conll", "the\n"),
        "` line 1: 1 columns instead of 2"
    );
    assert_eq!(
        problem("a.conllu", "1\tthe\tDET\n"),
        "` line 1: 3 columns instead of 10"
    );
    assert_eq!(
        problem("a.conll", "the\tDET\n\t NOUN\n"),
        "` line 2: a word and a tag are expected, and one of them is blank"
    );
    assert_eq!(problem("a.conll", "\n\n"), "` is empty: it has no line 1");
}

#[test]
fn an_embedded_corpus_is_what_its_files_are() {
    let dir = tempfile::tempdir().unwrap();
    MiniTags.write(dir.path()).unwrap();
    let read: Vec<Pair> = TaggedSentences::open(&dir.path().join("valid.conll"))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(Some(read), MiniTags.pairs("valid"));
    let embedded = Corpus::open(
        &DataConfig::embedded(MiniTags::NAME),
        Content::TAGGED_TEXT,
        Split::Valid,
    );
    let embedded: Result<Vec<Pair>, _> = embedded.unwrap().pairs().collect();
    assert_eq!(Some(embedded.unwrap()), MiniTags.pairs("valid"));
}

/// Makes the ids of a file with a small vocabulary, in which words are several tokens.
fn cache(dir: &TempDir, text: &str) -> Result<Arc<IdCache>, DataError> {
    let train = dir.path().join("train.conll");
    fs::write(&train, text).unwrap();
    let data = DataConfig {
        train: Some(TrainFiles::One(train)),
        ..DataConfig::default()
    };
    let corpus = Corpus::open(&data, Content::TAGGED_TEXT, Split::Train)?;
    let config = TokenizerConfig {
        vocab_size: 265,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&config, &corpus, &mut |_, _| {})?;
    let path = dir.path().join("ids");
    let (cache, _) = IdCache::open_or_build(&path, &corpus, &tokenizers, None, &mut |_, _| {})?;
    Ok(Arc::new(cache))
}

const BATCHING: BatchingConfig = BatchingConfig {
    max_tokens: 1000,
    pad_multiple: 1,
    seed: 3,
    segmentation: Segmentation::Fixed,
    selection: Selection::V2,
};

#[test]
fn each_tag_stands_where_its_word_begins() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(&dir, "the DET\nold ADJ\ndog NOUN\n\nit PRON\nsleeps VERB\n").unwrap();
    let source = TagSource::new(Arc::clone(&cache), BATCHING).unwrap();
    let batch = source.batch(0, &[0, 1]).unwrap();
    let tokenizers = cache.tokenizers();
    let pad = tokenizers.tgt.special().pad as i32;
    for (row, (text, tags)) in [("the old dog", "DET ADJ NOUN"), ("it sleeps", "PRON VERB")]
        .into_iter()
        .enumerate()
    {
        let (ids, words) = tokenizers.src.encode_words(text).unwrap();
        assert!(
            ids.len() > words.last().unwrap() + 1,
            "words have several tokens"
        );
        let own = &batch.tags[row * batch.texts.len..][..batch.texts.len];
        let tags = tokenizers.tgt.encode(tags).unwrap();
        for (position, &tag) in own.iter().enumerate() {
            let begins =
                position < words.len() && (position == 0 || words[position] != words[position - 1]);
            let expected = if begins {
                tags[words[position]] as i32
            } else {
                pad
            };
            assert_eq!(tag, expected, "{text}, position {position}");
        }
    }
    assert_eq!(batch.num_tags, 5);
    let ([rows, src_len, tgt_len], real) = source.size(0, &[0, 1]);
    assert_eq!(
        [rows, src_len, tgt_len],
        [2, batch.texts.len, batch.texts.len]
    );
    assert_eq!(real, batch.texts.num_real() + batch.num_tags);
}

#[test]
fn tags_that_are_not_one_a_word_and_dropout_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(&dir, "the DET\ndog NOUN\n").unwrap();
    let dropout = BatchingConfig {
        segmentation: Segmentation::Dropout(0.1),
        ..BATCHING
    };
    let error = TagSource::new(cache, dropout).err().unwrap().to_string();
    assert!(error.contains("tags belong to the tokens"), "{error}");
}
