"""Check that a model's folder or repository is what its card says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hfxling.data.pairs import IN_MEMORY
from hfxling.encoders.identity import fetch_folder
from hfxling.evaluation.results import read_results
from hfxling.files import weights_hash
from hfxling.hub.record import RECORD, read_record
from hfxling.values import check_least
from hfxling.verbs import CacheFolder, Result, verb

if TYPE_CHECKING:
    from hfxling.hub.agreement import Agreement


@dataclass(repr=False)
class Verified(Result):
    """What checking a model found.

    Attributes:
        model: folder or Hub id.
        commit: commit of the repository; None for a folder.
        files: number of files in the record, without record and card.
        rows: number of figures in the record.
        faults: one line for each disagreement.
        equal: number of rows that were measured again and are the same.
        not_measured: number of rows, by data set and split, that only training or an export gives.
        is_measured: whether figures were measured; they are not with `files_only`, or if the text is not there.
        part_of: for a variant in a repository of its own, the repository of the whole model, which has the figures.
    """

    model: str
    commit: str | None
    files: int
    rows: int
    faults: list[str]
    equal: int = 0
    not_measured: dict[str, int] = field(default_factory=dict)
    is_measured: bool = False
    part_of: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether everything that was checked agrees."""
        return not self.faults

    @property
    def exit_status(self) -> int:
        """Exit status of the command."""
        return 0 if self.agrees else 1

    def table(self) -> str:
        """One line per fault, then what was checked and what was not."""
        lines = [f"DISAGREES  {fault}" for fault in self.faults]
        place = f"{self.model} at {self.commit}" if self.commit else self.model
        lines.append(f"{place}: {self.files} files and the card, {self._figures()}; {self._verdict()}.")
        return "\n".join(lines)

    def _figures(self) -> str:
        if self.part_of:
            return f"no figure of its own: verify {self.part_of}, of which it is a part"
        if not self.is_measured:
            return "no figure measured again"
        text = f"{self.equal} of {self.rows} rows measured again and equal"
        if self.not_measured:
            count = sum(self.not_measured.values())
            places = "; ".join(self.not_measured)
            text += f"; {count} not measured again, because only training or an export gives them ({places})"
        return text

    def _verdict(self) -> str:
        if self.faults:
            count = len(self.faults)
            return "1 disagreement" if count == 1 else f"{count} disagreements"
        if self.part_of:
            return "files and card agree"
        if self.equal == 0:
            return "files and card agree; nothing is known of the figures"
        if self.equal < self.rows:
            return "all that was measured agrees"
        return "all agree"


@verb
def verify(
    model: str | Path,
    *,
    revision: str | None = None,
    root: str | Path = ".",
    files_only: bool = False,
    tolerance: float = 2e-6,
    cache_dir: CacheFolder = "outputs/features",
    device: str | None = None,
    trust_remote_code: bool = False,
) -> Verified:
    """Check that a folder or repository is what its card says.

    The files are compared with the hashes in results.json, and the card with its rows. Then the evaluation runs again
    on the text that results.json names; this must be the same text as then. If the encoder that the model was made from
    is at hand, its weights must be the same, too. The command prints a line for each disagreement; if there is any, its
    exit status is 1. What is in the Hub's cache needs no network (HF_HUB_OFFLINE=1).

    Example:
        >>> print(hfxling.verify("outputs/zh-vi-sf/model", root="../texts").table())

    Args:
        model: folder or Hub id of the model.
        revision: branch, tag or commit on the Hub.
        root: folder that relative paths of text in results.json start from.
        files_only: check files and card, and measure nothing.
        tolerance: largest difference between two figures that counts as equal; processors may round differently.
        cache_dir: folder where frozen vectors are kept.
        device: device to compute on, such as cpu; by default a GPU if there is one.
        trust_remote_code: allow code that hfxling did not write to run: that of the folder, and that of the encoder it
            was made from.

    Returns:
        Every fault, and how much was measured again.

    Raises:
        ValueError: for a negative tolerance, or an invalid results.json.
        FileNotFoundError: if the model or `root` does not exist, or the folder has no results.json.
    """
    check_least(0, tolerance=tolerance)
    if not Path(root).is_dir():
        raise FileNotFoundError(f"root={root}: no such folder; give the one that the paths of text start from.")
    from hfxling.hub.agreement import folder_faults  # loads torch

    folder, commit = fetch_folder(str(model), revision)
    record = read_record(folder)
    rows = read_results(folder / RECORD)
    files = len(record.get("files") or ())
    verified = Verified(str(model), commit, files, len(rows), folder_faults(folder, record))
    if not rows:  # a variant that states figures of its own has them measured
        verified.part_of = record["card"].get("part_of")
    if files_only:
        return verified
    settings = record.get("settings") or {}
    verified.faults += _base_faults(settings, record.get("base_weights"), Path(root))
    is_in_memory = settings.get("train_data") == [IN_MEMORY]  # the text is in no file that could be read again
    if verified.part_of or is_in_memory or not (rows or settings.get("train_data")):
        return verified
    try:
        options = {"root": Path(root), "cache_dir": Path(cache_dir), "device": device}
        options |= {"trust_remote_code": trust_remote_code}
        compared, faults_of_text = _measured(record, folder, tolerance, **options)
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError) as error:  # anybody may have written it
        reason = " ".join(str(error).split())
        verified.faults.append(f"figures: cannot be measured again ({reason})")
        return verified
    verified.is_measured = True
    verified.equal = compared.agree
    verified.faults += faults_of_text + compared.faults
    for row in compared.unmeasured:
        place = f"{row.dataset}, {row.split}"
        verified.not_measured[place] = verified.not_measured.get(place, 0) + 1
    return verified


def _base_faults(settings: Mapping, recorded: str | None, root: Path) -> list[str]:
    """A line if the encoder that the model was made from has other weights now; none if it is not at hand."""
    base = settings.get("base_model")
    if not isinstance(base, str) or recorded is None:
        return []
    if (root / base).is_dir():
        base = str(root / base)
    try:
        folder, _ = fetch_folder(base, settings.get("base_revision"), ["*.safetensors"])
    except FileNotFoundError:
        return []
    if weights_hash(folder) == recorded:
        return []
    return [f"base_model: the weights of {base} are not those that the model was made from"]


def _measured(record: Mapping, folder: Path, tolerance: float, **options: Any) -> tuple[Agreement, list[str]]:
    """Compare the recorded rows with new ones; also says where the training text is not what the card says.

    `options` are those of `measured_again`.
    """
    from hfxling.hub.adapter import merged_folder  # loads torch
    from hfxling.hub.agreement import compare_rows, text_faults
    from hfxling.methods.tested import measured_again  # loads a method, too

    settings = record.get("settings") or {}
    if not settings.get("train_data"):
        raise ValueError("it does not say which text the model was made from")
    with TemporaryDirectory(prefix="hfxling-") as scratch:
        whole = merged_folder(folder, Path(scratch))
        found, corpus = measured_again(record, whole, **options)
    entries = corpus.card_entries(settings.get("data_licence"))
    compared = compare_rows(read_results(folder / RECORD), found, tolerance)
    return compared, text_faults(record["card"]["train_data"], entries)
