//! Exit codes and messages of the built program.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{fail, polyglow, succeed};

fn failure(exit_code: i32, arguments: &[&str]) -> String {
    fail(exit_code, &mut polyglow(arguments))
}

/// Runs a command that must succeed; returns its stdout.
fn success(arguments: &[&str]) -> String {
    succeed(&mut polyglow(arguments)).0
}

#[test]
fn wrong_usage_ends_with_exit_code_2() {
    assert!(failure(2, &["trian"]).contains("similar subcommands exist: 'translate', 'train'"));
    assert!(failure(2, &["train"]).contains("<CONFIG>"));
    for wrong in ["0", "-1"] {
        let message = failure(2, &["evaluate", "run", "--beam-size", wrong]);
        assert!(
            message.contains(&format!("invalid value '{wrong}' for '--beam-size <N>'")),
            "{message}"
        );
    }
    assert!(failure(2, &[]).contains("Usage: polyglow"));
}

#[test]
fn help_lists_every_command_on_stdout() {
    let help = success(&["--help"]);
    for command in [
        "check",
        "train",
        "evaluate",
        "translate",
        "average",
        "info",
        "corpus",
        "devices",
        "help",
        "completions",
        "man",
    ] {
        assert!(
            help.contains(&format!("\n  {command}")),
            "{command} in {help}"
        );
        assert!(success(&[command, "--help"]).contains("Usage: polyglow"));
    }
}

#[test]
fn the_version_names_the_features() {
    let version = success(&["--version"]);
    assert!(
        version.starts_with(concat!("polyglow ", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
    assert_eq!(
        version.contains("flex"),
        cfg!(feature = "flex"),
        "{version}"
    );
}

#[test]
fn help_has_every_command_and_every_key_of_a_config() {
    assert_eq!(success(&["help", "train"]), success(&["train", "--help"]));
    assert_eq!(
        success(&["help", "embeddings", "plot"]),
        success(&["embeddings", "plot", "--help"])
    );
    assert_eq!(success(&["help"]), success(&["--help"]));
    assert!(
        failure(2, &["help", "trian"]).contains("similar subcommands exist: 'translate', 'train'")
    );

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let reference =
        fs::read_to_string(root.join("configs/reference.toml")).expect("the reference is there");
    assert_eq!(success(&["help", "config"]), reference);
    let table = success(&["help", "config", "search"]);
    assert!(
        table.starts_with("[search]\n# ") && reference.ends_with(&table),
        "{table}"
    );
    let key = success(&["help", "config", "train.lr"]);
    assert!(
        key.starts_with("[train]\n# Peak learning rate") && key.ends_with("\nlr = 1e-3\n"),
        "{key}"
    );
    assert_eq!(success(&["help", "config", "lr"]), key);
    let message = failure(2, &["help", "config", "train.lrr"]);
    assert!(
        message.contains("is called `train.lrr`\nhint: did you mean `train.lr`?"),
        "{message}"
    );
    let message = failure(2, &["help", "config", "xyzzy"]);
    assert!(
        message.contains("hint: the tables are `data`, `tokenizer`, `model`, `train`, `search`;"),
        "{message}"
    );
}

#[test]
fn the_error_for_an_option_that_is_a_key_says_how_to_set_it() {
    let directory = configs();
    let config = directory.path().join("good.toml");
    let config = config.to_str().expect("the path is UTF-8");
    for (command, options, tip) in [
        (
            "train",
            &["--epochs", "3"][..],
            "set with '--set train.max_epochs=3'",
        ),
        (
            "train",
            &["--epochs=3"],
            "set with '--set train.max_epochs=3'",
        ),
        ("train", &["--lr", "1e-3"], "set with '--set train.lr=1e-3'"),
        (
            "train",
            &["--max-steps", "10"],
            "set with '--set train.max_steps=10'",
        ),
        (
            "train",
            &["--batch-size", "32"],
            "set with '--set train.max_tokens=TOKENS'",
        ),
        (
            "train",
            &["--dropout", "0.1"],
            "'--set tokenizer.dropout=0.1' or '--set model.dropout=0.1'",
        ),
        (
            "check",
            &["--warmup", "5"],
            "set with '--set train.warmup_steps=5'",
        ),
        (
            "evaluate",
            &["--length-alpha", "0.6"],
            "set with '--set search.length_alpha=0.6'",
        ),
        (
            "train",
            &["--xyzzy"],
            "'polyglow help config' lists the keys",
        ),
    ] {
        let message = failure(2, &[&[command, config], options].concat());
        assert!(
            message.contains(&format!(
                "unexpected argument '{}'",
                options[0].split('=').next().unwrap()
            )),
            "{message}"
        );
        assert!(
            message.contains(tip) && !message.contains("as a value"),
            "{options:?}: {message}"
        );
    }
    // A run cannot be trained otherwise after the fact, and a misspelt option is not a key.
    assert!(!failure(2, &["evaluate", "run", "--lr", "1"]).contains("train.lr"));
    assert!(
        failure(2, &["train", config, "--devise", "flex"])
            .contains("a similar argument exists: '--device'")
    );
}

#[test]
fn the_error_for_a_wrong_value_says_where_its_key_is_explained() {
    let directory = configs();
    let config = directory.path().join("good.toml");
    let config = config.to_str().expect("the path is UTF-8");
    let hint = |set: &str| failure(2, &["check", config, "--set", set]);
    assert!(hint("train.lr=0").contains("hint: `polyglow help config train.lr` explains it"));
    assert!(
        hint("model.num_heads=7")
            .contains("hint: `polyglow help config model.num_heads` explains it")
    );
    assert!(
        hint("train.lrr=1")
            .contains("hint: did you mean `lr`? `polyglow help config lr` explains it")
    );
}

/// README.md, the documents, and the chapters of the book.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "crates/README.md",
        "scripts/README.md",
    ]
    .map(|name| root.join(name))
    .to_vec();
    for folder in ["docs", "docs/book/src"] {
        let entries = fs::read_dir(root.join(folder)).expect("it can be listed");
        let paths = entries.map(|entry| entry.expect("it can be listed").path());
        documents
            .extend(paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    documents
}

fn read(document: &Path) -> String {
    fs::read_to_string(document).unwrap_or_else(|error| panic!("{}: {error}", document.display()))
}

#[test]
fn options_in_the_documents_exist() {
    let mut names = HashSet::new();
    for document in documents() {
        let text = read(&document);
        // A command ends with its line, or where code ends.
        for command in text
            .split("polyglow ")
            .skip(1)
            .filter_map(|rest| rest.split(['\n', '`']).next())
        {
            let words: Vec<&str> = command.split_whitespace().collect();
            // Scripts take the program as an argument, and a path may follow.
            if !words
                .first()
                .is_some_and(|name| name.chars().all(|letter| letter.is_ascii_lowercase()))
            {
                continue;
            }
            for option in words.iter().skip(1).filter(|word| word.starts_with("--")) {
                let known = help_words(&words).contains(*option);
                assert!(
                    known,
                    "`polyglow {command}` in {}: there is no {option}",
                    document.display()
                );
                names.insert(words[0].to_owned());
            }
        }
    }
    assert!(names.len() > 4, "{names:?}");
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let mut number = 0;
    for document in documents() {
        let text = read(&document);
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#', ' ']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            let folder = document.parent().expect("a file is in a folder");
            assert!(
                folder.join(target).exists(),
                "{} links to {target}",
                document.display()
            );
            number += 1;
        }
    }
    assert!(number > 40, "{number} links");
}

/// The words in the help of a command, or of its subcommand if one of its words names one.
fn help_words(command: &[&str]) -> HashSet<String> {
    let help = success(&[command[0], "--help"]);
    let subcommand = command
        .iter()
        .position(|word| help.contains(&format!("\n  {word} ")));
    let help = subcommand.map_or(help, |index| {
        success(&[&command[..=index], &["--help"]].concat())
    });
    help.split(|letter: char| !letter.is_alphanumeric() && letter != '-')
        .map(str::to_owned)
        .collect()
}

#[test]
fn devices_are_listed_as_a_table_and_as_json() {
    assert!(success(&["devices"]).starts_with("DEVICE"));
    let json: serde_json::Value =
        serde_json::from_str(&success(&["devices", "--json"])).expect("the output is JSON");
    let devices = json["devices"]
        .as_array()
        .expect("there is a list of devices");
    for device in devices {
        for key in ["backend", "name", "adapter", "kind"] {
            assert!(device[key].is_string(), "{device}");
        }
        assert!(
            json["backends"]
                .as_array()
                .expect("a list")
                .contains(&device["backend"])
        );
    }
    let cpu = devices.iter().find(|device| device["name"] == "flex");
    assert_eq!(cpu.is_some(), cfg!(feature = "flex"));
    if let Some(cpu) = cpu {
        let words = cpu["adapter"].as_str().expect("a text");
        assert!(
            words.contains(polyglow_kernels::instruction_set().expect("flex has kernels")),
            "{words}"
        );
    }
}

/// A directory with a valid `good.toml` and a `bad.toml` whose third line has a misspelt key.
fn configs() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for (name, key) in [("good", "lr"), ("bad", "learning_rat")] {
        let text = format!("data.corpus = 'digits'\n[train]\n{key} = 1e-3\nmax_steps = 1\n");
        std::fs::write(directory.path().join(name).with_extension("toml"), text)
            .expect("a file can be written there");
    }
    directory
}

#[test]
fn a_wrong_config_ends_with_exit_code_2_its_line_and_a_suggestion() {
    let directory = configs();
    let path = |name: &str| {
        directory
            .path()
            .join(name)
            .to_str()
            .expect("the path is UTF-8")
            .to_owned()
    };
    for command in ["check", "train"] {
        let message = failure(2, &[command, &path("bad.toml")]);
        assert!(message.contains("bad.toml"), "{message}");
        assert!(
            message.contains("\n3 | learning_rat = 1e-3\n  | ^^^^^^^^^^^^\n"),
            "{message}"
        );
        assert!(message.contains("hint: "), "{message}");
        assert!(failure(2, &[command, &path("none.toml")]).contains("none.toml"));
        let message = failure(2, &[command, &path("good.toml"), "--set", "train.warmup=1"]);
        assert!(message.contains("in `--set train.warmup=1`"), "{message}");
        assert!(
            message.contains("hint: did you mean `warmup_steps`?"),
            "{message}"
        );
        assert!(
            failure(2, &[command, &path("good.toml"), "--set", "train.lr=0"])
                .contains("`train.lr = 0`")
        );
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error_before_a_run_is_made() {
    let directory = configs();
    let config = directory.path().join("good.toml");
    let run = directory.path().join("run");
    let train = |device: &str| {
        let paths = [&config, &run].map(|path| path.to_str().expect("the path is UTF-8"));
        failure(
            2,
            &["train", paths[0], "--run", paths[1], "--device", device],
        )
    };
    let message = train("flexx");
    assert!(
        message.contains("unknown device `flexx`") && message.contains("did you mean `flex`?"),
        "{message}"
    );
    if cfg!(feature = "flex") {
        assert!(train("flex:3").contains("device `flex:3`: there is only `flex`"));
    }
    if !cfg!(feature = "cuda") {
        let message = train("cuda:1");
        assert!(message.contains("`cuda` is not in this build"), "{message}");
        assert!(
            message.contains("hint: build it in: `cargo run --release --features cuda -- ...`"),
            "{message}"
        );
    }
    assert!(!run.exists());
}

#[test]
fn an_unknown_corpus_is_wrong_usage_with_a_suggestion() {
    let message = failure(2, &["corpus", "mini-en-ed", "nowhere"]);
    assert!(
        message.contains("error: unknown corpus `mini-en-ed`"),
        "{message}"
    );
    assert!(
        message.contains("hint: did you mean `mini-en-de`?"),
        "{message}"
    );
}

#[test]
fn an_embedded_corpus_is_written_in_as_many_lines_on_both_sides() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let out = directory.path().join("new/digits");
    assert_eq!(
        success(&["corpus", "digits", out.to_str().expect("the path is UTF-8")]),
        ""
    );
    for split in ["train", "valid", "test", "test_long"] {
        let lines = |ending: &str| {
            let text = std::fs::read_to_string(out.join(format!("{split}.{ending}")))
                .expect("the file was written");
            text.lines().count()
        };
        assert!(lines("digits") >= 100);
        assert_eq!(lines("digits"), lines("reversed"));
        assert_eq!(lines("digits"), lines("align"));
    }
}

#[test]
fn a_corpus_does_not_replace_other_files() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let (out, mine) = (
        directory.path().to_str().expect("the path is UTF-8"),
        directory.path().join("test.digits"),
    );
    std::fs::write(&mine, "my own\n").expect("it can be written");
    assert!(
        failure(1, &["corpus", "digits", out])
            .contains("test.digits` is there already, with other content")
    );
    assert_eq!(
        std::fs::read_to_string(&mine).expect("it is there"),
        "my own\n"
    );
    assert!(!directory.path().join("train.digits").exists());
}

#[test]
fn messages_go_to_stderr_and_quiet_silences_them() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let out = directory.path().to_str().expect("the path is UTF-8");
    let messages = |arguments: &[&str]| succeed(&mut polyglow(arguments)).1;
    assert!(messages(&["corpus", "digits", out]).starts_with("wrote digits to `"));
    assert_eq!(messages(&["-q", "corpus", "digits", out]), "");
}

/// The program connects to no host: it does not import the system's functions for it. `serve` only
/// listens.
///
/// Builds with GPU backends may, as their drivers' libraries do.
#[cfg(all(
    target_os = "linux",
    not(any(feature = "wgpu", feature = "cuda", feature = "rocm"))
))]
#[test]
fn the_program_connects_to_no_host() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_polyglow")).expect("it can be read");
    // Names of functions of shared libraries stand in the file between zero bytes.
    let imports = |name: &str| {
        let name = [b"\0", name.as_bytes(), b"\0"].concat();
        program.windows(name.len()).any(|window| window == name)
    };
    assert!(
        imports("read") && imports("open64"),
        "the search finds what is there"
    );
    let calling = ["connect", "sendto", "getaddrinfo", "gethostbyname"];
    let listening = ["socket", "bind", "listen", "accept", "accept4"];
    let own: &[&str] = if cfg!(feature = "serve") {
        &[]
    } else {
        &listening
    };
    for name in calling.iter().chain(own) {
        assert!(!imports(name), "`{name}` is imported");
    }
}

#[test]
fn completions_and_the_man_pages_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(success(&["completions", shell]).contains("translate"));
    }
    assert!(success(&["man"]).contains("polyglow\\-translate"));
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let pages = directory.path().join("man1");
    success(&["man", "--out", pages.to_str().expect("the path is text")]);
    let page =
        fs::read_to_string(pages.join("polyglow-translate.1")).expect("each command has a page");
    assert!(page.contains("beam\\-size"), "{page}");
}

#[cfg(target_os = "linux")]
#[test]
fn output_to_a_closed_pipe_is_neither_an_error_nor_a_panic() {
    for arguments in [&["completions", "bash"][..], &["devices"], &["--help"]] {
        // The reading end of the pipe is closed before the program starts.
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let output = polyglow(arguments)
            .stdout(writer)
            .output()
            .expect("the program starts");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}
