"""`mindlab doctor explain`: each known failure by a message that was really printed, and no harmless line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mindlab import cli
from mindlab.doctor.explain import as_text, explain, failures

_LINES = Path(__file__).with_name("failure_messages.txt").read_text(encoding="utf-8").splitlines()
MESSAGES = [
    (message, name) for name, message in (line.split(" | ", 1) for line in _LINES if not line.startswith("#"))
]

HARMLESS = (
    "2025-04-24 16:14:56 INFO HCCL_CONNECT_TIMEOUT is set to 120 by the environment",
    "loaded /usr/local/Ascend/cann/lib64/libhccl.so",
    "opening shared object libascendcl.so: done",
    "INFO: listening on ip[127.0.0.1] and port[60000]",
    "socket type[2], listen on ip[192.168.1.100] and specific port[60000] success.",
    "Successfully uninstalled torch-npu-2.7.1",
    "Requirement already satisfied: torch==2.7.1 in ./lib (from torch-npu==2.7.1)",
    "ModuleNotFoundError: No module named 'torch_npu'",
    "rank 0: NPU memory 12.1 of 64.0 GB",
    "CUDA out of memory is not what happened here; the NPU has 2 GB left",
    "error code is 0",
    "aclrtSetDevice returned, error code is 0",
    "topo exchange server start, port 60000",
    "Notify register allocated: 24",
    "found /dev/davinci0, /dev/davinci1 and /dev/davinci_manager",
    "PermissionError: [Errno 13] Permission denied: '/srv/data/cache'",
    "[W] TLS is enabled on all devices",
    "RANK_TABLE_FILE is not set",
    "HCCL allreduce: data type float32, count 1024",
    "Using backend cpu:gloo,npu:hccl",
    "The operator aclnnMatmul took 12 ms",
    "error EI000 is no code, and EI00061 is none either",
)


@pytest.mark.parametrize(("message", "name"), MESSAGES)
def test_each_message_has_its_failure(message: str, name: str) -> None:
    """A message that nobody knows, or that is taken for another one; in front of it what loggers write."""
    for line in (message, f"[rank1]: 2025-12-01 08:00:00,123 {message} [ERROR] TraceBack"):
        (found,) = explain([line])
        assert name in found.failure.name, found.failure.name


def test_every_known_failure_has_a_message() -> None:
    """A pattern that no message was ever held against."""
    seen = {found.failure.name for message, _ in MESSAGES for found in explain([message])}
    assert seen == {failure.name for failure in failures()}
    for failure in failures():
        assert failure.do and failure.means.endswith(".") and failure.source
        unmet = [one for one in failure.match if not any(one.search(message) for message, _ in MESSAGES)]
        assert len(unmet) < len(failure.match), failure.name


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_are_left_alone(line: str) -> None:
    """A remedy for what is no failure."""
    assert explain([line]) == []


def test_a_log_is_explained_from_its_first_failure() -> None:
    """The last of many errors first, each line explained anew, a long line without its message."""
    long = "x" * 5000 + " Cannot use ReduceOp.BAND with HCCL " + "y" * 5000
    log = ["start", MESSAGES[11][0], MESSAGES[-2][0], MESSAGES[11][0], long]
    found = explain(log)
    assert [(each.line, each.times) for each in found] == [(2, 2), (3, 1), (5, 1)]
    assert "ReduceOp.BAND" in found[2].text and len(found[2].text) < 320
    said = as_text(found, len(log))
    assert said.startswith("port of HCCL taken, on the host, line 2 (and 1 more)")
    assert "1. export HCCL_HOST_SOCKET_PORT_RANGE=auto" in said and said.endswith("follow from it.")


def test_the_command_reads_a_file_or_what_is_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log in another encoding that stops it, an exit code that says nothing, JSON that no program reads."""
    log = tmp_path / "rank.log"
    log.write_bytes(b"\xff\xfe bytes\n" + MESSAGES[0][0].encode() + b"\n")
    assert cli.main(["doctor", "explain", str(log)]) == 0
    assert "source /usr/local/Ascend/cann/set_env.sh" in capsys.readouterr().out
    assert cli.main(["doctor", "explain", "--json", str(log)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["line"] == 2 and found["name"] == "libraries of CANN not found" and found["do"]
    monkeypatch.setattr("sys.stdin", io.StringIO("all is well\n"))
    assert cli.main(["doctor", "explain", "-"]) == 1
    assert "No failure that is known here shows in 1 lines" in capsys.readouterr().out
    assert cli.main(["doctor", "explain", str(tmp_path / "none.log")]) == 2
    assert "No such file" in capsys.readouterr().err
