#!/usr/bin/env bash
# The main job on the data that ships with the package: look, calibrate, freeze, decide.
set -euo pipefail
export HF_HUB_OFFLINE=1

out=runs/demo
rm -rf "$out"

step() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }
# A verdict of "rejected" (3) or "inconclusive" (4) is a result, not a failure of the demo.
verdict() { step "$@" || { code=$?; [ "$code" -eq 3 ] || [ "$code" -eq 4 ]; }; }

step calibrail doctor example:facts
verdict calibrail calibrate example:facts --score rad --alpha 0.1 --guarantee pac --max-fpr 0.5 -o "$out/rad"
step calibrail export "$out/rad" -o "$out/guardrail.json"
step calibrail check "$out/guardrail.json" example:facts -o "$out/decisions.jsonl"
step head -n 3 "$out/decisions.jsonl"

printf '\nThe whole report, with figures: %s/rad/report.html\n' "$out"
