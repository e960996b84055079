#!/usr/bin/env bash
# Trains the family side by side: a recurrent network without attention, with Luong's decoder and with Bahdanau's, one without
# gates, and the Transformer, with equal numbers of parameters, for equal times, on mini-en-de and on Multi30k; then writes tables and plots.
#
#   scripts/fetch.sh multi30k
#   scripts/compare-family.sh target/release/polyglow family
#   python3 scripts/compare_family.py target/release/polyglow family --plot docs/family.svg
#
# Arguments: the program, a directory for the runs, seconds for each model on mini-en-de (240), seconds for each on
# Multi30k (600; 0 leaves it out). A run that is there already is not trained again, and one that was stopped before its
# time was over is removed and begins anew. The second command, which needs matplotlib for its plot, only reads and scores,
# so that it can be given again. Nothing else should run beside them.
set -euo pipefail
cd "$(dirname "$0")/.."

program="$(realpath "${1:?the program}")"
directory="$(realpath -m "${2:?a directory for the runs}")"
mini_seconds="${3:-240}"
multi30k_seconds="${4:-600}"
mkdir -p "$directory"

# train NAME SECONDS CONFIG KEY=VALUE...: trains until the time is over, then lets the program write its last checkpoint.
train() {
    local run="$directory/$1" seconds="$2" config="$3" status=0 setting settings=()
    shift 3
    if [[ -e "$run/seconds" ]]; then return; fi
    # A run that was stopped on the way would go on from there for the whole time again.
    rm -rf "$run"
    for setting in train.max_steps=1000000 "$@"; do settings+=(--set "$setting"); done
    echo "=== $run: $seconds seconds"
    timeout --signal=INT "$seconds" "$program" -q train "$config" --run "$run" "${settings[@]}" || status=$?
    # What `timeout` says when the time was over, which is the rule here.
    [[ "$status" -eq 124 ]] || { echo "error: \`$run\` ended early, with status $status" >&2; exit 1; }
    echo "$seconds" > "$run/seconds"
}

# 739 thousand parameters each, to 2 percent. What a recurrent layer lacks without attention goes into its width.
train mini-en-de/transformer "$mini_seconds" configs/quickstart.toml
train mini-en-de/rnn-attention "$mini_seconds" configs/rnn.toml model.d_model=184
train mini-en-de/rnn-bahdanau "$mini_seconds" configs/rnn.toml model.attend=before model.d_model=168
train mini-en-de/rnn-tanh "$mini_seconds" configs/rnn.toml model.cell=tanh model.d_model=248
train mini-en-de/rnn "$mini_seconds" configs/rnn.toml model.attention=none model.d_model=228

# 2.57 million parameters each, to 2 percent. The recipe is made for hours: for minutes, the warm-up is shorter and a step
# is one batch.
short=(train.accumulate_steps=1 train.warmup_steps=600 train.save_every=300 train.validate_every=300 train.clip_norm=1.0)
if [[ "$multi30k_seconds" -gt 0 ]]; then
    multi30k=configs/multi30k-en-de.toml
    train multi30k/transformer "$multi30k_seconds" "$multi30k" "${short[@]}" train.lr=3e-3
    recurrent=("${short[@]}" train.lr=2e-3 model.arch=rnn model.num_encoder_layers=1 model.num_decoder_layers=1)
    train multi30k/rnn-attention "$multi30k_seconds" "$multi30k" "${recurrent[@]}" model.d_model=192
    train multi30k/rnn "$multi30k_seconds" "$multi30k" "${recurrent[@]}" model.attention=none model.d_model=210
fi
