//! A page about text that was cleaned: what was repaired, what was removed and why, with examples.

use std::collections::BTreeMap;
use std::ops::Range;

use maud::{Markup, html};
use polyglow_data::clean::reasons::reasons;
use polyglow_data::clean::report::CleanReport;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::document::document;

const STYLE: &str = include_str!("cleaning.css");

/// A pair that was removed. It is serialized with the texts of the words without a partner, if
/// there are some, as `without_partner`: those of the source, and those of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedPair {
    /// The file that it is in, as reports name it.
    pub file: String,
    /// The number of its line, from 1.
    pub line: u64,
    /// Its source, as it was in the text.
    pub src: String,
    /// Its target.
    pub tgt: String,
    /// The words of the source and of the target, as ranges of bytes, that have no partner on the
    /// other side; none if that is not why it was removed.
    pub without_partner: [Vec<Range<usize>>; 2],
}

impl RemovedPair {
    fn has_marked_words(&self) -> bool {
        self.without_partner.iter().any(|side| !side.is_empty())
    }

    /// Returns the words of the source and of the target that have no partner on the other side.
    pub fn words_without_partner(&self) -> [Vec<&str>; 2] {
        let [src, tgt] = &self.without_partner;
        [words_at(&self.src, src), words_at(&self.tgt, tgt)]
    }
}

impl Serialize for RemovedPair {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let num_fields = if self.has_marked_words() { 5 } else { 4 };
        let mut pair = serializer.serialize_struct("RemovedPair", num_fields)?;
        pair.serialize_field("file", &self.file)?;
        pair.serialize_field("line", &self.line)?;
        pair.serialize_field("src", &self.src)?;
        pair.serialize_field("tgt", &self.tgt)?;
        if self.has_marked_words() {
            pair.serialize_field("without_partner", &self.words_without_partner())?;
        }
        pair.end()
    }
}

/// Returns the words in some ranges of a text.
fn words_at<'t>(text: &'t str, ranges: &[Range<usize>]) -> Vec<&'t str> {
    ranges.iter().map(|range| &text[range.clone()]).collect()
}

/// A pair that stays and was repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepairedPair {
    /// The file that it is in, as reports name it.
    pub file: String,
    /// The number of its line, from 1.
    pub line: u64,
    /// Its source and its target, as they were in the text.
    pub before: [String; 2],
    /// Its source and its target, as they stay.
    pub after: [String; 2],
}

/// Returns the page. `samples` are some pairs of each reason, by its key, and `repaired_samples` some of
/// each repair, by its name; what has no samples has no part of its own.
pub fn render(
    report: &CleanReport,
    samples: &BTreeMap<&'static str, Vec<RemovedPair>>,
    repaired_samples: &BTreeMap<&'static str, Vec<RepairedPair>>,
) -> String {
    let CleanReport { pairs, kept, .. } = report;
    let body = html! {
        h1 { "polyglow clean" }
        p { (kept) " of " (pairs) " pairs stay, " (percent(*kept, *pairs)) "." }
        (origin(report))
        @for gap in &report.gaps {
            p { "Note: " (gap) "." }
        }
        (removed(report))
        (repaired(report))
        (languages(report))
        @for reason in reasons() {
            @if let Some(samples) = samples.get(reason.key) {
                h2 id=(reason.key) { (reason.key) }
                p {
                    (report.removed.get(reason.key).copied().unwrap_or(0)) " pairs " (reason.title) "; the first of them:"
                }
                @if samples.iter().any(RemovedPair::has_marked_words) {
                    p.note {
                        "Marked words have no partner on the other side: they are linked to none, by an alignment with other pairs of this text."
                    }
                }
                (examples(samples))
            }
        }
        @for (name, samples) in repaired_samples {
            h2 id={ "repair-" (name) } { "repaired: " (name) }
            p { (report.repaired.get(name).copied().unwrap_or(0)) " pairs; the first of them, as they were and as they are:" }
            (repaired_examples(samples))
        }
    };
    document("polyglow clean", STYLE, &body)
}

/// Says which text was cleaned, by what.
fn origin(report: &CleanReport) -> Markup {
    html! {
        p.note {
            @if !report.files.is_empty() { "Text: " (report.files.join(", ")) ". " }
            @if !report.without.is_empty() { "Left out: " (report.without.join(", ")) ". " }
            @if let Some(lowest) = report.lowest_score { "The lowest score that stays is " (lowest) ". " }
            "polyglow " (report.version) "."
        }
    }
}

fn percent(count: u64, all: u64) -> String {
    format!("{:.2} %", 100.0 * count as f64 / all.max(1) as f64)
}

/// Draws the number of pairs that each reason took, with the estimates of what is in the text.
fn removed(report: &CleanReport) -> Markup {
    let most = report.removed.values().copied().max().unwrap_or(1);
    let counted = reasons().filter_map(|reason| Some((reason, *report.removed.get(reason.key)?)));
    html! {
        h2 { "What was removed" }
        @if report.removed.is_empty() {
            p { "Nothing." }
        } @else {
            table {
                thead { tr { th scope="col" { "reason" } th scope="col" { "pairs" } th scope="col" { "share" } th scope="col" { "this group alone" } th {} th {} } }
                tbody {
                    @for (reason, count) in counted {
                        tr {
                            th scope="row" { a href={ "#" (reason.key) } { (reason.key) } }
                            td { (count) }
                            td { (percent(count, report.pairs)) }
                            td { (report.removed_by_one_group.get(reason.key).copied().unwrap_or(0)) }
                            td.bar { div style={ "width: " (100 * count / most) "%" } {} }
                            td.title { "pairs " (reason.title) }
                        }
                    }
                }
            }
            p.note {
                "A pair is counted at its first reason. \"This group alone\" counts those of them that "
                "filters of the same group remove, and no others would. Every removed pair is in removed.tsv."
            }
        }
        @for (key, share) in report.shown_estimates() {
            p { "About " (format!("{:.1}", 100.0 * share)) " % of the pairs look " (key) "." }
        }
    }
}

/// Draws the number of pairs that stay and were repaired.
fn repaired(report: &CleanReport) -> Markup {
    html! {
        h2 { "What was repaired" }
        @if report.repaired.is_empty() {
            p { "Nothing." }
        } @else {
            table {
                thead { tr { th scope="col" { "repair" } th scope="col" { "pairs" } th scope="col" { "share" } } }
                tbody {
                    @for (repair, count) in &report.repaired {
                        tr { th scope="row" { a href={ "#repair-" (repair) } { (repair) } } td { (count) } td { (percent(*count, report.pairs)) } }
                    }
                }
            }
            p.note { "Every repaired pair is in repaired.tsv, as it was and as it is." }
        }
    }
}

/// The languages of sides that are in another than their own, the most frequent first.
fn languages(report: &CleanReport) -> Markup {
    let mut languages: Vec<(&str, u64)> = report
        .languages
        .iter()
        .map(|(code, count)| (*code, *count))
        .collect();
    languages.sort_by_key(|(code, count)| (std::cmp::Reverse(*count), *code));
    html! {
        @if !languages.is_empty() {
            h2 { "Other languages" }
            table {
                thead { tr { th scope="col" { "language" } th scope="col" { "sides" } } }
                tbody {
                    @for (code, count) in languages {
                        tr { th scope="row" { (code) } td { (count) } }
                    }
                }
            }
        }
    }
}

/// Pairs with the places where they are; each side is laid out in the direction of its script.
fn examples(samples: &[RemovedPair]) -> Markup {
    html! {
        table.examples {
            tbody {
                @for sample in samples {
                    tr {
                        th scope="row" { (sample.file) ":" (sample.line) }
                        td dir="auto" { (marked(&sample.src, &sample.without_partner[0])) }
                        td dir="auto" { (marked(&sample.tgt, &sample.without_partner[1])) }
                    }
                }
            }
        }
    }
}

/// Pairs as they were, each above the pair as it stays.
fn repaired_examples(samples: &[RepairedPair]) -> Markup {
    html! {
        table.examples {
            @for sample in samples {
                tbody {
                    tr {
                        th scope="rowgroup" rowspan="2" { (sample.file) ":" (sample.line) }
                        @for side in &sample.before { td dir="auto" { (side) } }
                    }
                    tr { @for side in &sample.after { td dir="auto" { (side) } } }
                }
            }
        }
    }
}

/// Marks ranges of a text; those with nothing but blanks between them become one.
fn marked(text: &str, ranges: &[Range<usize>]) -> Markup {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if text[last.end..range.start].trim().is_empty() => last.end = range.end,
            _ => joined.push(range.clone()),
        }
    }
    let starts = [0].into_iter().chain(joined.iter().map(|range| range.end));
    let end = joined.last().map_or(0, |range| range.end);
    html! {
        @for (start, range) in starts.zip(&joined) {
            (text[start..range.start]) mark { (text[range.clone()]) }
        }
        (text[end..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_every_count_and_escapes_what_it_shows() {
        let report = CleanReport {
            version: "1.2.3",
            files: vec!["a.en".to_owned()],
            without: vec!["meaning"],
            lowest_score: Some(0.25),
            pairs: 200,
            kept: 150,
            gaps: vec!["misaligned pairs were not looked for".to_owned()],
            repaired: BTreeMap::from([("html", 7)]),
            removed: BTreeMap::from([("copy", 40), ("language", 10)]),
            removed_by_one_group: BTreeMap::from([("copy", 33)]),
            languages: BTreeMap::from([("fra", 8), ("nld", 9)]),
            estimates: BTreeMap::from([("cut", 0.032)]),
        };
        let sample = RemovedPair {
            file: "a.en".to_owned(),
            line: 17,
            src: "<b>one</b>".to_owned(),
            tgt: "two three, four & five".to_owned(),
            without_partner: [vec![], vec![0..3, 4..9, 18..22]],
        };
        let repaired = RepairedPair {
            file: "a.en".to_owned(),
            line: 20,
            before: ["<i>in</i>", "in"].map(str::to_owned),
            after: ["in it", "darin"].map(str::to_owned),
        };
        let json = serde_json::to_value(&sample).expect("it has no map");
        assert_eq!(
            json["without_partner"][1],
            serde_json::json!(["two", "three", "five"])
        );
        let page = render(
            &report,
            &BTreeMap::from([("copy", vec![sample])]),
            &BTreeMap::from([("html", vec![repaired])]),
        );
        for text in [
            "150 of 200 pairs stay, 75.00 %.",
            "Text: a.en. Left out: meaning. The lowest score that stays is 0.25. polyglow 1.2.3.",
            "<p>Note: misaligned pairs were not looked for.</p>",
            "40</td><td>20.00 %</td><td>33</td>",
            "10</td><td>5.00 %</td><td>0</td>",
            "About 3.2 % of the pairs look cut.",
            "html</a></th><td>7</td><td>3.50 %",
            "<h2 id=\"repair-html\">repaired: html</h2><p>7 pairs;",
            "a.en:20</th><td dir=\"auto\">&lt;i&gt;in&lt;/i&gt;</td>",
            "<tr><td dir=\"auto\">in it</td><td dir=\"auto\">darin</td></tr>",
            "a.en:17",
            "&lt;b&gt;one&lt;/b&gt;",
            "<mark>two three</mark>, four &amp; <mark>five</mark></td>",
            "Marked words have no partner",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        // The most frequent language comes first, and a reason without samples has no part.
        assert!(page.find("nld") < page.find("fra"));
        assert!(page.contains("id=\"copy\"") && !page.contains("id=\"language\""));
        let nothing = render(&CleanReport::default(), &BTreeMap::new(), &BTreeMap::new());
        assert!(nothing.contains("0 of 0 pairs stay"), "{nothing}");
    }
}
