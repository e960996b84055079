#!/usr/bin/env bash
# Builds what a release hands out, from a clean checkout on Linux x86-64: `scripts/release.sh VERSION [BUILD...]`.
#
# Builds are `cpu`, one static file that runs on every Linux, and `vulkan`, which also computes on GPUs and needs glibc 2.17
# (2012) or newer; both without a name. From `cpu` come a Debian package, a Python wheel and what a container is built from.
# All of them carry the package polyglow-web, what `polyglow export --to web` puts beside a model.
# All of it lies in target/release-VERSION/ then, with SHA256SUMS and an SBOM; the licenses of all dependencies are in each.
#
# Needs rustup, Python 3 with venv, npm, dpkg-deb and a network: compilers and tools are installed into target/release-tools. On two
# cores polyglow-web takes a quarter of an hour, `cpu` about half an hour, `vulkan` more than one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "error: $*" >&2
    exit 1
}

[[ $# -ge 1 ]] || fail "which version? as in \`scripts/release.sh 0.1.0\`"
version="$1"
shift
if [[ $# -eq 0 ]]; then set -- cpu vulkan; fi
for build in "$@"; do
    [[ "$build" == cpu || "$build" == vulkan ]] || fail "no build \`$build\`; there are cpu and vulkan"
done

umask 022
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
tools="$target/release-tools"
out="$target/release-$version"
# What archives and packages give as the time of their files, so that the same program gives the same bytes.
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
# The compiler that rust-toolchain.toml names, also where a tool works in another directory.
RUSTUP_TOOLCHAIN="$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)"
export SOURCE_DATE_EPOCH RUSTUP_TOOLCHAIN CARGO_TARGET_DIR="$target" PATH="$tools/bin:$PATH"

# A release is of a commit, and says the same everywhere.
check() {
    local changes written
    changes="$(git status --porcelain)"
    [[ -z "$changes" ]] || fail "the checkout has changes that are in no commit: $changes"
    written="$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)"
    [[ "$written" == "$version" ]] || fail "Cargo.toml is of version $written"
    grep -q "^## \[$version\] - 2" CHANGELOG.md || fail "CHANGELOG.md has no section \`## [$version] - DATE\`"
    grep -q "^version: $version$" CITATION.cff || fail "CITATION.cff is of another version"
}

install_tools() {
    if [[ ! -x "$tools/bin/maturin" ]]; then
        python3 -m venv "$tools"
        "$tools/bin/pip" install --quiet maturin==1.16.0 ziglang==0.17.1 cargo-zigbuild==0.24.0
    fi
    cargo install --quiet --locked --root "$tools" --version 0.9.3 --features cli cargo-about
    # Unoptimized, since it does little.
    cargo install --quiet --locked --debug --root "$tools" --version 0.5.9 cargo-cyclonedx
    rustup target add x86_64-unknown-linux-musl
    cargo fetch --locked
}

# The licenses that have to go with the program: of its dependencies, of Rust's standard library, and of the libc in the static one.
collect_licenses() {
    local licenses="$out/licenses"
    mkdir "$licenses"
    cp LICENSE-* "$licenses"
    # Read from the packages, not asked for at a server.
    cargo about generate --offline --config packaging/about.toml --workspace --features polyglow/vulkan \
        --fail packaging/licenses.hbs > "$licenses/dependencies.html"
    cp "$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html" "$licenses/rust-library.html"
    cp "$("$tools/bin/python" -c 'import ziglang, os; print(os.path.dirname(ziglang.__file__))')/lib/libc/musl/COPYRIGHT" \
        "$licenses/musl.txt"
}

# What the program is made of. The tool writes a file for each crate of the workspace, into the checkout.
write_sbom() {
    trap "git clean --quiet --force -- '*polyglow-sbom.json'" RETURN
    cargo cyclonedx --manifest-path crates/polyglow/Cargo.toml --features vulkan --format json \
        --override-filename polyglow-sbom
    sed "s|file://$PWD|file:///polyglow|g" crates/polyglow/polyglow-sbom.json > "$out/polyglow-$version.cdx.json"
}

# The wheel with the static program; the program lies in the target directory afterwards. It needs no libc, so the wheel is for
# the distributions with glibc as well as for those with musl.
build_cpu() {
    local wheel="$out/wheel"
    # Files in `data` are installed into the environment, below its root.
    mkdir -p "$wheel/data/data/share/polyglow"
    cp -r "$target/polyglow-web" "$wheel/data/data/share/polyglow/web"
    cp -r packaging/pyproject.toml README.md "$out/licenses" "$wheel"
    echo "manifest-path = \"$PWD/crates/polyglow/Cargo.toml\"" >> "$wheel/pyproject.toml"
    (cd "$wheel" && maturin build --zig --profile dist --target x86_64-unknown-linux-musl --locked --strip \
        --compatibility manylinux2014 musllinux_1_2 --out "$out")
    rm -r "$wheel"
    cp "$target/x86_64-unknown-linux-musl/dist/polyglow" "$out/program-cpu"
}

build_vulkan() {
    # Stripped by an option, because Cargo does not strip what the profile lists by name.
    cargo-zigbuild rustc --profile dist --target x86_64-unknown-linux-gnu.2.17 --locked -p polyglow --bin polyglow \
        --features vulkan -- -C strip=symbols
    cp "$target/x86_64-unknown-linux-gnu/dist/polyglow" "$out/program-vulkan"
}

# What people look for beside a program: man pages and completions, in the places that Debian has for them; and polyglow-web,
# where the program looks for it.
lay_out() {
    local program="$1" root="$2"
    install -D "$program" "$root/bin/polyglow"
    "$program" man --out "$root/share/man/man1"
    mkdir -p "$root/share/bash-completion/completions" "$root/share/zsh/vendor-completions" \
        "$root/share/fish/vendor_completions.d" "$root/share/doc/polyglow/powershell"
    mkdir -p "$root/share/polyglow"
    cp -r "$target/polyglow-web" "$root/share/polyglow/web"
    "$program" completions bash > "$root/share/bash-completion/completions/polyglow"
    "$program" completions zsh > "$root/share/zsh/vendor-completions/_polyglow"
    "$program" completions fish > "$root/share/fish/vendor_completions.d/polyglow.fish"
    "$program" completions powershell > "$root/share/doc/polyglow/powershell/polyglow.ps1"
    cp -r README.md CHANGELOG.md configs "$out/licenses" "$root/share/doc/polyglow"
}

# archive DIRECTORY: makes DIRECTORY.tar.gz of it.
archive() {
    tar --directory "$(dirname "$1")" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --create "$(basename "$1")" | gzip --best --no-name > "$1.tar.gz"
    rm -r "$1"
}

debian_package() {
    local root="$out/debian" doc="$out/debian/usr/share/doc/polyglow"
    local number
    # In Debian a version with `~` comes before the same without.
    number="$(tr - '~' <<< "$version")-1"
    lay_out "$out/program-cpu" "$root/usr"
    cp packaging/copyright "$doc"
    # Debian has the Apache license in a place of its own, and the copyright names it.
    rm "$doc"/licenses/LICENSE-*
    mv "$doc/CHANGELOG.md" "$doc/changelog"
    install -D --mode=644 packaging/lintian-overrides "$root/usr/share/lintian/overrides/polyglow"
    printf 'polyglow (%s) unstable; urgency=medium\n\n  * changelog.gz has the changes.\n\n -- %s  %s\n' "$number" \
        "$(sed -n 's/^Maintainer: //p' packaging/control)" "$(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")" \
        > "$doc/changelog.Debian"
    gzip --best --no-name "$root"/usr/share/man/man1/* "$doc/changelog" "$doc/changelog.Debian"
    mkdir "$root/DEBIAN"
    sed -e "s/@VERSION@/$number/" -e "s/@SIZE@/$(du -sk "$root/usr" | cut -f 1)/" packaging/control > "$root/DEBIAN/control"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
    dpkg-deb --root-owner-group -Zxz --build "$root" "$out/polyglow_${number}_amd64.deb"
    rm -r "$root"
}

# What packaging/Containerfile copies, with the rights that it has there.
container() {
    local directory="$out/polyglow-$version-container"
    local root="$directory/root"
    install -D "$out/program-cpu" "$root/usr/bin/polyglow"
    install -D --mode=644 --target-directory="$root/usr/share/doc/polyglow/licenses" "$out"/licenses/*
    mkdir -p "$root/usr/share/polyglow"
    cp -r "$target/polyglow-web" "$root/usr/share/polyglow/web"
    # For files on the way to their place.
    mkdir --mode=1777 "$root/tmp"
    cp packaging/Containerfile "$directory"
    archive "$directory"
}

check
rm -rf "$out"
mkdir -p "$out"
install_tools
collect_licenses
write_sbom
scripts/web.sh --small
for build in "$@"; do
    "build_$build"
    "$out/program-$build" --version
    name="$out/polyglow-$version-linux-x86_64"
    if [[ "$build" != cpu ]]; then name+="-$build"; fi
    lay_out "$out/program-$build" "$name"
    archive "$name"
done
if [[ -f "$out/program-cpu" ]]; then
    debian_package
    container
fi
rm -r "$out"/program-* "$out/licenses"
(cd "$out" && sha256sum -- * > "$target/SHA256SUMS" && mv "$target/SHA256SUMS" . && cat SHA256SUMS)
