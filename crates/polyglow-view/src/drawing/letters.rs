//! Lines of text as outlines of letters, in visual order.
//!
//! Text goes through the Unicode bidirectional algorithm, is cut where the font changes, and each
//! part is shaped by its font. One built-in font has Latin, Greek and Cyrillic letters, another
//! one symbols. Characters that neither has are looked up in the fonts of this machine, which are
//! loaded only then because that takes long.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use ab_glyph_rasterizer::{Point, point};
use fontdb::{Database, FaceInfo, Style};
use harfrust::{Direction, ShapeOptions, ShaperData, UnicodeBuffer};
use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use skrifa::{FontRef, GlyphId, MetadataProvider};
use unicode_bidi::BidiInfo;

/// The font size, in units.
pub(super) const SIZE: f32 = 12.0;

const BUILT_IN: [&[u8]; 2] = [
    epaint_default_fonts::UBUNTU_LIGHT,
    epaint_default_fonts::HACK_REGULAR,
];
/// The OpenType weight of letters that are not bold.
const REGULAR: u16 = 400;
/// The most characters that a warning names.
const NAMED: usize = 10;

/// A part of a letter's outline: a cubic Bézier curve from the first to the last point. Straight
/// lines and quadratic curves are stored as cubic ones, too, so that the canvas draws one kind.
pub(super) type Curve = [Point; 4];

/// A line of text, in units from the left end of its baseline; y counts downwards.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The sum of the letters' advances.
    pub(super) width: f32,
    /// The outline of each letter; empty for a space.
    pub(super) letters: Vec<Vec<Curve>>,
}

/// The fonts of a picture.
pub(super) struct Fonts {
    /// The fonts in use: the built-in ones, then those of this machine that were needed.
    faces: Vec<Face>,
    /// The fonts of this machine, loaded when a character is not in `faces`.
    system: Option<Database>,
    /// Characters that no font has.
    missing: BTreeSet<char>,
}

/// A font: the bytes of a file, and the number of the font in it.
struct Face {
    data: Cow<'static, [u8]>,
    index: u32,
}

impl Face {
    fn font(&self) -> Option<FontRef<'_>> {
        FontRef::from_index(&self.data, self.index).ok()
    }

    fn has(&self, character: char) -> bool {
        self.font().is_some_and(|font| draws(&font, character))
    }
}

impl Fonts {
    pub(super) fn new() -> Self {
        let faces = BUILT_IN
            .map(|data| Face {
                data: Cow::Borrowed(data),
                index: 0,
            })
            .into();
        Self {
            faces,
            system: None,
            missing: BTreeSet::new(),
        }
    }

    /// Sets a text as one line: its parts from left to right, each shaped by the rules of its
    /// script.
    pub(super) fn line(&mut self, text: &str) -> Line {
        let bidi = BidiInfo::new(text, None);
        let mut line = Line::default();
        for paragraph in &bidi.paragraphs {
            let (levels, runs) = bidi.visual_runs(paragraph, paragraph.range.clone());
            for run in runs {
                let is_rtl = levels[run.start].is_rtl();
                let mut parts = self.parts(text, run);
                if is_rtl {
                    parts.reverse();
                }
                for (face, part) in parts {
                    if let Some(font) = self.faces[face].font() {
                        set(&font, &text[part], is_rtl, &mut line);
                    }
                }
            }
        }
        line
    }

    /// Logs a warning about characters that no font has, if there were any.
    pub(super) fn warn(&self) {
        if self.missing.is_empty() {
            return;
        }
        let named: Vec<String> = self
            .missing
            .iter()
            .take(NAMED)
            .map(|character| format!("`{character}`"))
            .collect();
        let rest = self.missing.len() - named.len();
        let others = if rest > 0 {
            format!(" and {rest} more")
        } else {
            String::new()
        };
        tracing::warn!(
            "no font of this machine has {}{others}: they are boxes in the picture; install a font of that script, such as \
             Debian's fonts-noto-core or fonts-noto-cjk, or write .svg or .html",
            named.join(", ")
        );
    }

    /// Cuts a range of the text where the font changes. Returns the index of the font of each part,
    /// and the part as a range of `text`.
    fn parts(&mut self, text: &str, run: Range<usize>) -> Vec<(usize, Range<usize>)> {
        let mut parts: Vec<(usize, Range<usize>)> = Vec::new();
        for (offset, character) in text[run.clone()].char_indices() {
            let start = run.start + offset;
            let end = start + character.len_utf8();
            let before = parts.last().map(|(face, _)| *face);
            let face = self.face_of(character, before);
            match parts.last_mut().filter(|_| before == Some(face)) {
                Some((_, part)) => part.end = end,
                None => parts.push((face, start..end)),
            }
        }
        parts
    }

    /// The index of the font of a character. `before` is the font of the previous character, which
    /// accents and punctuation keep if it has them: an accent must be shaped together with its
    /// letter.
    fn face_of(&mut self, character: char, before: Option<usize>) -> usize {
        if let Some(before) = before {
            // Shaping needs a joiner in its run, but no font needs a glyph for it.
            if is_joiner(character) {
                return before;
            }
            if !character.is_alphanumeric() && self.faces[before].has(character) {
                return before;
            }
        }
        if let Some(face) = self.faces.iter().position(|face| face.has(character)) {
            return face;
        }
        // The search in the machine's fonts reads them from disk: once for each character.
        if !self.missing.contains(&character)
            && let Some(face) = self.find(character)
        {
            self.faces.push(face);
            return self.faces.len() - 1;
        }
        self.missing.insert(character);
        // The first font draws its box for a missing glyph.
        0
    }

    /// The font of this machine that suits a character best: upright, of regular weight, and sans
    /// serif, in this order of importance.
    fn find(&mut self, character: char) -> Option<Face> {
        let system = self.system.get_or_insert_with(|| {
            let mut system = Database::new();
            system.load_system_fonts();
            system
        });
        let mut faces: Vec<&FaceInfo> = system.faces().collect();
        faces.sort_by_cached_key(|face| rank(face));
        for face in faces {
            let copy = system.with_face_data(face.id, |data, index| {
                let font = FontRef::from_index(data, index).ok()?;
                draws(&font, character).then(|| Face {
                    data: Cow::Owned(data.to_vec()),
                    index,
                })
            });
            if let Some(face) = copy.flatten() {
                return Some(face);
            }
        }
        None
    }
}

/// The order in which the machine's fonts are tried. The name decides between equals, so that the
/// choice does not depend on the order of the file system.
fn rank(face: &FaceInfo) -> (bool, u16, bool, String) {
    let is_sans = face.post_script_name.contains("Sans");
    (
        face.style != Style::Normal,
        face.weight.0.abs_diff(REGULAR),
        !is_sans,
        face.post_script_name.clone(),
    )
}

/// Whether a font has an outline for a character.
fn draws(font: &FontRef, character: char) -> bool {
    font.charmap()
        .map(character)
        .is_some_and(|glyph| font.outline_glyphs().get(glyph).is_some())
}

/// Whether a character only joins, separates or selects the forms of those around it: zero-width
/// (non-)joiners, direction marks, variation selectors.
fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}')
}

/// Shapes text of one font and one direction, and appends it to the line.
fn set(font: &FontRef, text: &str, is_rtl: bool, line: &mut Line) {
    let mut buffer = UnicodeBuffer::new();
    buffer.push_str(text);
    buffer.set_direction(if is_rtl {
        Direction::RightToLeft
    } else {
        Direction::LeftToRight
    });
    buffer.guess_segment_properties();
    let data = ShaperData::new(font);
    let shaper = data.shaper(font).build();
    let scale = SIZE / shaper.units_per_em() as f32;
    let glyphs = shaper.shape(buffer, ShapeOptions::new());
    let outlines = font.outline_glyphs();
    for (glyph, position) in glyphs.glyph_infos().iter().zip(glyphs.glyph_positions()) {
        let x = line.width + position.x_offset as f32 * scale;
        let y = -position.y_offset as f32 * scale;
        let mut pen = Pen::new(point(x, y));
        if let Some(outline) = outlines.get(GlyphId::new(glyph.glyph_id)) {
            let settings = DrawSettings::unhinted(Size::new(SIZE), LocationRef::default());
            // A damaged outline is drawn up to the damage.
            let _ = outline.draw(settings, &mut pen);
        }
        line.letters.push(pen.curves);
        line.width += position.x_advance as f32 * scale;
    }
}

/// Collects the curves of an outline. Fonts count y upwards, lines count it downwards.
struct Pen {
    origin: Point,
    /// The point at which the current contour began, and to which it is closed.
    first: Point,
    last: Point,
    curves: Vec<Curve>,
}

impl Pen {
    fn new(origin: Point) -> Self {
        Self {
            origin,
            first: origin,
            last: origin,
            curves: Vec::new(),
        }
    }

    fn at(&self, x: f32, y: f32) -> Point {
        point(self.origin.x + x, self.origin.y - y)
    }

    fn curve(&mut self, near_last: Point, near_end: Point, end: Point) {
        self.curves.push([self.last, near_last, near_end, end]);
        self.last = end;
    }
}

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.first = self.at(x, y);
        self.last = self.first;
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let end = self.at(x, y);
        self.curve(self.last, end, end);
    }

    fn quad_to(&mut self, control_x: f32, control_y: f32, x: f32, y: f32) {
        let control = self.at(control_x, control_y);
        let end = self.at(x, y);
        self.curve(raised(self.last, control), raised(end, control), end);
    }

    fn curve_to(
        &mut self,
        near_last_x: f32,
        near_last_y: f32,
        near_end_x: f32,
        near_end_y: f32,
        x: f32,
        y: f32,
    ) {
        self.curve(
            self.at(near_last_x, near_last_y),
            self.at(near_end_x, near_end_y),
            self.at(x, y),
        );
    }

    fn close(&mut self) {
        if self.last != self.first {
            self.curve(self.last, self.first, self.first);
        }
    }
}

/// The control point of a cubic curve next to `end`, one of the two ends of a quadratic curve with
/// the given control point: two thirds of the way to it.
fn raised(end: Point, control: Point) -> Point {
    point(
        end.x + (control.x - end.x) * 2.0 / 3.0,
        end.y + (control.y - end.y) * 2.0 / 3.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The left edge of each letter.
    fn lefts(line: &Line) -> Vec<f32> {
        let mut lefts = Vec::new();
        for letter in &line.letters {
            let xs = letter.iter().flatten().map(|point| point.x);
            lefts.push(xs.fold(f32::INFINITY, f32::min));
        }
        lefts
    }

    #[test]
    fn letters_follow_each_other_and_do_not_overlap() {
        let line = Fonts::new().line("Vergißmeinnicht");
        assert_eq!(line.letters.len(), 15);
        for (letter, next) in line.letters.iter().zip(&lefts(&line)[1..]) {
            let right = letter
                .iter()
                .flatten()
                .map(|point| point.x)
                .fold(0.0, f32::max);
            assert!(right <= next + 0.5, "{right} reaches into {next}");
        }
        assert!((80.0..100.0).contains(&line.width), "{}", line.width);
    }

    #[test]
    fn signs_come_from_the_fonts_that_have_them() {
        let mut fonts = Fonts::new();
        let line = fonts.line("▁très ⟨E5⟩");
        assert!(
            line.letters
                .iter()
                .filter(|letter| letter.is_empty())
                .count()
                == 1,
            "the space has no outline"
        );
        let faces: Vec<usize> = fonts
            .parts("▁a▁", 0..7)
            .into_iter()
            .map(|(face, _)| face)
            .collect();
        assert_eq!(faces, [1, 0, 1]);
        assert!(fonts.system.is_none() && fonts.missing.is_empty());
    }

    #[test]
    fn what_no_font_has_is_remembered() {
        let mut fonts = Fonts::new();
        // A character that Unicode will never have.
        let line = fonts.line("a\u{10fffe}");
        assert_eq!((line.letters.len(), fonts.missing.len()), (2, 1));
    }

    #[test]
    fn text_from_right_to_left_is_set_from_the_right() {
        let mut fonts = Fonts::new();
        // Letters of Hebrew that no built-in font has are boxes on a machine without fonts, which
        // are set alike.
        let [word, reversed] = ["אב", "בא"].map(|text| fonts.line(text));
        assert_eq!(word.letters.len(), 2);
        assert!((word.width - reversed.width).abs() < 1e-3);
        // A number in it reads from left to right, behind the word, and the sign before the word
        // stands on its right.
        let mixed = fonts.line("▁אב 12");
        let twelve = fonts.line("12");
        assert_eq!(mixed.letters.len(), 6);
        for (found, expected) in lefts(&mixed).iter().zip(lefts(&twelve)) {
            assert!((found - expected).abs() < 1e-3, "{found}, not {expected}");
        }
        let lefts = lefts(&mixed);
        assert!(
            lefts[5] > lefts[4] && lefts[4] > lefts[3],
            "the sign is the last on the right: {lefts:?}"
        );
    }
}
