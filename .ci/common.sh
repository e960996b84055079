# What `.ci/run` and `.ci/extended` share; each reads it first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TERM_COLOR=never
export CARGO_INCREMENTAL=0
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# stage NAME COMMAND...: runs a command or function and says how long it took.
stage() {
    local name="$1" started=$SECONDS
    shift
    echo "=== $name"
    # A plain call: behind `||`, or in a condition, bash would ignore `set -e` in functions.
    "$@"
    echo "=== $name: ok after $((SECONDS - started)) s"
}

fail() {
    echo "error: $*" >&2
    exit 1
}

# system_packages PACKAGE...: installs what is missing of these.
system_packages() {
    local missing=() package
    for package in "$@"; do
        if ! dpkg -s "$package" > /dev/null 2>&1; then missing+=("$package"); fi
    done
    if [[ ${#missing[@]} -eq 0 ]]; then return; fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# score FILE KEY: a number from the JSON that `evaluate --json` prints.
score() {
    local value
    value="$(grep -m 1 "\"$2\":" "$1" | grep -oE -- '[0-9.]+(e-?[0-9]+)?,?$' | tr -d ,)" || true
    [[ -n "$value" ]] || fail "no \"$2\" in $1"
    echo "$value"
}

# at_least VALUE FLOOR NAME
at_least() {
    awk -v value="$1" -v floor="$2" 'BEGIN { exit !(value >= floor) }' || fail "$3 is $1, below $2"
    echo "$3 $1 (at least $2)"
}
