"""Scripts of published tables, figures and benchmarks, run as `python -m experiments.NAME`; docs/experiments.md."""

import muzero  # noqa: F401  # before torch, whose threads it tells how to wait
