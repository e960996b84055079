//! What the chapters promise beside their code: links that lead somewhere, pictures of a reasonable
//! size, tables as they were measured, configs that can be read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use polyglow_train::config::Config;

/// The largest picture, in bytes.
const LARGEST_PICTURE: u64 = 150_000;

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()))
}

/// Names of the files in a folder that end in this.
fn names(folder: &str, ending: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(book().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(ending)).collect()
}

fn chapters() -> Vec<(String, String)> {
    let files = names("src", ".md")
        .into_iter()
        .filter(|name| name != "SUMMARY.md");
    files
        .map(|name| (name.clone(), read(&book().join("src").join(name))))
        .collect()
}

/// Where the links and the pictures of a text lead.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
}

#[test]
fn every_chapter_is_in_the_summary_and_in_the_tests() {
    let summary = read(&book().join("src/SUMMARY.md"));
    let listed: BTreeSet<String> = links(&summary).map(str::to_owned).collect();
    let (written, tested) = (chapters(), read(&book().join("code/lib.rs")));
    assert_eq!(
        listed,
        written.iter().map(|(name, _)| name.clone()).collect()
    );
    for name in &listed {
        assert!(
            tested.contains(&format!("include_str!(\"../src/{name}\")")),
            "the code of `{name}` is not run"
        );
    }
}

#[test]
fn links_lead_to_files_and_pictures_are_small() {
    let mut shown = BTreeSet::new();
    for (name, text) in chapters() {
        for target in links(&text).filter(|target| !target.starts_with("http")) {
            let size = fs::metadata(book().join("src").join(target))
                .unwrap_or_else(|_| panic!("`{name}`: `{target}`"));
            if let Some(picture) = target.strip_prefix("pictures/") {
                assert!(
                    size.len() < LARGEST_PICTURE,
                    "`{target}` has {} bytes",
                    size.len()
                );
                shown.insert(picture.to_owned());
            }
        }
    }
    assert_eq!(shown, names("src/pictures", ""));
}

#[test]
fn files_that_are_named_exist() {
    let folders = ["configs/", "crates/", "docs/", "scripts/"];
    for (name, text) in chapters() {
        let code = text
            .split('`')
            .filter(|code| folders.iter().any(|folder| code.starts_with(folder)));
        for path in code.filter(|code| !code.contains(char::is_whitespace)) {
            assert!(
                book().join("../..").join(path).exists(),
                "`{name}`: `{path}`"
            );
        }
    }
}

#[test]
fn measured_tables_stand_in_a_chapter_as_they_were_measured() {
    let text: String = chapters().into_iter().map(|(_, text)| text).collect();
    let results = names("results", ".md");
    assert_eq!(text.matches("<!-- results/").count(), results.len());
    for name in results {
        let table = read(&book().join("results").join(&name));
        let found = text.contains(&format!("<!-- results/{name} -->\n\n{table}\n<!-- end -->"));
        assert!(found, "no chapter shows `{name}` as it is");
        // Nobody can measure it again without these.
        let script = table
            .split('`')
            .find(|code| code.contains("scripts/"))
            .unwrap_or_default();
        assert!(
            book().join("../..").join(script).is_file(),
            "`{name}` names no script that there is: `{script}`"
        );
        assert!(
            table.contains("2 cores") && table.contains("commit "),
            "`{name}` names no hardware and commit"
        );
    }
}

#[test]
fn chapters_begin_with_a_question_and_end_with_what_to_try() {
    for (name, text) in chapters() {
        let first = text.lines().nth(2).unwrap();
        assert!(
            first.starts_with("**") && first.contains("?**"),
            "`{name}` begins with `{first}`"
        );
        let last = text.lines().rfind(|line| line.starts_with('#')).unwrap();
        assert_eq!(last, "## Try", "in `{name}`");
    }
}

#[test]
fn configs_in_the_book_can_be_read() {
    let chapters = chapters();
    let configs = chapters
        .iter()
        .flat_map(|(_, text)| text.split("```toml\n").skip(1));
    let configs: Vec<&str> = configs
        .filter_map(|rest| rest.split_once("```"))
        .map(|(config, _)| config)
        .collect();
    assert_eq!(configs.len(), 2);
    for config in configs {
        Config::from_text(config, &[]).unwrap();
    }
}
