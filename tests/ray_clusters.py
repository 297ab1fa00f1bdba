"""A Ray cluster for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 200,
    "health_check_failure_threshold": 5,
}
"""Settings with which Ray notices a killed node after one second. Its default is 15 seconds."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a node with one CPU, to which tests add nodes that they kill."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": HEALTH_CHECKS}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
