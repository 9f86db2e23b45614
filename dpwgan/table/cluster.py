"""Which machines share a run, by TF_CONFIG, and the wait until all of them are there.

TF_CONFIG is the variable by which TensorFlow's operators tell each worker of its cluster; docs/scale.md has an example.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dpwgan.errors import ResourceError, UsageError, say_why

VARIABLE = "TF_CONFIG"
# An orchestrator may have to pull an image on each machine first.
PATIENCE = 900.0
_PAUSE = 0.2
_ROLES = ("chief", "worker")


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The addresses (host:port) of all workers, the chief's first, and which of them this process is.

    Raises: UsageError for an address twice or without a port.
    """

    addresses: tuple[str, ...]
    rank: int

    def __post_init__(self) -> None:
        if len(set(self.addresses)) < len(self.addresses):
            raise UsageError(f"{VARIABLE}: two workers have the same address")
        for address in self.addresses:
            host, _, port = address.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                raise UsageError(f"{VARIABLE}: the address of a worker must be host:port")

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self.addresses)


def read_cluster(environment: Mapping[str, str]) -> Cluster | None:
    """Reads TF_CONFIG: None where it is not set, or its cluster is this process alone.

    Raises: UsageError if it is not of the form that TensorFlow documents, or gives a part that is not played here.
    """
    text = environment.get(VARIABLE, "")
    if not text.strip():
        return None
    try:
        document = json.loads(text)
        cluster, task = document.get("cluster", {}), document.get("task", {})
        jobs = {str(job): tuple(str(address) for address in addresses) for job, addresses in cluster.items()}
        role, index = str(task.get("type")), task.get("index")
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise UsageError(f"{VARIABLE} is not JSON of the form that TensorFlow documents") from None
    others = sorted(set(jobs) - set(_ROLES))
    if others:
        raise UsageError(f"{VARIABLE}: a cluster has workers and perhaps a chief here, and no {others[0]}")
    chiefs, workers = (jobs.get(job, ()) for job in _ROLES)
    if len(chiefs) + len(workers) < 2:
        return None
    if len(chiefs) > 1:
        raise UsageError(f"{VARIABLE}: there is more than one chief")
    if role not in jobs or isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(jobs[role]):
        raise UsageError(f"{VARIABLE}: the task must name the type and the index of a worker in the cluster")
    return Cluster(addresses=chiefs + workers, rank=index if role == "chief" else len(chiefs) + index)


def wait_for_all(cluster: Cluster, *, patience: float = PATIENCE) -> None:
    """Waits until every other worker can be reached, and can reach this one.

    TensorFlow's own wait cannot be interrupted and may be without end, so it only begins when all are there. Afterwards
    the port is free for it again; a worker that looks later then finds TensorFlow there.
    Raises: ResourceError if one is not there within `patience` seconds, or the own port is taken.
    """
    deadline = time.monotonic() + patience
    port = int(cluster.addresses[cluster.rank].rpartition(":")[2])
    missing = [rank for rank in range(cluster.size) if rank != cluster.rank]
    with _listen(port):
        while missing := [rank for rank in missing if not _answers(cluster.addresses[rank])]:
            if time.monotonic() > deadline:
                names = ", ".join(f"{rank} ({cluster.addresses[rank]})" for rank in missing)
                raise ResourceError(f"not all workers could be reached within {patience:.0f} s; missing: {names}")
            time.sleep(_PAUSE)
        # Whoever has just been found may not have looked here yet: nobody who looks once more is left in the cold.
        time.sleep(2 * _PAUSE)


def _listen(port: int) -> Any:
    import socket  # not by --help, nor by a run that is alone

    try:
        return socket.create_server(("", port), backlog=1024)
    except OSError as error:
        raise ResourceError(f"this worker cannot listen on its port {port}: {say_why(error)}") from None


def _answers(address: str) -> bool:
    import socket

    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
        return True
    return False
