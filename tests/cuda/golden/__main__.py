"""Writes the kept texts: ``python -m tests.cuda.golden --write``, and read the difference."""

from __future__ import annotations

import sys

from tests.cuda.golden.cases import CASES, path, text

if sys.argv[1:] != ["--write"]:
    sys.exit(__doc__)
for case in CASES:
    path(case).write_text(text(case), encoding="utf-8")
