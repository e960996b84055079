#!/usr/bin/env bash
# Builds what a release hands out, from a clean checkout on Linux x86-64: `scripts/release.sh VERSION [BUILD...]`.
#
# Builds are `cpu`, one static file that runs on every Linux, and `vulkan`, which also computes on GPUs and needs glibc 2.17
# (2012) or newer; both without a name. From `cpu` come a Debian package, a Python wheel and the directory for a container.
# All of it lies in target/release-VERSION/ then, with SHA256SUMS, the licenses of all dependencies and an SBOM.
#
# Needs rustup, Python 3 with venv, dpkg-deb and a network: compilers and tools are installed into target/release-tools. On two
# cores `cpu` takes about half an hour, `vulkan` more than one.
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

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
tools="$target/release-tools"
out="$target/release-$version"
# What archives and packages give as the time of their files, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH CARGO_TARGET_DIR="$target" PATH="$tools/bin:$PATH"

# A release is of a commit, and says the same everywhere.
check() {
    [[ -z "$(git status --porcelain)" ]] || fail "the checkout has changes that are in no commit: \`git status\`"
    local written
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

# The licenses that have to go with the program, and what it is made of.
name_dependencies() {
    # Licenses are read from the packages, not asked for at a server.
    cargo about generate --offline --config packaging/about.toml --manifest-path crates/polyglow/Cargo.toml --features vulkan --fail \
        packaging/licenses.hbs > "$out/THIRD-PARTY.html"
    cargo cyclonedx --manifest-path crates/polyglow/Cargo.toml --features vulkan --format json \
        --override-filename polyglow-sbom
    mv crates/polyglow/polyglow-sbom.json "$out/polyglow-$version.cdx.json"
    # It writes one for each crate of the workspace.
    git clean --quiet --force -- '*polyglow-sbom.json'
}

# The wheel with the static program; the program lies in the target directory afterwards.
build_cpu() {
    local wheel="$out/wheel"
    mkdir "$wheel"
    cp packaging/pyproject.toml README.md LICENSE-* "$out/THIRD-PARTY.html" "$wheel"
    echo "manifest-path = \"$PWD/crates/polyglow/Cargo.toml\"" >> "$wheel/pyproject.toml"
    (cd "$wheel" && maturin build --zig --profile dist --target x86_64-unknown-linux-musl --locked --out "$out")
    rm -r "$wheel"
    cp "$target/x86_64-unknown-linux-musl/dist/polyglow" "$out/program-cpu"
}

build_vulkan() {
    cargo zigbuild --profile dist --target x86_64-unknown-linux-gnu.2.17 --locked -p polyglow --features vulkan
    cp "$target/x86_64-unknown-linux-gnu/dist/polyglow" "$out/program-vulkan"
}

# What people look for beside a program: man pages and completions, in the places that a system has for them.
lay_out() {
    local program="$1" root="$2"
    install -D "$program" "$root/bin/polyglow"
    "$program" man --out "$root/share/man/man1"
    mkdir -p "$root/share/bash-completion/completions" "$root/share/zsh/vendor-completions" \
        "$root/share/fish/vendor_completions.d" "$root/share/doc/polyglow/powershell"
    "$program" completions bash > "$root/share/bash-completion/completions/polyglow"
    "$program" completions zsh > "$root/share/zsh/vendor-completions/_polyglow"
    "$program" completions fish > "$root/share/fish/vendor_completions.d/polyglow.fish"
    "$program" completions powershell > "$root/share/doc/polyglow/powershell/polyglow.ps1"
    cp README.md CHANGELOG.md LICENSE-* "$out/THIRD-PARTY.html" "$root/share/doc/polyglow"
    cp -r configs "$root/share/doc/polyglow"
}

archive() {
    local build="$1"
    local name="polyglow-$version-linux-x86_64"
    if [[ "$build" != cpu ]]; then name+="-$build"; fi
    lay_out "$out/program-$build" "$out/$name"
    tar --directory "$out" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --create "$name" |
        gzip --best --no-name > "$out/$name.tar.gz"
    rm -r "${out:?}/$name"
}

debian_package() {
    local root="$out/debian" doc="$out/debian/usr/share/doc/polyglow"
    lay_out "$out/program-cpu" "$root/usr"
    gzip --best --no-name "$root"/usr/share/man/man1/* "$doc/CHANGELOG.md"
    mv "$doc/CHANGELOG.md.gz" "$doc/changelog.gz"
    {
        echo "polyglow is under MIT or Apache-2.0, as you choose; THIRD-PARTY.html has the licenses of what it is built from."
        echo
        cat LICENSE-MIT
    } > "$doc/copyright"
    # The Apache license is in /usr/share/common-licenses.
    rm "$doc"/LICENSE-*
    mkdir "$root/DEBIAN"
    sed -e "s/@VERSION@/$version/" -e "s/@SIZE@/$(du -sk "$root/usr" | cut -f 1)/" packaging/control > "$root/DEBIAN/control"
    chmod -R u=rwX,go=rX "$root"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$out/polyglow_${version}_amd64.deb"
    rm -r "$root"
}

# Everything that packaging/Containerfile copies.
container() {
    mkdir -p "$out/container/tmp"
    cp packaging/Containerfile LICENSE-* "$out/THIRD-PARTY.html" "$out/container"
    install "$out/program-cpu" "$out/container/polyglow"
}

check
rm -rf "$out"
mkdir -p "$out"
install_tools
name_dependencies
for build in "$@"; do
    "build_$build"
    "$out/program-$build" --version
    archive "$build"
done
if [[ -f "$out/program-cpu" ]]; then
    debian_package
    container
fi
rm "$out"/program-*
(cd "$out" && sha256sum -- *.* > SHA256SUMS && cat SHA256SUMS)
