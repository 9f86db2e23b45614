"""TF_CONFIG, and the wait for all workers."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dpwgan.errors import ResourceError, UsageError
from dpwgan.table.cluster import Cluster, read_cluster, wait_for_all
from tests.ports import find_ports


def config(cluster: Any, role: Any = "worker", index: Any = 0) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}


@pytest.mark.parametrize(
    "environment",
    [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}, config({"worker": ["a:1"]}), config({"chief": ["a:1"]}, "chief")],
)
def test_cluster_is_none_when_there_is_one_worker(environment):
    assert read_cluster(environment) is None


def test_chief_comes_first_when_the_cluster_has_one():
    jobs = {"worker": ["b:2", "c:3"], "chief": ["a:1"]}
    assert read_cluster(config(jobs, "chief")) == Cluster(addresses=("a:1", "b:2", "c:3"), rank=0)
    assert read_cluster(config(jobs, "worker", 1)) == Cluster(addresses=("a:1", "b:2", "c:3"), rank=2)
    assert read_cluster(config({"worker": ["b:2", "c:3"]}, index=1)) == Cluster(addresses=("b:2", "c:3"), rank=1)


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"TF_CONFIG": "{"}, id="no JSON"),
        pytest.param({"TF_CONFIG": "[1]"}, id="a list"),
        pytest.param({"TF_CONFIG": '{"cluster": {"worker": 3}}'}, id="a number of workers"),
        pytest.param(config({"worker": ["a:1", "b:2"], "ps": ["c:3"]}), id="a parameter server"),
        pytest.param(config({"chief": ["a:1", "b:2"]}, "chief"), id="two chiefs"),
        pytest.param(config({"worker": ["a:1", "b:2"]}, index=2), id="an index that is none"),
        pytest.param(config({"worker": ["a:1", "b:2"]}, index=-1), id="a negative index"),
        pytest.param(config({"worker": ["a:1", "b:2"]}, index="0"), id="an index as text"),
        pytest.param(config({"worker": ["a:1", "b:2"]}, "evaluator"), id="a role that is none"),
        pytest.param(config({"worker": ["a:1", "a:1"]}), id="an address twice"),
        pytest.param(config({"worker": ["a:1", "b"]}), id="no port"),
        pytest.param(config({"worker": ["a:1", "b:99999"]}), id="a port that is none"),
    ],
)
def test_cluster_is_refused_when_it_is_not_of_the_form(environment):
    with pytest.raises(UsageError, match="TF_CONFIG"):
        read_cluster(environment)


def test_wait_ends_when_all_workers_are_there():
    addresses = tuple(f"127.0.0.1:{port}" for port in find_ports(3))
    all_ended = threading.Barrier(3, timeout=20)

    def wait(rank: int) -> None:
        wait_for_all(Cluster(addresses=addresses, rank=rank), patience=20)
        # From here on TensorFlow answers at the port.
        host, port = addresses[rank].split(":")
        with socket.create_server((host, int(port))):
            all_ended.wait()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(wait, range(3))) == [None] * 3


def test_wait_names_the_missing_worker_when_it_does_not_come():
    here, there = find_ports(2)
    with pytest.raises(ResourceError, match=rf"within 0 s; missing: 1 \(127.0.0.1:{there}\)"):
        wait_for_all(Cluster(addresses=(f"127.0.0.1:{here}", f"127.0.0.1:{there}"), rank=0), patience=0.01)


def test_wait_says_so_when_the_own_port_is_taken():
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ResourceError, match=f"cannot listen on its port {port}"):
            wait_for_all(Cluster(addresses=(f"127.0.0.1:{port}", "127.0.0.1:1"), rank=0), patience=0.01)
