#!/usr/bin/env bash
# Builds the package polyglow-web, target/polyglow-web: a model in a page or in Node, and the page of `polyglow export --to web`.
#
# Needs a network for wasm-bindgen, which is compiled once into target/web-tools, and for Rust's standard library for
# WebAssembly: from rustup, or, where rustup cannot fetch it, compiled from the sources that Debian packages (then as root on
# Debian). With `--small`, binaryen from npm makes the file smaller, in some minutes. On two cores it takes about ten. Fails if
# the compiled part has more than 2 500 000 bytes as servers send it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
tools="$target/web-tools"
out="$target/polyglow-web"
most=2500000 # bytes, compressed
triple=wasm32-unknown-unknown

# Unpacks Debian's sources of the standard library of this compiler; prints where they are.
debian_sources() {
    local version="$1" apt="$tools/apt" mirror suite found
    local library="$tools/rust-$version/usr/src/rustc-$version/library"
    if [[ ! -d "$library" ]]; then
        mirror="$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/*.sources)"
        mkdir -p "$apt"/{lists/partial,cache/archives/partial,parts}
        : > "$apt/status"
        for suite in trixie trixie-backports forky sid; do
            echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
        done > "$apt/sources.list"
        # Lists of its own, so that the system's stay as they are.
        local options=(-o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts="$apt/parts"
            -o Dir::State::status="$apt/status" -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache"
            -o APT::Sandbox::User=root)
        apt-get "${options[@]}" -qq update >&2
        found="$(apt-cache "${options[@]}" madison rust-src | awk -v v="$version" 'index($3, v "+") == 1 {print $3; exit}')"
        [[ -n "$found" ]] || {
            echo "error: neither rustup nor Debian has Rust $version's standard library for $triple" >&2
            return 1
        }
        (cd "$tools" && apt-get "${options[@]}" -qq download "rust-src=$found" >&2)
        dpkg -x "$tools"/rust-src_*.deb "$tools/rust-$version"
        rm "$tools"/rust-src_*.deb
    fi
    echo "$library"
}

mkdir -p "$tools"
# The tool writes what the library of the same version reads.
bindgen="$(sed -n '/^name = "wasm-bindgen"$/{n;s/^version = "\(.*\)"/\1/p}' Cargo.lock)"
cargo install --quiet --root "$tools" --version "$bindgen" wasm-bindgen-cli

options=()
if ! timeout 120 rustup target add "$triple"; then
    library="$(debian_sources "$(rustc --version | cut -d' ' -f2)")"
    # A stable compiler builds its own standard library if it is told that it may, and where it lies.
    export RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT="$library"
    options=(-Zbuild-std=std,panic_abort)
fi
RUSTFLAGS="-C target-feature=+simd128" CARGO_TARGET_DIR="$target/web" \
    cargo build --locked --profile web --target "$triple" -p polyglow-web "${options[@]}"

rm -rf "$out"
"$tools/bin/wasm-bindgen" --target web --no-typescript --remove-name-section --out-dir "$out" \
    "$target/web/$triple/web/polyglow_web.wasm"
cp crates/polyglow-web/package/* crates/polyglow-web/README.md LICENSE-* "$out"
# The page of `polyglow serve`, with something that answers in place of the server.
sed 's|^<script>$|<script src="local.js"></script>\n<script>|' crates/polyglow-serve/src/page.html > "$out/index.html"
grep -q 'src="local.js"' "$out/index.html"

if [[ "${1:-}" == --small ]]; then
    npm install --silent --no-save --prefix "$tools" binaryen@132.0.0
    "$tools/node_modules/.bin/wasm-opt" -O3 --enable-simd --enable-bulk-memory --enable-nontrapping-float-to-int \
        --enable-sign-ext --enable-mutable-globals --enable-reference-types --enable-multivalue \
        "$out/polyglow_web_bg.wasm" -o "$out/polyglow_web_bg.wasm.small"
    mv "$out/polyglow_web_bg.wasm.small" "$out/polyglow_web_bg.wasm"
fi
compressed="$(gzip -9 -c "$out/polyglow_web_bg.wasm" | wc -c)"
printf '%s: %d bytes, %d compressed\n' "$out/polyglow_web_bg.wasm" "$(stat -c %s "$out/polyglow_web_bg.wasm")" "$compressed"
if [[ "$compressed" -gt "$most" ]]; then
    echo "error: more than $most bytes, compressed" >&2
    exit 1
fi
