#!/usr/bin/env bash
# The main job on the data that ships with the package: look, calibrate, freeze, decide.
set -euo pipefail
export HF_HUB_OFFLINE=1

out=runs/demo
rm -rf "$out"

step() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }
# A verdict of "rejected" (3) or "inconclusive" (4) is a result, not a failure of the demo.
verdict() { step "$@" || { code=$?; [ "$code" -eq 3 ] || [ "$code" -eq 4 ]; }; }

printf 'What is in the data?\n'
step calibrail doctor example:facts

printf '\nAn embedding score that must catch 90 %% and may flag half of the faithful answers:\n'
verdict calibrail calibrate example:facts --score rad --alpha 0.1 --max-fpr 0.5 -o "$out/rad"

printf '\nA plain count of new words that must catch 70 %%, with a guarantee for this very threshold:\n'
verdict calibrail calibrate example:facts --score novelty --alpha 0.3 --guarantee pac --max-fpr 0.6 \
  -o "$out/novelty"

printf '\nFreeze it, and let it decide:\n'
step calibrail export "$out/novelty" -o "$out/guardrail.json"
step calibrail check "$out/guardrail.json" example:facts -o "$out/decisions.jsonl"
step head -n 3 "$out/decisions.jsonl"

printf '\nThe whole reports, with figures: %s/rad/report.html and %s/novelty/report.html\n' "$out" "$out"
