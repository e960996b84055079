//! The inline content of a block: its text as a browser shows it, the markup in it, and the
//! sentences of it.

use polyglow_predict::sentences::{Part, parts};

use super::piece::{Piece, append, escape_text, push_kept};
use super::sentence::{Mark, MarkKind, Sentence, Sentences, Space};

/// Punctuation that no space comes before, also where something without text stood between the two.
const CLOSING: &str = ".,;:!?)]}…。，、；：！？";

/// Text and markup between two ends of blocks.
#[derive(Default)]
pub(super) struct Block {
    /// Without markup, and with single spaces where it is not preformatted.
    text: String,
    marks: Vec<Mark>,
    /// For a space of the text, what it was written as.
    spaces: Vec<(usize, String)>,
}

impl Block {
    pub(super) fn push_mark(&mut self, kind: MarkKind, markup: Vec<Piece>) {
        self.marks.push(Mark {
            at: self.text.len(),
            kind,
            markup,
        });
    }

    /// Adds text, in which white space is one space, and none at the start or after another, as
    /// browsers show it.
    pub(super) fn push_text(&mut self, text: &str, is_preformatted: bool) {
        if is_preformatted {
            self.text.push_str(text);
            return;
        }
        if text.starts_with(|first| CLOSING.contains(first)) {
            self.take_space_before_points();
        }
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.trim_ascii_start();
            self.push_space(&rest[..rest.len() - word.len()]);
            let end = word
                .find(|character: char| character.is_ascii_whitespace())
                .unwrap_or(word.len());
            self.text.push_str(&word[..end]);
            rest = &word[end..];
        }
    }

    fn push_space(&mut self, space: &str) {
        if space.is_empty() {
            return;
        }
        if self.text.is_empty() || self.text.ends_with(|last: char| last.is_ascii_whitespace()) {
            self.push_mark(MarkKind::Blank, vec![Piece::Kept(space.to_owned())]);
            return;
        }
        self.spaces.push((self.text.len(), space.to_owned()));
        self.text.push(' ');
    }

    /// Where points stand between a space and punctuation, takes the space out of the text.
    fn take_space_before_points(&mut self) {
        let end = self.text.len();
        let first = self.marks.partition_point(|mark| mark.at < end);
        let are_points = self.marks[first..]
            .iter()
            .all(|mark| matches!(mark.kind, MarkKind::Point(_)));
        if first == self.marks.len()
            || !are_points
            || self.spaces.last().is_none_or(|(at, _)| at + 1 != end)
        {
            return;
        }
        self.text.pop();
        let (at, space) = self.spaces.pop().unwrap_or_default();
        self.marks[first..].iter_mut().for_each(|mark| mark.at = at);
        self.marks.insert(
            first,
            Mark {
                at,
                kind: MarkKind::Blank,
                markup: vec![Piece::Kept(space)],
            },
        );
    }

    /// Adds the block to a page, its sentences as gaps.
    pub(super) fn write(mut self, pieces: &mut Vec<Piece>, sentences: &mut Sentences) {
        self.note_spaces();
        let Self {
            text,
            marks,
            spaces,
        } = self;
        let ends = pair_ends(&marks);
        let mut writer = Writer {
            text: &text,
            marks: marks.into_iter().peekable(),
            spaces: &spaces,
            pieces,
        };
        let mut written = 0;
        let mut start = 0;
        // The first of the sentences that follow each other with nothing between.
        let mut first = None;
        for part in parts(&text, &sentences.language) {
            match part {
                Part::Kept(kept) => {
                    first = None;
                    writer.write(start, start + kept.len());
                    start += kept.len();
                }
                Part::Sentence(sentence) => {
                    let end = start + sentence.len();
                    let index = sentences.next_index();
                    let gap = first.map(|first| Piece::Gap(first..index));
                    first = first.or(Some(index));
                    let inside = writer.marks_inside(start, end, &ends[written..], gap);
                    sentences.push(Sentence {
                        text: sentence.to_owned(),
                        marks: inside,
                    });
                    writer.pieces.push(Piece::Sentence(index));
                    start = end;
                }
            }
            written = ends.len() - writer.marks.len();
        }
        writer.marks_before(usize::MAX);
    }

    /// Notes for each point whether white space is around it.
    fn note_spaces(&mut self) {
        for index in 0..self.marks.len() {
            let MarkKind::Point(_) = self.marks[index].kind else {
                continue;
            };
            let at = self.marks[index].at;
            let is_blank = |mark: Option<&Mark>| {
                mark.is_some_and(|mark| mark.at == at && mark.kind == MarkKind::Blank)
            };
            let before = self.text[..at].ends_with(char::is_whitespace)
                || is_blank(
                    index
                        .checked_sub(1)
                        .and_then(|before| self.marks.get(before)),
                );
            let after = self.text[at..].starts_with(char::is_whitespace)
                || is_blank(self.marks.get(index + 1));
            self.marks[index].kind = MarkKind::Point(Space { before, after });
        }
    }
}

/// For each mark that opens an element, where that is closed; for all others nothing.
fn pair_ends(marks: &[Mark]) -> Vec<Option<usize>> {
    let mut open: Vec<usize> = Vec::new();
    let mut ends = vec![None; marks.len()];
    for (index, mark) in marks.iter().enumerate() {
        match mark.kind {
            MarkKind::Open => open.push(index),
            MarkKind::Close => {
                if let Some(opened) = open.pop() {
                    ends[opened] = Some(mark.at);
                }
            }
            MarkKind::Point(_) | MarkKind::Blank => {}
        }
    }
    ends
}

/// Writes a block in order.
struct Writer<'b> {
    text: &'b str,
    marks: std::iter::Peekable<std::vec::IntoIter<Mark>>,
    spaces: &'b [(usize, String)],
    pieces: &'b mut Vec<Piece>,
}

impl Writer<'_> {
    /// Writes text that is not translated, with the marks in it and before it.
    fn write(&mut self, start: usize, end: usize) {
        let mut at = start;
        while at < end {
            self.marks_before(at + 1);
            let next = self.marks.peek().map_or(end, |mark| mark.at.min(end));
            self.write_text(at, next);
            at = next;
        }
    }

    fn write_text(&mut self, start: usize, end: usize) {
        let mut at = start;
        while at < end {
            let space = self.spaces.binary_search_by_key(&at, |(at, _)| *at);
            if let Ok(index) = space {
                let mut escaped = String::new();
                escape_text(&self.spaces[index].1, &mut escaped);
                push_kept(self.pieces, &escaped);
                at += 1;
                continue;
            }
            let following = self.spaces.partition_point(|(space, _)| *space < at);
            let next = self
                .spaces
                .get(following)
                .map_or(end, |(space, _)| (*space).min(end));
            let mut escaped = String::new();
            escape_text(&self.text[at..next], &mut escaped);
            push_kept(self.pieces, &escaped);
            at = next;
        }
    }

    /// Writes the marks that stand before a byte of the text.
    fn marks_before(&mut self, end: usize) {
        while let Some(mark) = self.marks.next_if(|mark| mark.at < end) {
            append(self.pieces, mark.markup);
        }
    }

    /// Takes the marks inside a sentence, after writing those that stand before it, with `gap`
    /// after the end tags among them. `ends` says where the elements end that the marks from the
    /// next on open.
    ///
    /// Elements that hold the whole sentence stay around it, and what stands at its edges stays
    /// there, unless an element that holds a part of the sentence holds it, too.
    fn marks_inside(
        &mut self,
        start: usize,
        end: usize,
        ends: &[Option<usize>],
        mut gap: Option<Piece>,
    ) -> Vec<Mark> {
        for closed in ends {
            let holds_part = closed.is_some_and(|closed| start < closed && closed < end);
            let is_before = |mark: &Mark| mark.at < start || mark.at == start && !holds_part;
            let Some(mark) = self.marks.next_if(is_before) else {
                break;
            };
            if mark.kind != MarkKind::Close {
                self.pieces.extend(gap.take());
            }
            append(self.pieces, mark.markup);
        }
        self.pieces.extend(gap);
        let mut inside = Vec::new();
        let mut open = 0;
        while let Some(mark) = self
            .marks
            .next_if(|mark| mark.at < end || mark.at == end && open > 0)
        {
            match mark.kind {
                MarkKind::Open => open += 1,
                MarkKind::Close if open > 0 => open -= 1,
                _ => {}
            }
            inside.push(Mark {
                at: mark.at - start,
                ..mark
            });
        }
        inside
    }
}
