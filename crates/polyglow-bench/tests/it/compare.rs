//! What a device computes, beside the CPU. `.ci/extended backends` compares other devices.

use crate::program::{refuse, succeed};

#[test]
fn the_cpu_searches_as_the_cpu_does() {
    let printed = succeed(&["compare", "--device", "flex", "--only", "searches"]);
    assert!(
        printed.starts_with("ok ") && printed.lines().count() == 1,
        "{printed}"
    );
}

#[test]
fn a_comparison_that_there_is_not_is_refused() {
    let message = refuse(&["compare", "--device", "flex", "--only", "weather"]);
    assert!(message.contains("--only"), "{message}");
}
