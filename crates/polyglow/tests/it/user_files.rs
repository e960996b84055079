//! What is the user's stays: a folder with other files is refused for a run, and output that fails
//! leaves the old file whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::program::Sandbox;

/// Every file below a directory.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("it is there") {
        let path = entry.expect("it is there").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).expect("it is there"));
        }
    }
    files
}

#[test]
fn a_folder_of_other_files_is_no_place_for_a_run() {
    let sandbox = Sandbox::trained();
    let mine = sandbox.path().join("mine");
    fs::create_dir_all(mine.join("checkpoints/step-2")).expect("it can be made");
    for name in [
        "notes.tmp",
        "tokenizer.json",
        "config.toml",
        "checkpoints/step-2/model.pt",
    ] {
        fs::write(mine.join(name), format!("my own {name}\n")).expect("it can be written");
    }
    let before = files(sandbox.path());
    for command in [
        &["train", "tiny.toml", "--run", "mine"][..],
        &["train", "tiny.toml", "--run", "run", "--fork", "mine"],
        &["train", "tiny.toml", "--run", "."],
    ] {
        let message = sandbox.fail(2, command);
        assert!(
            message.contains("holds no run but other files"),
            "{message}"
        );
        assert!(
            message.contains("hint: give a new or an empty directory for the run"),
            "{message}"
        );
    }
    let message = sandbox.fail(2, &["train", "tiny.toml", "--run", "mine"]);
    assert!(
        message.contains("`mine` holds no run but other files"),
        "{message}"
    );
    assert!(
        message.contains("`checkpoints`, `config.toml`, `notes.tmp` and 1 more"),
        "{message}"
    );
    let message = sandbox.fail(
        2,
        &["export", "run", "--to", "ctranslate2", "--out", "mine"],
    );
    assert!(message.contains("`mine` is there already"), "{message}");
    assert_eq!(files(sandbox.path()), before);
    sandbox.succeed(&["export", "run", "--to", "ctranslate2", "--out", "exported"]);
    let message = sandbox.fail(2, &["import", "exported", "--run", "mine"]);
    assert!(message.contains("`mine` is there already"), "{message}");
    // What is empty, what only a killed training has left, and a run are accepted; and a user's
    // file in it stays.
    fs::create_dir_all(sandbox.path().join("killed/cache")).expect("it can be made");
    fs::write(sandbox.path().join("killed/lock"), "").expect("it can be written");
    fs::write(
        sandbox.path().join("killed/cache/train.ids.123.tmp"),
        "half",
    )
    .expect("it can be written");
    fs::write(sandbox.path().join("killed/cache/mine.tmp"), "mine").expect("it can be written");
    sandbox.train("killed", &["train.max_steps=2"]);
    assert!(
        !sandbox
            .path()
            .join("killed/cache/train.ids.123.tmp")
            .exists()
    );
    assert!(sandbox.path().join("killed/cache/mine.tmp").exists());
    fs::write(sandbox.path().join("run/notes.tmp"), "mine").expect("it can be written");
    sandbox.train("run", &["train.max_steps=7"]);
    assert_eq!(
        fs::read_to_string(sandbox.path().join("run/notes.tmp")).expect("it is there"),
        "mine"
    );
}

/// Files may not grow beyond a kilobyte, as on a full disk, and the program gets an error for it.
#[cfg(unix)]
#[test]
fn output_that_cannot_be_written_leaves_the_old_file_whole() {
    let sandbox = Sandbox::trained();
    let lines = fs::read_to_string(sandbox.path().join("test.en"))
        .expect("it is there")
        .repeat(50);
    fs::write(sandbox.path().join("many.en"), lines).expect("it can be written");
    fs::create_dir(sandbox.path().join("out")).expect("it can be made");
    for (command, path) in [
        ("report run --out out/report.html", "out/report.html"),
        (
            "report run --tensorboard out/events",
            "out/events/events.out.tfevents.0000000000.polyglow",
        ),
        (
            "attention run 'look aaa now' --out out/map.html",
            "out/map.html",
        ),
        (
            "attention run 'look aaa now' --out out/map.svg",
            "out/map.svg",
        ),
        (
            "attention run 'look aaa now' --out out/map.png",
            "out/map.png",
        ),
        ("embeddings run plot --out out/words.html", "out/words.html"),
        ("embeddings run plot --out out/words.svg", "out/words.svg"),
        ("embeddings run export out/words.vec", "out/words.vec"),
        ("translate run many.en --output out/many.de", "out/many.de"),
        ("man --out out/man", "out/man/polyglow.1"),
    ] {
        let written = sandbox.shell(&format!("$polyglow {command}"));
        assert!(
            written.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&written.stderr)
        );
        let old = fs::read(sandbox.path().join(path)).expect("it was written");
        assert!(old.len() > 1024, "{command} writes {} bytes", old.len());
        let names = || {
            files(&sandbox.path().join("out"))
                .into_keys()
                .filter(|path| !path.ends_with("many.de.partial"))
        };
        let before: Vec<PathBuf> = names().collect();
        let failed = sandbox.shell(&format!("ulimit -f 1; exec $polyglow {command}"));
        let message = String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{command}: {message}");
        assert!(
            message.contains("File too large") && !message.contains(".tmp`"),
            "{command}: {message}"
        );
        assert!(
            fs::read(sandbox.path().join(path)).expect("it is there") == old,
            "{command} changed `{path}`"
        );
        // Lines that were translated before the error are kept, as the message says.
        assert_eq!(names().collect::<Vec<_>>(), before, "{command}");
    }
    // Of files that were not there, nothing is.
    for (command, new) in [
        ("corpus digits digits", "digits"),
        ("corpus captioned-shapes shapes", "shapes"),
        ("export run --to ctranslate2 --out exported", "exported"),
    ] {
        let failed = sandbox.shell(&format!("ulimit -f 0; exec $polyglow {command}"));
        let message = String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{command}: {message}");
        let new = sandbox.path().join(new);
        assert!(!new.exists() || files(&new).is_empty(), "{command}");
    }
}

/// A user who may write the file, but not make another one next to it.
#[cfg(unix)]
#[test]
fn a_file_in_a_directory_that_may_not_be_written_to_is_written() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    let sandbox = Sandbox::trained();
    let mode = |path: &str, mode: u32| {
        let path = sandbox.path().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    fs::create_dir(sandbox.path().join("out")).expect("it can be made");
    fs::write(sandbox.path().join("out/page.html"), "old").expect("it can be written");
    for (path, bits) in [(".", 0o755), ("out/page.html", 0o666), ("out", 0o555)] {
        mode(path, bits);
    }
    let report = |path: &str| {
        let mut command = sandbox.command(&["report", "run", "--out", path]);
        // Root may write everywhere.
        if fs::metadata(sandbox.path()).is_ok_and(|ours| ours.uid() == 0) {
            command.uid(65534).gid(65534);
        }
        command.output().expect("it starts")
    };
    let written = report("out/page.html");
    assert!(
        written.status.success(),
        "{}",
        String::from_utf8_lossy(&written.stderr)
    );
    let page = fs::read_to_string(sandbox.path().join("out/page.html")).expect("it is there");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert_eq!(files(&sandbox.path().join("out")).len(), 1);
    let failed = report("out/new.html");
    assert_eq!(failed.status.code(), Some(1), "no file can be made there");
    mode("out", 0o755);
}

#[cfg(unix)]
#[test]
fn output_goes_where_links_and_pipes_lead() {
    let sandbox = Sandbox::trained();
    std::os::unix::fs::symlink("page.html", sandbox.path().join("link.html"))
        .expect("it can be made");
    for _ in 0..2 {
        sandbox.succeed(&["report", "run", "--out", "link.html"]);
        assert!(sandbox.path().join("link.html").is_symlink());
        assert!(sandbox.path().join("page.html").is_file());
    }
    let output = sandbox.shell("$polyglow -q report run --out /dev/stdout | head -c 15");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "<!DOCTYPE html>");
}
