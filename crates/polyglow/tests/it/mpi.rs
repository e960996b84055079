//! The program under `mpirun`: the bytes of one process, and an end of all when one ends.
//!
//! Only with the feature `mpi`, and an MPI library that is installed: `.ci/extended mpi`.
#![cfg(all(unix, feature = "mpi"))]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::program::{DIGITS, Sandbox, newest_step, polyglow, wait_until};

/// Files of a checkpoint whose bytes are compared.
const FILES: [&str; 4] = [
    "model.safetensors",
    "optimizer.safetensors",
    "ema.safetensors",
    "state.json",
];

/// Both ranks have a micro-batch of every step.
const TWO: [&str; 2] = ["train.accumulate_steps=2", "train.ema_decay=0.9"];

/// The exit code of a training that the same command resumes: `EX_TEMPFAIL`.
const STOPPED: i32 = 75;

/// `mpirun -n RANKS polyglow ARGUMENTS`. A job that hangs is killed after two minutes.
fn mpirun(sandbox: &Sandbox, ranks: usize, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args([
        "-k",
        "5",
        "120",
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        "--bind-to",
        "none",
        "-n",
    ]);
    command
        .arg(ranks.to_string())
        .arg(polyglow(&[]).get_program())
        .args(arguments);
    command
        .current_dir(sandbox.path())
        .stdin(Stdio::null())
        .env_remove("RUST_LOG");
    command
}

/// `train` of this run, with overrides.
fn train<'a>(run: &'a str, overrides: &[&'a str]) -> Vec<&'a str> {
    let sets = overrides.iter().flat_map(|set| ["--set", set]);
    ["train", "tiny.toml", "--run", run]
        .into_iter()
        .chain(sets)
        .collect()
}

fn succeeded(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    stderr
}

fn same_bytes(sandbox: &Sandbox, one: &str, other: &str, step: u64) {
    for file in FILES {
        let content = |run: &str| {
            fs::read(
                sandbox
                    .path()
                    .join(format!("{run}/checkpoints/step-{step}/{file}")),
            )
            .expect(file)
        };
        assert!(
            content(one) == content(other),
            "`{file}` of `{one}` and `{other}`"
        );
    }
}

/// Processes of the program that train in a run.
fn ranks_of(run: &Path) -> Vec<u32> {
    let rank = |entry: fs::DirEntry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        let is_rank =
            words[0].ends_with(b"/polyglow") && words.contains(&run.as_os_str().as_encoded_bytes());
        is_rank.then_some(id)
    };
    fs::read_dir("/proc")
        .expect("Linux has it")
        .flatten()
        .filter_map(rank)
        .collect()
}

/// Starts a long training of two ranks, waits for its first records, and returns it with the ids of
/// its ranks.
fn under_way(sandbox: &Sandbox, run: &Path, overrides: &[&str]) -> (Child, Vec<u32>) {
    let run_text = run.to_str().expect("UTF-8");
    let long: Vec<&str> = [
        &TWO[..],
        &["train.max_steps=100000", "train.save_every=5"],
        overrides,
    ]
    .concat();
    let mut command = mpirun(sandbox, 2, &train(run_text, &long));
    let child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("mpirun starts");
    let from = newest_step(run).unwrap_or(0);
    wait_until("the first steps", || {
        newest_step(run).is_some_and(|step| step > from + 5)
    });
    let ranks = ranks_of(run);
    assert_eq!(ranks.len(), 2, "two ranks");
    (child, ranks)
}

/// A command of [`mpirun`] as a shell reads it, without `timeout`, which does not forward SIGUSR1.
fn command_line(command: &Command) -> String {
    let words = command.get_args().skip_while(|word| *word != "mpirun");
    words
        .map(|word| format!("'{}'", word.to_str().expect("UTF-8")))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The process of `mpirun`, which `timeout` has started.
fn launcher_of(timeout: &Child) -> u32 {
    let output = Command::new("pgrep")
        .args(["-P", &timeout.id().to_string()])
        .output()
        .expect("pgrep starts");
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("it has started one process")
}

fn signal(id: u32, name: &str) {
    assert!(sent(id, name), "{name} to {id}");
}

/// Whether the process was still there to be sent a signal.
fn sent(id: u32, name: &str) -> bool {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &id.to_string()])
        .status();
    sent.expect("kill starts").success()
}

/// Waits for the end of a job; returns its stderr, its exit code, and the time that it took.
fn end_of(child: Child) -> (String, Option<i32>, Duration) {
    let begun = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    (
        String::from_utf8_lossy(&output.stderr).into_owned(),
        output.status.code(),
        begun.elapsed(),
    )
}

#[test]
fn two_ranks_write_the_bytes_of_one_process() {
    let sandbox = Sandbox::with(DIGITS);
    sandbox.train("one", &TWO);
    let stderr = succeeded(
        &mpirun(&sandbox, 2, &train("two", &TWO))
            .output()
            .expect("mpirun starts"),
    );
    same_bytes(&sandbox, "one", "two", 20);
    assert_eq!(
        stderr.matches("run directory").count(),
        1,
        "rank 0 speaks for all: {stderr}"
    );
    let records =
        fs::read_to_string(sandbox.path().join("two/metrics.jsonl")).expect("there are records");
    assert!(
        records.contains(r#""kind":"ranks""#) && records.contains(r#""wait_seconds""#),
        "{records}"
    );
    let validation = |run: &str| {
        fs::read(sandbox.path().join(run).join("validation/step-14.txt")).expect("validated")
    };
    assert_eq!(validation("one"), validation("two"));
    let info = sandbox.run(&["info", "two"]);
    assert!(
        String::from_utf8_lossy(&info.stdout).contains("ranks        2: 2 on "),
        "{info:?}"
    );
    // Three ranks share the work of using the model, too.
    let evaluate = |run: &'static str| ["evaluate", run, "--json", "--checkpoint", "last"];
    let alone = sandbox.run(&evaluate("two"));
    let shared = mpirun(&sandbox, 3, &evaluate("two"))
        .output()
        .expect("mpirun starts");
    succeeded(&shared);
    assert_eq!(
        String::from_utf8_lossy(&alone.stdout),
        String::from_utf8_lossy(&shared.stdout)
    );
}

#[test]
fn lines_are_dealt_and_come_out_as_from_one_process() {
    let sandbox = Sandbox::trained();
    let lines = [
        "look aaa now\n",
        "look bbb now\n",
        "look now\n",
        "look ccc ddd now\n",
    ]
    .concat()
    .repeat(1250);
    fs::write(sandbox.path().join("lines"), &lines).expect("it can be written");
    let alone = sandbox.run(&["translate", "run", "lines", "--format", "tsv"]);
    assert!(alone.status.success());
    for ranks in [2, 3] {
        // With two ranks both have a portion to themselves, and all share the rest; with three they
        // share all.
        let shared = mpirun(
            &sandbox,
            ranks,
            &["translate", "run", "lines", "--format", "tsv"],
        )
        .output()
        .expect("it starts");
        succeeded(&shared);
        assert!(shared.stdout == alone.stdout, "{ranks} ranks");
    }
    let piped = mpirun(&sandbox, 2, &["translate", "run", "--format", "tsv"])
        .stdin(fs::File::open(sandbox.path().join("lines")).expect("it is there"))
        .output()
        .expect("mpirun starts");
    succeeded(&piped);
    assert!(piped.stdout == alone.stdout, "from a pipe");

    // Two ranks continue the output of one.
    let resume = [
        "translate",
        "run",
        "lines",
        "--format",
        "tsv",
        "--output",
        "out",
        "--resume",
    ];
    let portion = |line: &&str| {
        line.split('\t')
            .next()
            .is_some_and(|line| line.parse().is_ok_and(|line: u32| line <= 2049))
    };
    let mut child = sandbox
        .command(&resume)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let growing = || {
        let entries = fs::read_dir(sandbox.path())
            .expect("it can be read")
            .flatten()
            .map(|entry| entry.path());
        entries
            .into_iter()
            .find(|path| path.extension().is_some_and(|ending| ending == "partial"))
    };
    wait_until("a file that grows", || growing().is_some());
    child
        .kill()
        .and_then(|()| child.wait())
        .expect("it is a process");
    let text = String::from_utf8_lossy(&alone.stdout);
    let begun: String = text.split_inclusive('\n').take_while(portion).collect();
    fs::write(growing().expect("it stays"), begun).expect("it can be written");
    let stderr = succeeded(
        &mpirun(&sandbox, 2, &resume)
            .output()
            .expect("mpirun starts"),
    );
    assert!(stderr.contains("2048 lines are translated"), "{stderr}");
    assert!(fs::read(sandbox.path().join("out")).expect("it is there") == alone.stdout);
}

#[test]
fn an_error_of_all_ranks_is_reported_once() {
    let sandbox = Sandbox::with(DIGITS);
    let output = mpirun(&sandbox, 3, &train("run", &TWO))
        .output()
        .expect("mpirun starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(
        stderr
            .matches("error: 3 ranks have nothing to share")
            .count(),
        1,
        "{stderr}"
    );
    assert!(
        stderr.contains("hint: `train.accumulate_steps` counts"),
        "{stderr}"
    );
}

#[test]
fn a_killed_rank_ends_all_and_the_same_command_resumes() {
    let sandbox = Sandbox::with(DIGITS);
    let run = sandbox.path().join("run");
    for victim in [1, 0] {
        let (child, ranks) = under_way(&sandbox, &run, &[]);
        signal(ranks[victim], "KILL");
        let (stderr, code, took) = end_of(child);
        assert!(
            code != Some(0) && took < Duration::from_secs(10),
            "{code:?} after {took:?}: {stderr}"
        );
        wait_until("all ranks have ended", || ranks_of(&run).is_empty());
    }
}

#[test]
fn a_rank_that_hangs_is_named_and_ends_all() {
    let sandbox = Sandbox::with(DIGITS);
    let run = sandbox.path().join("run");
    let (child, ranks) = under_way(&sandbox, &run, &["train.rank_timeout=2"]);
    // The second process that was started is rank 1.
    signal(*ranks.iter().max().expect("two"), "STOP");
    let (stderr, code, took) = end_of(child);
    assert!(took < Duration::from_secs(10), "{took:?}: {stderr}");
    assert_eq!(code, Some(1), "{stderr}");
    // Within an exchange no rank knows which other one hangs.
    assert!(
        stderr.contains("no sign of rank 1 on ") || stderr.contains("a rank hangs in it"),
        "{stderr}"
    );
    wait_until("all ranks have ended", || ranks_of(&run).is_empty());
}

#[test]
fn an_error_of_one_rank_is_reported_with_its_name_and_ends_all() {
    let sandbox = Sandbox::with(DIGITS);
    let mut command = mpirun(&sandbox, 1, &train("run", &TWO));
    command
        .args([":", "-n", "1"])
        .arg(polyglow(&[]).get_program());
    command
        .args(train("run", &TWO))
        .args(["--device", "abacus"]);
    let child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("mpirun starts");
    let (stderr, code, took) = end_of(child);
    assert!(
        code == Some(2) && took < Duration::from_secs(10),
        "{code:?} after {took:?}: {stderr}"
    );
    assert!(
        stderr.contains("error: rank 1 on ") && stderr.contains("abacus"),
        "{stderr}"
    );
}

#[test]
fn a_rank_with_a_signal_to_stop_saves_and_ends_all_in_order() {
    let sandbox = Sandbox::with(DIGITS);
    let run = sandbox.path().join("run");
    let (child, ranks) = under_way(&sandbox, &run, &[]);
    signal(ranks[1], "USR1");
    let (stderr, code, _) = end_of(child);
    assert_eq!(code, Some(STOPPED), "{stderr}");
    assert!(stderr.contains("stopped after step"), "{stderr}");
    let step = newest_step(&run).expect("there are records");
    assert!(
        run.join("checkpoints/last").exists() && step > 5,
        "it was saved"
    );
}

#[test]
fn a_launcher_with_a_signal_to_stop_ends_with_the_same_code() {
    let sandbox = Sandbox::with(DIGITS);
    let run = sandbox.path().join("run");
    let (child, _) = under_way(&sandbox, &run, &[]);
    signal(launcher_of(&child), "USR1");
    let (stderr, code, _) = end_of(child);
    assert_eq!(code, Some(STOPPED), "{stderr}");
    assert!(stderr.contains("stopped after step"), "{stderr}");
}

/// Open MPI ends with 1 after SIGTERM, whatever the ranks' codes are; the script of docs/cluster.md
/// makes it SIGUSR1.
#[test]
fn a_script_with_a_signal_to_end_forwards_it_and_ends_with_the_same_code() {
    let sandbox = Sandbox::with(DIGITS);
    let run = sandbox.path().join("run");
    let overrides = [&TWO[..], &["train.max_steps=100000", "train.save_every=5"]].concat();
    let arguments = train(run.to_str().expect("UTF-8"), &overrides);
    let mpirun = mpirun(&sandbox, 2, &arguments);
    let documented = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/cluster.md"
    ))
    .expect("it is there");
    let trap = documented
        .split_once("polyglow train my.toml &\n")
        .expect("the script")
        .1;
    let script = format!(
        "{} &\n{}",
        command_line(&mpirun),
        trap.split("```").next().expect("its end")
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .current_dir(sandbox.path())
        .stdin(Stdio::null());
    let child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    wait_until("the first steps", || {
        newest_step(&run).is_some_and(|step| step > 5)
    });
    signal(child.id(), "TERM");
    let (stderr, code, _) = end_of(child);
    assert_eq!(code, Some(STOPPED), "{stderr}");
    assert!(stderr.contains("stopped after step"), "{stderr}");
}

#[test]
fn ranks_with_different_configs_are_refused_with_keys_and_values() {
    let sandbox = Sandbox::with(DIGITS);
    for (set, expected) in [
        ("seed=7", "`seed = 7` (rank 0: `"),
        (
            "train.accumulate_steps=1",
            "`train.accumulate_steps = 1` (rank 0: `2`)",
        ),
        ("train.save_every=3", "`train.save_every = 3` (rank 0: `"),
        (
            "train.max_tokens=100",
            "`train.max_tokens = 100` (rank 0: `",
        ),
        ("train.lr=0.5", "`train.lr = 0.5` (rank 0: `"),
    ] {
        let mut command = mpirun(&sandbox, 1, &train("run", &TWO));
        command
            .args([":", "-n", "1"])
            .arg(polyglow(&[]).get_program());
        command.args(train("run", &TWO)).args(["--set", set]);
        let child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("mpirun starts");
        let (stderr, code, took) = end_of(child);
        assert!(
            code == Some(2) && took < Duration::from_secs(20),
            "{set}: {code:?} after {took:?}: {stderr}"
        );
        assert_eq!(
            stderr.matches("error: ").count(),
            1,
            "rank 0 says it: {stderr}"
        );
        assert!(
            stderr.contains("rank 1 on ") && stderr.contains(expected),
            "{set}: {stderr}"
        );
        assert!(
            !sandbox.path().join("run").exists(),
            "{set}: nothing was written"
        );
    }
}

#[test]
fn fifty_kills_of_random_ranks_change_no_byte() {
    let sandbox = Sandbox::with(DIGITS);
    let overrides = [&TWO[..], &["train.max_steps=60", "train.save_every=3"]].concat();
    sandbox.train("straight", &overrides);
    let run = sandbox.path().join("run");
    let run_text = run.to_str().expect("UTF-8");
    let mut kills = 0;
    for attempt in 0..400u64 {
        if kills == 50 {
            break;
        }
        let mut command = mpirun(&sandbox, 2, &train(run_text, &overrides));
        let child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("mpirun starts");
        // How long `mpirun` takes to start them differs between machines, from 0.3 to 3 seconds.
        wait_until("both ranks have started", || ranks_of(&run).len() == 2);
        // Anywhere between their first millisecond and their last.
        std::thread::sleep(Duration::from_millis(attempt * 7919 % 1500));
        // One that ends by itself in between is not counted.
        if ranks_of(&run)
            .get(attempt as usize % 2)
            .is_some_and(|rank| sent(*rank, "KILL"))
        {
            kills += 1;
        }
        end_of(child);
        wait_until("all ranks have ended", || ranks_of(&run).is_empty());
        if run.join("checkpoints/step-60").exists() {
            same_bytes(&sandbox, "straight", "run", 60);
            fs::remove_dir_all(&run).expect("it can be removed");
        }
    }
    assert_eq!(kills, 50);
    succeeded(
        &mpirun(&sandbox, 2, &train(run_text, &overrides))
            .output()
            .expect("mpirun starts"),
    );
    same_bytes(&sandbox, "straight", "run", 60);
}
