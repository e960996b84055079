//! `polyglow serve`, before it serves.

use std::fs;

use crate::program::Sandbox;

#[test]
fn the_error_for_a_run_without_languages_says_how_to_name_them() {
    let sandbox = Sandbox::trained();
    let config = sandbox.path().join("run/config.toml");
    let text = fs::read_to_string(&config).expect("it is there");
    // As of a run whose data was given in memory.
    let is_kept = |line: &&str| {
        !["src =", "tgt =", "train =", "valid =", "test ="]
            .iter()
            .any(|key| line.starts_with(key))
    };
    fs::write(
        &config,
        text.lines().filter(is_kept).collect::<Vec<_>>().join("\n"),
    )
    .expect("it can be written");
    let error = sandbox.fail(2, &["serve", "run"]);
    assert!(
        error.contains(
            "the config of `run` does not say from which language to which it translates"
        ),
        "{error}"
    );
    assert!(error.contains("`polyglow serve en-de=run`"), "{error}");
    // With a name it is loaded, and refused for another reason.
    let error = sandbox.fail(2, &["serve", "en-de=run", "en-de=run"]);
    assert!(
        error.contains("two runs translate from `en` to `de`"),
        "{error}"
    );
}
