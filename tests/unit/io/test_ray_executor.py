"""A Ray cluster with two nodes, one of which is killed during the run."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.executors import RayExecutor
from tests.ray_clusters import cluster
from tests.unit.inference import random_models
from tests.unit.io.test_local_executor import failing, initialize, initialized

ray = pytest.importorskip("ray")
__all__ = ["cluster"]


def slow(item: tuple[Path, int]) -> tuple[int, bytes]:
    """Record the node in a file, and return more than Ray stores in the caller."""
    notes, number = item
    time.sleep(0.2)
    (notes / ray.get_runtime_context().get_node_id()).touch()
    return number, bytes(300_000)


@pytest.mark.slow
def test_items_of_a_lost_node_are_retried(cluster: Any, tmp_path: Path) -> None:
    lost = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()

    def kill() -> None:
        """Wait until the node has processed an item."""
        while not (tmp_path / lost.node_id).exists():
            time.sleep(0.01)
        cluster.remove_node(lost, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    items = [(tmp_path, number) for number in range(30)]
    results = list(RayExecutor(cluster.address).imap(slow, items))
    killer.join()
    assert [number for number, _ in results] == list(range(30))
    waited = 0.0
    while sum(node["Alive"] for node in ray.nodes()) > 1:  # the cluster notices it later
        assert waited < 60
        waited += 0.1
        time.sleep(0.1)


def test_processes_are_initialized_and_errors_are_raised_in_the_caller(cluster: Any) -> None:
    executor = RayExecutor(cluster.address, initializer=initialize)
    assert set(executor.imap(initialized, range(4))) == {"yes"}
    with pytest.raises(DataError, match="five"):
        list(executor.imap(failing, range(6)))


def test_noise_equals_that_of_a_local_run(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clean").write_text("".join(f"w{n} a b c\n" for n in range(60_000)))
    base = ["noise", "clean", "--method", "direct"]
    assert main([*base, "-o", "local", "--jobs", "1"]) == 0
    assert main([*base, "-o", "ray", "--executor", "ray"]) == 0
    assert Path("ray").read_bytes() == Path("local").read_bytes()


@pytest.mark.slow
def test_back_translation_equals_that_of_a_local_run(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.chdir(tmp_path)
    data = random_models.data_folder(tmp_path / "data")
    random_models.translation(tmp_path / "t.pt", data, 1)
    Path("mono").write_text("a b c\nd e\n\nf\n" * 100)
    base = ["back-translate", "mono", "--model", "t.pt", "--data-dir", "data"]
    assert main([*base, "-o", "local", "--engine", "ctranslate2", "--jobs", "1"]) == 0
    assert main([*base, "-o", "ray", "--engine", "ctranslate2", "--executor", "ray"]) == 0
    assert Path("ray").read_bytes() == Path("local").read_bytes()


@pytest.mark.parametrize(("cpus", "gpus", "items"), [(2, 0, 4), (1, 0.5, 6), (1, 0, 8)])
def test_as_many_items_are_started_as_the_cluster_has_room_for(
    cpus: float, gpus: float, items: int
) -> None:
    executor = RayExecutor(cpus=cpus, gpus=gpus)
    assert executor._parallel_items({"CPU": 8.0, "GPU": 3.0}) == items
