"""Long trials, from the root of the repository: ``python -m tests.trials NAME --n N --seed S [--state FILE]``.

``page`` and ``panel`` are no trials: they measure the page and its KV panel in a browser, and tell figures.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from trials.running import DEFAULT_MODELS, Plan, run_trials
from trials.scheduler import STEPS


def main() -> int:
    """Run the trials that the command line names; 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.trials", description=__doc__)
    parser.add_argument("name", choices=sorted([*DEFAULT_MODELS, "page", "panel"]))
    parser.add_argument("--n", type=int, default=100, help="trials in all, those of an earlier run included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="file that remembers how far it came, to go on later")
    parser.add_argument("--model", choices=["llama", "scripted"], default="", help="of equality and pools")
    parser.add_argument("--steps", type=int, default=STEPS, help="of one run of the scheduler")
    given = parser.parse_args()
    if given.name in ("page", "panel"):
        measure = importlib.import_module(f"trials.{given.name}").measure
        measure(lambda line: print(line, flush=True))
        return 0
    plan = Plan(given.name, given.seed, given.model, given.steps)
    tally = run_trials(plan, given.n, given.state, lambda line: print(line, flush=True))
    print(f"{plan.name}, seed {plan.seed}, {plan.model} model: {tally.summary()}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
