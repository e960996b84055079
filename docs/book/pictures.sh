#!/usr/bin/env bash
# Draws every picture of the book: docs/book/pictures.sh [RUNS]
#
# Trains the quickstart into RUNS/quickstart (default: runs), unless it is there; about a minute on two quiet cores, and the
# builds before it.
set -euo pipefail
cd "$(dirname "$0")/../.."

runs="${1:-runs}"
target="${CARGO_TARGET_DIR:-target}"
pictures=docs/book/src/pictures
pair=("the dog that she picks up buys the big cat ." --tgt "der Hund , den sie abholt , kauft die große Katze .")

# The whole workspace, so that dependencies are built once, with the features that the tests have.
cargo build --workspace --examples
cargo build --release --package polyglow
polyglow="$target/release/polyglow"

"$polyglow" train configs/quickstart.toml --run "$runs/quickstart"
"$polyglow" attention "$runs/quickstart" "${pair[@]}" --out "$pictures/cross.svg"
"$polyglow" attention "$runs/quickstart" "${pair[@]}" --head 1 --out "$pictures/head.svg"
"$target/debug/examples/pictures" "$pictures"
ls -l "$pictures"
