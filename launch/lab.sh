#!/usr/bin/env bash
# Sets up and opens chapter 00 in JupyterLab on 127.0.0.1; what follows goes to `jupyter lab`:
#
#   bash launch/lab.sh --port 8890
#
# From another machine:   ssh -L 8888:127.0.0.1:8888 HOST
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

mindlab_setup lab docs
. "$MINDLAB_ROOT/launch/npu_env.sh"
cd "$MINDLAB_ROOT"
exec .venv/bin/python launch/lab.py "$@"
