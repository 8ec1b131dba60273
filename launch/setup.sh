#!/usr/bin/env bash
# Prepares .venv:   bash launch/setup.sh [extra...]      (extras of pyproject.toml; without any: lab docs)
# run.sh, test.sh and lab.sh source this file for its functions.
#
#   MINDLAB_PYTHON        the Python to build on (default: the first of python3, python3.13 … that is 3.10 or newer)
#   MINDLAB_WHEELS        a folder of wheels: install from it, without network
#   MINDLAB_TORCH_INDEX   where to find CPU builds of torch
#   MINDLAB_TORCH=any     take whatever torch the package index offers, also a CUDA build of gigabytes

MINDLAB_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"

# Prints the Python to build on.
mindlab_python() {
    local candidate names=(python3 python3.13 python3.12 python3.11 python3.10 python)
    if [ -n "${MINDLAB_PYTHON:-}" ]; then names=("$MINDLAB_PYTHON"); fi
    for candidate in "${names[@]}"; do
        if "$candidate" -c 'import sys; raise SystemExit(sys.version_info < (3, 10))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    echo "set-up: Python 3.10 or newer is needed; tried: ${names[*]}. Name one with MINDLAB_PYTHON=/path/to/python3." >&2
    return 1
}

# Makes .venv hold the given extras; quick where it already does.
mindlab_setup() {
    local python
    python="$(mindlab_python)" || return 1
    "$python" "$MINDLAB_ROOT/launch/setup.py" "$@"
}

# What Jupyter, IPython and Matplotlib would write to the home folder goes under build/; what lies there is not read.
mindlab_stay_inside() {
    local home="$MINDLAB_ROOT/build/home"
    mkdir -p "$home"
    export JUPYTER_CONFIG_DIR="$home/jupyter" JUPYTER_DATA_DIR="$home/jupyter-data"
    export JUPYTER_RUNTIME_DIR="$home/jupyter-runtime" IPYTHONDIR="$home/ipython" MPLCONFIGDIR="$home/matplotlib"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    mindlab_setup "$@"
fi
