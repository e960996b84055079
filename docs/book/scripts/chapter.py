"""Puts a measured table into its chapter, and keeps it in docs/book/results; a test compares both."""

import os
import pathlib
import re
import subprocess
import textwrap

BOOK = pathlib.Path(__file__).resolve().parent.parent


def provenance():
    """The machine and the version, for a line below a table."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    name = model.group(1).strip() if model else "an unknown processor"
    command = ["git", "-C", BOOK, "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return f"{os.cpu_count()} cores of {name}, commit {commit}"


def put(name, header, rows, note):
    """Writes results/NAME.md, and the same between the marks for NAME in whichever chapter has them."""
    lines = [header, ["---"] * len(header), *rows]
    table = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    text = f"{table}\n\n{textwrap.fill(note, 118, break_on_hyphens=False)}\n"
    (BOOK / "results" / f"{name}.md").write_text(text, encoding="utf-8")
    marks = re.compile(rf"(<!-- results/{name}\.md -->\n).*?(<!-- end -->)", re.DOTALL)
    for path in sorted((BOOK / "src").glob("*.md")):
        chapter = path.read_text(encoding="utf-8")
        if marks.search(chapter):
            path.write_text(marks.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", chapter), encoding="utf-8")
            print(f"wrote {path}")
