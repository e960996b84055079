#!/usr/bin/env python3
"""Whether the pages do what they say, in Chromium: of `polyglow serve`, of `polyglow export --to web`, and those of the book that
are alive.

    pip install playwright
    python scripts/check_pages.py served target/release/polyglow runs/my
    python scripts/check_pages.py alone page/
    python scripts/check_pages.py book target/site

The first two are one page: a sentence is typed and translated, a word is clicked and shows what it looked at, another word is chosen, all
with the keyboard too; whoever cannot see it is told; on a phone's width nothing is wider than the screen; nothing comes from
elsewhere. `alone` is served as files, twice, and both must go on when the server is gone; it fails if the model is not ready after
`--most-ready` seconds. `--pictures DIR` keeps what it looked like, in light and dark.
"""

import argparse
import contextlib
import functools
import http.server
import pathlib
import re
import tempfile
import threading
import time

from playwright.sync_api import expect, sync_playwright

from serving import free_port, running


class Files(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm", ".js": "text/javascript"}

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def files(folder):
    """A server of a folder; ends when it is told to, or at the end."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def end():
        server.shutdown()
        server.server_close()

    try:
        yield f"http://localhost:{server.server_port}/", end
    finally:
        end()


def translate(page, sentence):
    """Types a sentence; its translation."""
    output = page.locator("#output")
    page.locator("#input").fill("")
    expect(output).to_be_empty()
    page.locator("#input").fill(sentence)
    expect(output).not_to_be_empty(timeout=20_000)
    return output.inner_text()


def tab_to(page, selector):
    """Presses Tab until the focus is on what the selector finds."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not come to {selector}")


def check_words(page):
    """One of the words is where Tab stops, and arrow keys go on from it, in the direction in which they are read."""
    output, words = page.locator("#output"), page.locator("#output button")
    page.locator("#input").focus()
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.locator("#output button:focus").count() == 0, "a second Tab stops at another word"
    for key, place in (("Home", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowLeft", 0), ("End", words.count() - 1)):
        if key == "Home":
            page.locator("#input").focus()
            tab_to(page, "#output button")
        page.keyboard.press(key)
        expect(words.nth(place)).to_be_focused()
    assert not output.evaluate("box => box.matches(':dir(rtl)')")
    words.evaluate_all("buttons => buttons.forEach(button => button.textContent = 'مرحبا')")
    assert output.evaluate("box => box.matches(':dir(rtl)')"), "Arabic is not written from the right"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    expect(words.nth(1)).to_be_focused()


def use(page, sentence, pictures, name):
    """Everything that the page can do."""
    started = time.perf_counter()
    first = translate(page, sentence)
    print(f"{name}: `{sentence}` -> `{first}`, {time.perf_counter() - started:.1f} s after it was typed")
    told = page.locator("#told")
    expect(told).to_have_text(first)
    source, target = (page.locator(f"#{id}").input_value() for id in ("source", "target"))
    for id, language in (("input", source), ("output", target), ("looked", source), ("others", target)):
        expect(page.locator(f"#{id}")).to_have_attribute("lang", language)
    words = page.locator("#output button")
    assert words.count() == len(first.split()), f"{words.count()} buttons for `{first}`"
    words.nth(1).click()
    expect(page.locator("#word")).to_be_visible()
    expect(page.locator("#looked span")).to_have_count(len(sentence.split()))
    strongest = page.locator("#looked span").evaluate_all("spans => spans.map(span => parseFloat(span.title))")
    assert 0 < sum(strongest) <= 101 and max(strongest) > 10, strongest
    largest = re.fullmatch(r"\S+ (\d+) %", page.locator("#shares").inner_text().split(", ")[0])
    assert largest and int(largest[1]) == max(strongest), f"{page.locator('#shares').inner_text()}, not {strongest}"
    other = page.locator("#others button")
    expect(other.first).to_be_visible(timeout=20_000)
    chosen = other.first.inner_text()
    expect(told).to_contain_text(chosen)
    # Another word, by keyboard alone.
    tab_to(page, "#others button")
    page.keyboard.press("Enter")
    expect(page.locator("#output")).not_to_have_text(first, timeout=20_000)
    second = page.locator("#output").inner_text()
    assert second.split()[:2] == [first.split()[0], chosen], f"`{second}` does not go on with `{chosen}`"
    expect(words.nth(1)).to_be_focused()
    expect(told).to_have_text(second)
    expect(page.locator("#alternatives")).to_be_visible(timeout=20_000)
    # Whoever cannot see the page is told.
    for label in ("Text", "From", "To"):
        expect(page.get_by_label(label, exact=True).first).to_be_visible()
    expect(page.get_by_role("region", name="Translation")).to_be_visible()
    expect(page.get_by_role("main")).to_be_visible()
    page.locator("#input").focus()
    tab_to(page, "#output button")
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    expect(page.locator("#chosen")).to_have_text(second.split()[0])
    several = translate(page, f"{sentence}. {sentence}.\n\n{sentence}!")
    assert several.count("\n\n") == 1, several
    # The page is to cut a text where the server does.
    translate(page, f"Mr. Smith met J. Doe: {sentence}. {sentence.capitalize()}!  👍\n--- {sentence}")
    expect(page.locator("#output .sentence")).to_have_count(3)
    translate(page, sentence)
    words.nth(1).click()
    expect(other.first).to_be_visible(timeout=20_000)
    for scheme in ("light", "dark"):
        for width in (1200, 390):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} pixels on a screen of {width}"
            if pictures:
                page.screenshot(path=pictures / f"{name}-{scheme}-{width}.png")
    page.set_viewport_size({"width": 1200, "height": 800})
    check_failures(page, sentence)
    translate(page, sentence)
    check_words(page)
    page.locator("#input").fill("مرحبا بالعالم")
    assert page.locator("#input").evaluate("box => box.matches(':dir(rtl)')"), "Arabic is not written from the right"


# Makes what the page asks slow, and lets only so many questions succeed: of a server, or of the model in the page.
HINDER = """async () => {
  globalThis.hindered = { milliseconds: 0, good: Infinity };
  const hinder = ask => async function (...given) {
    const bad = hindered.good-- <= 0;
    await new Promise(resolve => setTimeout(resolve, hindered.milliseconds));
    if (bad) throw new Error("on purpose");
    return ask.apply(this, given);
  };
  const [owner, name] = globalThis.polyglow ? [(await polyglow.ready).constructor.prototype, "translate"] : [globalThis, "fetch"];
  owner[name] = hinder(owner[name]);
}"""


def check_failures(page, sentence):
    """Whatever fails is said, and what is found too late is not shown."""
    state, output = page.locator("#state"), page.locator("#output")
    page.evaluate(HINDER)

    def hinder(milliseconds=0, good=1000):
        page.evaluate("given => Object.assign(hindered, given)", {"milliseconds": milliseconds, "good": good})

    def fails(what):
        expect(state, what).to_have_text("on purpose")
        expect(state).to_have_class("bad")
        hinder()

    hinder(good=1)
    translate(page, sentence)
    fails("what else the sentence could be")
    first = translate(page, sentence)
    expect(page.locator("#alternatives")).to_be_visible(timeout=20_000)
    hinder(good=0)
    output.locator("button").nth(1).click()
    fails("what else a word could be")
    output.locator("button").nth(1).click()
    other = page.locator("#others button")
    expect(other.first).to_be_visible(timeout=20_000)
    hinder(good=0)
    other.first.click()
    fails("another word")
    # The answer to what was typed first comes last.
    hinder(milliseconds=2_000)
    page.locator("#input").fill("a woman loves the child")
    page.wait_for_timeout(600)
    hinder()
    page.locator("#input").fill(sentence)
    page.wait_for_timeout(3_000)
    expect(output).to_have_text(first)
    expect(state).to_have_text("")


def browse(options, check):
    """Calls `check` with a page on which no error may occur."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.browser, args=["--no-sandbox"])
        page, errors = browser.new_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        elsewhere = re.compile(r"https?://(?!localhost:|127\.0\.0\.1:)")
        page.on("request", lambda asked: errors.append(f"asks {asked.url}") if elsewhere.match(asked.url) else None)
        check(page)
        browser.close()
        assert not errors, errors


def served(options):
    port = free_port()
    command = [options.program, "-q", "serve", options.run, "--listen", f"127.0.0.1:{port}"]

    def check(page):
        page.goto(f"http://127.0.0.1:{port}/")
        use(page, options.sentence, options.pictures, "served")

    with running(command, port):
        browse(options, check)


def versions(page):
    """The versions of the files that the browser keeps, each with its scope."""
    return sorted(tuple(name.split()[1:]) for name in page.evaluate("caches.keys()"))


def alone(options):
    worker = (options.folder / "service-worker.js").read_text()

    def write(export, version):
        """Makes a page the export of another model."""
        text, count = re.subn(r'^const version = "\w+"', f'const version = "{version}"', worker, flags=re.MULTILINE)
        assert count == 1, "the service worker has no version"
        (export / "service-worker.js").write_text(text)

    def visit(page, export, version):
        """Waits until the browser keeps this version of an export."""
        page.goto(export)
        page.evaluate("navigator.serviceWorker.ready.then(found => found.update()).then(() => true)")
        page.wait_for_function("navigator.serviceWorker.controller !== null", timeout=20_000)
        for _ in range(200):
            found = versions(page)
            if [kept for scope, kept in found if scope == export] == [version]:
                return found
            page.wait_for_timeout(100)
        raise AssertionError(f"{export}: {found}, not {version}")

    with tempfile.TemporaryDirectory() as site, files(site) as (address, end):
        exports = {name: pathlib.Path(site, name) for name in ("one", "two", "damaged")}
        for name, export in exports.items():
            export.mkdir()
            for file in options.folder.iterdir():
                if file.name != "service-worker.js":
                    (export / file.name).symlink_to(file.resolve())
            write(export, name)
        (exports["damaged"] / "model.safetensors").unlink()
        (exports["damaged"] / "model.safetensors").write_bytes(b"none")
        one, two = (f"{address}{name}/" for name in ("one", "two"))

        def check(page):
            started = time.perf_counter()
            page.goto(one)
            page.evaluate("polyglow.ready.then(() => true)")
            ready = time.perf_counter() - started
            print(f"alone: ready after {ready:.2f} s")
            assert ready <= options.most_ready, f"above {options.most_ready} s"
            use(page, options.sentence, options.pictures, "alone")
            visit(page, one, "one")
            assert visit(page, two, "two") == [(one, "one"), (two, "two")], versions(page)
            write(exports["one"], "three")
            assert visit(page, one, "three") == [(one, "three"), (two, "two")], versions(page)
            page.goto(f"{address}damaged/")
            expect(page.locator("#state")).to_contain_text("could not be loaded")
            end()
            for export in (one, two):
                page.goto(export)
                print(f"alone: `{translate(page, options.sentence)}` without a server")

        browse(options, check)


def book(options):
    def check(page):
        page.goto(f"{address}live.html")
        live = page.locator("#live-attention")
        heads = live.locator(".heads button")
        expect(heads.first).to_be_visible(timeout=30_000)
        assert heads.count() == 8, f"{heads.count()} squares for 2 layers of 4 heads"
        output = live.locator("output")
        first, drawn = output.inner_text(), live.locator(".large svg").inner_html()
        rows = len(live.locator(".large svg text[text-anchor=end]").all())
        assert rows > len(first.split()), f"{rows} rows for `{first}` and its end mark"
        live.get_by_label("English").fill("a woman loves the child")
        expect(output).not_to_have_text(first, timeout=20_000)
        assert live.locator(".large svg").inner_html() != drawn
        print(f"live: `{first}`, then `{output.inner_text()}`")
        heads.nth(5).focus()
        page.keyboard.press("Enter")
        expect(live.locator("h4")).to_have_text("layer 2, head 2")
        live.get_by_role("combobox", name="attention").select_option("encoder")
        expect(heads.first).to_be_visible()
        if options.pictures:
            page.screenshot(path=options.pictures / "live.png", full_page=True)
        page.goto(f"{address}search.html")
        live = page.locator("#live-beam")
        table = live.locator("tr")
        expect(table.first).to_be_visible(timeout=30_000)
        assert table.count() == 2, "before the first position there is one hypothesis"
        for position in range(1, 4):
            live.get_by_label("position").press("ArrowRight")
            assert table.count() == 3, f"{table.count() - 1} hypotheses at position {position} of a beam of 2"
            assert live.locator(".kept").count() > 0
        if options.pictures:
            page.screenshot(path=options.pictures / "beam.png", full_page=True)
        live.get_by_label("position").press("End")
        expect(live.locator("ol li").first).to_be_visible()
        print(f"beam: `{live.locator('ol li').first.inner_text()}`")

    with files(options.folder) as (address, _):
        browse(options, check)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    parser.add_argument("--sentence", default="the old man sees a small dog")
    parser.add_argument("--pictures", type=pathlib.Path)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("served")
    part.add_argument("program", type=pathlib.Path)
    part.add_argument("run", type=pathlib.Path)
    part.set_defaults(check=served)
    part = parts.add_parser("alone")
    part.add_argument("folder", type=pathlib.Path)
    part.add_argument("--most-ready", type=float, default=5, metavar="SECONDS")
    part.set_defaults(check=alone)
    part = parts.add_parser("book")
    part.add_argument("folder", type=pathlib.Path)
    part.set_defaults(check=book)
    options = parser.parse_args()
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    options.check(options)


if __name__ == "__main__":
    main()
