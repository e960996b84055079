//! Lines that are longer than a model can read: cut where it harms the translation least, and joined
//! again.

use crate::sentences::gap;
use crate::translate::{Scores, Translated};

/// The kinds of positions at which a text may be cut, the best first.
#[derive(Clone, Copy, Debug)]
enum CutPoint {
    SentenceEnd,
    ClauseEnd,
    Space,
    Anywhere,
}

impl CutPoint {
    /// Returns the kind to try when a part between positions of this kind is still too long.
    fn next(self) -> Self {
        match self {
            Self::SentenceEnd => Self::ClauseEnd,
            Self::ClauseEnd => Self::Space,
            Self::Space | Self::Anywhere => Self::Anywhere,
        }
    }

    /// Returns whether a text may be cut between the characters `left` and `right`.
    fn is_between(self, left: char, right: char) -> bool {
        match self {
            Self::SentenceEnd => {
                ".!?…".contains(left) && right.is_whitespace() || "。！？".contains(left)
            }
            Self::ClauseEnd => {
                ",;:".contains(left) && right.is_whitespace() || "，、；：".contains(left)
            }
            Self::Space => left.is_whitespace() && !right.is_whitespace(),
            Self::Anywhere => true,
        }
    }

    /// Cuts a text at every position of this kind.
    fn cut(self, text: &str) -> Vec<&str> {
        let mut parts = Vec::new();
        let mut start = 0;
        let mut left = None;
        for (position, right) in text.char_indices() {
            if left.is_some_and(|left| self.is_between(left, right)) {
                parts.push(&text[start..position]);
                start = position;
            }
            left = Some(right);
        }
        parts.push(&text[start..]);
        parts
    }
}

/// Cuts `text` into pieces of at most `longest` tokens, none blank, that together are the text up
/// to the spaces between them: at ends of sentences, or else of clauses, or else between words, or
/// else anywhere.
///
/// `count` returns the number of tokens of each text that it is called with.
///
/// # Errors
/// `count` fails.
pub(super) fn split<'t, E>(
    text: &'t str,
    longest: usize,
    count: &impl Fn(&[&str]) -> Result<Vec<usize>, E>,
) -> Result<Vec<&'t str>, E> {
    let mut pieces = Vec::new();
    split_at(text, CutPoint::SentenceEnd, longest, count, &mut pieces)?;
    Ok(pieces)
}

/// Cuts a text at positions of one kind, packs the parts into as few pieces as possible, and cuts parts
/// that are still too long at positions of the next kind.
fn split_at<'t, E>(
    text: &'t str,
    point: CutPoint,
    longest: usize,
    count: &impl Fn(&[&str]) -> Result<Vec<usize>, E>,
    pieces: &mut Vec<&'t str>,
) -> Result<(), E> {
    let parts = point.cut(text);
    let lens = count(&parts)?;
    // The byte range of the piece that is being packed, and its tokens.
    let mut start = 0;
    let mut end = 0;
    let mut tokens = 0;
    for (part, len) in parts.into_iter().zip(lens) {
        if tokens + len > longest {
            push(&text[start..end], pieces);
            start = end;
            tokens = 0;
        }
        end += part.len();
        if len <= longest {
            tokens += len;
        } else if let CutPoint::Anywhere = point {
            // A single character of more tokens than a model has positions: the runner cuts it.
            push(part, pieces);
            start = end;
        } else {
            split_at(part, point.next(), longest, count, pieces)?;
            start = end;
        }
    }
    push(&text[start..end], pieces);
    Ok(())
}

fn push<'t>(piece: &'t str, pieces: &mut Vec<&'t str>) {
    if !piece.trim().is_empty() {
        pieces.push(piece.trim());
    }
}

/// Joins the translated pieces of each line, given as (line, translations) in their order: the best
/// translation of each piece, the second best of each, and so on. `scores` says whether lines without
/// a piece have scores, too.
pub(super) fn join(
    pieces: Vec<(usize, Vec<Translated>)>,
    num_lines: usize,
    scores: bool,
) -> Vec<Vec<Translated>> {
    let mut lines: Vec<Vec<Translated>> = vec![Vec::new(); num_lines];
    for (line, translations) in pieces {
        let line = &mut lines[line];
        if line.is_empty() {
            *line = translations;
            continue;
        }
        // There are as many translations of a line as of the piece with the fewest.
        line.truncate(translations.len());
        for (whole, piece) in line.iter_mut().zip(translations) {
            whole.text.push_str(gap(&whole.text, &piece.text));
            whole.text.push_str(&piece.text);
            whole.scores = Scores::sum(whole.scores, piece.scores);
        }
    }
    for line in &mut lines {
        if line.is_empty() {
            line.push(Translated {
                text: String::new(),
                scores: scores.then(Scores::default),
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token a word, and one for every eighth character of a long one.
    #[expect(clippy::unnecessary_wraps, reason = "counting may fail elsewhere")]
    fn count(texts: &[&str]) -> Result<Vec<usize>, ()> {
        let tokens = |text: &&str| {
            text.split_whitespace()
                .map(|word| word.chars().count().div_ceil(8))
                .sum()
        };
        Ok(texts.iter().map(tokens).collect())
    }

    #[test]
    fn sentences_stay_whole_and_are_packed() {
        let text = "One two. Three four! Five six seven?  Eight.";
        assert_eq!(
            split(text, 4, &count),
            Ok(vec!["One two. Three four!", "Five six seven?  Eight."])
        );
        assert_eq!(
            split(text, 3, &count),
            Ok(vec!["One two.", "Three four!", "Five six seven?", "Eight."])
        );
        assert_eq!(
            split("你好。再见。", 1, &count),
            Ok(vec!["你好。", "再见。"])
        );
    }

    #[test]
    fn long_sentences_are_cut_at_clauses_then_words_then_anywhere() {
        let text = "A b, c d e; f g h i j. K.";
        assert_eq!(
            split(text, 3, &count),
            Ok(vec!["A b,", "c d e;", "f g h", "i j.", "K."])
        );
        assert_eq!(
            split(&format!("{} y", "x".repeat(20)), 2, &count),
            Ok([&["xx"; 10][..], &["y"]].concat())
        );
    }

    #[test]
    fn pieces_are_joined_as_their_script_is_written() {
        let piece = |text: &str| {
            (
                0,
                vec![Translated {
                    text: text.to_owned(),
                    scores: Some(Scores {
                        log_prob: -1.0,
                        score: -1.0,
                    }),
                }],
            )
        };
        for (pieces, expected) in [
            (["Hallo.", "Welt."], "Hallo. Welt."),
            (["你好。", "再见。"], "你好。再见。"),
            (["สวัสดี", "ครับ"], "สวัสดีครับ"),
            (["안녕하세요.", "네."], "안녕하세요. 네."),
        ] {
            let joined = join(pieces.map(piece).to_vec(), 1, true);
            assert_eq!(joined[0][0].text, expected);
            let scores = joined[0][0].scores.expect("both pieces have scores");
            assert!((scores.log_prob + 2.0).abs() < 1e-6);
        }
    }

    #[test]
    fn nothing_is_lost() {
        let text = "  The dog, which was tired,   slept; nobody-knew-how-long-it-would-be. Then… it woke! ";
        for longest in 1..12 {
            let pieces = split(text, longest, &count).expect("counting cannot fail");
            let squeeze = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(squeeze(&pieces.concat()), squeeze(text));
            assert!(
                pieces
                    .iter()
                    .all(|piece| count(&[piece]) <= Ok(vec![longest])),
                "{longest}: {pieces:?}"
            );
        }
    }
}
