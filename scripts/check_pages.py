#!/usr/bin/env python3
"""Whether the pages do what they say, in Chromium: of `polyglow serve`, of `polyglow export --to web`, and those of the book that
are alive.

    pip install playwright
    python scripts/check_pages.py served target/release/polyglow runs/my
    python scripts/check_pages.py alone page/
    python scripts/check_pages.py book target/site

The first two are one page: a sentence is typed and translated, a word is clicked and shows what it looked at, another word is chosen, all
with the keyboard too; on a phone's width nothing is wider than the screen. `alone` is served as files, and must go on when the
server is gone. `--pictures DIR` keeps what it looked like, in light and dark.
"""

import argparse
import contextlib
import functools
import http.server
import pathlib
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
    before = output.inner_text()
    page.locator("#input").fill(sentence)
    if before:
        expect(output).not_to_have_text(before, timeout=20_000)
    expect(output).not_to_be_empty(timeout=20_000)
    return output.inner_text()


def use(page, sentence, pictures, name):
    """Everything that the page can do."""
    started = time.perf_counter()
    first = translate(page, sentence)
    print(f"{name}: `{sentence}` -> `{first}`, {time.perf_counter() - started:.1f} s after it was typed")
    words = page.locator("#output button")
    assert words.count() == len(first.split()), f"{words.count()} buttons for `{first}`"
    words.nth(1).click()
    expect(page.locator("#word")).to_be_visible()
    expect(page.locator("#looked span")).to_have_count(len(sentence.split()))
    strongest = page.locator("#looked span").evaluate_all("spans => spans.map(span => parseFloat(span.title))")
    assert 0 < sum(strongest) <= 101 and max(strongest) > 10, strongest
    other = page.locator("#others button")
    expect(other.first).to_be_visible(timeout=20_000)
    chosen = other.first.inner_text()
    # Another word, by keyboard alone.
    other.first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#output")).not_to_have_text(first, timeout=20_000)
    second = page.locator("#output").inner_text()
    assert second.split()[:2] == [first.split()[0], chosen], f"`{second}` does not go on with `{chosen}`"
    expect(page.locator("#alternatives")).to_be_visible(timeout=20_000)
    # Whoever cannot see the page is told.
    for label in ("Text", "From", "To"):
        expect(page.get_by_label(label, exact=True).first).to_be_visible()
    expect(page.get_by_role("region", name="Translation")).to_be_visible()
    words.first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#chosen")).to_have_text(second.split()[0])
    several = translate(page, f"{sentence}. {sentence}.\n\n{sentence}!")
    assert several.count("\n\n") == 1, several
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
    page.locator("#input").fill("مرحبا بالعالم")
    assert page.locator("#input").evaluate("box => box.matches(':dir(rtl)')"), "Arabic is not written from the right"
    page.set_viewport_size({"width": 1200, "height": 800})


def browse(options, check):
    """Calls `check` with a page on which no error may occur."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.browser, args=["--no-sandbox"])
        page, errors = browser.new_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
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


def alone(options):
    with files(options.folder) as (address, end):

        def check(page):
            started = time.perf_counter()
            page.goto(address)
            use(page, options.sentence, options.pictures, "alone")
            page.evaluate("navigator.serviceWorker.ready.then(() => true)")
            page.wait_for_function("navigator.serviceWorker.controller !== null", timeout=20_000)
            end()
            page.goto(address)
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
        live.get_by_label("attention", exact=True).select_option("encoder")
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
