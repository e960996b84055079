use super::*;

/// A page with each sentence replaced by the translation that `translate` gives of it.
fn replaced(
    page: &str,
    options: Options,
    mut translate: impl FnMut(&str) -> Translation,
) -> String {
    let read = Page::read(page, options);
    let translations: Vec<Translation> = read.sentences().map(&mut translate).collect();
    read.with(&translations)
}

fn in_capitals(page: &str) -> String {
    let capitals = |text: &str| Translation {
        text: text.to_uppercase(),
        links: Vec::new(),
    };
    replaced(
        page,
        Options {
            language: "en",
            attributes: false,
        },
        capitals,
    )
}

fn sentences(page: &str) -> Vec<String> {
    Page::read(
        page,
        Options {
            language: "en",
            attributes: false,
        },
    )
    .sentences()
    .map(str::to_owned)
    .collect()
}

/// The page with this translation of its only sentence.
fn translated(page: &str, text: &str, links: &[(usize, usize)]) -> String {
    replaced(
        page,
        Options {
            language: "en",
            attributes: false,
        },
        |source| Translation {
            text: text.to_owned(),
            links: word_links(source, text, links),
        },
    )
}

#[test]
fn everything_but_text_stays() {
    for (page, expected) in [
        ("a <b>c &amp; d</b><br>e", "A <b>C &amp; D</b><br>E"),
        (
            "<p title=\"stays\">1 &lt; 2 a</p>",
            "<p title=\"stays\">1 &lt; 2 A</p>",
        ),
        (
            "<script>let a = 1;</script>a",
            "<script>let a = 1;</script>A",
        ),
        ("<style>p > a { }</style>a", "<style>p > a { }</style>A"),
        (
            "<!DOCTYPE html>\n<!-- a -->b\u{0}c",
            "<!DOCTYPE html>\n<!-- a -->BC",
        ),
        ("<![CDATA[ a ]]>b", "<![CDATA[ a ]]>B"),
        ("a < b", "A &lt; B"),
        ("a &copy; &nbsp;b&#33;", "A © &nbsp;B!"),
        ("<textarea>a b</textarea> c", "<textarea>a b</textarea> C"),
        (
            "<svg><title>a</title><path d='M0'/></svg> b",
            "<svg><title>a</title><path d='M0'/></svg> B",
        ),
        ("<title>a <b> c</title>", "<title>A &lt;B&gt; C</title>"),
        ("a <p class='x", "A <p class='x"),
        ("<P>a</P><IMG SRC=x>", "<P>A</P><IMG SRC=x>"),
        ("", ""),
    ] {
        assert_eq!(in_capitals(page), expected);
    }
}

#[test]
fn white_space_is_one_space_but_not_in_pre() {
    for (page, expected) in [
        (
            "<p>The small\ndog\r\n\t sleeps.</p>",
            &["The small dog sleeps."][..],
        ),
        ("<p> a <b> b </b> c </p>", &["a b c"]),
        ("a<!-- c -->b <!-- d --> e", &["ab e"]),
        ("a\u{a0} b", &["a\u{a0} b"]),
        ("<pre>a\nb  c</pre>", &["a", "b  c"]),
        ("<p>One.\nTwo.</p>", &["One.", "Two."]),
        ("See <img>.", &["See."]),
    ] {
        assert_eq!(sentences(page), expected, "{page}");
    }
    for (page, expected) in [
        (
            "<ul>\n  <li>\n    a\n  </li>\n</ul>\n",
            "<ul>\n  <li>\n    A\n  </li>\n</ul>\n",
        ),
        (
            "<li>\n <a>\n  No.\n\n  Yes\n </a>\n</li>",
            "<li>\n <a>\n  NO.\n\n  YES\n </a>\n</li>",
        ),
        ("<pre>\n a\n\n  b</pre>", "<pre>\n A\n\n  B</pre>"),
        ("<div>\n<!-- a -->\n</div>", "<div>\n<!-- a -->\n</div>"),
    ] {
        assert_eq!(in_capitals(page), expected);
    }
}

#[test]
fn what_is_not_to_be_translated_ends_where_its_element_does() {
    for (page, expected) in [
        (
            "<p translate=\"no\">a <i>b</i></p>c",
            "<p translate=\"no\">a <i>b</i></p>C",
        ),
        (
            "<ul><li class='x notranslate'>a<li>b</ul>c",
            "<ul><li class='x notranslate'>a<li>B</ul>C",
        ),
        ("<p translate=no>a<p>b", "<p translate=no>a<p>B"),
        (
            "<p translate=no>a<div>b</div>",
            "<p translate=no>a<div>B</div>",
        ),
        (
            "<dl><dt translate=NO>a<dd>b</dl>",
            "<dl><dt translate=NO>a<dd>B</dl>",
        ),
        (
            "<table><tr><td translate=no>a<td>b<tr translate=no><th>c<tr><td>d</table>e",
            "<table><tr><td translate=no>a<td>B<tr translate=no><th>c<tr><td>D</table>E",
        ),
        (
            "<select><option translate=no>a<option>b</select>",
            "<select><option translate=no>a<option>B</select>",
        ),
        (
            "<ul><li translate=no>a<ul><li>b</ul><li>c</ul>",
            "<ul><li translate=no>a<ul><li>b</ul><li>C</ul>",
        ),
        (
            "<div translate=no>a <p translate=yes>b <i>c</i></p> d</div>e",
            "<div translate=no>a <p translate=yes>B <i>C</i></p> d</div>E",
        ),
        (
            "<div translate=no>a <b translate>b</b> c</div>",
            "<div translate=no>a <b translate>B</b> c</div>",
        ),
        (
            "<b translate=no><p>a</b>b</p>",
            "<b translate=no><p>a</b>B</p>",
        ),
        (
            "<img translate=no>a<br translate=no>b",
            "<img translate=no>A<br translate=no>B",
        ),
        (
            "<body class=notranslate>a</body>b",
            "<body class=notranslate>a</body>b",
        ),
    ] {
        assert_eq!(in_capitals(page), expected);
    }
}

#[test]
fn attributes_that_people_read_are_translated_on_request() {
    let page = "<img alt=dog src=a title = 'A \"b\" &amp; c. D.'><p alt='x' translate=no></p><input PlaceHolder=\"e\" value=f>\
                <a aria-label='' title='–'>g</a>";
    let capitals = |text: &str| Translation {
        text: text.to_uppercase(),
        links: Vec::new(),
    };
    let written = replaced(
        page,
        Options {
            language: "en",
            attributes: true,
        },
        capitals,
    );
    let expected = "<img alt=\"DOG\" src=a title = \"A &quot;B&quot; &amp; C. D.\"><p alt='x' translate=no></p>\
                    <input PlaceHolder=\"E\" value=f><a aria-label='' title='–'>G</a>";
    assert_eq!(written, expected);
    assert_eq!(in_capitals("<img alt=dog>"), "<img alt=dog>");
    let page = "<textarea placeholder=a>b</textarea> c <svg aria-label='d'><text>e</text></svg> f";
    let written = replaced(
        page,
        Options {
            language: "en",
            attributes: true,
        },
        capitals,
    );
    let expected =
        "<textarea placeholder=\"A\">b</textarea> C <svg aria-label=\"D\"><text>e</text></svg> F";
    assert_eq!(written, expected);
}

#[test]
fn inline_tags_follow_their_words() {
    let straight: Vec<(usize, usize)> = (0..9).map(|word| (word, word)).collect();
    for (page, text, links, expected) in [
        (
            "The small <b>dog</b> sleeps.",
            "Der kleine Hund schläft.",
            &straight[..],
            "Der kleine <b>Hund</b> schläft.",
        ),
        // The order of words changes, and that of siblings with it.
        (
            "<i>Yesterday</i> I <b>slept</b>.",
            "Geschlafen habe ich gestern.",
            &[(2, 0), (2, 1), (1, 2), (0, 3)],
            "<b>Geschlafen habe</b> ich <i>gestern</i>.",
        ),
        // Punctuation stays where the sentence has it.
        ("A <b>dog</b>.", "Ein Hund.", &straight, "Ein <b>Hund</b>."),
        ("A <b>dog.</b>", "Ein Hund.", &straight, "Ein <b>Hund.</b>"),
        (
            "“<b>Dog</b>”, he said",
            "„Hund“, sagte er",
            &straight,
            "„<b>Hund</b>“, sagte er",
        ),
        // The whole sentence.
        ("<b>The dog.</b>", "Der Hund.", &[], "<b>Der Hund.</b>"),
        // Inside each other.
        (
            "<a>The <b>dog</b></a> sleeps",
            "Der Hund schläft",
            &straight,
            "<a>Der <b>Hund</b></a> schläft",
        ),
        (
            "<a><b>The</b> dog</a> sleeps",
            "Schläft der Hund",
            &[(2, 0), (0, 1), (1, 2)],
            "Schläft <a><b>der</b> Hund</a>",
        ),
        // A phrase in two parts gets one stretch.
        (
            "He <b>gave up</b> now",
            "Er gab jetzt auf",
            &[(0, 0), (1, 1), (3, 2), (2, 3)],
            "Er <b>gab</b> jetzt auf",
        ),
        // A word that nothing is translated from gets the nearest that is free.
        (
            "The <b>small</b> dog",
            "Der Hund hier",
            &[(0, 0), (2, 1)],
            "Der Hund <b>hier</b>",
        ),
        // Elements without text of their own.
        ("See <img> here", "Sieh hier", &straight, "Sieh <img> hier"),
        ("A dog<img>.", "Ein Hund.", &straight, "Ein Hund<img>."),
        (
            "Press <kbd>A</kbd> now",
            "Jetzt drücken",
            &[(1, 0), (0, 1)],
            "<kbd>A</kbd> Jetzt drücken",
        ),
        ("A <b></b> dog", "Ein Hund", &straight, "Ein <b></b>Hund"),
        (
            "long<wbr>word",
            "langes Wort",
            &[(0, 0), (0, 1)],
            "langes Wort<wbr>",
        ),
        // Without links by relative position.
        (
            "The small <b>dog</b> sleeps.",
            "Der kleine Hund schläft.",
            &[],
            "Der kleine <b>Hund</b> schläft.",
        ),
        ("<b>a</b> b", "", &[], "<b></b>"),
        // Parts of words.
        (
            "un<b>believ</b>able",
            "unglaublich",
            &straight,
            "<b>unglaublich</b>",
        ),
    ] {
        assert_eq!(translated(page, text, links), expected, "{page}");
    }
}

#[test]
fn elements_of_several_sentences_hold_as_much_of_each() {
    let straight: Vec<(usize, usize)> = (0..9).map(|word| (word, word)).collect();
    let same = |text: &str| Translation {
        text: text.to_uppercase(),
        links: word_links(text, text, &straight),
    };
    for (page, expected) in [
        ("One <b>two. Three</b> four.", "ONE <b>TWO. THREE</b> FOUR."),
        (
            "<b>One. Two</b> <i>three.</i>",
            "<b>ONE. TWO</b> <i>THREE.</i>",
        ),
        (
            "<i>One</i> <b>two. Three. <u>Four</u></b> five.",
            "<i>ONE</i> <b>TWO. THREE. <u>FOUR</u></b> FIVE.",
        ),
        (
            "<a>One <b>two. Three</b> four</a> five.",
            "<a>ONE <b>TWO. THREE</b> FOUR</a> FIVE.",
        ),
    ] {
        assert_eq!(
            replaced(
                page,
                Options {
                    language: "en",
                    attributes: false
                },
                same
            ),
            expected
        );
    }
}

#[test]
fn tags_that_do_not_belong_together_stay_between_sentences() {
    for (page, expected) in [
        ("a</b>b<i>c", "A</b>B<i>C"),
        ("<b>a<i>b</b>c</i>d", "<b>A<i>B</b>C</i>D"),
        (
            "a <a href=x><div>b</div></a> c",
            "A <a href=x><div>B</div></a> C",
        ),
    ] {
        assert_eq!(in_capitals(page), expected);
    }
}

#[test]
fn formatting_elements_continue_from_block_to_block_until_their_end_tag() {
    // The texts that are shown together, and where the formatting ends, are those of html5lib 1.1.
    for (page, texts, expected) in [
        (
            "<p><b>one</p><p>two</b> three</p>",
            &["one", "two three"][..],
            "<p><b>ONE</p><p>TWO</b> THREE</p>",
        ),
        (
            "<p>zero <b>one</p>\n<p>two</b> three</p>",
            &["zero one", "two three"],
            "<p>ZERO <b>ONE</p>\n<p>TWO</b> THREE</p>",
        ),
        (
            "<p><b>a <i>b</p><p>c</b> d</i> e</p>",
            &["a b", "c d e"],
            "<p><b>A <i>B</p><p>C</b> D</i> E</p>",
        ),
        ("<b>a<p>b</b> c</p>", &["a", "b c"], "<b>A<p>B</b> C</p>"),
        (
            "<b>a <p>b <i>c</i></b> d</p>e",
            &["a", "b c d", "e"],
            "<b>A <p>B <i>C</i></b> D</p>E",
        ),
        (
            "<ul><li><b>a<li>b</b> c</ul>",
            &["a", "b c"],
            "<ul><li><b>A<li>B</b> C</ul>",
        ),
        (
            "<p><b>a</p><div>b <p>c</b> d</p></div>",
            &["a", "b", "c d"],
            "<p><b>A</p><div>B <p>C</b> D</p></div>",
        ),
        (
            "<p><u>a</p><ul><li>b</li><li>c</u> d</li></ul>",
            &["a", "b", "c d"],
            "<p><u>A</p><ul><li>B</li><li>C</u> D</li></ul>",
        ),
        (
            "<p><font color=red>a</p><h1>b</font> c</h1>",
            &["a", "b c"],
            "<p><font color=red>A</p><h1>B</font> C</h1>",
        ),
        (
            "<p><b>one</p>mid<p>two</b> three</p>",
            &["one", "mid", "two three"],
            "<p><b>ONE</p>MID<p>TWO</b> THREE</p>",
        ),
        // Formatting does not continue out of a table's cell.
        (
            "<table><tr><td><b>a<td>b</table> c",
            &["a", "b", "c"],
            "<table><tr><td><b>A<td>B</table> C",
        ),
        // The `translate` of its tag holds in the next block, too.
        (
            "<p><b translate=no>a</p><p>b</b> c</p>",
            &["c"],
            "<p><b translate=no>a</p><p>b</b> C</p>",
        ),
    ] {
        assert_eq!(sentences(page), texts, "{page}");
        assert_eq!(in_capitals(page), expected);
    }
    // The end tag follows its words.
    let written = replaced(
        "<p><b>one</p><p>two</b> three four</p>",
        Options::default(),
        |source| Translation {
            text: if source == "one" {
                "eins"
            } else {
                "vier drei zwei"
            }
            .to_owned(),
            links: word_links(
                "two three four",
                "vier drei zwei",
                &[(2, 0), (1, 1), (0, 2)],
            ),
        },
    );
    assert_eq!(written, "<p><b>eins</p><p>vier drei zwei</b></p>");
}

/// Pseudorandom numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// A translation of any words, with any links.
    fn translation(&mut self, source: &str) -> Translation {
        let words = [
            "",
            " ",
            "Hund",
            "schläft.",
            "„A“",
            "我来了。",
            "<",
            "&",
            "-",
        ];
        let text: Vec<&str> = (0..self.below(6))
            .map(|_| words[self.below(words.len())])
            .collect();
        let text = text.join(" ");
        let links: Vec<(usize, usize)> = (0..self.below(8))
            .map(|_| (self.below(5), self.below(5)))
            .collect();
        Translation {
            links: word_links(source, &text, &links),
            text,
        }
    }
}

fn sorted(page: &str) -> Vec<&str> {
    let mut tags = tags(page);
    tags.sort_unstable();
    tags
}

#[test]
fn every_tag_is_there_once_whatever_the_page() {
    let tokens = [
        "<b>",
        "</b>",
        "<i x='>'>",
        "</i>",
        "<p>",
        "</p>",
        "<li>",
        "<img alt=a>",
        "<br>",
        "<wbr>",
        "<a title=\"a b\">",
        "</a>",
        "<div>",
        "</div>",
        "<span translate=no>",
        "<code>",
        "</code>",
        "</span>",
        "<svg>",
        "<x/>",
        "</svg>",
        "<script>",
        "</script>",
        "<title>",
        "</title>",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<!-- c -->",
        "<pre>",
        "</pre>",
        "<!",
        "<",
        ">",
        "</",
        "a",
        "b. C",
        " ",
        "\n",
        "Hello world",
        "&amp;",
        "&",
        "。",
        "é",
        "😆",
        "- ",
        "<select>",
        "<option>",
        "<h1>",
        "<p translate=yes>",
    ];
    let mut random = Random(1);
    for round in 0..20_000 {
        let page: String = (0..random.below(24))
            .map(|_| tokens[random.below(tokens.len())])
            .collect();
        let read = Page::read(
            &page,
            Options {
                language: "en",
                attributes: round % 2 == 0,
            },
        );
        let translations: Vec<Translation> = read
            .sentences()
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .iter()
            .map(|text| random.translation(text))
            .collect();
        let written = read.with(&translations);
        if round % 2 == 1 {
            assert_eq!(
                sorted(&written),
                sorted(&page),
                "{page:?} became {written:?}"
            );
        } else {
            assert_eq!(
                tags(&written).len(),
                tags(&page).len(),
                "{page:?} became {written:?}"
            );
        }
    }
}

/// Adds elements inside each other, each of which is closed.
fn grow(random: &mut Random, page: &mut String, depth: usize) {
    for _ in 0..random.below(5) {
        match random.below(4) {
            0 if depth < 4 => {
                let name = ["b", "i", "a", "span", "em"][random.below(5)];
                page.extend(["<", name, ">"]);
                grow(random, page, depth + 1);
                page.extend(["</", name, ">"]);
            }
            1 => page.push_str(["<img>", "<!-- c -->", "<code>x</code>"][random.below(3)]),
            2 => page.push_str(["The", "dog", "sleeps.", "Two", "x"][random.below(5)]),
            _ => page.push(' '),
        }
    }
}

/// The names of the elements around each tag, and its own, where all elements are closed in order.
fn paths(page: &str) -> Option<Vec<String>> {
    let (mut open, mut paths): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    for tag in tags(page) {
        let name = tag.trim_matches(['<', '>']);
        if let Some(name) = name.strip_prefix('/') {
            if open.pop() != Some(name) {
                return None;
            }
        } else {
            paths.push(format!("{} {name}", open.join(" ")));
            if name != "img" {
                open.push(name);
            }
        }
    }
    paths.sort_unstable();
    open.is_empty().then_some(paths)
}

#[test]
fn elements_stay_inside_each_other_as_they_were() {
    let mut random = Random(2);
    for _ in 0..20_000 {
        let mut page = String::new();
        grow(&mut random, &mut page, 0);
        // An `a` inside an `a` ends it, so that the page is not what it looks like.
        if page.matches("<a>").count() > 1 {
            continue;
        }
        let written = replaced(
            &page,
            Options {
                language: "en",
                attributes: false,
            },
            |source| random.translation(source),
        );
        let before = paths(&page).expect("it was made so");
        assert_eq!(paths(&written), Some(before), "{page:?} became {written:?}");
    }
}

#[test]
fn an_untranslated_element_touches_no_word_that_it_did_not_touch() {
    for (page, text, links, expected) in [
        // The comma after the element has moved.
        (
            "With <code>ls</code>, the list is short.",
            "Mit der Liste, ist kurz.",
            &[(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)][..],
            "Mit <code>ls</code> der Liste, ist kurz.",
        ),
        (
            "The out-<code>x</code> thing",
            "Das Ding aus",
            &[(0, 0), (1, 2), (2, 1)],
            "Das Ding aus <code>x</code>",
        ),
        // What touched a word still may.
        (
            "The super<wbr>man sleeps.",
            "Der Supermann schläft.",
            &[(0, 0), (1, 1), (2, 2)],
            "Der Supermann<wbr> schläft.",
        ),
        // No space comes before a script without spaces.
        (
            "See <code>ls</code>, please.",
            "请看",
            &[(0, 0), (1, 0)],
            "<code>ls</code>请看",
        ),
    ] {
        assert_eq!(translated(page, text, links), expected, "{page}");
    }
}

#[test]
fn a_page_that_is_translated_to_itself_is_the_same() {
    let page = "<!DOCTYPE html>\n<html><head><title>A dog</title></head>\n<body>\n<h1>The <em>small</em> dog</h1>\n\
                <p>It <b>sleeps <i>well</i></b>, and <a href=\"x?a=1&amp;b=2\">dreams</a>. Good! <img src=a> See <code>ls</code> now.</p>\n\
                <ul>\n <li>One\n <li>Two <br> Three\n</ul>\n<pre>  a\n b </pre></body></html>\n";
    let all: Vec<(usize, usize)> = (0..30).map(|word| (word, word)).collect();
    let same = |text: &str| Translation {
        text: text.to_owned(),
        links: word_links(text, text, &all),
    };
    assert_eq!(
        replaced(
            page,
            Options {
                language: "en",
                attributes: true
            },
            same
        ),
        page
    );
}

#[test]
fn the_time_for_a_large_page_is_not_quadratic() {
    for page in [
        "<b>x</b> ".repeat(20_000),
        "<b>".repeat(50_000) + &"</i>".repeat(50_000),
        "<p><i>".repeat(30_000),
        "<b>x ".repeat(30_000) + &"</b>".repeat(30_000),
    ] {
        let started = std::time::Instant::now();
        let written = in_capitals(&page);
        assert_eq!(tags(&written).len(), tags(&page).len());
        assert!(
            started.elapsed().as_secs() < 20,
            "{}: {:?}",
            &page[..20],
            started.elapsed()
        );
    }
}

/// Checks the time for a sentence of 20 000 elements or points whose translation has this number of
/// words. Without links they are linked by relative position.
fn check_time_of_tags(
    name: &str,
    tag: &str,
    num_words: usize,
    links: impl Fn(usize) -> Option<usize>,
) {
    let page = tag.repeat(20_000);
    let read = Page::read(
        &page,
        Options {
            language: "en",
            attributes: false,
        },
    );
    let source: String = read.sentences().collect();
    assert_eq!(read.sentences().count(), 1, "{name}");
    let text = "x ".repeat(num_words).trim().to_owned();
    let links: Vec<(usize, usize)> = (0..num_words)
        .filter_map(|word| Some((links(word)?, word)))
        .collect();
    let translation = Translation {
        links: word_links(&source, &text, &links),
        text,
    };
    let started = std::time::Instant::now();
    let written = read.with(&[translation]);
    assert!(
        started.elapsed().as_millis() < 2_000,
        "{name}: {:?}",
        started.elapsed()
    );
    assert_eq!(sorted(&written), sorted(&page), "{name}");
}

#[test]
fn the_time_for_thousands_of_tags_in_one_sentence_is_not_quadratic() {
    let none = |_| None;
    check_time_of_tags("an element a word", "<b>a</b> ", 20_000, none);
    check_time_of_tags("fewer words than elements", "<b>a</b> ", 10_000, none);
    check_time_of_tags("few words", "<b>a</b> ", 3, none);
    check_time_of_tags("points", "a <wbr>", 20_000, none);
    check_time_of_tags("parts of one word", "<b>a</b>", 20_000, none);
    check_time_of_tags("linked with one word", "<b>a</b> ", 20_000, |_| Some(9_999));
    check_time_of_tags("elements over each other", "<b>a</b> ", 20_000, |word| {
        Some(word * 7 % 10_000)
    });
    check_time_of_tags("every second word", "<b>a</b> a ", 20_000, |word| {
        Some(word / 2 * 2 + 1)
    });
}

#[test]
fn sentences_without_a_space_between_have_one_where_the_target_has() {
    let translate = |text: &str| {
        let text = match text {
            "你好。" => "Hello.",
            "再见。" => "Bye.",
            "我来了。" => "",
            other => other,
        };
        Translation {
            text: text.to_owned(),
            links: Vec::new(),
        }
    };
    for (page, expected) in [
        ("你好。再见。", "Hello. Bye."),
        ("<p>你好。再见。</p>", "<p>Hello. Bye.</p>"),
        ("你好。<b>再见。</b>", "Hello. <b>Bye.</b>"),
        ("<b>你好。</b>再见。", "<b>Hello.</b> Bye."),
        ("<i>你好。</i><b>再见。</b>", "<i>Hello.</i> <b>Bye.</b>"),
        ("<b>你好。再见。</b>", "<b>Hello. Bye.</b>"),
        ("你好。<img>再见。", "Hello. <img>Bye."),
        // A sentence without a translation is no reason for two spaces, or for none.
        ("你好。我来了。再见。", "Hello. Bye."),
        ("我来了。再见。", "Bye."),
        ("你好。我来了。", "Hello."),
        // What is between stays as it is.
        ("你好。 再见。", "Hello. Bye."),
        ("你好。😆再见。", "Hello.😆Bye."),
        ("<p>你好。</p><p>再见。</p>", "<p>Hello.</p><p>Bye.</p>"),
        ("你好。<br>再见。", "Hello.<br>Bye."),
        // Between scripts without spaces there is none.
        ("こんにちは。さようなら。", "こんにちは。さようなら。"),
        ("<img alt='你好。再见。'>", "<img alt=\"Hello. Bye.\">"),
    ] {
        assert_eq!(
            replaced(
                page,
                Options {
                    language: "zh",
                    attributes: true
                },
                translate
            ),
            expected,
            "{page}"
        );
    }
}
