//! `polyglow new-crate`: a program with an architecture of its own, to begin from.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use polyglow_predict::wording::shell_word;

use crate::failure::{usage, with_hint};

/// The files of the crate, but for `Cargo.toml`. They are also an example of the workspace, which
/// its tests run.
const FILES: [(&str, &str); 3] = [
    ("src/main.rs", include_str!("../../new-crate/main.rs")),
    ("src/model.rs", include_str!("../../new-crate/model.rs")),
    ("config.toml", include_str!("../../new-crate/config.toml")),
];
/// `Cargo.toml`, with `@NAME@` for the name, and `@polyglow@` for where that crate comes from.
const MANIFEST: &str = include_str!("../../new-crate/Cargo.toml.template");
/// The crates that the program depends on.
const CRATES: [&str; 5] = [
    "polyglow",
    "polyglow-model",
    "polyglow-data",
    "polyglow-metrics",
    "polyglow-train",
];

/// The arguments of `polyglow new-crate`.
#[derive(Args)]
pub(crate) struct NewCrateArgs {
    /// Name of the crate, and of the folder to make
    name: String,
    /// Checkout of polyglow that the crate builds on, in place of the released version
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// Writes a crate whose program is the whole command line, with a model of its own.
///
/// # Errors
/// The name is no crate's, there is something of that name already, or the checkout is none (exit
/// code 2); the disk refuses.
pub(crate) fn run(args: &NewCrateArgs) -> anyhow::Result<()> {
    check_name(&args.name)?;
    let root = Path::new(&args.name);
    if root.symlink_metadata().is_ok() {
        let error = anyhow::anyhow!("`{}` is there already", root.display());
        return Err(with_hint(usage(error), "give another name, or remove it"));
    }
    let manifest = manifest(&args.name, args.path.as_deref())?;
    write(root, "Cargo.toml", &manifest)?;
    for (path, text) in FILES {
        write(root, path, text)?;
    }
    let name = shell_word(root);
    tracing::info!("wrote `{}`: the model is in `src/model.rs`", args.name);
    tracing::info!(
        "next: cd {name} && cargo test --release && cargo run --release -- train config.toml"
    );
    Ok(())
}

/// Checks that Cargo takes a name.
fn check_name(name: &str) -> anyhow::Result<()> {
    let begins_well = name.starts_with(|first: char| first.is_ascii_lowercase());
    let is_word = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte));
    if begins_well && is_word {
        return Ok(());
    }
    let error = anyhow::anyhow!("`{name}` is no name of a crate");
    let hint = "a name begins with a lower-case letter, and has such letters, digits, `-` and `_`";
    Err(with_hint(usage(error), hint))
}

/// Returns the text of `Cargo.toml`.
fn manifest(name: &str, checkout: Option<&Path>) -> anyhow::Result<String> {
    let mut text = MANIFEST.replace("@NAME@", name);
    for dependency in CRATES {
        let source = match checkout {
            Some(checkout) => {
                let path = checkout.join("crates").join(dependency);
                let path = fs::canonicalize(&path)
                    .with_context(|| format!("`{}` is no checkout of polyglow", checkout.display()))
                    .map_err(usage)?;
                format!(
                    "path = {}",
                    serde_json::Value::from(path.display().to_string())
                )
            }
            None => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
        };
        text = text.replace(&format!("@{dependency}@"), &source);
    }
    Ok(text)
}

fn write(root: &Path, path: &str, text: &str) -> anyhow::Result<()> {
    let path = root.join(path);
    let folder = path.parent().unwrap_or(root);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_has_the_burn_of_the_workspace_and_no_placeholder() {
        let text = manifest("mine", None).expect("no path is looked for");
        assert!(!text.contains('@'), "{text}");
        assert!(text.starts_with("[package]\nname = \"mine\"\n"), "{text}");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
        let workspace = fs::read_to_string(root).expect("the workspace has one");
        let burn = workspace.lines().find(|line| line.starts_with("burn = "));
        assert!(text.contains(burn.expect("it depends on Burn")), "{text}");
    }
}
