"""Checkpoints: from which one a run continues, whether it is whole, and whether it belongs to this run."""

from __future__ import annotations

import json
import os
import time
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import TrainingArguments

RECORD = "hfxling_run.json"  # file in a checkpoint: the settings that determine how its training continues
# Settings that may change when a run continues: how it is tested, described and limited, how a batch is divided among
# processes, and where files are kept. The text itself is compared, not the name of its source.
_MAY_CHANGE = {
    *("test_data", "test_split", "test_vectors", "data_name", "data_licence", "limits", "cache_dir", "cpu_seconds"),
    *("probe_pairs", "geometry_pairs", "similarities", "dictionaries", "gold", "curve", "curve_pairs", "tatoeba"),
    *("qe", "qe_split", "sts", "patience", "folds", "distractors", "train_data", "train_vectors", "chunk_size"),
}
_OF_THE_TRAINER = (
    "seed",
    "data_seed",
    "gradient_accumulation_steps",  # pairs of other accumulation steps are no negatives
    "learning_rate",
    "lr_scheduler_type",
    "warmup_steps",
    "weight_decay",
    "optim",
    "max_grad_norm",
)


def checkpoint_of(training_args: TrainingArguments) -> str | None:
    """The checkpoint that `resume_from_checkpoint` names; if it has no value, the newest whole one in `output_dir`.

    Raises:
        ValueError: no checkpoint there, or a damaged one; the newest whole one is named if there is one.
    """
    asked = training_args.resume_from_checkpoint
    if asked is None or str(asked).lower() in ("", "false"):
        return None
    folder = Path(training_args.output_dir)
    newest = newest_checkpoint(folder)
    chosen = newest if str(asked).lower() == "true" else asked
    if chosen is None or not _is_whole(Path(chosen)):
        advice = f"the newest whole one is {newest}" if newest else "leave the option out to start anew"
        raise ValueError(f"resume_from_checkpoint={asked}: no whole checkpoint in {chosen or folder}; {advice}.")
    return str(chosen)


def newest_checkpoint(folder: Path) -> str | None:
    """The newest whole checkpoint of an output folder; those that a kill left unfinished or damaged are skipped."""
    folders: dict[int, Path] = {}  # by the step at which they were saved
    for path in folder.glob("checkpoint-*"):
        step = path.name.removeprefix("checkpoint-")
        if step.isdigit():
            folders[int(step)] = path
    for step in sorted(folders, reverse=True):
        if _is_whole(folders[step]):
            return str(folders[step])
    return None


def _is_whole(checkpoint: Path) -> bool:
    """Whether the Trainer finished it, and weights and states (optimizer, schedule, random generators) can be read."""
    if not (checkpoint / "trainer_state.json").is_file():  # the Trainer writes it last
        return False
    for path in (*checkpoint.glob("*.pt"), *checkpoint.glob("*.pth")):
        try:
            with zipfile.ZipFile(path) as archive:  # as torch writes them
                if archive.testzip() is not None:
                    return False
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError):
            return False
    for path in checkpoint.glob("*.safetensors"):
        try:
            with safe_open(path, "pt"):  # checks the header, and that the file has the length it states
                pass
        except (SafetensorError, OSError):
            return False
    return True


def age_checkpoints(folder: Path) -> None:
    """Give checkpoints with times in the future times in the past, in the same order.

    The Trainer deletes the oldest ones by time. If the clock went back it would keep these and delete the new one.
    """
    now = time.time()
    latest_first = sorted(folder.glob("checkpoint-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for seconds, path in enumerate(latest_first, 1):
        if path.stat().st_mtime > now - seconds:
            os.utime(path, (now - seconds, now - seconds))


def run_record(recipe: Any, training_args: TrainingArguments, corpus: Any) -> dict[str, Any]:
    """What determines how training continues: the recipe's options, the Trainer's that matter, and the text."""
    record = {}
    for field in fields(recipe):
        if field.name not in _MAY_CHANGE:
            record[field.name] = getattr(recipe, field.name)
    for name in _OF_THE_TRAINER:
        value = getattr(training_args, name)
        record[name] = getattr(value, "value", value)  # of an enumeration
    record["batch_size"] = training_args.per_device_train_batch_size * training_args.world_size
    record["training text"] = corpus.revision()
    return json.loads(json.dumps(record, default=str))  # as it will be read back: tuples would not equal JSON's lists


def check_record(checkpoint: str | None, record: Mapping[str, Any]) -> None:
    """Refuse to continue from a checkpoint of another training; one without a record is from an older version."""
    if checkpoint is None:
        return
    path = Path(checkpoint) / RECORD
    if not path.is_file():
        return
    earlier = json.loads(path.read_text(encoding="utf-8"))
    for name, value in record.items():
        if name in earlier and earlier[name] != value:
            raise ValueError(
                f"resume_from_checkpoint={checkpoint}: it was trained with {name}={earlier[name]!r}, not {value!r}; "
                "give the same value, or leave resume_from_checkpoint out to start anew."
            )
