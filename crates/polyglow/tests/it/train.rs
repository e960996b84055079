//! Trainings from start to end: learning, resuming, stopping, failing.

use std::fs;
#[cfg(unix)]
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use crate::program::{DIGITS, Sandbox, checkpoint, train_pairs};
#[cfg(unix)]
use crate::program::{handling_hangups, newest_step, wait_until};

/// The digits with accumulation and a moving average.
fn sandbox() -> Sandbox {
    Sandbox::with(&DIGITS.replace("[train]", "[train]\naccumulate_steps = 2\nema_decay = 0.9"))
}

/// Trains with overrides; the directory of the run.
fn train(sandbox: &Sandbox, overrides: &[&str]) -> PathBuf {
    sandbox.train("run", overrides);
    sandbox.path().join("run")
}

/// One finished run, shared by the tests that only look at it.
static TRAINED: LazyLock<Sandbox> = LazyLock::new(|| {
    let sandbox = sandbox();
    train(&sandbox, &[]);
    sandbox
});

/// The lines of `metrics.jsonl` without what depends on the clock.
fn metrics(run: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(run.join("metrics.jsonl")).expect("it was written");
    let parse = |line: &str| {
        let mut record: Value = serde_json::from_str(line).expect("every line is JSON");
        let fields = record.as_object_mut().expect("every line is an object");
        fields.remove("seconds");
        fields.remove("tokens_per_second");
        record
    };
    lines.lines().map(parse).collect()
}

#[test]
fn digits_are_learned_to_a_sequence_accuracy_of_098() {
    let sandbox = sandbox();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/digits.toml");
    sandbox.succeed(&["train", config, "--run", "run"]);
    let scores = sandbox.json(&["evaluate", "run", "--json"]);
    assert!(
        scores["exact_match"].as_f64().expect("a number") >= 0.98,
        "{scores}"
    );
    assert!(
        scores["signatures"]["bleu"]
            .as_str()
            .expect("a string")
            .starts_with("nrefs:1|case:mixed|eff:no|tok:13a")
    );
}

#[test]
fn a_resumed_run_is_the_straight_run_byte_for_byte() {
    let straight = &TRAINED.path().join("run");
    let sandbox = sandbox();
    let run = train(&sandbox, &[]);
    // The state of a process that was killed after step 12: its newest checkpoint is that of step 10.
    for step in ["step-15", "step-20", "step-14"] {
        let _ = fs::remove_dir_all(run.join("checkpoints").join(step));
    }
    train(&sandbox, &[]);
    for file in [
        "model.safetensors",
        "optimizer.safetensors",
        "ema.safetensors",
        "state.json",
    ] {
        let read = |run: &Path| {
            fs::read(run.join("checkpoints/step-20").join(file)).expect("it was written")
        };
        assert!(read(straight) == read(&run), "{file}");
    }
    assert_eq!(metrics(straight), metrics(&run));
    let splits = |kind: &str| {
        let records = metrics(&run);
        let of_kind = records.iter().filter(|record| record["kind"] == kind);
        of_kind
            .map(|record| {
                (
                    record["step"].as_u64().unwrap_or(0),
                    record["split"].clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    let steps: Vec<u64> = splits("train").iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [3, 6, 9, 12, 15, 18, 20]);
    let steps: Vec<u64> = splits("valid").iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [7, 14, 20]);
    let tests: Vec<Value> = splits("test").into_iter().map(|(_, split)| split).collect();
    assert_eq!(tests, ["test", "test_long"]);
}

#[test]
fn a_changed_config_is_refused_by_naming_the_key() {
    let sets = [
        "--set",
        "train.lr=1e-2",
        "--set",
        "train.max_steps=19",
        "--set",
        "train.log_every=1",
    ];
    let message = TRAINED.fail(
        2,
        &[&["train", "tiny.toml", "--run", "run"][..], &sets].concat(),
    );
    assert!(
        message
            .contains("config: `train.lr = 0.005`, now `0.01`; `train.max_steps = 20`, now `19`\n"),
        "{message}"
    );
}

#[test]
fn a_changed_text_is_refused_by_naming_the_file_and_when_it_was_written() {
    let sandbox = Sandbox::trained();
    let before = fs::read(sandbox.path().join("train.de")).expect("it is there");
    let mut pairs = train_pairs();
    pairs[3].1.push_str(" nun");
    sandbox.write("train", &pairs);
    let message = sandbox.fail(2, &["train", "tiny.toml", "--run", "run"]);
    let words =
        "other content of the training text (`data.train`): `train.de` has changed (written ";
    assert!(
        message.contains(words) && message.contains(" ago)\n"),
        "{message}"
    );
    assert!(!message.contains("train.en"), "{message}");
    // A file that was written again with the same content has not changed.
    fs::write(sandbox.path().join("train.de"), before).expect("it can be written");
    sandbox.train("run", &[]);
}

#[test]
fn a_run_that_is_resumed_with_other_instructions_says_that_they_round_differently() {
    let sandbox = sandbox();
    let state = |run: &Path| run.join("checkpoints/step-10/state.json");
    let run = train(&sandbox, &["train.max_steps=10", "train.save_every=10"]);
    let text = fs::read_to_string(state(&run)).expect("it was written");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let here = polyglow_kernels::instruction_set().expect("flex has kernels");
    assert_eq!(json["instructions"], here);
    json["instructions"] = "those of another CPU".into();
    json.as_object_mut().expect("an object").remove("checksum");
    fs::write(state(&run), json.to_string()).expect("it can be written");
    let message = sandbox.succeed(&["train", "tiny.toml", "--run", "run"]).1;
    let words = format!(
        "computed with those of another CPU, those to come with {here}: they round differently"
    );
    assert!(message.contains(&words), "{message}");
    let newest =
        fs::read_to_string(run.join("checkpoints/step-20/state.json")).expect("it was written");
    let newest: serde_json::Value = serde_json::from_str(&newest).expect("JSON");
    assert_eq!(newest["instructions"], here);
}

#[test]
fn a_finished_run_is_resumed_to_a_later_end_as_if_that_had_been_its_end() {
    let straight = &TRAINED.path().join("run");
    let short = sandbox();
    train(
        &short,
        &[
            "train.max_steps=10",
            "train.keep_last=1",
            "train.save_every=10",
        ],
    );
    let run = train(&short, &[]);
    let read = |run: &Path| {
        fs::read(run.join("checkpoints/step-20/model.safetensors")).expect("it was written")
    };
    assert!(read(straight) == read(&run));
    // Where the schedule aims at the end, another end is another training.
    let cosine = "train.schedule=cosine";
    let sandbox = sandbox();
    train(&sandbox, &["train.max_steps=11", cosine]);
    let message = sandbox.fail(2, &["train", "tiny.toml", "--run", "run", "--set", cosine]);
    assert!(
        message.contains("`train.max_steps = 11`, now `20`"),
        "{message}"
    );
    assert!(
        message.contains(
            "hint: the learning rate of every step depends on the last step; set it back"
        ),
        "{message}"
    );
}

#[test]
fn a_loss_that_is_not_finite_stops_the_run_and_names_the_step_and_its_lines() {
    let sandbox = sandbox();
    let overrides = [
        "--set",
        "train.lr=1e38",
        "--set",
        "train.schedule=constant",
        "--set",
        "train.warmup_steps=0",
    ];
    let command = [
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--set",
        "train.max_skipped_steps=0",
    ];
    let message = sandbox.fail(1, &[&command[..], &overrides].concat());
    assert!(message.contains("step 2 is not finite"), "{message}");
    assert!(
        message.contains("digits") && message.contains("hint:"),
        "{message}"
    );
    assert!(
        !sandbox.path().join("run/checkpoints").exists(),
        "nothing is saved from an interval with a bad step"
    );
}

/// Options of a training that ends only when it is stopped.
#[cfg(unix)]
const ENDLESS: [&str; 6] = [
    "--set",
    "train.max_steps=1000000",
    "--set",
    "train.validate_every=1000000",
    "--set",
    "train.save_every=1000000",
];

/// The exit code of a training that the same command resumes: `EX_TEMPFAIL`.
#[cfg(unix)]
const STOPPED: i32 = 75;

/// Sends signals to a process, one after the other.
#[cfg(unix)]
fn send(signals: &[&str], child: &Child) {
    for signal in signals {
        let sent = Command::new("kill")
            .args([signal, &*child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(sent.success());
    }
}

#[cfg(unix)]
#[test]
fn signals_save_and_the_same_command_resumes() {
    let sandbox = sandbox();
    let run = sandbox.path().join("run");
    let arguments = [&["train", "tiny.toml", "--run", "run"][..], &ENDLESS].concat();
    let mut reached = 0;
    // A terminal that is closed may send SIGHUP more than once, and a service manager sends SIGTERM
    // with it.
    for signals in [
        &["-TERM"][..],
        &["-INT"],
        &["-HUP", "-HUP"],
        &["-HUP", "-TERM"],
        &["-TERM", "-HUP"],
    ] {
        let mut command = sandbox.command(&arguments);
        handling_hangups(&mut command)
            .stderr(Stdio::null())
            .stdout(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        wait_until("a step was made", || {
            newest_step(&run).is_some_and(|step| step > reached)
        });
        let message = sandbox.fail(1, &arguments);
        assert!(
            message.contains(&format!("is in use: process {} trains there", child.id())),
            "{message}"
        );
        send(signals, &child);
        assert_eq!(
            child.wait().expect("it ends").code(),
            Some(STOPPED),
            "{signals:?}"
        );
        let step = checkpoint(&run, "last").state.step;
        assert!(step > reached);
        reached = step;
        let log = fs::read_to_string(run.join("train.log")).expect("it was written");
        let why = if signals[0] == "-HUP" {
            ", because the terminal was closed (SIGHUP)"
        } else {
            ""
        };
        // Of two different signals the second may come too late to be noted.
        if signals[0] == signals[signals.len() - 1] {
            assert!(
                log.contains(&format!(
                    "stopped after step {step}{why}; the same command resumes it"
                )),
                "{log}"
            );
        }
    }
}

#[cfg(unix)]
#[test]
fn a_signal_while_the_text_is_prepared_ends_a_training_that_is_not_done() {
    let config = "data.corpus = 'mini-en-de'
        tokenizer = { kind = 'unigram', vocab_size = 400 }
        model = { d_model = 8, d_ff = 8, num_heads = 1, num_encoder_layers = 1, num_decoder_layers = 1 }
        train = { max_steps = 1000000 }";
    let sandbox = Sandbox::with(config);
    let mut command = sandbox.command(&["train", "tiny.toml", "--run", "run"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    // The lock comes before the tokenizers.
    wait_until("the run is locked", || {
        sandbox.path().join("run/lock").exists()
    });
    send(&["-TERM"], &child);
    assert_eq!(child.wait().expect("it ends").code(), Some(STOPPED));
    assert!(
        !sandbox.path().join("run/checkpoints/last").exists(),
        "the text was prepared before the signal came"
    );
}

#[cfg(unix)]
#[test]
fn a_loop_starts_a_stopped_training_again_until_it_is_done() {
    let sandbox = sandbox();
    let program = env!("CARGO_BIN_EXE_polyglow");
    let rarely = "--set train.save_every=1000000 --set train.validate_every=1000000";
    let train = format!("{program} train tiny.toml --run run --set train.max_steps=1500 {rarely}");
    let script =
        format!("while {train} > /dev/null; code=$?; echo $code; [ $code -eq 75 ]; do :; done");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .current_dir(sandbox.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let run = sandbox.path().join("run");
    wait_until("a step was made", || newest_step(&run).is_some());
    let training = Command::new("pgrep")
        .args(["-P", &child.id().to_string()])
        .output()
        .expect("pgrep runs");
    let training = String::from_utf8(training.stdout)
        .expect("a number")
        .trim()
        .to_owned();
    assert!(
        Command::new("kill")
            .args(["-USR1", &training])
            .status()
            .expect("kill runs")
            .success()
    );
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "75\n0\n");
    assert_eq!(checkpoint(&run, "last").state.step, 1500);
}

#[cfg(unix)]
#[test]
fn a_training_under_nohup_outlives_its_terminal() {
    let sandbox = sandbox();
    let run = sandbox.path().join("run");
    let mut command = Command::new("nohup");
    command
        .arg(env!("CARGO_BIN_EXE_polyglow"))
        .args(["train", "tiny.toml", "--run", "run"])
        .args(ENDLESS);
    command
        .current_dir(sandbox.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("nohup starts");
    wait_until("a step was made", || newest_step(&run).is_some());
    send(&["-HUP"], &child);
    let reached = newest_step(&run);
    wait_until("training continues", || newest_step(&run) > reached);
    send(&["-TERM"], &child);
    assert_eq!(child.wait().expect("it ends").code(), Some(STOPPED));
}

#[test]
fn a_run_that_is_out_of_patience_saves_where_it_ends() {
    let sandbox = sandbox();
    // The weights do not move, so no validation after the first is better; the warm-up ends after
    // step 10.
    let sets = [
        "train.lr=1e-30",
        "train.patience=1",
        "train.validate_every=2",
        "train.save_every=100",
    ];
    let run = train(&sandbox, &sets);
    assert_eq!(checkpoint(&run, "last").state.step, 12);
    assert_eq!(checkpoint(&run, "best").state.step, 2);
}

#[test]
fn patience_begins_after_the_warm_up() {
    let sandbox = sandbox();
    let sets = [
        "train.lr=1e-30",
        "train.warmup_steps=5",
        "train.patience=2",
        "train.validate_every=1",
        "train.max_steps=12",
    ];
    let run = train(&sandbox, &sets);
    assert_eq!(
        checkpoint(&run, "last").state.step,
        7,
        "the validations after steps 6 and 7 brought nothing"
    );
    assert_eq!(checkpoint(&run, "best").state.step, 1);
}

#[test]
fn a_loss_that_has_diverged_is_reported_once() {
    let sandbox = sandbox();
    let diverging = [
        "train.lr=30",
        "train.schedule=constant",
        "train.max_steps=20",
        "train.log_every=1",
    ];
    let message = sandbox.train("diverged", &diverging).1;
    assert_eq!(
        message
            .matches("warning: the loss has diverged: at step ")
            .count(),
        1,
        "{message}"
    );
    assert!(
        message.contains("start again with a lower `train.lr`, more `train.warmup_steps`"),
        "{message}"
    );
    let message = sandbox
        .train("run", &["train.max_steps=20", "train.log_every=1"])
        .1;
    assert!(!message.contains("diverged"), "{message}");
}

#[test]
fn a_damaged_best_checkpoint_is_an_error_and_not_another_checkpoint() {
    let sandbox = sandbox();
    let run = train(&sandbox, &["train.max_steps=7"]);
    let weights = checkpoint(&run, "best").path.join("model.safetensors");
    let mut bytes = fs::read(&weights).expect("it is there");
    *bytes.last_mut().expect("it is not empty") ^= 1;
    fs::write(&weights, bytes).expect("it can be written");
    let message = sandbox.fail(1, &["evaluate", "run"]);
    assert!(
        message.contains("is damaged") && message.contains("`model.safetensors`"),
        "{message}"
    );
}

#[test]
fn a_line_of_spaces_stays_blank_where_spaces_are_tokens() {
    let sandbox = sandbox();
    train(&sandbox, &["tokenizer.kind=char", "train.max_steps=2"]);
    fs::write(sandbox.path().join("input.txt"), "   \n1 2\n").expect("it can be written");
    let (output, _) = sandbox.succeed(&["translate", "run", "input.txt"]);
    assert_eq!(output.lines().count(), 2);
    assert!(output.starts_with('\n'), "{output:?}");
}

#[test]
fn translate_keeps_the_order_the_count_and_blank_lines() {
    let translate = |lines: &str| {
        fs::write(TRAINED.path().join("input.txt"), lines).expect("it can be written");
        TRAINED.succeed(&["translate", "run", "input.txt"]).0
    };
    let output = translate("1 2 3\n\n  \n4 5\u{a0}6 unknown words\n9");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 5, "{output}");
    assert!(lines[1].is_empty() && lines[2].is_empty());
    assert_eq!(translate("1 2 3\n").trim_end_matches('\n'), lines[0]);
    assert_eq!(translate("9\n").trim_end_matches('\n'), lines[4]);
}

#[cfg(unix)]
#[test]
fn a_reader_that_has_enough_gets_whole_lines_and_ends_the_translation() {
    let input = TRAINED.path().join("many.txt");
    let arguments = ["translate", "run", "many.txt", "--beam-size", "1"];
    fs::write(&input, "1 2 3\n".repeat(5000)).expect("it can be written");
    let mut child = TRAINED
        .command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let first = lines.next().expect("there is a line").expect("it is UTF-8");
    drop(lines);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::write(&input, "1 2 3\n").expect("it can be written");
    let (alone, _) = TRAINED.succeed(&arguments);
    assert_eq!(alone.trim_end_matches('\n'), first);
}

#[test]
fn an_output_is_unchanged_until_the_input_is_known_to_be_good() {
    let [output, bad, none] =
        ["kept.txt", "bad.txt", "none.txt"].map(|name| TRAINED.path().join(name));
    fs::write(&output, "an earlier translation\n").expect("it can be written");
    fs::write(&bad, b"\xff\n").expect("it can be written");
    fs::write(&none, "\n\n").expect("it can be written");
    let message = TRAINED.fail(1, &["translate", "run", "bad.txt", "-o", "kept.txt"]);
    assert!(message.contains("line 1: invalid UTF-8"), "{message}");
    assert_eq!(
        fs::read_to_string(&output).expect("it is there"),
        "an earlier translation\n"
    );
    // An error behind the first lines.
    let message = TRAINED.fail(
        1,
        &[
            "translate",
            "run",
            "kept.txt",
            "--prefix",
            "none.txt",
            "-o",
            "kept.txt",
        ],
    );
    let partial = message
        .split('`')
        .find(|part| part.ends_with(".partial"))
        .expect("the hint names the file");
    assert_eq!(
        fs::read_to_string(&output).expect("it is there"),
        "an earlier translation\n"
    );
    assert_eq!(
        fs::read_to_string(partial)
            .expect("it is there")
            .lines()
            .count(),
        1
    );
    #[cfg(unix)]
    let mode = {
        use std::os::unix::fs::PermissionsExt;
        let mode = || {
            fs::metadata(&output)
                .expect("it is there")
                .permissions()
                .mode()
                & 0o777
        };
        fs::set_permissions(&output, PermissionsExt::from_mode(0o640)).expect("it is ours");
        mode
    };
    // The output may be the input.
    TRAINED.succeed(&["translate", "run", "kept.txt", "-o", "kept.txt"]);
    #[cfg(unix)]
    assert_eq!(mode(), 0o640);
    let written = fs::read_to_string(&output).expect("it is there");
    fs::write(&none, "an earlier translation\n").expect("it can be written");
    assert_eq!(
        written,
        TRAINED.succeed(&["translate", "run", "none.txt"]).0
    );
    assert_ne!(written, "an earlier translation\n");
}

#[test]
fn guided_alignment_turns_the_attention_to_where_it_should_be() {
    let error_rate = |weight: &str| {
        let sandbox = sandbox();
        train(
            &sandbox,
            &[
                "data.alignments=gold",
                "train.max_steps=120",
                "train.validate_every=120",
                weight,
            ],
        );
        let scores = sandbox.json(&[
            "evaluate",
            "run",
            "--alignments",
            "gold",
            "--checkpoint",
            "last",
            "--json",
        ]);
        scores["alignment_error_rates"][0]
            .as_f64()
            .expect("a number")
    };
    let (free, guided) = (
        error_rate("train.alignment_weight=0"),
        error_rate("train.alignment_weight=2"),
    );
    assert!(guided < free - 0.1, "{guided}, {free}");
    let message = TRAINED.fail(
        2,
        &["check", "tiny.toml", "--set", "train.alignment_weight=0.9"],
    );
    assert!(
        message.contains("`train.alignment_weight = 0.9`: there are no `data.alignments`"),
        "{message}"
    );
}

#[test]
fn an_embedded_corpus_brings_its_gold_alignments_along() {
    let scores = TRAINED.json(&["evaluate", "run", "--alignments", "gold", "--json"]);
    let rates = scores["alignment_error_rates"].as_array().expect("a list");
    assert!(!rates.is_empty());
    assert!(
        rates
            .iter()
            .all(|rate| rate.as_f64().is_some_and(|rate| (0.0..1.0).contains(&rate))),
        "{rates:?}"
    );
}

#[test]
fn every_name_of_a_checkpoint_can_be_evaluated_and_a_wrong_one_is_an_error_that_lists_them() {
    for checkpoint in ["best", "last", "step-15", "ema"] {
        let scores = TRAINED.json(&[
            "evaluate",
            "run",
            "--split",
            "valid",
            "--json",
            "--checkpoint",
            checkpoint,
        ]);
        for field in [
            "bleu",
            "chrf",
            "exact_match",
            "token_accuracy",
            "loss",
            "perplexity",
        ] {
            assert!(
                scores[field].as_f64().is_some_and(f64::is_finite),
                "{checkpoint}: {field}"
            );
        }
    }
    let message = TRAINED.fail(1, &["evaluate", "run", "--checkpoint", "step-3"]);
    assert!(
        message.contains("step-15") && message.contains("last"),
        "{message}"
    );
    let message = TRAINED.fail(2, &["evaluate", "run", "--split", "nothing"]);
    assert!(
        message.contains("there is train, valid, test, test_long"),
        "{message}"
    );
    let message = TRAINED.fail(1, &["evaluate", "/nowhere"]);
    assert!(message.contains("no run in `/nowhere`"), "{message}");
}

#[test]
fn the_validation_record_holds_what_evaluate_says() {
    let records = metrics(&TRAINED.path().join("run"));
    let valid = records
        .iter()
        .rfind(|record| record["kind"] == "valid")
        .expect("there was a validation");
    let step = valid["step"].as_u64().expect("a number");
    let arguments = [
        "evaluate",
        "run",
        "--split",
        "valid",
        "--json",
        "--beam-size",
        "1",
        "--checkpoint",
    ];
    let scores = TRAINED.json(&[&arguments[..], &[&format!("step-{step}")]].concat());
    for field in ["bleu", "chrf", "exact_match", "token_accuracy"] {
        assert_eq!(scores[field], valid[field], "{field}");
    }
    let difference =
        scores["loss"].as_f64().expect("a number") - valid["loss"].as_f64().expect("a number");
    assert!(difference.abs() < 1e-6);
}

#[test]
fn a_size_of_batches_that_was_looked_for_is_kept_by_the_run() {
    let sandbox = sandbox();
    sandbox.succeed(&["check", "tiny.toml", "--set", "train.max_tokens=auto"]);
    let run = train(&sandbox, &["train.max_tokens=auto", "train.max_steps=3"]);
    let kept = fs::read_to_string(run.join("config.toml")).expect("it was written");
    // Flex computes in host memory, where nothing is tried; and this model needs next to none of
    // it.
    assert!(kept.contains("\nmax_tokens = 4096\n"), "{kept}");
    train(&sandbox, &["train.max_tokens=auto", "train.max_steps=5"]);
    train(&sandbox, &["train.max_tokens=4096", "train.max_steps=5"]);
    let other = [
        "--set",
        "train.max_tokens=2048",
        "--set",
        "train.max_steps=5",
    ];
    let message = sandbox.fail(
        2,
        &[&["train", "tiny.toml", "--run", "run"][..], &other].concat(),
    );
    assert!(
        message.contains("`train.max_tokens = 4096`, now `2048`"),
        "{message}"
    );
}
