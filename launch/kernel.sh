#!/usr/bin/env bash
# Starts the notebooks' kernel with the NPU's environment. Jupyter calls it with the connection file.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
. "$root/launch/npu_env.sh"
exec "$root/.venv/bin/python" -m ipykernel_launcher -f "$1" # exec: signals reach the kernel itself
