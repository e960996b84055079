//! The kinds of elements, and which tags end which: the rules of HTML's tree construction that
//! matter for sentences.

/// Elements without content and end tag.
const VOID: &str = "area base basefont bgsound br col embed frame hr img input keygen link meta param source \
    track wbr";

/// Elements that end a sentence: those that begin a line, table cells, and those with a box of
/// their own. All others, also unknown ones, are inline.
const BLOCKS: &str = "address applet article aside audio base basefont bgsound blockquote body br button canvas \
    caption center col colgroup datalist dd details dialog dir div dl dt fieldset figcaption \
    figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend \
    li link listing main marquee menu meta nav noembed noframes noscript object ol optgroup \
    option p plaintext pre rb rp rt rtc ruby search section select summary table tbody td \
    template tfoot th thead title tr ul video xmp";

/// Elements whose start tag ends an open `p`.
const END_PARAGRAPHS: &str = "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption \
    figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p \
    plaintext pre search section summary table ul xmp";

/// Formatting elements. Their end tag may come inside a block that began in them, and where the end
/// of a block ends them, they are opened again in the next block.
const FORMATTING: &str = "a b big code em font i nobr s small strike strong tt u";

/// Elements that no end tag inside ends anything outside of.
const SCOPES: &str = "applet caption html marquee math object svg table td template th";

/// Elements whose formatting elements are not opened again outside, nor those from outside in them.
const FORMATTING_SCOPES: &str = "applet caption marquee object td template th";

/// Elements in which formatting elements are not opened again.
const WITHOUT_FORMATTING: &str = "colgroup head html iframe noembed noframes optgroup option script select style table \
    tbody textarea tfoot thead title tr xmp";

/// Elements whose text is never prose, or is read by programs.
const UNTRANSLATED: &str =
    "code iframe kbd math noembed noframes plaintext samp script style svg textarea var xmp";

/// Elements whose content is no text of the page, whatever their attributes say.
const OPAQUE: &str = "iframe noembed noframes plaintext script style xmp";

/// Elements that do not end an open `head`.
const IN_HEAD: &str =
    "base basefont bgsound link meta noframes noscript script style template title";

/// Headings: a heading ends one before that is not ended.
const HEADINGS: &str = "h1 h2 h3 h4 h5 h6";

/// Parts of a table.
const TABLE_PARTS: &str = "caption colgroup tbody td tfoot th thead tr";

/// Returns whether a name is in a list of names, which are divided by spaces.
fn has(names: &str, name: &str) -> bool {
    names.split_ascii_whitespace().any(|listed| listed == name)
}

/// Returns whether an element has neither content nor an end tag.
pub(super) fn is_void(name: &str) -> bool {
    has(VOID, name)
}

/// Returns whether an element may be inside a sentence.
pub(super) fn is_inline(name: &str) -> bool {
    !has(BLOCKS, name)
}

/// Returns whether an element is opened again in the blocks after the one that it begins in.
pub(super) fn is_formatting(name: &str) -> bool {
    has(FORMATTING, name)
}

/// Returns whether formatting elements end at the edges of an element.
pub(super) fn is_scope_of_formatting(name: &str) -> bool {
    has(FORMATTING_SCOPES, name)
}

/// Returns whether formatting elements that a block ended are opened again in an element.
pub(super) fn takes_formatting(name: &str) -> bool {
    !has(WITHOUT_FORMATTING, name)
}

/// Returns whether the text of an element is not translated unless its tag says so.
pub(super) fn is_untranslated(name: &str) -> bool {
    has(UNTRANSLATED, name)
}

/// Returns whether the content of an element is never translated.
pub(super) fn is_opaque(name: &str) -> bool {
    has(OPAQUE, name)
}

/// Returns whether white space in the element is shown as it is.
pub(super) fn is_preformatted(name: &str) -> bool {
    matches!(name, "listing" | "pre" | "textarea")
}

/// Returns whether the content of an element follows the rules of XML.
pub(super) fn is_foreign(name: &str) -> bool {
    matches!(name, "math" | "svg")
}

/// Returns how many of the open elements, listed from the outermost, stay open at a start tag.
pub(super) fn open_after_start(name: &str, open: &[&str]) -> usize {
    let mut rest = open.len();
    // `head` may lack its end tag: it ends at the first element that it cannot contain.
    if open.last() == Some(&"head") && !has(IN_HEAD, name) {
        rest -= 1;
    }
    if has(END_PARAGRAPHS, name) {
        rest = without(&open[..rest], "p", |open| {
            has(SCOPES, open) || open == "button"
        });
    }
    if has(HEADINGS, name) && rest > 0 && has(HEADINGS, open[rest - 1]) {
        rest -= 1;
    }
    let open = &open[..rest];
    match name {
        "li" => without(open, "li", ends_search_for_items),
        "dd" | "dt" => without(open, "dd dt", ends_search_for_items),
        "option" => without(open, "option", |open| {
            has(SCOPES, open) || matches!(open, "select" | "datalist")
        }),
        "optgroup" => without_all(open, "option optgroup", "select"),
        "td" | "th" => without_all(without_part(open), "td th", "tr"),
        "tr" => without_all(open, "caption colgroup td th tr", "table"),
        "caption" | "colgroup" | "tbody" | "tfoot" | "thead" => {
            without_all(open, TABLE_PARTS, "table")
        }
        "rb" | "rp" | "rt" | "rtc" => without_all(open, "rb rp rt", "ruby"),
        "button" | "a" | "nobr" => without(open, name, |open| has(SCOPES, open)),
        "body" => without_all(open, "head", "html"),
        _ => rest,
    }
}

/// Returns the index of the open element that an end tag ends; `None` if it ends none.
pub(super) fn ended_by(name: &str, open: &[&str]) -> Option<usize> {
    let is_heading = has(HEADINGS, name);
    // First whether it is open at all, which is quick: in a page with many stray end tags most are
    // not.
    let innermost = open
        .iter()
        .rposition(|open| *open == name || is_heading && has(HEADINGS, open))?;
    let is_in_reach = !open[innermost + 1..]
        .iter()
        .any(|open| stops_end_tag(name, open));
    is_in_reach.then_some(innermost)
}

/// Returns whether an open element prevents an end tag inside it from ending an element outside.
fn stops_end_tag(name: &str, open: &str) -> bool {
    match name {
        "table" => open == "template",
        _ if has(TABLE_PARTS, name) => matches!(open, "table" | "template"),
        _ if is_foreign(name) => false,
        "li" => has(SCOPES, open) || matches!(open, "ol" | "ul"),
        "p" => has(SCOPES, open) || open == "button",
        _ if is_inline(name) && !is_formatting(name) => !is_inline(open) || has(SCOPES, open),
        _ => has(SCOPES, open),
    }
}

/// Returns whether the search for an open item of a list stops at an element: it passes inline
/// elements, `div`, `address` and `p`.
fn ends_search_for_items(open: &str) -> bool {
    has(SCOPES, open) || !is_inline(open) && !matches!(open, "address" | "div" | "p")
}

/// Returns how many elements stay open if the innermost one with one of these names is ended, with
/// everything in it. It is ended only if no element inside it stops the search.
fn without(open: &[&str], names: &str, stops: impl Fn(&str) -> bool) -> usize {
    let Some(innermost) = open.iter().rposition(|open| has(names, open)) else {
        return open.len();
    };
    let is_in_reach = !open[innermost + 1..].iter().any(|open| stops(open));
    if is_in_reach { innermost } else { open.len() }
}

/// Returns how many elements stay open if all with these names inside the innermost `root` are
/// ended.
fn without_all(open: &[&str], names: &str, root: &str) -> usize {
    let from = open
        .iter()
        .rposition(|open| *open == root || *open == "table")
        .map_or(0, |index| index + 1);
    let ended = open[from..].iter().position(|open| has(names, open));
    ended.map_or(open.len(), |ended| from + ended)
}

/// Returns the open elements without a caption or a group of columns of the innermost table.
fn without_part<'o, 'n>(open: &'o [&'n str]) -> &'o [&'n str] {
    &open[..without_all(open, "caption colgroup", "table")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_tags_end_what_html_lets_be_unclosed() {
        for (name, open, expected) in [
            ("li", "ul li b", "ul"),
            ("li", "ul li ul", "ul li ul"),
            ("p", "div p i", "div"),
            ("p", "p button", "p button"),
            ("div", "p span", ""),
            ("td", "table tr td p b", "table tr"),
            ("td", "table tr td table tr", "table tr td table tr"),
            ("tr", "table tbody tr th", "table tbody"),
            ("tbody", "table thead tr td", "table"),
            ("dd", "dl dt", "dl"),
            ("option", "select option", "select"),
            ("optgroup", "select optgroup option", "select"),
            ("h2", "div h1", "div"),
            ("body", "html head title", "html"),
            ("div", "html head", "html"),
            ("title", "html head", "html head"),
            ("span", "p", "p"),
        ] {
            let open: Vec<&str> = open.split_whitespace().collect();
            let still_open = open[..open_after_start(name, &open)].join(" ");
            assert_eq!(still_open, expected, "{name} in {open:?}");
        }
    }

    #[test]
    fn end_tags_end_what_is_in_reach() {
        for (name, open, ended) in [
            ("b", "p b i", Some(1)),
            ("b", "b p", Some(0)),
            ("span", "span p", None),
            ("div", "div p b", Some(0)),
            ("p", "table tr td", None),
            ("li", "li ul", None),
            ("table", "table tr td p", Some(0)),
            ("b", "b table tr td", None),
            ("h2", "div h1 i", Some(1)),
        ] {
            let open: Vec<&str> = open.split_whitespace().collect();
            assert_eq!(ended_by(name, &open), ended, "</{name}> in {open:?}");
        }
    }
}
