"""What a run says and writes, and where: nothing that it reads may be written over, and no claim may be lost."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpwgan.errors import UsageError
from dpwgan.settings import Settings, setting
from dpwgan.table.files.places import goes_to_stream

# Endings that promise another kind of file than is written: CSV for all names but .parquet and .npz.
_OTHER_KINDS = (".xlsx", ".xls", ".ods", ".json", ".jsonl", ".tsv", ".feather", ".arrow", ".dta", ".sav", ".zip")
# The heading of --help.
RUN = "run"
# A claim lies beside its table, and a signature beside its claim, by these ends.
CLAIM_SUFFIX, SIGNATURE_SUFFIX = ".privacy.json", ".sig"


@dataclass(frozen=True, kw_only=True)
class Voice(Settings):
    """How the run speaks on stderr."""

    heading = RUN

    quiet: bool = setting(False, "only errors and warnings on stderr", excludes="verbose")
    verbose: bool = setting(False, "say more on stderr, and where an internal error happened", excludes="quiet")
    log_format: Literal["text", "json"] = setting("text", "form of stderr (default: text)")


class Delivery(Settings):
    """What is written, and where: `output` and `claim` may be "-" for stdout, `claim` None for beside the output."""

    output: str
    claim: str | None
    sign: Path | None
    save_model: Path | None
    where: str | None
    voice: Voice

    @property
    def claim_path(self) -> Path | None:
        """Where the JSON claim goes: `claim`, else beside the output; None for a stream without a path."""
        if self.claim not in (None, "-"):
            return Path(str(self.claim))
        return None if goes_to_stream(self.output) else Path(self.output + CLAIM_SUFFIX)

    @property
    def signature_path(self) -> Path | None:
        """Where the claim's signature goes, if there is a key and a claim that is a file."""
        path = self.claim_path
        return None if self.sign is None or path is None else path.with_name(path.name + SIGNATURE_SUFFIX)

    def list_targets(self) -> list[tuple[str, Path]]:
        """The outputs, by name, and where they go."""
        targets = [("output", Path(self.output))] if self.output != "-" else []
        targets += [("claim", self.claim_path)] if self.claim_path is not None else []
        return targets + ([("signature", self.signature_path)] if self.signature_path is not None else [])

    def refuse_losses(self, read: Iterable[Path | None], **folders: Path | None) -> None:
        """Raises: UsageError if the claim would be lost, a file written over one that is read or written, or the output
        is named like another kind of file.
        """
        if self.claim is None and self.voice.quiet and goes_to_stream(self.output):
            raise UsageError("with --quiet and an output that is no file the claim would be lost: give --claim PATH")
        if self.sign is not None and self.claim_path is None:
            raise UsageError("--sign needs a claim that is a file: give --claim PATH")
        if self.output == "-" and self.claim == "-":
            raise UsageError("output and claim cannot both go to stdout")
        targets = self.list_targets()
        targets += [(name.replace("_", " "), folder) for name, folder in folders.items() if folder is not None]
        for name, target in targets:
            if any(source is not None and same_file(target, source) for source in read):
                raise UsageError(f"the {name} is the same file as an input, which would be overwritten")
        for index, (name, target) in enumerate(targets):
            for other, earlier in targets[:index]:
                if same_file(target, earlier):
                    raise UsageError(f"{other} and {name} are the same file")
        if self.output.lower().endswith(_OTHER_KINDS):
            raise UsageError(
                f"the output {self.output!r} would be CSV, which its name denies: end it in .csv or .parquet"
            )


def same_file(one: Path, other: Path) -> bool:
    """Says whether two paths lead to one file, which need not be there yet."""
    try:
        return one.samefile(other)  # sees through symbolic and hard links
    except OSError:  # one of them is not there yet, or the name is too long to be
        try:
            return one.resolve() == other.resolve()
        except (OSError, RuntimeError):
            return False
