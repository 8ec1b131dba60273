"""The engine by which papermill executes chapters: its own, but what a cell leaves is kept small."""

from __future__ import annotations

from typing import Any

import papermill.engines  # type: ignore[import-untyped,unused-ignore]
from nbformat import NotebookNode
from papermill.clientwrap import PapermillNotebookClient  # type: ignore[import-untyped,unused-ignore]

from mindlab.book.capped import Capped

ENGINE = "mindlab"
"""Its name, for papermill's `engine_name`."""


class CappedClient(PapermillNotebookClient):  # type: ignore[misc,unused-ignore]
    """papermill's client, which keeps what a cell leaves small."""

    _capped: Capped | None = None

    def output(
        self, outs: list[NotebookNode], msg: dict[str, Any], display_id: str | None, cell_index: int
    ) -> NotebookNode | None:
        """As nbclient's, then the cap."""
        made: NotebookNode | None = super().output(outs, msg, display_id, cell_index)
        if made is None or not outs or outs[-1] is not made:
            return made
        if self._capped is None or self._capped.outputs is not outs:
            self._capped = Capped(outs)
        return self._capped.add(outs.pop())


class CappedEngine(papermill.engines.NBClientEngine):  # type: ignore[misc,unused-ignore]
    """papermill's engine with CappedClient."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, *, start_timeout: float = 60, **options: Any
    ) -> Any:
        """Executes the notebook of `nb_man` in place."""
        for unused in ("input_path", "stdout_file", "stderr_file", "log_output", "execution_timeout"):
            options.pop(unused, None)
        return CappedClient(
            nb_man,
            kernel_name=kernel_name,
            startup_timeout=start_timeout,
            log=papermill.engines.logger,
            **options,
        ).execute()


papermill.engines.papermill_engines.register(ENGINE, CappedEngine)
