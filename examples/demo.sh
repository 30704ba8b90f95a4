#!/usr/bin/env bash
# The main job on the data that ships with the package: look, calibrate, freeze, decide.
set -euo pipefail
export HF_HUB_OFFLINE=1

out=runs/demo
rm -rf "$out"

step() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }
# A verdict of "rejected" (3) or "inconclusive" (4) is a result, not a failure of the demo.
verdict() { step "$@" || { code=$?; [ "$code" -eq 3 ] || [ "$code" -eq 4 ]; }; }

printf 'New words in the answer, at a threshold that must catch 80 %% of hallucinations:\n'
verdict calibrail calibrate example:facts --score novelty --alpha 0.2 --max-false-alarms 0.6 \
  -o "$out/novelty"

printf '\nFreeze it, and let it decide:\n'
step calibrail export "$out/novelty" -o "$out/guardrail.json"
step calibrail check "$out/guardrail.json" example:facts -o "$out/decisions.jsonl"
step head -n 3 "$out/decisions.jsonl"

printf '\nAn embedding detector asked for the same, which the data rejects:\n'
verdict calibrail calibrate example:facts --score rad --alpha 0.2 --max-false-alarms 0.6 \
  -o "$out/rad"

printf '\nThe pages, with figures: %s/novelty/report.html and %s/rad/report.html\n' "$out" "$out"
printf 'Your own data: calibrail doctor FILE says what is in it and what it supports.\n'
