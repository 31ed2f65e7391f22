"""Evaluate any model: a table, pictures, and results.json, which keeps the outcome of every item.

hfxling evaluate --model DIR_OR_HUB_ID --task tatoeba [--data ../shared/data/tatoeba] [--key value ...]
hfxling evaluate --model ... --task retrieval geometry --source_lang zh --target_lang vi --data test.zh+test.vi
hfxling evaluate --model ... --task sts17 qe --data sts17=DIR qe=DIR
hfxling evaluate --model bert-base-multilingual-cased --pooling mean --layer 7 --task tatoeba
hfxling evaluate --source_vectors zh.npy --target_vectors vi.npy --task retrieval --data test.zh+test.vi ...

A model is what sentence-transformers loads (dense or sparse), with --pooling what transformers loads, or files of
vectors. A task that was finished is not measured again in the same --output, while model, text and settings stay.
With --baseline DIR_OR_HUB_ID a second model is measured on the same items and every difference is tested;
hfxling compare does so for two results.json.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hfxling import __version__
from hfxling.arguments import key, parse_arguments, resolved
from hfxling.data.sources import Source
from hfxling.evaluation.results import EvalResult, format_table, p_told, read_results, write_results
from hfxling.evaluation.retrieval import CENTERINGS
from hfxling.evaluation.tatoeba import tatoeba_table

from .model import FusedArguments
from .tasks import TASKS, Encoder, Task

POOLINGS = ("mean", "cls", "last")
# How a task is run, and what its key holds by content and not by name.
_NOT_IN_KEY = {
    *("output", "task", "mteb", "data", "batch_size", "device", "model", "model_revision", "lexical", "baseline"),
    *("source_vectors", "target_vectors"),
}
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class EvaluateArguments(FusedArguments):
    """What is measured, on which text."""

    task: list[str] = key(", ".join(TASKS), [])
    mteb: list[str] = key("tasks of mteb (pip install hfxling[mteb]), by their names there", [])
    pooling: str | None = key("the model is a plain encoder of transformers, pooled so: mean, cls or last", None)
    layer: int | None = key("of --pooling and of tokens: hidden_states index; by default the last", None)
    source_vectors: list[str] = key("in place of a model: vectors (.npy, .parquet, .jsonl) of the source side", [])
    target_vectors: list[str] = key("of the target side; mining takes two files a side, of training and test text", [])
    query_prompt: str | None = key("put before the texts that are looked for, and all where both sides are alike", None)
    document_prompt: str | None = key("put before the texts that are searched", None)
    baseline: str | None = key("folder or Hub id of a model to compare with", None)
    output: str = key("folder of results.json and pictures", "outputs/evaluate", writes="folder")
    data: list[str] = key(
        "sources of text as in the recipes (FILE, FILE+FILE, Hub id or sample; @1-1543 picks lines, #1,0 columns); "
        "tatoeba: a folder, or a Hub id with {source}; mining (BUCC's files), sts17, qe: a folder; tokens: a file of "
        "links, or sample. TASK=DATA is for that task alone",
        [],
    )
    data_name: str | None = key("name of the data in the results", None)
    split: str = key("split of a Hub dataset or of the sample", "test")
    qe_split: str = key("of qe's files, as en-de.test20.tsv", "test20")
    source_lang: str | None = key("language code of the source side", None)
    target_lang: str | None = key("language code of the target side", None)
    languages: list[str] = key(
        "of tatoeba and mteb, ISO 639-3; by default all that there are (of a Hub id XTREME's)", []
    )
    methods: list[str] = key("cosine, csls", ["cosine"])
    neighbours: int = key("of mining: k of the margin", 4)
    centering: str = key("retrieval: none, or corpus (uses the test text)", "none")

    def __post_init__(self):
        if not (self.source_vectors or self.target_vectors):
            super().__post_init__()
        for name in self.task:
            if name not in TASKS:
                raise ValueError(f"task={name!r} is not one of {', '.join(TASKS)}.")
        if self.centering not in ("none", "corpus"):
            raise ValueError(f"centering={self.centering!r}: choose none or corpus (of {', '.join(CENTERINGS)}).")
        if self.neighbours < 1:
            raise ValueError(f"neighbours={self.neighbours}: give 1 or more.")
        if self.mteb and find_spec("mteb") is None:
            raise ValueError("--mteb needs the package mteb: pip install 'hfxling[mteb]'.")
        if not (self.task or self.mteb):
            raise ValueError(f"give --task, of {', '.join(TASKS)}, or --mteb TASK.")
        prefixes = [text.partition("=")[0] for text in self.data]
        unasked = [name for name in prefixes if name in TASKS and name not in self.task]
        if unasked:
            raise ValueError(
                f"data={unasked[0]}=...: task {unasked[0]} is not asked for by --task {' '.join(self.task)}."
            )
        for name in self.task:
            given = {"data": self.data_of(name)}
            lacking = [f"--{need}" for need in TASKS[name].needs if not given.get(need, getattr(self, need))]
            if lacking:
                raise ValueError(f"task {name} needs {' and '.join(lacking)}; see --help.")
        self._check_model()

    def _check_model(self):
        dense = [name for name in self.task if TASKS[name].dense]
        if self.lexical and dense:
            raise ValueError(f"lexical={self.lexical!r}: task {dense[0]} needs dense vectors; leave one of them out.")
        if self.pooling is not None and (self.pooling not in POOLINGS or self.trust_remote_code):
            what = (
                f"give one of {', '.join(POOLINGS)}; it reads encoders of transformers, not code of their repositories"
            )
            raise ValueError(f"pooling={self.pooling!r}: {what}.")
        if self.layer is not None and not (self.pooling or "tokens" in self.task):
            raise ValueError(f"layer={self.layer}: for --pooling and for task tokens; leave it out.")
        of_models = [
            f"--{name}" for name in ("query_prompt", "document_prompt", "pooling") if getattr(self, name) is not None
        ]
        if of_models and not (self.model and not self.lexical):
            raise ValueError(f"{of_models[0]} is for a --model alone; leave it out.")
        if self.source_vectors or self.target_vectors:
            counts = {TASKS[name].files for name in self.task} | ({0} if self.mteb else set())
            wanted = counts.pop()
            if counts or not wanted:
                able = ", ".join(name for name, task in TASKS.items() if task.files == 1)
                raise ValueError(f"files of vectors: for {able}, or for mining alone; other tasks need a --model.")
            if self.model or self.lexical:
                raise ValueError("give a --model or files of vectors, not both.")
            if [len(self.source_vectors), len(self.target_vectors)] != [wanted, wanted]:
                raise ValueError(
                    f"task {self.task[0]} needs {wanted} file(s) of --source_vectors and --target_vectors."
                )

    def data_of(self, task: str) -> list[str]:
        """The sources of a task: those for it alone, or else those for none in particular."""
        own = [text.removeprefix(f"{task}=") for text in self.data if text.startswith(f"{task}=")]
        return own or [text for text in self.data if text.partition("=")[0] not in TASKS]

    def any_encoder(self, name: str | None = None) -> Encoder:
        """What embeds sentences: the model of the arguments, or another one with the same settings."""
        from hfxling.encoders.loading import load_encoder

        return load_encoder(
            name or self.model,
            None if name else self.lexical,
            revision=None if name else self.model_revision,
            prompt=self.prompt,
            query_prompt=self.query_prompt,
            document_prompt=self.document_prompt,
            layer=self.layer if self.pooling else None,
            pooling=self.pooling,
            source_vectors=() if name else self.source_vectors,
            target_vectors=() if name else self.target_vectors,
            device=self.device,
            batch_size=self.batch_size,
            trust_remote_code=self.trust_remote_code,
        )

    def fingerprints(self) -> list[str | None]:
        """What changes whenever one of the models does; None for one that cannot be told from its other versions."""
        from hfxling.encoders.identity import identity

        found = [identity(path) for path in (*self.source_vectors, *self.target_vectors)]
        models = [name for name in (self.model, self.lexical) if name]
        found += map(identity, models, (self.model_revision, None))  # the revision is the first one's
        return found + [identity(name) for name in (self.baseline,) if name]


class Models:
    """Model and baseline of the arguments, loaded when they are first asked for.

    Attributes:
        prints: their fingerprints.
    """

    def __init__(self, args: EvaluateArguments):
        self.args, self.prints = args, args.fingerprints()
        if None in self.prints:  # not downloaded yet
            _ = self.loaded
            self.prints = args.fingerprints()

    @cached_property
    def loaded(self) -> tuple[Encoder, Encoder | None]:
        """Both, the second None where there is no baseline."""
        return self.args.any_encoder(), self.args.any_encoder(self.args.baseline) if self.args.baseline else None

    def for_task(self, task: Task) -> tuple[Encoder, Encoder | None]:
        """Both; ValueError where the task cannot use them."""
        for model in self.loaded:
            if task.dense and model and model.method == "dot":
                raise ValueError(f"{model.label} has sparse vectors; geometry, probe and tokens need dense ones.")
        return self.loaded


def fields(args: EvaluateArguments, name: str, encoder: Encoder, baseline: Encoder | None) -> dict:
    """Fields of `EvalResult` that every task fills alike."""
    prompts = {key: getattr(args, key) for key in ("prompt", "query_prompt", "document_prompt", "pooling")}
    settings = {"task": name} | {key: value for key, value in prompts.items() if value is not None}
    settings |= {"baseline": baseline.label, "baseline_revision": baseline.revision} if baseline else {}
    return {
        **data_fields(args, name),
        "model": encoder.label,
        "model_revision": encoder.revision,
        "settings": settings,
    }


def data_fields(args: EvaluateArguments, name: str) -> dict:
    """Name and split of a task's text."""
    sources = [Source.parse(text) for text in args.data_of(name)]
    names = [Path(x.data).resolve().name if Path(x.data).exists() else x.name for x in sources]
    lines = [f"lines {source.lines}" for source in sources if source.lines]
    dataset = args.data_name or "+".join(dict.fromkeys(names)) or name
    return {"dataset": dataset, "split": ", ".join(lines) or args.split}


def measured(args: EvaluateArguments, name: str, task: Task, text: tuple[Any, str], models: Models) -> list[EvalResult]:
    """The rows of a task: those of an earlier run with the same model, text and settings, or else new ones.

    Raises:
        ValueError: the file of an earlier run is not what its name says.
    """
    data, digest = text
    settings = {key: value for key, value in resolved(args).items() if key not in _NOT_IN_KEY}
    content = [__version__, name, digest, models.prints, settings, data_fields(args, name)]
    code = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    path = Path(args.output) / "tasks" / f"{name.replace(':', '-')}-{code}.json"
    if None not in models.prints and path.is_file():
        rows = read_results(path)
        if json.loads(path.read_text(encoding="utf-8")).get("key") != code:
            raise ValueError(f"{path} was measured with another model, text or setting; delete it.")
        logger.info("%s: measured before, kept in %s", name, path)
        return rows
    encoder, baseline = models.for_task(task)
    about = fields(args, name, encoder, baseline) | {"revision": digest}
    rows = task.measure(args, data, encoder, baseline, about)
    write_results(path, rows, recipe="hfxling evaluate", extra={"key": code}, with_items=True)
    return rows


def plain_table(rows: Sequence[EvalResult]) -> tuple[list[str], list[list]]:
    """Headers and rows for `format_table`, a result a row; columns that no result fills are left out."""
    columns: dict[str, list] = {}
    several = len({row.settings.get("task") for row in rows}) > 1
    for row in rows:
        digits, paired = 1 if row.unit == "%" else 3, row.settings.get("paired")
        cells = {"task": row.settings.get("task") if several else None, "direction": row.direction}
        cells |= {"metric": row.metric, "similarity": row.settings.get("method"), "n": row.n}
        cells["value"] = row.value if digits == 1 else f"{row.value:.{digits}f}"
        cells["95 %"] = None if row.low is None else f"{row.low:.{digits}f} to {row.high:.{digits}f}"
        difference = f"{paired['difference']:+.{digits}f} (p {p_told(paired['p_value'])})" if paired else None
        for name, cell in (cells | {"over the baseline": difference}).items():
            columns.setdefault(name, []).append(cell)
    columns = {name: cells for name, cells in columns.items() if any(cell is not None for cell in cells)}
    return [*columns], [*map(list, zip(*columns.values()))]


def table(rows: Sequence[EvalResult]) -> tuple[list[str], list[list]]:
    """Tatoeba alone by language, tasks together a result a row, of Tatoeba then the averages where there are some."""
    if all(row.settings.get("task") == "tatoeba" for row in rows):
        return tatoeba_table(rows)
    has_averages = any("languages" in row.settings for row in rows)
    return plain_table(
        [
            row
            for row in rows
            if row.settings.get("task") != "tatoeba" or not has_averages or "languages" in row.settings
        ]
    )


def main(argv: list[str] | None = None) -> list[EvalResult]:
    argv = sys.argv[1:] if argv is None else argv
    (args,) = parse_arguments((EvaluateArguments,), argv, prog="hfxling evaluate", description=__doc__)
    tasks = {name: TASKS[name] for name in args.task}
    if args.mteb:
        from .mteb import mteb_tasks

        tasks |= mteb_tasks(args.mteb, args.languages)
    texts = {name: task.load(args, args.data_of(name)) for name, task in tasks.items()}
    measure = partial(measured, args, models=Models(args))
    rows = [row for name, task in tasks.items() for row in measure(name, task, texts[name])]
    path, command = Path(args.output) / "results.json", {"command": shlex.join(["hfxling", "evaluate", *argv])}
    settings = resolved(args)
    write_results(path, rows, recipe="hfxling evaluate", settings=settings, extra=command, with_items=True)
    print(format_table(*table(rows)))
    logger.info("results: %s", path)
    return rows
