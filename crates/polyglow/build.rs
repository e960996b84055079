//! Notes the commit that a release is built from, for `polyglow --version`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Only for what is handed on: while developing, every commit would compile the program anew.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // A package that was unpacked inside another repository is not of that repository's commit.
    let is_ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git").exists();
    if !is_release || !is_ours {
        return;
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        // Written by every commit and checkout.
        println!("cargo:rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo:rustc-env=POLYGLOW_COMMIT={commit}");
    }
}

/// What git prints; `None` where it is missing or refuses.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
