//! Reading, overriding and writing configs.

use std::path::{Path, PathBuf};

use polyglow_train::config::{BestMetric, Config, Difference};
use polyglow_train::{Plan, register_augmentation};
use tempfile::TempDir;

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A valid config without any files.
const SMALLEST: &str = "[data]\ncorpus = 'digits'\n[train]\nmax_steps = 10\n";

fn load(text: &str, overrides: &[&str]) -> polyglow_train::Result<Config> {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let path = directory.path().join("config.toml");
    std::fs::write(&path, text).expect("a file can be written there");
    Config::load(
        &path,
        &overrides
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
    )
}

fn error(text: &str, overrides: &[&str]) -> String {
    load(text, overrides)
        .expect_err("the config is wrong")
        .to_string()
}

/// The reference with its examples of keys that have no default switched on, by one key each.
fn reference() -> (String, Vec<(String, String)>) {
    let text = std::fs::read_to_string(root().join("configs/reference.toml"))
        .expect("the reference is there");
    let mut section = "";
    let mut examples = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        }
        let example = line
            .strip_prefix("# ")
            .filter(|line| line.split_once(" = ").is_some_and(|(key, _)| is_key(key)));
        if let Some(example) = example {
            examples.push((section.to_owned(), example.to_owned()));
        }
    }
    (text, examples)
}

fn is_key(text: &str) -> bool {
    text.chars()
        .all(|letter| letter.is_ascii_lowercase() || letter == '_')
}

#[test]
fn the_reference_parses_and_holds_the_defaults() {
    let (text, _) = reference();
    let parsed = Config::parse(&text).expect("every key of the reference is known");
    let filled_in = |config| Plan::new(config).expect("flex is in this build").config;
    assert_eq!(filled_in(parsed), filled_in(Config::default()));
}

#[test]
fn the_reference_has_every_key_once_and_explains_it() {
    let (text, examples) = reference();
    let table: toml::Table = text.parse().expect("the reference is TOML");
    for section in ["", "data", "tokenizer", "model", "train", "search"] {
        let written = if section.is_empty() {
            &table
        } else {
            table[section].as_table().expect("a section")
        };
        let mut keys: Vec<_> = written
            .iter()
            .filter(|(_, value)| !value.is_table())
            .map(|(key, _)| key.clone())
            .collect();
        let here = examples
            .iter()
            .filter(|(of, _)| of == section)
            .map(|(_, example)| example);
        keys.extend(here.map(|example| {
            example
                .split_once(" = ")
                .expect("an example has a value")
                .0
                .to_owned()
        }));
        keys.sort();
        let mut expected = known_keys(section);
        expected.sort();
        assert_eq!(keys, expected, "in the section `[{section}]`");
    }
    let lines: Vec<_> = text.lines().collect();
    for pair in lines
        .windows(2)
        .filter(|pair| pair[1].contains(" = ") && !pair[1].contains(": "))
    {
        assert!(
            pair[0].starts_with("# "),
            "no explanation before `{}`",
            pair[1]
        );
    }
}

#[test]
fn the_examples_in_the_reference_are_valid() {
    register_augmentation("word-dropout", |_, _, _| {}).expect("the name is free");
    let (text, examples) = reference();
    for (section, example) in examples {
        let config = text.replace(&format!("# {example}\n"), &format!("{example}\n"));
        assert!(
            Config::parse(&config).is_ok(),
            "`{example}` in `[{section}]`: {:?}",
            Config::parse(&config)
        );
    }
}

/// The keys of a section, from the message about one that cannot be a key.
fn known_keys(section: &str) -> Vec<String> {
    let text = if section.is_empty() {
        "\"\" = 0".to_owned()
    } else {
        format!("[{section}]\n\"\" = 0")
    };
    let message = toml::from_str::<Config>(&text)
        .expect_err("an empty key is unknown")
        .message()
        .to_owned();
    let sections = ["data", "tokenizer", "model", "train", "search"];
    let words = message.split('`').skip(3).step_by(2).map(str::to_owned);
    words
        .filter(|word| !section.is_empty() || !sections.contains(&word.as_str()))
        .collect()
}

#[test]
fn a_config_written_as_toml_reads_back_the_same() {
    let config = load(
        SMALLEST,
        &[
            "model.preset=tiny",
            "model.dropout=0.2",
            "train.betas=[0.8, 0.95]",
        ],
    )
    .expect("valid");
    let text = config.to_toml().expect("every number fits");
    assert_eq!(load(&text, &[]).expect("what was written is valid"), config);
    let text = Plan::new(config)
        .expect("it is a plan")
        .config
        .to_toml()
        .expect("every number fits");
    assert!(
        text.contains("d_model = 128"),
        "a plan writes a preset out: {text}"
    );
}

#[test]
fn an_unknown_key_is_shown_with_its_line_and_a_caret() {
    let message = error("[data]\ncorpus = 'digits'\n[model]\nd_modle = 128\n", &[]);
    assert!(message.contains("line 4, column 1"), "{message}");
    assert!(
        message.contains("4 | d_modle = 128\n  | ^^^^^^^"),
        "{message}"
    );
    assert!(message.contains("unknown field `d_modle`"), "{message}");
}

#[test]
fn an_unknown_key_of_a_corpus_is_shown() {
    let table = |table| format!("[data]\ntrain = [{{ path = 'web', {table} }}]\n");
    let wrong = |text: &str| {
        let error = load(text, &[]).expect_err("the config is wrong");
        (error.to_string(), error.hint().unwrap_or_default())
    };
    let (message, hint) = wrong(&table("tagg = '<bt>'"));
    assert!(message.contains("unknown field `tagg`"), "{message}");
    assert_eq!(
        hint,
        "did you mean `tag`? `polyglow help config data.train` explains it"
    );
    let (message, _) = wrong(&table("weight = 'much'"));
    assert!(message.contains("expected a number"), "{message}");
    let (message, _) = wrong("[data]\ntrain = ['web']\n");
    assert!(message.contains("expected a table `{ path"), "{message}");
    let (message, _) = wrong("[data]\ntrain = 1\n");
    assert!(message.contains("expected a path, or a list"), "{message}");
    let (message, _) = wrong(&table("noise = 0.1"));
    assert!(message.contains("expected a table with keys"), "{message}");
    let set = "data.train=[{path='web', tagg='<bt>'}]";
    assert!(error(SMALLEST, &[set]).contains("unknown field `tagg`"));
    for (table, key, meant) in [
        ("noise", "typo", "typos"),
        ("images", "sizes", "size"),
        ("words", "windows", "window"),
    ] {
        let (_, hint) = wrong(&format!("[data.{table}]\n{key} = 1\n"));
        let expected =
            format!("did you mean `{meant}`? `polyglow help config data.{table}` explains it");
        assert_eq!(hint, expected);
    }
    // Keys of tables within `[data]` that stand in the section itself.
    for (key, place) in [("tag", "data.train"), ("typos", "data.noise")] {
        let (_, hint) = wrong(&format!("[data]\n{key} = 1\n"));
        assert_eq!(hint, format!("`{key}` belongs to `{place}`"));
    }
}

#[test]
fn a_wrong_type_and_an_unknown_name_are_shown_with_their_line() {
    let message = error("[train]\nlr = 'fast'\n", &[]);
    assert!(
        message.contains("line 2, column 6") && message.contains("expected a number"),
        "{message}"
    );
    let message = error("[train]\nschedule = 'cosinus'\n", &[]);
    assert!(
        message.contains("line 2") && message.contains("unknown variant `cosinus`"),
        "{message}"
    );
}

#[test]
fn overrides_reach_every_section_and_the_last_one_wins() {
    let overrides = [
        "seed=7",
        "train.lr=3e-4",
        "train.lr=2e-4",
        "train.schedule=noam",
        "search.beam_size=1",
    ];
    let config = load(SMALLEST, &overrides).expect("the overrides are valid");
    assert_eq!(
        (config.seed, config.train.lr, config.search.beam_size),
        (7, 2e-4, 1)
    );
    let text = config.to_toml().expect("every number fits");
    assert!(text.contains("schedule = \"noam\""), "{text}");
}

#[test]
fn an_override_may_start_a_section_and_take_text_that_is_no_toml() {
    let config = load(
        "",
        &["data.corpus=digits", "train.max_epochs=1", "device=wgpu:1"],
    )
    .expect("valid");
    assert_eq!(config.device, "wgpu:1");
    assert_eq!(config.data.corpus.as_deref(), Some("digits"));
}

#[test]
fn a_wrong_override_is_named() {
    let message = error(SMALLEST, &["seed=3", "train.lrr=1"]);
    assert!(
        message.contains("in `--set train.lrr=1`") && message.contains("unknown field `lrr`"),
        "{message}"
    );
    let message = error(SMALLEST, &["train.lr=fast"]);
    assert!(
        message.contains("in `--set train.lr=fast`") && message.contains("expected a number"),
        "{message}"
    );
    assert!(error(SMALLEST, &["train.lr"]).contains("no `=`"));
    assert!(error(SMALLEST, &["seed=3", "seed.x=1"]).contains("`seed` is a value"));
}

#[test]
fn a_value_out_of_range_names_its_key() {
    assert!(error(SMALLEST, &["model.num_heads=3"]).contains("model.num_heads = 3"));
    assert!(error(SMALLEST, &["search.beam_size=0"]).contains("search.beam_size = 0"));
    assert!(error(SMALLEST, &["train.max_tokens=0"]).contains("train.max_tokens = 0"));
    assert!(error("[data]\ncorpus = 'digits'\n", &[]).contains("train.max_steps"));
}

#[test]
fn tables_of_other_tasks_are_refused_and_defaults_are_those_of_the_task() {
    let words = ["model.arch=skipgram", "train.label_smoothing=0"];
    let images = ["data.corpus=shapes", "model.arch=vit"];
    let with = |base: &[&'static str], more: &'static str| [base, &[more]].concat();
    assert!(
        error(SMALLEST, &["data.words.window=2"])
            .contains("`[data.words]` belongs to word vectors")
    );
    assert!(error(SMALLEST, &["data.images.augment=true"]).contains("`[data.images]`"));
    assert!(error(SMALLEST, &with(&images, "data.max_len=300")).contains("`data.max_len = 300`"));
    assert!(
        error(SMALLEST, &with(&images, "train.best_metric=bleu"))
            .contains("`train.best_metric = \"bleu\"`")
    );
    let metric = |overrides: &[&str]| {
        let plan =
            Plan::new(load(SMALLEST, overrides).expect("valid")).expect("flex is in this build");
        plan.config.train.best_metric
    };
    assert_eq!(metric(&[]), BestMetric::named("bleu"));
    assert_eq!(
        metric(&["train.best_metric=chrf"]),
        BestMetric::named("chrf")
    );
    assert_eq!(
        [metric(&words), metric(&images)],
        [BestMetric::named("loss"); 2]
    );
    let plan = Plan::new(load(SMALLEST, &with(&words, "data.words.window=2")).expect("valid"))
        .expect("flex");
    let skip_grams = plan.config.data.words();
    assert_eq!((skip_grams.window, skip_grams.negatives), (2, 5));
    assert_eq!(plan.task.facts().name, "word vectors");
    assert_eq!(plan.config.data.words, Some(skip_grams));
}

#[test]
fn the_error_for_a_key_that_moved_names_its_new_key() {
    for (old, new) in [
        ("data.image_size=[8, 8]", "data.images.size"),
        ("data.grayscale=true", "data.images.grayscale"),
        ("data.augment=true", "data.images.augment"),
        ("data.window=3", "data.words.window"),
        ("data.negatives=3", "data.words.negatives"),
        ("data.subsample=0.1", "data.words.subsample"),
    ] {
        let error = load(SMALLEST, &[old]).expect_err("the key is not there any more");
        assert!(
            format!("{error} {:?}", error.hint()).contains(new),
            "{old}: {error}"
        );
    }
}

#[test]
fn the_differences_between_two_configs_are_named() {
    let one = load(SMALLEST, &[]).expect("valid");
    assert_eq!(one.differences(&one).expect("both can be written"), []);
    let other = load(SMALLEST, &["train.lr=0.5", "train.max_epochs=2"]).expect("valid");
    let difference = |key: &str, ours: &str, theirs: &str| Difference {
        key: key.into(),
        ours: ours.into(),
        theirs: theirs.into(),
    };
    assert_eq!(
        one.differences(&other).expect("both can be written"),
        [
            difference("train.lr", "0.001", "0.5"),
            difference("train.max_epochs", "unset", "2")
        ]
    );
}
