//! Any text as a page, with any translations and alignments of its sentences: every tag is in the
//! output, exactly once, and a page whose elements are all closed in order stays one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polyglow_fuzz::texts;
use polyglow_serve::html::{Options, Page, Translation, tags, word_links};

/// Elements that this target knows to be inline and to hold others.
const INLINE: [&str; 5] = ["<b>", "<i>", "<em>", "<span>", "<u>"];

fuzz_target!(|input: &str| {
    let [page, lines, choices] = texts(input);
    let page = page.replace('\0', "");
    let read = Page::read(
        &page,
        Options {
            language: "en",
            attributes: false,
        },
    );
    let mut lines = lines.lines();
    let mut choices = choices.bytes().map(usize::from);
    let mut translate = |source: &str| {
        let text = lines.next().unwrap_or_default().to_owned();
        let count = choices.next().unwrap_or(0) % 8;
        let pairs: Vec<(usize, usize)> = choices
            .by_ref()
            .take(count)
            .map(|choice| (choice % 7, choice / 7 % 7))
            .collect();
        Translation {
            links: word_links(source, &text, &pairs),
            text,
        }
    };
    let sentences: Vec<String> = read.sentences().map(str::to_owned).collect();
    let translations: Vec<Translation> = sentences
        .iter()
        .map(|sentence| translate(sentence))
        .collect();
    let written = read.with(&translations);
    assert_eq!(sorted(&written), sorted(&page));
    if let Some(depths) = depths(&page) {
        assert_eq!(Some(depths), self::depths(&written));
    }
    // With attributes translated, tags change, but none is added or lost.
    let read = Page::read(
        &page,
        Options {
            language: "",
            attributes: true,
        },
    );
    let translations: Vec<Translation> = read.sentences().map(|_| Translation::default()).collect();
    assert_eq!(tags(&read.with(&translations)).len(), tags(&page).len());
});

fn sorted(page: &str) -> Vec<&str> {
    let mut tags = tags(page);
    tags.sort_unstable();
    tags
}

/// For each start tag the elements around it, if all tags are of known inline elements and closed
/// in order.
fn depths(page: &str) -> Option<Vec<String>> {
    let mut open: Vec<&str> = Vec::new();
    let mut paths = Vec::new();
    for tag in tags(page) {
        if INLINE.contains(&tag) {
            paths.push(format!("{} {tag}", open.concat()));
            open.push(tag);
        } else if open.pop()? != tag.replace('/', "") {
            return None;
        }
    }
    paths.sort_unstable();
    open.is_empty().then_some(paths)
}
