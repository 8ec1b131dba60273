"""`python -m mindlab …` is `mindlab …`."""

import sys

from mindlab.cli import main

sys.exit(main())
