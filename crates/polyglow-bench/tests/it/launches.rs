//! The launches of a step on a GPU, counted on a software driver. The limits are those of today,
//! with little to spare, so that they do not grow unseen.

use crate::program::json;

#[test]
fn a_step_of_tiny_stays_within_its_limits() {
    let report = json(&["launches", "--json", "--device", "wgpu:cpu"]);
    let step = |key: &str| report["step"][key].as_f64().expect("a number");
    // Twice the multiplications of the forward pass, three times: 4 096 source and as many target
    // positions.
    let (positions, keys, d_model, d_ff) = (4096.0, 16.0, 128.0, 256.0);
    let attention = |keys: f64| 4.0 * d_model * d_model + 2.0 * d_model * keys;
    let layer = 3.0 * attention(keys) + 2.0 * 2.0 * d_model * d_ff;
    // And once more the scores of each attention, which are not kept.
    let again = 4.0 * 3.0 * 2.0 * positions * d_model * keys;
    assert!(
        (step("flops") / (6.0 * positions * (4.0 * layer + d_model * 9708.0) + again) - 1.0).abs()
            < 1e-9
    );
    let phases = report["phases"].as_array().expect("a list");
    for key in ["launches", "read", "written"] {
        let sum: f64 = phases.iter().filter_map(|phase| phase[key].as_f64()).sum();
        assert!(
            sum > 0.0 && (sum / step(key) - 1.0).abs() < 1e-9,
            "{key}: {sum}"
        );
    }
    let (launches, gigabytes) = (step("launches"), (step("read") + step("written")) / 1e9);
    let peak = report["peak_memory"].as_f64().expect("a number") / 1e9;
    assert!(
        launches <= 475.0 && gigabytes <= 3.4 && peak <= 0.6,
        "{launches} launches, {gigabytes} GB, {peak} GB"
    );
}

/// 25 008 source and as many target tokens of the paper's base model, where products are of f16.
#[test]
fn a_step_of_base_in_f16_stays_within_its_limits() {
    let size = [
        "--model",
        "base",
        "--shape",
        "1042x24x24",
        "--vocab-size",
        "32000",
        "--set",
        "train.precision=f16",
    ];
    let command = ["launches", "--json", "--device", "wgpu:cpu"];
    let report = json(&[&command[..], &size].concat());
    let step = |key: &str| report["step"][key].as_f64().expect("a number");
    let (launches, gigabytes) = (step("launches"), (step("read") + step("written")) / 1e9);
    let peak = report["peak_memory"].as_f64().expect("a number") / 1e9;
    assert!(
        launches <= 755.0 && gigabytes <= 74.0 && peak <= 7.2,
        "{launches} launches, {gigabytes} GB, {peak} GB"
    );
    let update = report["phases"][3]["launches"].as_u64().expect("a number");
    assert!(
        update <= 25,
        "{update} launches for the update of 193 tensors"
    );
    let h100 = report["estimates"][0]["seconds"]
        .as_f64()
        .expect("a number");
    assert!(
        report["estimates"][0]["device"] == "H100" && h100 <= 0.048,
        "{h100} s"
    );
}
