#!/usr/bin/env bash
# Fuzzes every target of fuzz/ for some time: scripts/fuzz.sh [SECONDS [TARGET...]], 600 seconds each if not said.
#
# Needs a nightly toolchain and cargo-fuzz (`cargo install cargo-fuzz`). Prints for each target the executions, the
# edges and features covered, the inputs kept, and the peak memory; ends at the first input that crashes, hangs for 25
# seconds or takes more than 2 GiB, which is then in fuzz/artifacts/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${1:-600}"
shift || true
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then mapfile -t targets < <(cargo +nightly fuzz list --fuzz-dir fuzz); fi

# Without an address sanitizer, for speed: no input decides the sizes that our unsafe code, in the kernels and in the
# program's allocator, works with.
cargo +nightly fuzz build --sanitizer none --fuzz-dir fuzz
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    log="fuzz/artifacts/$target.log"
    if ! RAYON_NUM_THREADS=1 "fuzz/target/x86_64-unknown-linux-gnu/release/$target" \
        "fuzz/corpus/$target" "fuzz/seeds/$target" -artifact_prefix="fuzz/artifacts/$target/" \
        -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 > "$log" 2>&1; then
        tail -40 "$log"
        echo "error: $target: see $log and fuzz/artifacts/$target" >&2
        exit 1
    fi
    covered="$(grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$log" | tail -1)"
    executions="$(grep -oE 'number_of_executed_units: *[0-9]+' "$log" | grep -oE '[0-9]+')"
    memory="$(grep -oE 'peak_rss_mb: *[0-9]+' "$log" | grep -oE '[0-9]+')"
    echo "$target: $executions executions in $seconds s, $covered, peak $memory MiB"
done
