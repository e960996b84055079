//! Lines of several sentences: `--split-sentences`, and a warning where a model has not learned
//! them.

use std::fs;
use std::path::Path;

use polyglow_predict::sentences::{Part, count, gap, parts};
use polyglow_predict::translate::{Request, Scores, Translated};
use polyglow_train::run::RunDirectory;
use serde_json::Value;

use super::results::Aligned;

/// The share of training lines with several sentences below which a model has not learned to
/// translate such lines.
const RARE: f64 = 0.05;

/// A request for each sentence of some lines, with the number of its line and its own in it.
pub(super) fn sentence_requests(
    lines: &[Request],
    first_line: usize,
    language: &str,
) -> Vec<Request> {
    let mut requests = Vec::new();
    for (line, request) in (first_line as u64..).zip(lines) {
        let mut part = 0;
        for sentence in parts(&request.text, language) {
            if let Part::Sentence(text) = sentence {
                let number = Some(line);
                requests.push(Request {
                    text: text.to_owned(),
                    number,
                    part,
                    ..Request::default()
                });
                part += 1;
            }
        }
    }
    requests
}

/// Puts the translations of sentences, in order, back into the lines that they are of: the best of
/// each, the second of each, and so on. What is between sentences stays as it is. `scores` says
/// whether the lines have scores: the sums of those of their sentences.
pub(super) fn join(
    lines: &[Request],
    language: &str,
    sentences: Vec<Vec<Aligned>>,
    scores: bool,
) -> Vec<Vec<Aligned>> {
    let mut sentences = sentences.into_iter();
    let mut joined = Vec::new();
    for line in lines {
        let parts = parts(&line.text, language);
        let num_sentences = parts
            .iter()
            .filter(|part| matches!(part, Part::Sentence(_)))
            .count();
        let own: Vec<Vec<Aligned>> = sentences.by_ref().take(num_sentences).collect();
        let ranks = own.iter().map(Vec::len).max().unwrap_or(1);
        let by_rank = (0..ranks).map(|rank| join_rank(&parts, &own, rank, scores));
        joined.push(by_rank.collect());
    }
    joined
}

/// A line with the translations of one rank; a sentence with fewer has its last.
fn join_rank(parts: &[Part], sentences: &[Vec<Aligned>], rank: usize, scores: bool) -> Aligned {
    let mut source_words = WordCount::default();
    let mut target_words = WordCount::default();
    let mut line = Aligned {
        translation: Translated {
            text: String::new(),
            scores: scores.then(Scores::default),
        },
        links: Vec::new(),
    };
    let mut sentences = sentences.iter();
    let mut follows_sentence = false;
    for part in parts {
        let text = match part {
            Part::Kept(kept) => {
                source_words.add(kept);
                // A break inside a translation would make two lines of one.
                let kept = kept.replace('\r', " ");
                target_words.add(&kept);
                line.translation.text.push_str(&kept);
                follows_sentence = false;
                continue;
            }
            Part::Sentence(text) => text,
        };
        let best = sentences
            .next()
            .and_then(|best| best.get(rank).or(best.last()));
        if let Some(Aligned { translation, links }) = best {
            if follows_sentence {
                let gap = gap(&line.translation.text, &translation.text);
                target_words.add(gap);
                line.translation.text.push_str(gap);
            }
            let src = source_words.next();
            let tgt = target_words.next();
            target_words.add(&translation.text);
            line.links
                .extend(links.iter().map(|(from, to)| (from + src, to + tgt)));
            line.translation.text.push_str(&translation.text);
            line.translation.scores = Scores::sum(line.translation.scores, translation.scores);
        }
        source_words.add(text);
        follows_sentence = true;
    }
    line
}

/// Counts the words of a text that grows, each part once, since a line may have many.
#[derive(Default)]
struct WordCount {
    words: usize,
    /// Whether the text ends in a word, which the next part may continue.
    is_inside: bool,
}

impl WordCount {
    /// Adds a part of the text.
    fn add(&mut self, part: &str) {
        let Some(first) = part.chars().next() else {
            return;
        };
        self.words += part.split_whitespace().count();
        if self.is_inside && !first.is_whitespace() {
            self.words -= 1;
        }
        self.is_inside = !part.ends_with(char::is_whitespace);
    }

    /// Returns the index of the word that the next part begins with, or continues.
    fn next(&self) -> usize {
        if self.is_inside {
            self.words - 1
        } else {
            self.words
        }
    }
}

/// Lines of several sentences that a model reads which was trained on single ones.
pub(super) struct SeveralSentences {
    language: String,
    /// The share of training lines that hold several sentences, if the run knows it.
    share: Option<f64>,
    /// The first such line, with its sentences.
    first: Option<(usize, usize)>,
    lines: usize,
}

impl SeveralSentences {
    /// Looks up how many training lines of a run hold several sentences; a run that does not know
    /// it is not warned about, and neither are lines that are cut into sentences.
    pub(super) fn new(run: &Path, language: &str, is_split: bool) -> Self {
        let share = if is_split { None } else { share(run) };
        Self {
            language: language.to_owned(),
            share,
            first: None,
            lines: 0,
        }
    }

    /// Looks at lines, the first of which has this number.
    pub(super) fn look_at(&mut self, requests: &[Request], first_line: usize) {
        if self.share.is_none_or(|share| share >= RARE) {
            return;
        }
        for (line, request) in (first_line..).zip(requests) {
            let sentences = count(&request.text, &self.language);
            if sentences > 1 {
                self.lines += 1;
                self.first.get_or_insert((line, sentences));
            }
        }
    }

    /// Says which lines there are in `input`, once.
    pub(super) fn warn(&mut self, input: &Path) {
        if let Some(message) = self.message(input) {
            tracing::warn!("{message}");
            self.share = None;
        }
    }

    fn message(&self, input: &Path) -> Option<String> {
        let (line, sentences) = self.first?;
        let share = self.share?;
        let others = match self.lines {
            1 => String::new(),
            lines => format!(", and {} more lines several", lines - 1),
        };
        Some(format!(
            "line {line} of {} holds {sentences} sentences{others}, but {:.0} % of the training lines hold one, so that others may \
             be left out: `translate --split-sentences` translates each sentence by itself",
            input.display(),
            100.0 * (1.0 - share)
        ))
    }
}

/// The share of training lines with several sentences, from the report that a run has of its text.
fn share(run: &Path) -> Option<f64> {
    let report = fs::read(RunDirectory::new(run).inspection_path()).ok()?;
    let report: Value = serde_json::from_slice(&report).ok()?;
    report.get("several_sentences")?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        Request {
            text: text.to_owned(),
            ..Request::default()
        }
    }

    #[test]
    fn sentences_are_put_back_where_they_were() {
        let lines = [
            request("- One. Two three.  😆"),
            request(""),
            request("Four"),
        ];
        let sentences = sentence_requests(&lines, 5, "en");
        let sentences: Vec<_> = sentences
            .iter()
            .map(|one| (&*one.text, one.number, one.part))
            .collect();
        assert_eq!(
            sentences,
            [
                ("One.", Some(5), 0),
                ("Two three.", Some(5), 1),
                ("Four", Some(7), 0)
            ]
        );
        let aligned = |text: &str, links: &[(usize, usize)]| Aligned {
            translation: Translated {
                text: text.to_owned(),
                scores: Some(Scores {
                    log_prob: -1.0,
                    score: -0.5,
                }),
            },
            links: links.to_vec(),
        };
        let translations = vec![
            vec![aligned("Eins.", &[(0, 0)]), aligned("Ein.", &[(0, 0)])],
            vec![aligned("Zwei drei.", &[(0, 0), (1, 1)])],
            vec![aligned("Vier", &[(0, 0)])],
        ];
        let joined = join(&lines, "en", translations, true);
        let texts: Vec<Vec<&str>> = joined
            .iter()
            .map(|line| line.iter().map(|best| &*best.translation.text).collect())
            .collect();
        let expected = [
            vec!["- Eins. Zwei drei.  😆", "- Ein. Zwei drei.  😆"],
            vec![""],
            vec!["Vier"],
        ];
        assert_eq!(texts, expected);
        assert_eq!(joined[0][0].links, [(1, 1), (2, 2), (3, 3)]);
        let scores = joined[0][0].translation.scores.unwrap();
        assert!((scores.log_prob + 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_line_of_several_sentences_is_named_where_training_lines_held_one() {
        let run = tempfile::tempdir().unwrap();
        let look = |share: &str, is_split| {
            fs::write(run.path().join("inspection.json"), share).unwrap();
            let mut several = SeveralSentences::new(run.path(), "en", is_split);
            several.look_at(&[request("One."), request("One. Two. Three.")], 7);
            several.look_at(&[request("One! Two!")], 9);
            several.message(Path::new("input.txt"))
        };
        let message = look(r#"{"several_sentences": 0.01}"#, false).unwrap();
        assert!(
            message.starts_with("line 8 of input.txt holds 3 sentences, and 1 more lines several"),
            "{message}"
        );
        assert!(
            message.contains("99 % of the training lines hold one"),
            "{message}"
        );
        assert_eq!(look(r#"{"several_sentences": 0.01}"#, true), None);
        assert_eq!(look(r#"{"several_sentences": 0.2}"#, false), None);
        assert_eq!(look("{}", false), None);
    }
}
