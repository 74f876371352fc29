"""Tests of storage read files that the helpers of tests/sources write."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "sources"))
