"""A notebook open in a browser's JupyterLab: run its cells, read what they left, press Lab's buttons.

What a cell left is read from Lab's model, not from the screen; what a person sees, from the page.
"""

from __future__ import annotations

from typing import Any

from browser import PATIENCE, Window
from lab_server import Lab
from playwright.sync_api import Locator

_OPEN = """() => { const app = window.jupyterapp, panel = app && app.shell.currentWidget;
  return !!panel && !!panel.sessionContext && panel.context.isReady && panel.sessionContext.isReady
    && panel.context.path === PATH; }"""
_IDLE = """() => { const now = window.jupyterapp.shell.currentWidget.sessionContext.session;
  return !!now && !!now.kernel && now.kernel.status === "idle"
    && now.kernel.connectionStatus === "connected"; }"""
_START = """([command, index]) => { const app = window.jupyterapp;
  if (index !== null) { const book = app.shell.currentWidget.content;
    book.deselectAll(); book.activeCellIndex = index; }
  window.mindlabDone = false;
  app.commands.execute(command).finally(() => { window.mindlabDone = true; }); }"""
_CELLS = """() => window.jupyterapp.shell.currentWidget.content.widgets.map((cell) => ({
  kind: cell.model.type, count: cell.model.executionCount || null,
  source: cell.model.sharedModel.getSource(),
  outputs: cell.model.type === "code" ? cell.model.sharedModel.outputs : [] }))"""


class LabPage:
    """One notebook, by its path below the server's folder."""

    def __init__(self, lab: Lab, window: Window) -> None:
        self.lab, self.window, self.page = lab, window, window.page

    def open(self, path: str) -> None:
        """Opens a notebook and waits for its kernel."""
        self.page.goto(f"{self.lab.url}/lab/tree/{path}?reset&token={self.lab.token}")
        self.is_open(path)

    def is_open(self, path: str) -> None:
        """Waits until this notebook is there with an idle kernel."""
        self.wait(_OPEN.replace("PATH", repr(path)))
        self.wait(_IDLE)

    def wait(self, state: str, patience: int = PATIENCE) -> None:
        """Waits until a script's function is true."""
        self.page.wait_for_function(state, timeout=patience)

    def start(self, command: str, cell: int | None = None) -> None:
        """Starts a command of Lab, with this cell selected, and does not wait for its end."""
        self.page.evaluate(_START, [command, cell])

    def finish(self, patience: int = PATIENCE) -> None:
        """Waits for the end of what `start` started, and for an idle kernel."""
        self.wait("() => window.mindlabDone", patience)
        self.wait(_IDLE)

    def run_all(self, patience: int = PATIENCE) -> None:
        """Runs every cell, as Lab's menu does."""
        self.start("notebook:run-all-cells")
        self.finish(patience)

    def run(self, cell: int) -> list[dict[str, Any]]:
        """Runs one cell; its outputs."""
        self.start("notebook:run-cell", cell)
        self.finish()
        return self.outputs(cell)

    def cells(self) -> list[dict[str, Any]]:
        """Kind, count, source and outputs of each cell."""
        found: list[dict[str, Any]] = self.page.evaluate(_CELLS)
        return found

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """What a cell left."""
        outputs: list[dict[str, Any]] = self.cells()[cell]["outputs"]
        return outputs

    def errors(self) -> list[str]:
        """Each error that a cell left: the cell's first line, and what it says."""
        return [
            f"{cell['source'].splitlines()[0]}: {output['ename']}: {output['evalue']}"
            for cell in self.cells()
            for output in cell["outputs"]
            if output["output_type"] == "error"
        ]

    def text(self, cell: int) -> str:
        """The text that a cell printed or ended with."""
        parts = [
            output.get("text") or output.get("data", {}).get("text/plain", "")
            for output in self.outputs(cell)
        ]
        return "".join(part if isinstance(part, str) else "".join(part) for part in parts)

    def shown(self, cell: int) -> Locator:
        """The part of the page where a cell's outputs are."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-OutputArea-output")

    def press(self, command: str) -> None:
        """Presses a button of the notebook's toolbar."""
        self.page.locator(f'.jp-NotebookPanel-toolbar [data-command="{command}"]').click()

    def write(self, cell: int, code: str) -> None:
        """Types over a cell's code."""
        self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(code)
