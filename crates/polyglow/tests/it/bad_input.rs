//! What is wrong with a command, a config, a file or a run is an error message, never a panic, and
//! overwrites nothing.

use std::collections::BTreeMap;
use std::fs;
#[cfg(target_os = "linux")]
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::program::Sandbox;

/// Wrong values of keys: the override, and what the message names.
const VALUES: &[(&str, &str)] = &[
    ("seed=-1", "seed"),
    ("seed=1.5", "seed"),
    ("seed=99999999999999999999", "seed"),
    ("seed=zero", "seed"),
    ("device=", "device"),
    ("device=flexx", "unknown device `flexx`"),
    ("device=flex:1", "device `flex:1`"),
    ("device=cuda:-1", "cuda"),
    ("device=3", "device"),
    (
        "model.arch=5",
        "expected one of the names that the key can have",
    ),
    ("train.lr=-1", "with `--set`, in the config `tiny.toml`"),
    ("data.corpus=nothing", "data.corpus"),
    ("data.corpus=digits", "data.src"),
    ("data.train=", "data.train"),
    (
        "data.train=nothing",
        "`data.train`: there is no file `nothing.en`",
    ),
    ("data.train=.", "data.train"),
    ("data.train=/dev/null", "data.train"),
    ("data.train=[]", "data.train"),
    ("data.train=[{path='train',weight=-1}]", "data.train"),
    ("data.train=[{path='train',weight=nan}]", "data.train"),
    ("data.train=[{path='train',weight=1e9}]", "data.train"),
    ("data.train=[{weight=1}]", "data.train"),
    (
        "data.valid=nothing",
        "`data.valid`: there is no file `nothing.en`",
    ),
    ("data.valid=7", "data.valid"),
    (
        "data.test=nothing",
        "`data.test`: there is no file `nothing.en`",
    ),
    ("data.test={a='test',b='nothing'}", "nothing.en"),
    ("data.alignments=nothing", "data.alignments"),
    ("data.alignments=gold", "data.alignments"),
    ("data.src=", "src"),
    ("data.src=xx", "train.xx"),
    ("data.tgt=en", "data.tgt"),
    ("data.src=../train", "data.train"),
    ("data.max_len=0", "data.max_len"),
    ("data.max_len=-1", "max_len"),
    ("data.max_len=1e3", "max_len"),
    ("data.max_len=99999999999999999999", "max_len"),
    ("data.max_len=9223372036854775807", "data.max_len"),
    ("data.max_length_ratio=0.5", "data.max_length_ratio"),
    ("data.max_length_ratio=nan", "data.max_length_ratio"),
    ("data.max_length_ratio=-inf", "data.max_length_ratio"),
    ("tokenizer.kind=wordpiece", "wordpiece"),
    ("tokenizer.kind=1", "kind"),
    ("tokenizer.kind=whitespace", "tokenizer.vocab"),
    ("tokenizer.vocab_size=0", "tokenizer.vocab_size"),
    ("tokenizer.vocab_size=4", "tokenizer.vocab_size"),
    ("tokenizer.vocab_size=-8000", "vocab_size"),
    (
        "tokenizer.vocab_size=9223372036854775807",
        "tokenizer.vocab_size",
    ),
    ("tokenizer.path=nothing.json", "nothing.json"),
    ("tokenizer.path=train.en", "train.en"),
    ("tokenizer.path=.", "tokenizer"),
    ("tokenizer.vocab=nothing", "tokenizer.vocab"),
    ("tokenizer.dropout=0.5", "tokenizer.dropout"),
    ("tokenizer.dropout=1", "tokenizer.dropout"),
    ("tokenizer.dropout=-0.1", "tokenizer.dropout"),
    ("tokenizer.sampling_alpha=0", "tokenizer.sampling_alpha"),
    ("tokenizer.sampling_alpha=-1", "tokenizer.sampling_alpha"),
    ("tokenizer.sampling_alpha=nan", "tokenizer.sampling_alpha"),
    ("tokenizer.sampling_alpha=0.5", "tokenizer.sampling_alpha"),
    ("tokenizer.shared=maybe", "shared"),
    ("tokenizer.normalization=nfd", "nfd"),
    ("model.arch=rnnt", "rnnt"),
    ("model.preset=huge", "huge"),
    ("model.d_model=0", "model.d_model"),
    ("model.d_model=-8", "d_model"),
    ("model.d_model=9", "model.d_model"),
    ("model.d_model=9223372036854775807", "model.d_model"),
    ("model.d_ff=0", "model.d_ff"),
    ("model.num_heads=0", "model.num_heads"),
    ("model.num_heads=3", "model.num_heads"),
    ("model.num_heads=16", "model.num_heads"),
    ("model.num_encoder_layers=0", "model.num_encoder_layers"),
    ("model.num_decoder_layers=0", "model.num_decoder_layers"),
    (
        "model.num_decoder_layers=1000000000",
        "model.num_decoder_layers",
    ),
    ("model.dropout=1", "model.dropout"),
    ("model.dropout=-0.1", "model.dropout"),
    ("model.attention_dropout=nan", "model.attention_dropout"),
    ("model.activation=tanh", "tanh"),
    ("model.norm=batch", "batch"),
    ("model.position=absolute", "absolute"),
    ("model.tie_embeddings=some", "some"),
    ("train.max_tokens=0", "train.max_tokens"),
    ("train.max_tokens=1", "train.max_tokens"),
    ("train.max_tokens=-1", "max_tokens"),
    ("train.pad_multiple=0", "train.pad_multiple"),
    ("train.pad_multiple=1000000", "train.max_tokens"),
    ("train.accumulate_steps=0", "train.accumulate_steps"),
    ("train.max_steps=0", "train.max_steps"),
    ("train.max_steps=18446744073709551615", "max_steps"),
    ("train.max_epochs=0", "train.max_epochs"),
    ("train.optimizer=sgd", "sgd"),
    ("train.betas=[0.9]", "betas"),
    ("train.betas=[1.0, 0.9]", "train.betas"),
    ("train.betas=[0.9, -0.1]", "train.betas"),
    ("train.eps=0", "train.eps"),
    ("train.lr=0", "train.lr"),
    ("train.lr=-1e-3", "train.lr"),
    ("train.lr=inf", "train.lr"),
    ("train.lr=fast", "lr"),
    ("train.schedule=step", "step"),
    ("train.warmup_steps=0", "train.warmup_steps"),
    ("train.label_smoothing=1", "train.label_smoothing"),
    ("train.label_smoothing=-0.1", "train.label_smoothing"),
    ("train.alignment_weight=1", "train.alignment_weight"),
    ("train.clip_norm=-1", "train.clip_norm"),
    ("train.weight_decay=inf", "train.weight_decay"),
    ("train.ema_decay=1", "train.ema_decay"),
    ("train.best_metric=ter", "ter"),
    ("train.tokenize=moses", "moses"),
    ("train.tokenize=ja-mecab", "train.dictionary"),
    ("train.tokenize=flores200", "train.spm"),
    ("train.validate_every=0", "train.validate_every"),
    ("train.save_every=0", "train.save_every"),
    ("train.log_every=0", "train.log_every"),
    ("train.keep_last=0", "train.keep_last"),
    ("search.beam_size=0", "search.beam_size"),
    ("search.beam_size=100000", "beam"),
    ("search.length_penalty=sum", "sum"),
    ("search.length_alpha=-1", "search.length_alpha"),
    ("search.max_len_ratio=nan", "search.max_len_ratio"),
    ("search.min_len_ratio=9", "search.min_len_ratio"),
    ("search.method=random", "random"),
    ("search.repetition_penalty=0", "search.repetition_penalty"),
    ("search.diversity_groups=3", "search.diversity_groups"),
    ("search.diversity_penalty=-1", "search.diversity_penalty"),
    ("train.learning_rate=1", "did you mean `lr`?"),
    ("trian.lr=1", "trian"),
    ("lr=1", "belongs to the section `[train]`"),
    ("train=1", "train"),
    ("train.lr", "there is no `=`"),
    ("=", "="),
    ("train.lr.x=1", "lr"),
];

/// Wrong texts of whole configs, and what the message names.
const CONFIGS: &[(&str, &str)] = &[
    ("", "data.train"),
    ("\u{0}", "line 1"),
    ("seed", "line 1"),
    ("seed = 1\nseed = 2", "line 2"),
    ("[data\ncorpus = 'digits'", "line 1"),
    ("[data]\ncorpus = 'digits'\n[data]\n", "line 3"),
    ("[data]\ncorpus = 'digits\n", "line 2"),
    ("data.corpus = 'digits'", "max_steps"),
    ("data.corpus = 'digits'\ntrain.max_steps = '1'", "line 2"),
    (
        "data.corpus = 'digits'\ntrain.max_steps = 1\nmodel = 'tiny'",
        "line 3",
    ),
    (
        "data.corpus = 'digits'\ntrain.max_steps = 1\ndata.train = 'x'",
        "data.corpus",
    ),
    ("data = 1979-05-27", "line 1"),
    ("{\"data\": {\"corpus\": \"digits\"}}", "line 1"),
    ("<config/>", "line 1"),
    ("a.b.c.d.e.f = 1", "line 1"),
];

/// The commands that must be refused, and the failures of that.
struct Refusals<'a> {
    sandbox: &'a Sandbox,
    before: BTreeMap<PathBuf, Vec<u8>>,
    wrong: Vec<String>,
}

impl<'a> Refusals<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        Self {
            sandbox,
            before: files(sandbox.path()),
            wrong: Vec::new(),
        }
    }

    /// Runs a command that must be refused with these words.
    fn run(&mut self, arguments: &[&str], words: &str) {
        let output = self.sandbox.run(arguments);
        self.check(&arguments.join(" "), &output, words);
    }

    /// The exit code is 1 or 2, the message has these words and a hint, and no file is another than
    /// before.
    fn check(&mut self, what: &str, output: &Output, words: &str) {
        let message = String::from_utf8_lossy(&output.stderr);
        let mut wrong = |problem: &str| self.wrong.push(format!("{what}: {problem}: {message}"));
        if !matches!(output.status.code(), Some(1 | 2)) {
            wrong(&format!("ends with {}", output.status));
        }
        if !message.contains("error: ") || !message.contains(words) {
            wrong(&format!("must name `{words}`"));
        }
        if !message.contains("\nhint: ") && !message.contains("try '--help'") {
            wrong("no hint");
        }
        for never in [
            "panicked",
            "internal error",
            "stack backtrace",
            "RUST_BACKTRACE",
        ] {
            if message.contains(never) {
                wrong(never);
            }
        }
        let after = files(self.sandbox.path());
        for (path, content) in &self.before {
            if after.get(path) != Some(content) {
                self.wrong
                    .push(format!("{what} changed `{}`", path.display()));
            }
        }
    }

    #[track_caller]
    fn finish(self) {
        assert!(
            self.wrong.is_empty(),
            "{} are wrong:\n{}",
            self.wrong.len(),
            self.wrong.join("\n")
        );
    }
}

/// Every file below `dir` with its content, but for locks and logs.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_symlink() {
                // What it points to is listed where it is, and some point to themselves.
            } else if path.is_dir() {
                open.push(path);
            } else if path.extension().is_none_or(|ending| ending != "log")
                && !path.ends_with("lock")
            {
                files.insert(path.clone(), fs::read(&path).unwrap_or_default());
            }
        }
    }
    files
}

#[test]
fn wrong_values_are_named_by_their_keys() {
    let sandbox = Sandbox::new();
    let mut refusals = Refusals::new(&sandbox);
    for (set, words) in VALUES {
        refusals.run(&["train", "tiny.toml", "--run", "run", "--set", set], words);
        let _ = fs::remove_dir_all(sandbox.path().join("run"));
    }
    refusals.finish();
}

#[test]
fn wrong_configs_are_named_by_their_lines() {
    for (text, words) in CONFIGS {
        let sandbox = Sandbox::new();
        fs::write(sandbox.path().join("wrong.toml"), text).expect("it can be written");
        let mut refusals = Refusals::new(&sandbox);
        refusals.run(&["check", "wrong.toml"], words);
        refusals.run(&["train", "wrong.toml"], words);
        refusals.finish();
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.path().join("wrong.toml"), b"seed = \xff").expect("it can be written");
    let mut refusals = Refusals::new(&sandbox);
    refusals.run(&["train", "wrong.toml"], "wrong.toml");
    refusals.run(&["train", "."], "cannot read the config `.`");
    refusals.run(&["train", ""], "<CONFIG>");
    refusals.finish();
}

#[test]
fn wrong_text_is_named_by_its_file_and_line() {
    let blank = "\n".repeat(26);
    let cases: &[(&str, &[u8], &str)] = &[
        ("train.de", b"", "train.de"),
        ("train.de", b"sieh\n", "train.en"),
        ("train.de", b"\xff\xfe\n", "`train.de` is in UTF-16"),
        (
            "train.de",
            b"sieh\nsi\xe4h\n",
            "`train.de` line 2: invalid UTF-8",
        ),
        (
            "train.de",
            b"\x7fELF\x02\x01\x01\x00\xff\n",
            "`train.de` line 1",
        ),
        ("train.de", b"\x1f\x8b\x08\x00broken", "train.de"),
        ("train.de", b"\x1f\x8b", "train.de"),
        (
            "train.de",
            blank.as_bytes(),
            "every training pair is left out",
        ),
        ("valid.de", b"", "valid.de"),
        ("valid.de", b"a\nb\nc\nd\ne\n", "valid.en"),
        ("valid.de", b"\xff\n", "`valid.de` line 1"),
        ("test.de", b"sieh\n", "test.en"),
        ("test.de", b"\xc3\n", "`test.de` line 1"),
    ];
    let mut wrong = Vec::new();
    for &(file, content, words) in cases {
        let sandbox = Sandbox::new();
        fs::write(sandbox.path().join(file), content).expect("it can be written");
        let mut refusals = Refusals::new(&sandbox);
        refusals.run(&["train", "tiny.toml", "--run", "run"], words);
        wrong.extend(refusals.wrong);
    }
    let [many, beyond] = ["look\n", "0-0 9-9\n"].map(|line| line.repeat(26));
    for (key, file, content, words) in [
        ("data.train", "text.tsv", "", "text.tsv"),
        (
            "data.train",
            "text.tsv",
            "one column\n",
            "`text.tsv` line 1",
        ),
        (
            "data.train",
            "text.tsv",
            "a\tb\nc\td\te\n",
            "`text.tsv` line 2",
        ),
        ("data.train", "text.tsv", "a\tb\n\n", "`text.tsv` line 2"),
        ("data.alignments", "links", "0-0\n", "line 2"),
        ("data.alignments", "links", &beyond, "line 1"),
        ("data.alignments", "links", "a-b\n", "line 1"),
        ("data.alignments", "links", "0-\n", "line 1"),
        ("data.alignments", "links", &many, "line 1"),
    ] {
        let sandbox = Sandbox::new();
        fs::write(sandbox.path().join(file), content).expect("it can be written");
        let mut refusals = Refusals::new(&sandbox);
        refusals.run(
            &[
                "train",
                "tiny.toml",
                "--run",
                "run",
                "--set",
                &format!("{key}={file}"),
            ],
            words,
        );
        wrong.extend(refusals.wrong);
    }
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn odd_text_is_text() {
    let sandbox = Sandbox::new();
    // NUL bytes, a line of 10 MB, and every kind of space.
    let odd = format!("\0\n{}\n\u{a0}\u{2028}x\u{feff}\r\n", "x".repeat(10 << 20));
    fs::write(sandbox.path().join("train.en"), odd + &"look\n".repeat(23))
        .expect("it can be written");
    for kind in ["word", "bpe"] {
        let (_, stderr) = sandbox.succeed(&[
            "train",
            "tiny.toml",
            "--run",
            kind,
            "--set",
            &format!("tokenizer.kind={kind}"),
        ]);
        assert!(stderr.contains("of 26 pairs kept"), "{stderr}");
    }
}

#[test]
fn wrong_commands_are_explained() {
    let sandbox = Sandbox::trained();
    fs::write(sandbox.path().join("blank"), "\n\n").expect("it can be written");
    fs::write(sandbox.path().join("bytes"), b"\xff\n").expect("it can be written");
    fs::write(sandbox.path().join("empty"), "").expect("it can be written");
    fs::write(sandbox.path().join("two"), "look now\nlook now\n").expect("it can be written");
    let cases: &[(&str, &str)] = &[
        ("trian tiny.toml", "trian"),
        ("train", "<CONFIG>"),
        ("train nothing.toml", "nothing.toml"),
        ("train tiny.toml --runs x", "--runs"),
        ("train tiny.toml --run tiny.toml", "tiny.toml"),
        ("train tiny.toml --run tiny.toml/below", "tiny.toml/below"),
        ("train tiny.toml --device wgpu:99999", "wgpu"),
        ("train tiny.toml --tui", "terminal"),
        ("train tiny.toml --checkpoint best", "--fork"),
        ("train tiny.toml --fork new", "runs/tiny"),
        ("check", "<CONFIG>"),
        ("clean two blank --dry-run", "'--src FILE --tgt FILE'"),
        (
            "clean two.tmx --dry-run",
            "`--pairs FILE --from en --to de`",
        ),
        (
            "clean two --dry-run",
            "text is given with `--src FILE --tgt FILE`",
        ),
        (
            "clean tiny.toml --src two --tgt blank --dry-run",
            "the argument '[CONFIG]' cannot be used with '--src <FILE>'\n\nFor more",
        ),
        ("evaluate nothing", "no run in `nothing`"),
        (
            "evaluate tiny.toml",
            "no run in `tiny.toml`: it is a config",
        ),
        ("evaluate run --split nothing", "nothing"),
        ("evaluate run --checkpoint step-99", "step-99"),
        (
            "evaluate run --checkpoint /",
            "no checkpoint at `/`: that is no checkpoint",
        ),
        (
            "evaluate run --checkpoint no/such",
            "no checkpoint at `no/such`: there is no such directory",
        ),
        ("evaluate run --beam-size 0", "--beam-size"),
        ("evaluate run --beam-size 1000", "beam"),
        ("evaluate run --beam-size x", "--beam-size"),
        (
            "evaluate run --beam-size 99999999999999999999",
            "--beam-size",
        ),
        ("evaluate run --alignments nothing", "nothing"),
        ("evaluate run --alignments gold", "gold"),
        ("evaluate run --alignments two", "two"),
        ("evaluate run --set model.d_model=4", "model.d_model"),
        ("evaluate run --set search.beam_size=-1", "beam_size"),
        ("evaluate run --ensemble nothing", "nothing"),
        ("evaluate run --device nothing", "unknown device `nothing`"),
        ("translate", "<RUN>"),
        ("translate run nothing", "nothing"),
        ("translate run .", "."),
        ("translate run bytes", "`bytes` line 1: invalid UTF-8"),
        ("translate run two --n-best 0", "--n-best"),
        ("translate run two --n-best 2", "--n-best 2"),
        ("translate run two --format xml", "xml"),
        ("translate run two --prefix empty", "`empty` has no line 1"),
        (
            "translate run two --prefix test.de",
            "`test.de` has more than the 2 lines",
        ),
        ("translate run two --constraints nothing", "nothing"),
        (
            "translate run two --constraints test.en",
            "`test.en` has more than the 2 lines",
        ),
        (
            "translate run two -o run",
            "cannot write `run`: it is a directory",
        ),
        (
            "translate run two -o nothing/x",
            "cannot write `nothing/x`: there is no directory `nothing`\nhint: `mkdir -p nothing`",
        ),
        ("translate run two -i", "--interactive"),
        ("score run two", "<TGT>"),
        ("score run two test.de", "test.de"),
        ("score run empty empty", "empty"),
        ("score run bytes two", "`bytes` line 1"),
        ("metrics", "Usage"),
        ("metrics two", "<REF>"),
        ("metrics two nothing", "nothing"),
        ("metrics bytes bytes", "bytes"),
        ("attention run", "<SENTENCE>"),
        ("attention run look --layer 9 -o a.png", "9"),
        ("attention run look --head 9 -o a.png", "9"),
        (
            "attention run look",
            "hint: `--out attention.html` writes a page",
        ),
        ("attention run look -o a.bmp", "hint: `.html` writes a page"),
        ("attention run look -o nothing/a.html", "nothing/a.html"),
        ("average nothing", "no run in `nothing`"),
        ("average run --last 0", "--last"),
        ("average run --last 99", "99"),
        ("info nothing", "no run in `nothing`"),
        ("report nothing", "no run in `nothing`"),
        ("report run --out nothing/x.html", "nothing/x.html"),
        ("corpus digits", "<OUT>"),
        ("corpus nothing here", "unknown corpus `nothing`"),
        ("corpus digits two", "two"),
        ("completions nothing", "nothing"),
        ("devices --yaml", "--yaml"),
        ("bench", "<PART>"),
        ("bench speed", "speed"),
        ("bench step nothing.toml", "nothing.toml"),
        (
            "bench step run",
            "the config of this run is `run/config.toml`",
        ),
        ("bench step tiny.toml --shape 1x1x1", "--shape"),
        (
            "bench step --shape 18446744073709551615x1x1",
            "expected three whole numbers",
        ),
        ("bench step --shape 0x1x1", "expected three whole numbers"),
        ("bench step --vocab-size 99999999999", "--vocab-size"),
        (
            "bench data --shape 1x1x1",
            "`--shape` changes nothing in this part of `bench`",
        ),
        (
            "bench search --shape 1x1x1",
            "`--shape` changes nothing in this part of `bench`",
        ),
        (
            "bench ranks --network 1G",
            "`cargo run --release -p polyglow-bench -- ranks`",
        ),
        (
            "bench launches --device wgpu:cpu",
            "`cargo run --release -p polyglow-bench --features wgpu -- launches`",
        ),
        ("bench step --int8", "`--int8` changes nothing"),
        ("bench step --repetitions 0", "--repetitions"),
        (
            "bench data tiny.toml --profile nothing/trace.json",
            "nothing/trace.json",
        ),
    ];
    let mut refusals = Refusals::new(&sandbox);
    for (command, words) in cases {
        refusals.run(&command.split_whitespace().collect::<Vec<_>>(), words);
    }
    refusals.finish();
    assert!(VALUES.len() + 2 * CONFIGS.len() + cases.len() >= 150);
}

#[cfg(target_os = "linux")]
#[test]
fn loops_devices_and_closed_streams_are_errors() {
    let sandbox = Sandbox::trained();
    let path = |name: &str| sandbox.path().join(name);
    std::os::unix::fs::symlink("loop", path("loop")).expect("it can be made");
    std::os::unix::fs::symlink("nothing", path("dangling")).expect("it can be made");
    fs::create_dir(path("dir.en")).expect("it can be made");
    fs::create_dir(path("dir.de")).expect("it can be made");
    let mut refusals = Refusals::new(&sandbox);
    for (command, words) in [
        ("train loop", "loop"),
        ("train dangling", "dangling"),
        ("translate run loop", "loop"),
        ("translate run test.en -o loop", "loop"),
        ("train tiny.toml --run loop", "loop"),
        ("train tiny.toml --set data.train=dir", "dir.en"),
        ("evaluate loop", "no run in `loop`"),
        ("translate run test.en -o /dev/full", "/dev/full"),
        ("report run --out /dev/full", "/dev/full"),
    ] {
        refusals.run(&command.split_whitespace().collect::<Vec<_>>(), words);
    }
    let full = || {
        File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it")
    };
    for command in [
        "translate run test.en",
        "evaluate run",
        "info run",
        "metrics test.de test.de",
        "man",
    ] {
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let output = sandbox
            .command(&arguments)
            .stdout(full())
            .output()
            .expect("the program starts");
        refusals.check(command, &output, "No space left on device");
    }
    refusals.finish();
    // Without stdin, stdout and stderr no message can be written, but there is an exit code.
    let closed = |streams: &str, command: &str| {
        sandbox
            .shell(&format!("exec \"$polyglow\" {command} {streams}"))
            .status
            .code()
    };
    assert_eq!(closed("<&-", "translate run test.en"), Some(0));
    assert!(matches!(closed("<&-", "translate run"), Some(0 | 1)));
    assert!(matches!(
        closed(">&-", "translate run test.en"),
        Some(0 | 1)
    ));
    assert_eq!(closed("2>&-", "translate run nothing"), Some(1));
    assert!(matches!(
        closed("<&- >&- 2>&-", "train tiny.toml --run other"),
        Some(0 | 1)
    ));
}

#[test]
fn damaged_runs_are_named_by_their_files() {
    let cases: &[(&str, &str, &[u8], &str)] = &[
        ("translate run two", "config.toml", b"", "config.toml"),
        (
            "translate run two",
            "config.toml",
            b"seed = [",
            "config.toml",
        ),
        (
            "train tiny.toml --run run",
            "config.toml",
            b"\xff",
            "config.toml",
        ),
        ("translate run two", "tokenizer.json", b"", "tokenizer.json"),
        (
            "translate run two",
            "tokenizer.json",
            b"{}",
            "tokenizer.json",
        ),
        (
            "translate run two",
            "tokenizer.json",
            b"[1, 2]",
            "tokenizer.json",
        ),
        (
            "translate run two",
            "tokenizer.json",
            b"{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 4294967295}}}",
            "tokenizer.json",
        ),
        (
            "translate run two",
            "tokenizer.json",
            b"{\"model\": {\"type\": \"Nothing\"}}",
            "tokenizer.json",
        ),
        (
            "translate run two",
            "checkpoints/step-6/state.json",
            b"",
            "step-6",
        ),
        (
            "translate run two",
            "checkpoints/step-6/state.json",
            b"{\"format\": 99}",
            "step-6",
        ),
        (
            "translate run two",
            "checkpoints/step-6/model.safetensors",
            b"",
            "model.safetensors",
        ),
        (
            "translate run two",
            "checkpoints/step-6/model.safetensors",
            b"\xff\xff\xff\xff\xff\xff\xff\x7f{}",
            "model.safetensors",
        ),
        (
            "translate run two",
            "checkpoints/step-6/model.safetensors",
            b"PK\x03\x04",
            "model.safetensors",
        ),
        (
            "info run",
            "checkpoints/step-6/model.safetensors",
            b"\x80\x02]q\x00.",
            "model.safetensors",
        ),
        (
            "average run",
            "checkpoints/step-6/model.safetensors",
            b"\0",
            "model.safetensors",
        ),
    ];
    let mut wrong = Vec::new();
    for &(command, file, content, words) in cases {
        let sandbox = Sandbox::trained();
        fs::write(sandbox.path().join("two"), "look now\nlook now\n").expect("it can be written");
        fs::write(sandbox.path().join("run").join(file), content).expect("it can be written");
        let mut refusals = Refusals::new(&sandbox);
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        if command.starts_with("translate") {
            arguments.extend(["--checkpoint", "step-6"]);
        }
        let what = format!(
            "{command} with `{file}` = {:?}",
            String::from_utf8_lossy(content)
        );
        refusals.check(&what, &sandbox.run(&arguments), words);
        wrong.extend(refusals.wrong);
    }
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[cfg(unix)]
#[test]
fn results_without_a_standard_output_are_an_error_before_they_are_computed() {
    let sandbox = Sandbox::trained();
    for command in [
        "evaluate run",
        "info run",
        "check tiny.toml",
        "translate run",
        "embeddings run nearest 1",
        "embeddings run context '1 2' --word 1",
        "attention run '1 2' --out page.html --pharaoh",
        "completions bash",
        "man",
    ] {
        let output = sandbox.shell(&format!("\"$polyglow\" {command} >&-"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {stderr}");
        assert!(
            stderr.contains("standard output is closed"),
            "{command}: {stderr}"
        );
    }
    // Results that go elsewhere are not lost, and neither stands a closed standard input in the
    // way.
    for command in [
        "evaluate run > scores <&-",
        "translate run test.en --output out >&-",
        "embeddings run plot --out words.svg >&-",
        "embeddings run export words.vec >&-",
        "attention run '1 2' --out attention.svg >&-",
        "man --out pages >&-",
    ] {
        let output = sandbox.shell(&format!("\"$polyglow\" {command}"));
        assert!(
            output.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    for (file, part) in [
        ("scores", "BLEU"),
        ("out", "\n"),
        ("words.svg", "</svg>"),
        ("words.vec", "\n"),
        ("attention.svg", "</svg>"),
        ("pages/polyglow.1", "polyglow"),
    ] {
        let text = fs::read_to_string(sandbox.path().join(file)).expect("it was written");
        assert!(text.contains(part), "{file}: {text}");
    }
}
