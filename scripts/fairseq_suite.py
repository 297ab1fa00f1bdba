"""Pytest plug-in that records fairseq's own tests, and comparison of runs with and without us.

scripts/test_fairseq_suite.sh uses both parts. A results file VARIANT.RUN.tsv has a line for each
phase of a test: outcome, tab, id of the test. Run 0 has all tests. Later runs repeat the tests that
differ.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

PLUG_IN = "plug-in"
VARIANTS = ("stock", "unprotected", PLUG_IN)
"""`unprotected` is stock fairseq without torch's weights_only, which rejects its checkpoints."""

OUTCOMES = ("passed", "skipped", "failed")
"""Outcomes from best to worst. A test has the outcome of its worst phase."""

Results = dict[str, str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that scripts/test_fairseq_suite.sh passes."""
    parser.addoption("--results", type=Path, required=True, help="results file to write")
    parser.addoption("--only", type=Path, help="file with ids of the tests to run")
    parser.addoption(
        "--data-seed", type=int, default=0, help="random seed set before each test (default: 0)"
    )
    parser.addoption("--load-plug-in", action="store_true", help="register fairseq_ssl first")


def pytest_configure(config: pytest.Config) -> None:
    """Open the results file. With --load-plug-in, register fairseq_ssl before the tests import."""
    if config.getoption("--load-plug-in"):
        import fairseq_ssl

        fairseq_ssl.register()
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist report to their parent
        config.pluginmanager.register(Recorder(config.getoption("--results")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of --only. As arguments of pytest, an unknown id would be an error."""
    path = config.getoption("--only")
    if path:
        wanted = set(path.read_text().splitlines())
        items[:] = [item for item in items if item.nodeid in wanted]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the random seed before each test, so that all variants use the same data.

    test_max_positions, for example, passes with about 5 of 8 seeds, with the plug-in and without.
    """
    seed = item.config.getoption("--data-seed")
    random.seed(seed)
    if "torch" in sys.modules:  # the tests of fairseq import it, and numpy
        import numpy as np
        import torch

        np.random.seed(seed)
        torch.manual_seed(seed)


class Recorder:
    """Writer of outcomes, unbuffered: a crash does not lose the results of earlier tests."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file that cannot be imported."""
        if report.outcome != "passed":
            self._file.write(f"{report.outcome}\t{report.nodeid}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the setup, call or teardown of a test."""
        self._file.write(f"{report.outcome}\t{report.nodeid}\n")


def read_results(path: Path) -> Results:
    """Return the outcome of each test."""
    found: Results = {}
    for line in path.read_text().splitlines():
        outcome, test = line.split("\t", 1)
        found[test] = max(outcome, found.get(test, outcome), key=OUTCOMES.index)
    return found


def differing_tests(first: Results, second: Results) -> set[str]:
    """Return the tests that pass in exactly one of two runs."""
    return _passed(first) ^ _passed(second)


def _passed(results: Results) -> set[str]:
    return {test for test, outcome in results.items() if outcome == "passed"}


@dataclass(frozen=True)
class Difference:
    """A test that differs in run 0, with its number of passes in the repeats."""

    test: str
    repeats: int
    without: int
    with_plug_in: int

    @property
    def kind(self) -> str:
        """Gained or lost if the counts differ by more than half of the repeats, else flaky."""
        change = self.with_plug_in - self.without
        if 2 * abs(change) <= self.repeats:
            return "flaky"
        return "gained" if change > 0 else "lost"


def compare(without: Sequence[Results], with_plug_in: Sequence[Results]) -> list[Difference]:
    """Return the tests that differ in run 0, with the results of the repeats."""
    tests = sorted(differing_tests(without[0], with_plug_in[0]))
    repeats = len(without) - 1
    if tests and (repeats < 1 or len(with_plug_in) != len(without)):
        raise ValueError("Both sides need run 0 and the same number of repeats, 1 or more.")
    passes = [
        Counter(test for results in runs[1:] for test in _passed(results))
        for runs in (without, with_plug_in)
    ]
    return [Difference(test, repeats, passes[0][test], passes[1][test]) for test in tests]


def read_runs(folder: Path) -> dict[str, list[Results]]:
    """Return the runs of each variant, run 0 first.

    Run 0 of `unprotected` has only the tests that do not pass in `stock`.
    """
    runs: dict[str, list[Results]] = {}
    for variant in VARIANTS:
        count = len(list(folder.glob(f"{variant}.*.tsv")))
        runs[variant] = [read_results(folder / f"{variant}.{run}.tsv") for run in range(count)]
    if runs["stock"] and runs["unprotected"]:
        runs["unprotected"][0] = runs["stock"][0] | runs["unprotected"][0]
    return runs


def compare_variants(runs: dict[str, list[Results]]) -> dict[str, list[Difference]]:
    """Return the differences between the plug-in and each other variant."""
    others = {variant: found for variant, found in runs.items() if variant != PLUG_IN}
    return {variant: compare(found, runs[PLUG_IN]) for variant, found in others.items()}


def report(runs: dict[str, list[Results]]) -> Iterator[str]:
    """Yield the counts of each variant and the differences of the plug-in."""
    yield f"{'':<12}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES)
    for variant, (everything, *_) in runs.items():
        counts = Counter(everything.values())
        yield f"{variant:<12}" + "".join(f"{counts[outcome]:>9}" for outcome in OUTCOMES)
        for test, outcome in everything.items():
            if outcome == "failed" and "::" not in test:
                yield f"  not imported: {test}"
    for variant, differences in compare_variants(runs).items():
        kinds = Counter(each.kind for each in differences)
        counted = ", ".join(f"{kinds[kind]} {kind}" for kind in ("gained", "lost", "flaky"))
        yield f"{PLUG_IN} against {variant}: {counted}"
        for each in sorted(differences, key=lambda each: (each.kind, each.test)):
            yield (
                f"  {each.kind:<6}  passes {each.without} -> {each.with_plug_in} "
                f"of {each.repeats}  {each.test}"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print test ids or the report. Return 1 if the report has a lost test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of results files")
    parser.add_argument(
        "--failing", action="store_true", help="print the tests that do not pass in `stock`"
    )
    parser.add_argument(
        "--differing",
        choices=VARIANTS,
        help="print the tests that differ between the plug-in and this variant",
    )
    options = parser.parse_args(arguments)
    runs = read_runs(options.folder)
    if options.failing:
        first = runs["stock"][0]
        print(*sorted(first.keys() - _passed(first)), sep="\n")
        return 0
    if options.differing:
        print(*sorted(_differing(runs, options.differing)), sep="\n")
        return 0
    print(*report(runs), sep="\n")
    kinds = {each.kind for found in compare_variants(runs).values() for each in found}
    return int("lost" in kinds)


def _differing(runs: dict[str, list[Results]], variant: str) -> set[str]:
    """Return the tests that differ from a variant, or from any variant for the plug-in itself."""
    others = set(VARIANTS) - {PLUG_IN} if variant == PLUG_IN else {variant}
    return set().union(*(differing_tests(runs[each][0], runs[PLUG_IN][0]) for each in others))


if __name__ == "__main__":
    sys.exit(main())
