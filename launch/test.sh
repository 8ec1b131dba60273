#!/usr/bin/env bash
# Sets up and runs the tests, two files at a time; what follows goes to pytest:   bash launch/test.sh -k ring
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

mindlab_setup lab docs dev
mindlab_stay_inside
. "$MINDLAB_ROOT/launch/npu_env.sh"
cd "$MINDLAB_ROOT"
[ "$#" -gt 0 ] || set -- -n 2 --dist loadfile
exec .venv/bin/python -m pytest "$@"
