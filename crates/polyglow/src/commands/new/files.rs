//! Parallel text in a folder: which files are there, and which is for training, validation and
//! testing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use polyglow_data::lines::Lines;

use crate::failure::{usage, with_hint};

/// Words in the names of files for training, validation and testing.
const NAMES: [(Role, &[&str]); 3] = [
    (Role::Train, &["train", "training", "trn"]),
    (
        Role::Valid,
        &[
            "valid",
            "validation",
            "val",
            "dev",
            "devel",
            "development",
            "tune",
            "tuning",
            "flores200dev",
        ],
    ),
    (
        Role::Test,
        &["test", "tst", "eval", "evaluation", "devtest", "heldout"],
    ),
];

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Train,
    Valid,
    Test,
}

/// The parallel text of a folder, by its prefixes and TSV files, as a config names them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) train: PathBuf,
    pub(super) valid: Option<PathBuf>,
    /// In the order of their names.
    pub(super) tests: Vec<PathBuf>,
    /// What is there and not used.
    pub(super) unused: Vec<PathBuf>,
}

/// Looks through a folder, but not into the folders in it.
///
/// # Errors
/// It cannot be read; there is no parallel text in it, or no way to tell what to train on (exit
/// code 2).
pub(super) fn find(folder: &Path, src: &str, tgt: &str) -> anyhow::Result<Found> {
    let names: BTreeSet<String> = fs_err::read_dir(folder)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| folder.join(name).is_file())
        .collect();
    let texts = parallel(&names, src, tgt);
    let tabbed: Vec<&String> = names
        .iter()
        .filter(|name| is_tabbed(folder, name))
        .collect();
    if texts.is_empty() && !tabbed.is_empty() {
        let error = usage(anyhow!(
            "no parallel text of `{src}` and `{tgt}` in `{}`",
            folder.display()
        ));
        let name = tabbed[0];
        return Err(with_hint(
            error,
            format!(
                "the first line of `{name}` has a tab: if both sides are in it, the source first, rename it to `{}`",
                Path::new(name).with_extension("tsv").display()
            ),
        ));
    }
    for name in tabbed {
        tracing::warn!(
            "`{}` is not used, although its first line has a tab: a file with both sides is found if its name ends in `.tsv`",
            folder.join(name).display()
        );
    }
    if texts.is_empty() {
        let error = usage(anyhow!(
            "no parallel text of `{src}` and `{tgt}` in `{}`",
            folder.display()
        ));
        let wanted =
            format!("`train.{src}` and `train.{tgt}`, or `train.tsv`, plain or with `.gz`");
        let there = if names.is_empty() {
            "it is empty".to_owned()
        } else {
            format!(
                "there is {}",
                names
                    .iter()
                    .take(8)
                    .map(|name| format!("`{name}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        };
        return Err(with_hint(
            error,
            format!("looked for two files with one name, such as {wanted}; {there}"),
        ));
    }
    assign(&texts)
        .map_err(|texts| {
            let list = texts
                .iter()
                .map(|text| format!("`{text}`"))
                .collect::<Vec<_>>()
                .join(", ");
            let error = usage(anyhow!(
                "several texts in `{}` may be the one to train on: {list}",
                folder.display()
            ));
            with_hint(error, "put `train` into the name of one, or join them")
        })
        .map(|found| found.within(folder))
}

/// Whether a file is a `.txt` that probably has both sides on each line, with a tab between.
fn is_tabbed(folder: &Path, name: &str) -> bool {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    let is_txt = Path::new(plain)
        .extension()
        .is_some_and(|ending| ending == "txt");
    let first_line = || Lines::open(&folder.join(name)).ok()?.next()?.ok();
    is_txt && first_line().is_some_and(|line| line.contains('\t'))
}

/// Prefixes that both languages have, and TSV files; without `.gz`.
fn parallel(names: &BTreeSet<String>, src: &str, tgt: &str) -> Vec<String> {
    let plain: BTreeSet<&str> = names
        .iter()
        .map(|name| name.strip_suffix(".gz").unwrap_or(name))
        .collect();
    let (src, tgt) = (format!(".{src}"), format!(".{tgt}"));
    let text = |name: &&str| {
        if Path::new(name)
            .extension()
            .is_some_and(|ending| ending == "tsv")
        {
            return Some((*name).to_owned());
        }
        let prefix = name.strip_suffix(&src)?;
        plain
            .contains(&*format!("{prefix}{tgt}"))
            .then(|| prefix.to_owned())
    };
    plain
        .iter()
        .filter_map(text)
        .filter(|prefix| !prefix.is_empty())
        .collect()
}

/// What a text is for, by the words of its name.
fn role(name: &str) -> Option<Role> {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|character: char| !character.is_alphanumeric())
        .collect();
    let has = |known: &[&str]| {
        words.iter().any(|word| {
            // `test2016` and `newstest2014` are tests.
            let word = word.trim_end_matches(|digit: char| digit.is_ascii_digit());
            known.contains(&word)
                || known
                    .iter()
                    .any(|known| word.strip_prefix("news") == Some(known))
        })
    };
    NAMES
        .iter()
        .find(|(_, known)| has(known))
        .map(|(role, _)| *role)
}

/// Decides what is what; gives the names back that may all be the training text.
fn assign(names: &[String]) -> Result<Found, Vec<String>> {
    let of = |wanted: Option<Role>| {
        let mut found: Vec<String> = names
            .iter()
            .filter(|name| role(name) == wanted)
            .cloned()
            .collect();
        // The shortest name is the plainest: `train` before `train.clean`.
        found.sort_by_key(|name| (name.len(), name.clone()));
        found
    };
    let (mut training, mut validation, mut others) =
        (of(Some(Role::Train)), of(Some(Role::Valid)), of(None));
    if training.is_empty() {
        match others.len() {
            1 => training.append(&mut others),
            0 => return Err(names.to_vec()),
            _ => return Err(others),
        }
    }
    let train = training.remove(0).into();
    let valid = if validation.is_empty() {
        None
    } else {
        Some(validation.remove(0).into())
    };
    let unused = [training, validation, others]
        .concat()
        .into_iter()
        .map(PathBuf::from)
        .collect();
    let mut tests: Vec<PathBuf> = of(Some(Role::Test))
        .into_iter()
        .map(PathBuf::from)
        .collect();
    tests.sort();
    Ok(Found {
        train,
        valid,
        tests,
        unused,
    })
}

impl Found {
    fn within(self, folder: &Path) -> Self {
        let within = |path: PathBuf| folder.join(path);
        Self {
            train: within(self.train),
            valid: self.valid.map(within),
            tests: self.tests.into_iter().map(within).collect(),
            unused: self.unused.into_iter().map(within).collect(),
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
            unused: Vec::new(),
        };
        assert_eq!(found(&names), Ok(expected));
        for (name, expected) in [
            ("Europarl.train.en-fr", Some(Role::Train)),
            ("newstest2014", Some(Role::Test)),
            ("newsdev2015", Some(Role::Valid)),
            ("tst2012", Some(Role::Test)),
            ("val", Some(Role::Valid)),
            ("validation.tsv", Some(Role::Valid)),
            ("contest", None),
            ("constrained", None),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
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
        assert_eq!(
            found(&["pairs.tsv.gz"]).map(|found| found.train),
            Ok("pairs.tsv".into())
        );
        let both = found(&["books.en", "books.fr", "news.en", "news.fr"]);
        assert_eq!(both, Err(vec!["news".to_owned(), "books".to_owned()]));
    }

    #[test]
    fn the_plainest_name_is_taken_and_every_test() {
        let names = [
            "train.en",
            "train.fr",
            "train.clean.en",
            "train.clean.fr",
            "test.b.en",
            "test.b.fr",
            "test.a.tsv",
        ];
        let expected = Found {
            train: "train".into(),
            valid: None,
            tests: paths(["test.a.tsv", "test.b"]),
            unused: paths(["train.clean"]),
        };
        assert_eq!(found(&names), Ok(expected));
    }

    #[test]
    fn a_side_without_its_partner_is_no_text() {
        assert!(found(&["train.en", "train.de"]).is_err());
        assert_eq!(found(&["a.en", ".en", ".fr"]), Err(Vec::new()));
    }
}
