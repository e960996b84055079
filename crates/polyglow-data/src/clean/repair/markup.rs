//! Tags and entities of HTML.

use std::borrow::Cow;

use crate::script::is_unspaced;

/// The elements whose tags are removed. Others, such as `<f>` and `<i2>`, may be tokens of the
/// corpus's own.
const ELEMENTS: [&str; 46] = [
    "a",
    "abbr",
    "b",
    "big",
    "blockquote",
    "br",
    "center",
    "code",
    "div",
    "em",
    "font",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "img",
    "li",
    "ol",
    "p",
    "pre",
    "q",
    "s",
    "script",
    "small",
    "span",
    "strike",
    "strong",
    "style",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "tt",
    "u",
    "ul",
    "body",
    "html",
    "head",
];
/// The attributes of these elements that have no value.
const WITHOUT_VALUE: [&str; 7] = [
    "async", "compact", "defer", "hidden", "noshade", "nowrap", "reversed",
];
/// The longest tag that is looked for, in bytes: `<` without an end does not search a whole book.
const LONGEST_TAG: usize = 2000;
/// The longest entity, in bytes without `&` and `;`.
const LONGEST_ENTITY: usize = 9;

/// Returns a text without tags, and with entities decoded; borrowed if it has none.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let without_tags = without_tags(text);
    if !has_entity(&without_tags) {
        return without_tags;
    }
    // Text that was escaped twice has `&amp;amp;` for `&`.
    let once = html_escape::decode_html_entities(&without_tags).into_owned();
    let twice = html_escape::decode_html_entities(&once).into_owned();
    Cow::Owned(twice)
}

fn without_tags(text: &str) -> Cow<'_, str> {
    let mut output = String::new();
    let mut copied = 0;
    for (start, _) in text.match_indices('<') {
        let Some(len) = tag_len(&text[start..]).filter(|_| start >= copied) else {
            continue;
        };
        output.push_str(&text[copied..start]);
        copied = start + len;
        // A tag separates words, but for scripts that have no blanks between them.
        let is_inside = |next: Option<char>| next.is_some_and(is_unspaced);
        let before = output.chars().next_back();
        let behind = text[copied..].chars().find(|&next| next != '<');
        if !(is_inside(before) || is_inside(behind)) {
            output.push(' ');
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    output.push_str(&text[copied..]);
    Cow::Owned(output)
}

/// Returns the length of the tag with which a text begins.
fn tag_len(text: &str) -> Option<usize> {
    let mut limit = text.len().min(LONGEST_TAG);
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    let end = text[..limit].find('>')?;
    let inside = &text[1..end];
    if inside.contains('<') {
        return None;
    }
    let name = inside.strip_prefix('/').unwrap_or(inside);
    let name = name.strip_suffix('/').unwrap_or(name);
    // `a < b and c > d` has a blank behind the sign.
    let (name, attributes) = match name.split_once(|next: char| next.is_ascii_whitespace()) {
        Some((name, attributes)) => (name, attributes.trim()),
        None => (name, ""),
    };
    let is_known = ELEMENTS
        .iter()
        .any(|element| element.eq_ignore_ascii_case(name));
    // `a<b and c>d` has none.
    let is_tag = is_known && (attributes.is_empty() || begin_with_attribute(attributes));
    is_tag.then_some(end + 1)
}

/// Returns whether the text behind the name of an element begins with an attribute: a name with a
/// value, or one that has none.
fn begin_with_attribute(text: &str) -> bool {
    let is_in_name = |next: char| next.is_ascii_alphanumeric() || "-_:".contains(next);
    let end = text.find(|next| !is_in_name(next)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let has_value = !name.is_empty() && rest.trim_start().starts_with('=');
    has_value
        || WITHOUT_VALUE
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns whether a text has an entity: `&name;`, `&#39;` or `&#x27;`.
fn has_entity(text: &str) -> bool {
    text.match_indices('&').any(|(start, _)| {
        let rest = &text.as_bytes()[start + 1..];
        let Some(len) = rest
            .iter()
            .take(LONGEST_ENTITY)
            .position(|&byte| byte == b';')
        else {
            return false;
        };
        let name = &rest[..len];
        match name.strip_prefix(b"#") {
            Some(number) => {
                let digits = number.strip_prefix(b"x").unwrap_or(number);
                !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit)
            }
            None => name.len() >= 2 && name.iter().all(u8::is_ascii_alphanumeric),
        }
    })
}
