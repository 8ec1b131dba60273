"""Starts JupyterLab for this checkout on 127.0.0.1; refuses a port that is taken, and says by whom.

Called by lab.sh, in .venv.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from jupyter_server.serverapp import list_running_servers

ROOT = Path(__file__).resolve().parents[1]
FIRST = "notebooks/00_start_here.ipynb"
SETTINGS = ROOT / "launch" / "lab_settings"
"""What Lab begins with here: it asks for no news and no updates, which needs a network; and it keeps what a
slider drew with the notebook, which else shows an error in its place when it is opened again."""


def asked_port(arguments: list[str], default: int = 8888) -> int:
    """The port that the arguments name: `--port 8890`, `--port=8890` or `--ServerApp.port=8890`."""
    for position, argument in enumerate(arguments):
        key, _, value = argument.partition("=")
        if key in ("--port", "--ServerApp.port"):
            following = arguments[position + 1] if position + 1 < len(arguments) else ""
            return int(value or following)
    return default


def is_free(port: int) -> bool:
    """Whether a server can listen on this port of 127.0.0.1; 0 means any free one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def refusal(port: int) -> str:
    """What to tell a person whose port is taken."""
    for server in list_running_servers():
        if server["port"] == port and Path(server["root_dir"]) == ROOT:
            link = f"{server['url']}lab/tree/{FIRST}?token={server['token']}"
            return f"JupyterLab of this checkout already runs (process {server['pid']}): {link}"
    return f"port {port} is taken by another program; choose another: bash launch/lab.sh --port {port + 1}"


def command(arguments: list[str]) -> list[str]:
    """The command line; where the person gave a setting, ours is left out: Jupyter refuses two values."""
    page = f"/lab/tree/{FIRST}" if (ROOT / FIRST).exists() else "/lab"
    ours = {
        ("--ServerApp.ip", "--ip"): "127.0.0.1",
        ("--ServerApp.port_retries", "--port-retries"): "0",
        ("--ServerApp.root_dir", "--notebook-dir"): str(ROOT),
        ("--LabApp.default_url",): page,
        ("--LabApp.app_settings_dir",): str(SETTINGS),
    }
    given = {argument.partition("=")[0] for argument in arguments}
    settings = [f"{names[0]}={value}" for names, value in ours.items() if not given.intersection(names)]
    if os.geteuid() == 0 and "--allow-root" not in given:
        settings.append("--allow-root")  # usual in an NPU container; the server still answers 127.0.0.1 alone
    return [sys.executable, "-m", "jupyterlab", *settings, *arguments]


def main(arguments: list[str]) -> int:
    """Does not return where JupyterLab starts; 1 where its port is taken."""
    try:
        port = asked_port(arguments)
    except ValueError:
        print("lab: --port needs a number", file=sys.stderr)
        return 2
    if not is_free(port):
        print(f"lab: {refusal(port)}", file=sys.stderr)
        return 1
    line = command(arguments)
    os.execv(line[0], line)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
