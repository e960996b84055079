//! `polyglow new-crate`: a program to begin from. That it trains is tested by the examples, of which it
//! is one, and that it builds on its own by `.ci/extended new_crate`.

use std::fs;

use crate::program::Sandbox;

#[test]
fn a_crate_is_written_once_under_a_name_that_cargo_takes() {
    let sandbox = Sandbox::new();
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let (_, message) = sandbox.succeed(&["new-crate", "my-model", "--path", checkout]);
    let next = "cd my-model && cargo test --release && cargo run --release -- train config.toml";
    assert!(message.contains(next), "{message}");
    let root = sandbox.path().join("my-model");
    for file in ["src/main.rs", "src/model.rs", "config.toml"] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("it is there");
    assert!(manifest.contains("name = \"my-model\""), "{manifest}");
    assert!(manifest.contains("crates/polyglow-model\" }"), "{manifest}");

    let message = sandbox.fail(2, &["new-crate", "my-model"]);
    assert!(message.contains("`my-model` is there already"), "{message}");
    for name in ["My", "1st", "a b", "", "../up"] {
        let message = sandbox.fail(2, &["new-crate", name]);
        assert!(
            message.contains("is no name of a crate"),
            "{name}: {message}"
        );
    }
    let message = sandbox.fail(2, &["new-crate", "other", "--path", "my-model"]);
    assert!(
        message.contains("`my-model` is no checkout of polyglow"),
        "{message}"
    );
    assert!(!sandbox.path().join("other").exists());
}
