//! Notes the commit that a release is built from, for `polyglow --version`, and finds
//! `reference.toml`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    copy_reference();
    note_commit();
}

/// Copies `reference.toml` to where the program includes it from. It is a link to
/// `configs/reference.toml`, which git writes as a file with that path where it makes no links, as
/// on Windows.
fn copy_reference() {
    println!("cargo:rerun-if-changed=reference.toml");
    let read = |path: &Path| {
        fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("cannot read `{}`: {error}", path.display()))
    };
    let text = read(Path::new("reference.toml"));
    let text = if text.lines().count() == 1 {
        println!("cargo:rerun-if-changed={}", text.trim());
        read(Path::new(text.trim()))
    } else {
        text
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("reference.toml");
    fs::write(out, text).expect("cargo's directory can be written");
}

fn note_commit() {
    // Only for what is handed on: while developing, every commit would compile the program anew.
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // A package that was unpacked inside another repository is not of that repository's commit.
    let is_ours = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../.git")
        .exists();
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
    let output = Command::new("git")
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
