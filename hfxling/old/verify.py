"""Check a model's folder or repository: its files, its card, and every figure by measuring it again.

hfxling verify org/zh-vi-sf [--revision v1]
hfxling verify outputs/zh-vi-sf/model --root ../texts

Files are held against the hashes in results.json, the card against its rows, and the evaluation runs again on the text
that results.json names, which must be the text that was measured on. Whatever disagrees is named, a line each, and the
status is 1. What is in the cache needs no network (HF_HUB_OFFLINE=1).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hfxling.arguments import key, parse_arguments


@dataclass(kw_only=True)
class VerifyArguments:
    """The folder, and how it is measured again."""

    model: str = key("folder or Hub id", positional=True)
    revision: str | None = key("branch, tag or commit on the Hub", None)
    root: str = key("folder that relative paths of text in results.json begin at", ".")
    files_only: bool = key("check files and card, measure nothing", False)
    tolerance: float = key("difference of a figure that counts as none; another processor may round otherwise", 2e-6)
    cache_dir: str = key("where frozen vectors are kept", "outputs/features", writes="folder")
    device: str | None = key("cpu, or by default a GPU when there is one", None)

    def __post_init__(self):
        if self.tolerance < 0:
            raise ValueError(f"tolerance={self.tolerance}: give 0 or more.")
        if not Path(self.root).is_dir():
            raise FileNotFoundError(f"root={self.root}: no such folder; give the one that the text's paths begin at.")


def main(argv: list[str] | None = None) -> list[str]:
    (args,) = parse_arguments((VerifyArguments,), argv, prog="hfxling verify", description=__doc__)
    from hfxling.hub.agreement import verify_files

    folder, commit, record, faults = verify_files(args.model, args.revision)
    told = f"{len(record.get('files', ()))} files and the card"
    if not args.files_only:
        found, told_of_figures = figures(args, folder, record)
        faults, told = faults + found, f"{told}, {told_of_figures}"
    for fault in faults:
        print(f"DISAGREES  {fault}")
    place = f"{args.model} at {commit}" if commit else args.model
    print(f"{place}: {told}; {f'{len(faults)} disagreement(s)' if faults else 'all agree'}.")
    if faults:
        raise SystemExit(1)
    return faults


def figures(args: VerifyArguments, folder: Path, record: dict) -> tuple[list[str], str]:
    """A line for every figure or text that disagrees, and what was measured."""
    from hfxling.evaluation.results import read_results
    from hfxling.hub.agreement import compare_rows, text_faults
    from hfxling.hub.record import RECORD
    from hfxling.methods.verification import measured_again

    rows, cache = read_results(folder / RECORD), Path(args.cache_dir)
    try:
        found, corpus = measured_again(record, folder, root=Path(args.root), cache_dir=cache, device=args.device)
    except (FileNotFoundError, ValueError, TypeError) as error:
        return [f"figures: cannot be measured again ({' '.join(str(error).split())})"], "no figure measured"
    compared = compare_rows(rows, found, args.tolerance)
    told = f"{compared.agree} of {len(rows)} rows measured again and equal"
    if compared.unmeasured:
        splits = ", ".join(dict.fromkeys(f"{row.dataset}, {row.split}" for row in compared.unmeasured))
        told += f", {len(compared.unmeasured)} not, as only training or an export gives them ({splits})"
    licence = record["settings"].get("data_licence")
    return text_faults(record["card"]["train_data"], corpus.card_entries(licence)) + compared.faults, told
