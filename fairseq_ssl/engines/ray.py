"""Work spread over the machines of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fairseq_ssl.engines.engine import in_order
from fairseq_ssl.errors import DataError
from fairseq_ssl.text.needed_package import needed

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRIES = 20
"""How often an item is begun again when the machine that had it goes away."""


@dataclass(frozen=True)
class RayEngine:
    """All CPUs of the cluster at `address`; None: one started here, or that RAY_ADDRESS names.

    This package must be installed on every machine. What a lost machine was doing, or had
    done and not yet handed over, is done again elsewhere.
    """

    address: str | None = None
    cpus: float = 1
    """What an item takes of a machine."""
    gpus: float = 0

    def ordered(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what `work` makes of each item, in the items' order."""
        ray = self._connected()
        sent = ray.put(work)
        task = ray.remote(_do).options(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=RETRIES)
        most = 2 * max(1, self._at_a_time(ray.cluster_resources()))
        try:
            yield from in_order(lambda item: task.remote(sent, item), ray.get, items, most)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise DataError(
                f"The Ray cluster lost too much: {error}. Run the same command again."
            ) from None

    def _at_a_time(self, there: Mapping[str, float]) -> int:
        """Return how many items the cluster can work on; Ray gives each its own GPU."""
        name, needed = ("GPU", self.gpus) if self.gpus else ("CPU", self.cpus)
        return int(there.get(name, 1) / needed)

    def _connected(self) -> Any:
        ray = needed("ray", "--engine ray", "ray")
        try:
            if not ray.is_initialized():
                ray.init(self.address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise DataError(f"There is no Ray cluster at {self.address}: {error}") from None
        return ray


def _do(work: Callable[[Any], Any], item: Any) -> Any:
    return work(item)
