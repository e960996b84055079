//! The report of `bench`: its numbers are consistent. Their size is not tested.

use std::fs;

use crate::program::Sandbox;

#[test]
fn the_parts_of_a_step_and_its_rates_fit_together() {
    let sandbox = Sandbox::new();
    let report = sandbox.json(&[
        "bench",
        "step",
        "--json",
        "--repetitions",
        "2",
        "--shape",
        "4x5x6",
        "--vocab-size",
        "50",
        "--profile",
        "trace.json",
        "--set",
        "model.d_model=16",
        "--set",
        "model.d_ff=32",
        "--set",
        "model.num_encoder_layers=1",
        "--set",
        "model.num_decoder_layers=1",
    ]);
    let bucket = &report["buckets"][0];
    let number = |key: &str| bucket[key].as_f64().expect("a number");
    assert_eq!(
        bucket["batch"],
        serde_json::json!({"rows": 4, "src_len": 5, "tgt_len": 6})
    );
    assert_eq!(
        (
            bucket["target_tokens"].as_u64(),
            bucket["upload_bytes"].as_u64()
        ),
        (Some(24), Some(4 * (20 + 24 + 24)))
    );
    // Twice the multiplications of the forward pass, three times: 20 source and 24 target
    // positions.
    let encoder = 20 * (4 * 256 + 2 * 512 + 2 * 16 * 5);
    let decoder = 24 * (6 * 256 + 2 * 512 + 2 * 16 * 11) + 20 * 2 * 256;
    assert_eq!(
        number("flops") as u64,
        6 * (encoder + decoder + 24 * 16 * 50)
    );
    let median = bucket["step"]["median"].as_f64().expect("a number");
    let close = |left: f64, right: f64| (left / right - 1.0).abs() < 1e-9;
    assert!(close(number("target_tokens_per_second"), 24.0 / median));
    assert!(report["machine"]["instructions"].is_string());
    for share in ["others", "stolen"] {
        // Only Linux tells.
        let share = report["machine"][share]
            .as_f64()
            .or((!cfg!(target_os = "linux")).then_some(0.0));
        assert!(
            share.is_some_and(|share| (0.0..=1.0).contains(&share)),
            "{report}"
        );
    }
    let peak = report["machine"]["matmul_peak"].as_f64().expect("a number");
    assert!(close(
        number("share_of_peak"),
        number("flops_per_second") / peak
    ));
    // Two steps of five parts each.
    let trace: serde_json::Value = serde_json::from_slice(
        &fs::read(sandbox.path().join("trace.json")).expect("it was written"),
    )
    .expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    assert_eq!(events.len(), 10);
    let names: Vec<&str> = events[..5]
        .iter()
        .filter_map(|event| event["name"].as_str())
        .collect();
    assert_eq!(names, ["upload", "forward", "backward", "update", "read"]);
    let end = |event: &serde_json::Value| {
        event["ts"].as_f64().unwrap_or(0.0) + event["dur"].as_f64().unwrap_or(0.0)
    };
    assert!(
        events
            .windows(2)
            .all(|pair| pair[1]["ts"].as_f64().unwrap_or(0.0) >= end(&pair[0]) - 0.001)
    );
}

#[test]
fn a_config_is_measured_on_its_own_text() {
    let sandbox = Sandbox::new();
    let report = sandbox.json(&["bench", "step", "tiny.toml", "--json", "--repetitions", "2"]);
    assert_eq!(report["stream"]["steps"], 2);
    assert!(
        report["buckets"]
            .as_array()
            .is_some_and(|buckets| !buckets.is_empty())
    );
    let report = sandbox.json(&["bench", "data", "tiny.toml", "--json"]);
    assert_eq!(
        (report["pairs"].as_u64(), report["batches"].as_u64()),
        (Some(26), Some(2))
    );
    let rate = |key: &str| report[key].as_f64().expect("a number");
    let pairs_per_batch = rate("batched_pairs_per_second") / rate("batches_per_second");
    assert!((pairs_per_batch - 13.0).abs() < 1e-9, "{pairs_per_batch}");
    let operations = |report: &serde_json::Value| {
        ["useful", "done"].map(|key| report["operations"][key].as_f64().expect("a number"))
    };
    // All pairs are of the same lengths; those of the other corpus are not.
    let [useful, done] = operations(&report);
    assert!(
        useful > 0.0 && (useful / done - 1.0).abs() < 1e-12,
        "{useful} of {done}"
    );
    let config = "data.corpus = 'digits'\ntokenizer.kind = 'word'\nmodel.preset = 'tiny'\n\
                  train = { max_steps = 9, warmup_steps = 1, max_tokens = 64 }\n";
    fs::write(sandbox.path().join("digits.toml"), config).expect("it can be written");
    let [useful, done] = operations(&sandbox.json(&["bench", "data", "digits.toml", "--json"]));
    assert!(0.5 * done < useful && useful < done, "{useful} of {done}");
    let report = sandbox.json(&[
        "bench",
        "search",
        "tiny.toml",
        "--json",
        "--repetitions",
        "1",
        "--set",
        "search.beam_size=2",
    ]);
    let ways: Vec<_> = report["searches"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|way| [&way["batch"], &way["beam_size"]])
        .collect();
    assert_eq!(
        serde_json::json!(ways),
        serde_json::json!([[1, 1], [1, 5], [64, 1], [64, 5]])
    );
    let (text, _) = sandbox.succeed(&["bench", "step", "tiny.toml", "--repetitions", "1"]);
    assert!(
        text.starts_with("flex, ")
            && text.contains(polyglow_kernels::instruction_set().expect("flex has kernels"))
            && text.contains("over the corpus: "),
        "{text}"
    );
    assert!(
        sandbox
            .fail(2, &["bench", "step", "--shape", "3x4"])
            .contains("expected three whole numbers")
    );
    assert!(
        sandbox
            .fail(2, &["bench", "step", "--vocab-size", "4"])
            .contains("4 is not in 5..")
    );
}
