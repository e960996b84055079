//! Parallel text in a folder: which files are there, and which is for training, validation and
//! testing.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use polyglow_data::compression::plain_name;
use polyglow_data::lines::Lines;

use super::split::open;
use crate::failure::{usage, with_hint};

mod role;

use role::{Role, role};

/// The parallel text of a folder, by its prefixes and files of both sides, as a config names them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) train: PathBuf,
    pub(super) valid: Option<PathBuf>,
    /// In the order of their names.
    pub(super) tests: Vec<PathBuf>,
    /// Texts that are in the folder and not used.
    pub(super) ignored: Vec<Ignored>,
}

/// A text that is not used, because another one is taken for the same set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ignored {
    pub(super) path: PathBuf,
    /// The text that matches better.
    pub(super) better: PathBuf,
}

/// Looks for parallel text in a folder, but not in the folders in it, and warns of files that may
/// be text under another name.
///
/// # Errors
/// It cannot be read; there is no parallel text in it, or no way to tell what to train on (exit
/// code 2).
pub(super) fn find(folder: &Path, src: &str, tgt: &str) -> anyhow::Result<Found> {
    let names = file_names(folder)?;
    let (names, unreadable) = without_other_archives(folder, names, [src, tgt]);
    let texts = parallel(&names, src, tgt);
    let tabbed: Vec<&String> = names
        .iter()
        .filter(|name| is_tabbed(folder, name))
        .collect();
    if texts.is_empty() {
        let error = usage(anyhow!(
            "no parallel text of `{src}` and `{tgt}` in `{}`",
            folder.display()
        ));
        let hint = match (tabbed.first(), unreadable.first()) {
            (Some(name), _) => rename_hint(name),
            (None, Some(reason)) => reason.clone(),
            (None, None) => names_hint(&names, src, tgt),
        };
        return Err(with_hint(error, hint));
    }
    for reason in unreadable {
        tracing::warn!("an archive is not used: {reason}");
    }
    for name in tabbed {
        tracing::warn!(
            "`{}` is not used, although its first line has a tab: a file with both sides is found if its name ends in `.tsv`",
            folder.join(name).display()
        );
    }
    match assign(&texts) {
        Ok(found) => Ok(found.within(folder)),
        Err(texts) => {
            let error = usage(anyhow!(
                "several texts in `{}` may be the one to train on: {}",
                folder.display(),
                list(&texts)
            ));
            Err(with_hint(
                error,
                "put `train` into the name of one, or join them",
            ))
        }
    }
}

/// Returns the text of a folder that [`find`] would train on, without a warning; `None` if there is
/// none.
pub(super) fn training_text(folder: &Path, src: &str, tgt: &str) -> Option<PathBuf> {
    let names = file_names(folder).ok()?;
    let (names, _) = without_other_archives(folder, names, [src, tgt]);
    let found = assign(&parallel(&names, src, tgt)).ok()?;
    Some(folder.join(found.train))
}

/// Lists the files of a folder.
fn file_names(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let entries = fs_err::read_dir(folder)?;
    // A name that is not UTF-8 cannot stand in a config.
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| folder.join(name).is_file()).collect())
}

/// Removes the archives without a member for each language; returns why each was removed, too.
fn without_other_archives(
    folder: &Path,
    mut names: BTreeSet<String>,
    languages: [&str; 2],
) -> (BTreeSet<String>, Vec<String>) {
    let mut reasons = Vec::new();
    names.retain(|name| {
        if ending(name) != "zip" {
            return true;
        }
        let opened = open(&folder.join(name), languages);
        reasons.extend(opened.as_ref().err().map(ToString::to_string));
        opened.is_ok()
    });
    (names, reasons)
}

/// Returns the last suffix of the name of a file, before it was compressed.
fn ending(name: &str) -> &str {
    let ending = Path::new(plain_name(name)).extension();
    ending.and_then(OsStr::to_str).unwrap_or_default()
}

/// Says how a file with both sides on each line has to be named.
fn rename_hint(name: &str) -> String {
    format!(
        "the first line of `{name}` has a tab: if both sides are in it, the source first, rename it to `{}`",
        Path::new(name).with_extension("tsv").display()
    )
}

/// Says which names parallel text has, and which there are.
fn names_hint(names: &BTreeSet<String>, src: &str, tgt: &str) -> String {
    let there = if names.is_empty() {
        "it is empty".to_owned()
    } else {
        format!("there is {}", list(names.iter().take(8)))
    };
    format!(
        "looked for two files with one name, such as `train.{src}` and `train.{tgt}`, `train.tsv` or \
         `train.tmx`, plain or with `.gz` or `.zst`, or an archive of OPUS, `train.zip`; {there}"
    )
}

/// Joins names, each in backticks.
fn list<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Whether a file is a `.txt` that probably has both sides on each line, with a tab between.
fn is_tabbed(folder: &Path, name: &str) -> bool {
    ending(name) == "txt" && first_line(&folder.join(name)).is_some_and(|line| line.contains('\t'))
}

/// Reads the first line of a file; `None` if it is empty, or no text.
fn first_line(path: &Path) -> Option<String> {
    Lines::open(path).ok()?.next()?.ok()
}

/// Lists the prefixes that both languages have, and the files that hold both sides; each by its
/// name before it was compressed.
fn parallel(names: &BTreeSet<String>, src: &str, tgt: &str) -> Vec<String> {
    let plain: BTreeSet<&str> = names.iter().map(|name| plain_name(name)).collect();
    let mut texts = Vec::new();
    for name in &plain {
        if ["tmx", "tsv", "zip"].contains(&ending(name)) {
            texts.push((*name).to_owned());
            continue;
        }
        let prefix = name.strip_suffix(&format!(".{src}")).unwrap_or_default();
        if !prefix.is_empty() && plain.contains(&*format!("{prefix}.{tgt}")) {
            texts.push(prefix.to_owned());
        }
    }
    texts
}

/// Decides what each text is for; returns the names that may all be the training text if that is
/// not clear.
fn assign(names: &[String]) -> Result<Found, Vec<String>> {
    let mut training = with_role(names, Some(Role::Train));
    let mut others = with_role(names, None);
    if training.is_empty() {
        match others.len() {
            1 => training.append(&mut others),
            0 => return Err(names.to_vec()),
            _ => return Err(others),
        }
    }
    let mut ignored = Vec::new();
    let mut training = training.into_iter().map(PathBuf::from);
    let train = training.next().unwrap_or_default();
    ignore(&mut ignored, training, &train);
    let validation = with_role(names, Some(Role::Valid));
    let mut validation = validation.into_iter().map(PathBuf::from);
    let valid = validation.next();
    if let Some(valid) = &valid {
        ignore(&mut ignored, validation, valid);
    }
    ignore(&mut ignored, others.into_iter().map(PathBuf::from), &train);
    let tests = with_role(names, Some(Role::Test));
    let mut tests: Vec<PathBuf> = tests.into_iter().map(PathBuf::from).collect();
    tests.sort();
    Ok(Found {
        train,
        valid,
        tests,
        ignored,
    })
}

/// Lists the names of a role, the best match first: `train` before `train.clean`, because what is
/// added to a name says that it is a part, or a variant.
fn with_role(names: &[String], wanted: Option<Role>) -> Vec<String> {
    let mut matching: Vec<String> = names
        .iter()
        .filter(|name| role(name) == wanted)
        .cloned()
        .collect();
    matching.sort_by_key(|name| (name.len(), name.clone()));
    matching
}

/// Adds texts that are not used because `better` is.
fn ignore(ignored: &mut Vec<Ignored>, texts: impl Iterator<Item = PathBuf>, better: &Path) {
    ignored.extend(texts.map(|path| Ignored {
        path,
        better: better.to_owned(),
    }));
}

impl Found {
    /// Returns the same texts as paths in `folder`.
    fn within(self, folder: &Path) -> Self {
        let ignored = self.ignored.into_iter().map(|text| Ignored {
            path: folder.join(text.path),
            better: folder.join(text.better),
        });
        Self {
            train: folder.join(self.train),
            valid: self.valid.map(|valid| folder.join(valid)),
            tests: self.tests.iter().map(|test| folder.join(test)).collect(),
            ignored: ignored.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Result<Found, Vec<String>> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        assign(&parallel(&names, "en", "fr"))
    }

    fn paths<const N: usize>(names: [&str; N]) -> Vec<PathBuf> {
        names.map(PathBuf::from).to_vec()
    }

    #[test]
    fn usual_names_are_known_plain_or_compressed() {
        let names = [
            "train.en",
            "train.fr",
            "dev.en.gz",
            "dev.fr.gz",
            "test2016.en",
            "test2016.fr",
            "readme.txt",
        ];
        let expected = Found {
            train: "train".into(),
            valid: Some("dev".into()),
            tests: paths(["test2016"]),
            ignored: Vec::new(),
        };
        assert_eq!(found(&names), Ok(expected));
    }

    #[test]
    fn an_archive_without_both_languages_is_no_text_and_the_reason_is_given() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let write = |name: &str, text: &[u8]| {
            std::fs::write(dir.path().join(name), text).expect("it can be written");
        };
        // The end of an archive without members.
        write(
            "backup.zip",
            b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        );
        let names = file_names(dir.path()).expect("it can be read");
        let (left, reasons) = without_other_archives(dir.path(), names, ["en", "fr"]);
        assert!(left.is_empty());
        assert!(
            reasons[0].contains("has no member whose name ends in `.en`"),
            "{reasons:?}"
        );
        assert!(find(dir.path(), "en", "fr").is_err());
        write("train.tmx", b"");
        let found = find(dir.path(), "en", "fr").expect("there is parallel text now");
        assert_eq!(found.train, dir.path().join("train.tmx"));
        assert_eq!(found.ignored, []);
    }

    #[test]
    fn a_text_with_tabs_under_another_name_is_pointed_at() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("it can be written");
        };
        write("captions.txt", "The dog.\tLe chien.\n");
        write("notes.txt", "no tab\n");
        write("train.log", "1\t2\n");
        assert!(find(dir.path(), "en", "fr").is_err());
        write("train.en", "The dog.\n");
        write("train.fr", "Le chien.\n");
        let found = find(dir.path(), "en", "fr").expect("there is parallel text now");
        assert_eq!(found.train, dir.path().join("train"));
        let tabbed =
            ["captions.txt", "notes.txt", "train.log"].map(|name| is_tabbed(dir.path(), name));
        assert_eq!(tabbed, [true, false, false]);
    }

    #[test]
    fn a_single_text_is_the_training_text_whatever_its_name() {
        assert_eq!(
            found(&["europarl.en", "europarl.fr"]).map(|found| found.train),
            Ok("europarl".into())
        );
        for (name, train) in [
            ("pairs.tsv.gz", "pairs.tsv"),
            ("pairs.tsv.zst", "pairs.tsv"),
            ("pairs.tmx.zst", "pairs.tmx"),
            ("Tatoeba.en-fr.zip", "Tatoeba.en-fr.zip"),
        ] {
            assert_eq!(found(&[name]).map(|found| found.train), Ok(train.into()));
        }
        let both = found(&["books.en", "books.fr", "news.en", "news.fr"]);
        assert_eq!(both, Err(vec!["news".to_owned(), "books".to_owned()]));
    }

    #[test]
    fn the_best_match_is_taken_with_every_test_and_others_are_ignored_for_it() {
        let names = [
            "train.en",
            "train.fr",
            "train.clean.en",
            "train.clean.fr",
            "talks.en",
            "talks.fr",
            "dev.en",
            "dev.fr",
            "dev.old.tsv",
            "test.b.en",
            "test.b.fr",
            "test.a.tsv",
        ];
        let expected = Found {
            train: "train".into(),
            valid: Some("dev".into()),
            tests: paths(["test.a.tsv", "test.b"]),
            ignored: [
                ("train.clean", "train"),
                ("dev.old.tsv", "dev"),
                ("talks", "train"),
            ]
            .map(|(path, better)| Ignored {
                path: path.into(),
                better: better.into(),
            })
            .to_vec(),
        };
        assert_eq!(found(&names), Ok(expected));
    }

    #[test]
    fn a_side_without_its_partner_is_no_text() {
        assert!(found(&["train.en", "train.de"]).is_err());
        assert_eq!(found(&["a.en", ".en", ".fr"]), Err(Vec::new()));
    }
}
