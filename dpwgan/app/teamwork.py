"""How several workers begin and end a run together: one task for all, one exit code."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from dpwgan.app.config import RunConfig
from dpwgan.app.interruption import Interrupted
from dpwgan.app.logs import LOGGER
from dpwgan.app.planning import RunPlan
from dpwgan.app.process import is_out_of_memory
from dpwgan.errors import DpwganError, InputError, ResourceError, UsageError, say_why
from dpwgan.methods.base import SharedMethod
from dpwgan.privacy.journal import Journal
from dpwgan.privacy.ledger import Ledger
from dpwgan.table.cluster import Cluster
from dpwgan.table.files.parts import list_parts
from dpwgan.table.files.stream import PIECE
from dpwgan.table.workers import LostPeerError, Team
from dpwgan.version import __version__

_BUDGET = ("epsilon", "delta")
# Settings in which machines may differ without effect on the release.
_OWN = ("threads", "device", "memory")
_CHECKPOINT = ("checkpoint", "resume", "book")

Result = TypeVar("Result")


@contextmanager
def gather_team(config: RunConfig, *, run_plan: RunPlan, units: int | None) -> Iterator[Team | None]:
    """Joins the workers of the cluster, makes sure that all do the same, and ends the run for all of them.

    None if this process is alone. `units`: their number, if the specs name them.
    Raises: UsageError if the run cannot be shared, or the workers do not agree; ResourceError if one does not come or
      is lost.
    """
    cluster = config.cluster
    if cluster is None:
        yield None
        return
    _refuse_what_cannot_be_shared(cluster, run_plan=run_plan, units=units)
    facts = _list_facts(config.data, run_plan=run_plan)
    LOGGER.info("worker %d of %d: waiting for the others", cluster.rank, cluster.size)
    # TensorFlow takes seconds to import; a run that is refused must not pay for it.
    from dpwgan.critic.collective import TensorFlowWorkers

    team = Team(TensorFlowWorkers(cluster, device=run_plan.config.device, threads=run_plan.config.threads))
    team.agree(facts)
    try:
        yield team
    except BaseException as error:
        if team.leads:
            team.dismiss(_find_exit_code(error))
        raise
    if team.leads:
        team.dismiss()


def do_together(team: Team | None, act: Callable[[], Result]) -> Result:
    """Does what every worker does, and waits for all.

    Raises: what `act` raises, or LostPeerError if another worker's failed.
    """
    if team is None:
        return act()
    try:
        result = act()
    except BaseException as error:
        with suppress(LostPeerError):
            team.check_ready(_find_exit_code(error))
        raise
    team.check_ready()
    return result


def open_together(team: Team | None, open_journal: Callable[[], Journal]) -> Journal:
    """Opens the journal of a run on the chief, and tells the other workers what they need of it.

    Raises: what `open_journal` raises on the chief, LostPeerError on all others then.
    """
    if team is None:
        return open_journal()
    with ExitStack() as opened:
        # Closed as well if others fail before all meet.
        journal = do_together(team, lambda: opened.enter_context(closing(open_journal() if team.leads else Journal())))
        told = team.share(journal.describe())
        opened.pop_all()
    return journal if team.leads else Journal(told)


def agree_on_charges(team: Team | None, ledger: Ledger) -> None:
    """Makes sure that the ledgers of all workers hold the same reservations, and the same charges of earlier lives.

    Raises: UsageError, on all workers, if they do not: another package plans other noise, say.
    """
    if team is None:
        return
    lines = [
        # Machines of another kind may calculate another last digit.
        {key: f"{value:.9g}" if isinstance(value, float) else value for key, value in line.items() if key != "details"}
        for line in ledger.itemise()
    ]
    team.agree({"the plan of what is released": json.dumps(lines, sort_keys=True).encode()})


def _refuse_what_cannot_be_shared(cluster: Cluster, *, run_plan: RunPlan, units: int | None) -> None:
    method = run_plan.method
    if not isinstance(method, SharedMethod):
        raise UsageError(
            f"the method {method.name} needs all rows on one machine, and TF_CONFIG names {cluster.size} workers"
        )
    method.check_shared(run_plan.plan)
    if run_plan.undiscovered:
        raise UsageError("several workers need specs that list all cells: values_from is for one machine")
    count, kind = (run_plan.shape.records, "rows") if units is None else (units, "units")
    if count < cluster.size:
        raise UsageError(f"TF_CONFIG names {cluster.size} workers, and the table has {count} {kind}")


def _list_facts(data: str, *, run_plan: RunPlan) -> dict[str, bytes]:
    """What all workers must have in common, by the words for it.

    Privacy: a row that two workers took for theirs would count twice: all must have the same file, in the same order.
    """
    synthesis = run_plan.config
    settings = {name: own for name, own in vars(synthesis).items() if name not in (*_BUDGET, *_OWN, *_CHECKPOINT)}
    settings["settings"] = sorted(synthesis.training.items())
    return {
        "the version": __version__.encode(),
        # What was read of them, so that a list from another codebook shows as well.
        "the specs": repr(run_plan.schema).encode(),
        "the budget": repr([getattr(synthesis, name) for name in _BUDGET]).encode(),
        "the settings": repr(settings).encode(),
        # Its folder is the chief's, and may be called otherwise elsewhere.
        "whether there is a checkpoint, and to be resumed": repr(
            [synthesis.checkpoint is not None, synthesis.resume]
        ).encode(),
        "the number of rows": str(run_plan.shape.records).encode(),
        "the table": _digest(data),
    }


def _digest(path: str) -> bytes:
    digest = hashlib.sha256()
    try:
        for part in list_parts(path) or (path,):
            with Path(part).open("rb") as file:
                digest.update(os.fstat(file.fileno()).st_size.to_bytes(8, "big"))
                while piece := file.read(PIECE):
                    digest.update(piece)
    except OSError as error:
        raise InputError(f"the table cannot be read: {say_why(error)}") from None
    return digest.digest()


def _find_exit_code(error: BaseException) -> int:
    if isinstance(error, Interrupted):
        return 128 + error.number
    if is_out_of_memory(error):
        return ResourceError.exit_code
    return error.exit_code if isinstance(error, DpwganError) else DpwganError.exit_code
