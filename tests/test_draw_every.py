"""What holds for every picture: it draws without a warning, in both languages, on given axes."""

import draw_runs as made
import matplotlib.pyplot as plt
import numpy as np
import pytest
from draw_marks import arrows, fills, no_warning, texts  # noqa: F401 - the fixture works by being here
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from mindlab import draw
from mindlab.draw import labels, matrix
from mindlab.draw.picture import Picture, canvas
    "pipeline": lambda run, **k: draw.pipeline(schedule([1] * run.ranks, 3), **k),
