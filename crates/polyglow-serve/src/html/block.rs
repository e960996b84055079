//! The inline content of a block: its text as a browser shows it, its markup, and its sentences.

use polyglow_predict::sentences::{Part, parts};

use super::piece::{Piece, append, escape_text, push_kept};
use super::sentence::{Mark, MarkKind, Sentence, Sentences, Space};

/// Punctuation that no space comes before, not even if markup without text is between them.
const CLOSING: &str = ".,;:!?)]}…。，、；：！？";

/// Text and markup between two breaks.
#[derive(Default)]
pub(super) struct Block {
    /// Without markup, and with single spaces where it is not preformatted.
    text: String,
    marks: Vec<Mark>,
    /// The byte of a space in the text, and the white space that it stands for.
    spaces: Vec<(usize, String)>,
}

impl Block {
    /// Adds markup without text.
    pub(super) fn push_mark(&mut self, kind: MarkKind, markup: Vec<Piece>) {
        self.marks.push(Mark {
            at: self.text.len(),
            kind,
            markup,
        });
    }

    /// Adds text. Unless it is preformatted, white space becomes one space, and none at the start
    /// or after another, as browsers show it.
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

    /// Adds white space: as a space if it is shown, or else as a mark.
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

    /// Takes a space that only points separate from the punctuation to come out of the text, and
    /// keeps it as a mark: a model should read `a.` for `a <img>.`
    fn take_space_before_points(&mut self) {
        let end = self.text.len();
        let first = self.marks.partition_point(|mark| mark.at < end);
        let after_space = &self.marks[first..];
        let are_points = after_space
            .iter()
            .all(|mark| matches!(mark.kind, MarkKind::Point(_)));
        if after_space.is_empty() || !are_points {
            return;
        }
        let Some((at, space)) = self.spaces.pop_if(|(at, _)| *at + 1 == end) else {
            return;
        };
        self.text.pop();
        for mark in &mut self.marks[first..] {
            mark.at = at;
        }
        self.marks.insert(
            first,
            Mark {
                at,
                kind: MarkKind::Blank,
                markup: vec![Piece::Kept(space)],
            },
        );
    }

    /// Appends the block to the pieces of a page, and its sentences to `sentences`.
    pub(super) fn write(mut self, pieces: &mut Vec<Piece>, sentences: &mut Sentences) {
        // Only now, since a point does not know what follows it when it is added.
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
        // The first of the sentences that directly follow each other.
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

    /// Sets for each point whether white space is shown around it.
    fn note_spaces(&mut self) {
        for index in 0..self.marks.len() {
            let MarkKind::Point(_) = self.marks[index].kind else {
                continue;
            };
            let at = self.marks[index].at;
            let follows_blank = index > 0 && self.is_blank_at(index - 1, at);
            let before = follows_blank || self.text[..at].ends_with(char::is_whitespace);
            let precedes_blank = self.is_blank_at(index + 1, at);
            let after = precedes_blank || self.text[at..].starts_with(char::is_whitespace);
            self.marks[index].kind = MarkKind::Point(Space { before, after });
        }
    }

    /// Returns whether the mark with this index is a blank at byte `at`.
    fn is_blank_at(&self, index: usize, at: usize) -> bool {
        let mark = self.marks.get(index);
        mark.is_some_and(|mark| mark.at == at && mark.kind == MarkKind::Blank)
    }
}

/// Returns for each mark that opens an element the byte at which it is closed; `None` for others.
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

/// A writer of the pieces of a block, in order.
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

    /// Writes text without marks in it, with white space as it was written.
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
            // The text up to the next white space is written as it is.
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

    /// Writes the marks before a sentence, with `gap` after the end tags among them, and returns
    /// the marks inside it. `ends` has the bytes at which the elements end that are opened by the
    /// marks from the next on.
    ///
    /// Elements that contain the whole sentence stay around it, and marks at its edges stay there,
    /// unless they are in an element that contains a part of the sentence.
    fn marks_inside(
        &mut self,
        start: usize,
        end: usize,
        ends: &[Option<usize>],
        mut gap: Option<Piece>,
    ) -> Vec<Mark> {
        for closed in ends {
            let holds_part = closed.is_some_and(|closed| start < closed && closed < end);
            let Some(mark) = self
                .marks
                .next_if(|mark| mark.at < start || mark.at == start && !holds_part)
            else {
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
