//! The speedup of more ranks, by the model of a network.

use crate::program::{json, refuse, succeed};

#[test]
fn what_more_ranks_gain_follows_from_the_network_and_the_time_of_a_step() {
    let ranks = |network: &str, more: &[&str]| {
        let command = [
            "ranks",
            "--json",
            "--model",
            "tiny",
            "--micro-batch",
            "100",
            "--network",
            network,
        ];
        json(&[&command[..], more].concat())
    };
    let efficiency = |report: &serde_json::Value, row: usize, column: usize| {
        report["rows"][row]["efficiency"][column]
            .as_f64()
            .expect("a number")
    };
    let slow = ranks("1G", &[]);
    let fast = ranks("100G", &["--latency", "5", "--host", "8"]);
    assert_eq!(
        slow["rows"].as_array().map(Vec::len),
        Some(10),
        "2 to 1 024 ranks"
    );
    assert!(
        efficiency(&slow, 0, 0) < efficiency(&fast, 0, 0)
            && efficiency(&slow, 0, 0) < efficiency(&slow, 0, 3)
    );
    let halved = ranks("1G", &["--set", "train.exchange_precision=bf16"]);
    assert!(efficiency(&slow, 3, 0) < efficiency(&halved, 3, 0));
}

#[test]
fn a_step_is_timed_where_no_duration_is_given() {
    let text = succeed(&[
        "ranks",
        "--repetitions",
        "1",
        "--shape",
        "2x3x3",
        "--vocab-size",
        "20",
    ]);
    assert!(
        text.contains("accumulate_steps FOR 90 %") && text.contains("  1024 "),
        "{text}"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (command, words) in [
        ("ranks --network fast", "expected a number and a unit"),
        ("ranks --latency 0", "expected a number above 0"),
        ("ranks --shape 3x4", "expected three whole numbers"),
        (
            "ranks nothing.toml --vocab-size 9",
            "a config has text of its own",
        ),
        (
            "ranks --set model.arch=vit --set data.corpus=shapes",
            "`polyglow bench step CONFIG` measures its training",
        ),
        ("launches --shape 0x1x1", "expected three whole numbers"),
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let message = refuse(&arguments);
        assert!(message.contains(words), "{command}: {message}");
    }
}

#[cfg(not(feature = "wgpu"))]
#[test]
fn a_build_without_a_gpu_says_which_one_counts_launches() {
    let message = refuse(&["launches"]);
    assert!(
        message.contains("-p polyglow-bench --features wgpu -- launches"),
        "{message}"
    );
}
