"""Sums over several machines by tf.distribute, TensorFlow's own engine for that."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, cast

from dpwgan.array_types import Floats
from dpwgan.critic.device import compile_step, prepare_device
from dpwgan.errors import ResourceError
from dpwgan.table.cluster import Cluster, wait_for_all

import tensorflow as tf  # isort: skip  # after the device's module, which says how TensorFlow is to be imported


# All workers have been seen to be there when TensorFlow's own wait begins.
_START_SECONDS = 120


class TensorFlowWorkers:
    """Workers of a MultiWorkerMirroredStrategy: sums by its all-reduce, losses noticed by its heartbeats.

    A worker whose process ends is noticed at once, one that hangs or whose machine is gone within seconds. How long
    a worker computes does not matter: the others wait for it.
    """

    def __init__(self, cluster: Cluster, *, device: str, threads: int | None) -> None:
        """Waits for all workers and joins them. Raises: ResourceError if one does not come, or is lost."""
        prepare_device(device, threads=threads)
        wait_for_all(cluster)
        self.rank, self.size = cluster.rank, cluster.size
        self.broken = False
        """Whether nothing more can be added."""
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
            task_type="worker",
            task_id=cluster.rank,
            rpc_layer="grpc",
        )
        try:
            with _mortal():
                strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
        except tf.errors.OpError:
            raise ResourceError("the workers could not be joined; no output was written") from None
        self._add = _compile_addition(strategy, replicas=strategy.num_replicas_in_sync // cluster.size)

    def add(self, values: Floats) -> Floats:
        """Adds up an array over all workers. Shapes: (k,). Raises: ResourceError if a worker is lost."""
        if self.broken:
            raise ResourceError("another worker was lost; no output was written")
        # A signal in the midst of it leaves the others without an answer: only a finished addition mends this.
        self.broken = True
        try:
            total: Floats = _do_beside(lambda: self._add(tf.constant(values)).numpy())
        except tf.errors.OpError:
            raise ResourceError(
                "another worker stopped, or cannot be reached any more; no output was written"
            ) from None
        self.broken = False
        return total


def _compile_addition(strategy: Any, *, replicas: int) -> Callable[[tf.Tensor], tf.Tensor]:
    def add_here(values: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        # A worker of several GPUs is several replicas, of which one speaks.
        speaks = tf.equal(context.replica_id_in_sync_group % replicas, 0)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.where(speaks, values, tf.zeros_like(values)))

    @compile_step(input_signature=[tf.TensorSpec([None], tf.float64)])
    def add(values: tf.Tensor) -> tf.Tensor:
        return strategy.experimental_local_results(strategy.run(add_here, args=(values,)))[0]

    return cast(Callable[[tf.Tensor], tf.Tensor], add)


@contextmanager
def _mortal() -> Iterator[None]:
    """Lets signals end the process as they do by default, and ends it when this takes too long.

    TensorFlow waits for the others without letting Python act on a signal. Nothing has been written by then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    signal.alarm(_START_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _do_beside(job: Callable[[], Any]) -> Any:
    """What a job gives, done in a thread beside the main one, which can act on a signal while it waits.

    No process waits for such a thread when it ends. Raises: what the job raises.
    """
    answer: Future[Any] = Future()

    def work() -> None:
        try:
            answer.set_result(job())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return answer.result()
