"""Measure any model on any of the tasks."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hfxling import __version__
from hfxling.encoders.identity import identity
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import languages_of
from hfxling.evaluation.results import EvalResult, filled_columns, format_table, read_results, write_results
from hfxling.evaluation.tasks import TASKS, Task, TaskText
from hfxling.evaluation.tatoeba import tatoeba_table
from hfxling.files import check_place
from hfxling.values import check_counts
from hfxling.verbs import Languages, Model, OutputFolder, Result, Text, check_list, verb

if TYPE_CHECKING:
    from hfxling.encoders.protocol import Encoder

_RECIPE = "hfxling evaluate"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """What was measured.

    Attributes:
        rows: one figure each, with its interval and the outcome of every item.
        settings: options that it was measured with.
    """

    rows: list[EvalResult]
    settings: dict[str, Any] = field(default_factory=dict)

    def table(self) -> str:
        """A title line, then the figures: Tatoeba alone by language, other tasks with one figure a line.

        If Tatoeba is one of several tasks, only its averages are shown, if it has any.
        """
        if all(row.settings.get("task") == "tatoeba" for row in self.rows):
            headers, cells = tatoeba_table(self.rows)
        else:
            headers, cells = _plain_table(_without_single_languages(self.rows))
        return f"{self.title()}\n\n{format_table(headers, cells)}"

    def title(self) -> str:
        """One line: the model, its kind, and the test sets."""
        first = self.rows[0]
        sets = dict.fromkeys(f"{row.dataset} {row.split}" for row in self.rows)
        return f"{first.model} ({first.settings.get('kind')}) on {', '.join(sets)}"

    def save(self, path: str | Path) -> None:
        """Write the rows with the outcome of every item: to a file, or as results.json into an existing folder."""
        path = Path(path).expanduser()
        path = path / "results.json" if path.is_dir() else path
        check_place("path", path, is_folder=False)
        write_results(path, self.rows, recipe=_RECIPE, settings=self.settings, with_items=True)


@verb
def evaluate(
    model: Model | None = None,
    *,
    task: Sequence[str] = (),
    mteb: Sequence[str] = (),
    lexical: Model | None = None,
    source: Text | None = None,
    target: Text | None = None,
    data: Sequence[str] = (),
    languages: Languages | None = None,
    only_languages: Sequence[str] = (),
    split: str = "test",
    qe_split: str = "test20",
    data_name: str | None = None,
    methods: Sequence[Literal["cosine", "csls"]] = ("cosine",),
    neighbours: int = 4,
    centering: Literal["none", "corpus"] = "none",
    prompt: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    pooling: Literal["mean", "cls", "last"] | None = None,
    layer: int | None = None,
    source_vectors: Sequence[str] = (),
    target_vectors: Sequence[str] = (),
    output: OutputFolder | None = "outputs/evaluate",
    revision: str | None = None,
    lexical_revision: str | None = None,
    device: str | None = None,
    batch_size: int = 32,
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Evaluation:
    """Measure any model: retrieval, mining, similarity, ...

    A finished task is kept in `output` and not measured again as long as its models, text and settings stay the same.
    Models that are passed as loaded objects are measured every time. To test whether two models differ, give their
    results.json to `hfxling.compare`.

    Example:
        >>> model, files = "intfloat/multilingual-e5-small", {"source": "test.zh", "target": "test.vi"}
        >>> result = hfxling.evaluate(model, task=["retrieval"], languages=("zh", "vi"), **files)
        >>> print(result.table())

    Args:
        model: folder or Hub id of a model that sentence-transformers loads, dense or sparse; or a loaded model or
            encoder.
        task: one or more of tatoeba, retrieval, documents, mining, mining-hard, sts17, qe, geometry, probe, tokens.
        mteb: tasks of mteb, by the names they have there (pip install hfxling[mteb]). Files for mteb's repository of
            results are written to OUTPUT/mteb.
        lexical: folder or Hub id of a lexical model. Alone, its sparse vectors are measured; with a model, the fused
            score of both, which needs the fusion.json that was made for the two (hfxling fit writes both).
        source: text for retrieval, documents, mining-hard, geometry and probe: texts in memory, a file, or a source
            that holds both sides, such as a data set with one column per language.
        target: translations of the source, if the source does not hold both sides.
        data: text for all tasks, or for one task as TASK=DATA. Tatoeba takes a folder, or a Hub id with {source};
            mining, sts17 and qe take a folder; tokens takes a file of links, or sample; the others take a source as
            above.
        languages: codes of source and target; by default the model's first two.
        only_languages: languages for tatoeba and mteb, as ISO 639-3 codes; by default all that the data has (for a
            Hub id those of XTREME).
        split: split of a Hub data set or of the sample.
        qe_split: split in the names of qe's files, as in en-de.test20.tsv.
        data_name: name of the data in the results.
        methods: similarities of dense vectors for tatoeba, retrieval and documents: cosine, csls or both.
        neighbours: number of neighbours in the margin (k), for mining.
        centering: for retrieval: none, or corpus (centred with the test text itself).
        prompt: text put before every sentence; by default what the model or its family expects.
        query_prompt: text put before queries, and before all texts of tasks where nothing is searched.
        document_prompt: text put before the texts that are searched.
        pooling: load the model as a plain encoder of transformers and pool its states: mean, cls or last.
        layer: index of hidden_states, for --pooling and for task tokens; by default the last layer.
        source_vectors: files with the vectors of the source side (.npy, .parquet, .jsonl), in place of a model.
        target_vectors: the same for the target side. Mining takes two files per side: training text, test text.
        output: folder for results.json and pictures; None to write nothing.
        revision: branch, tag or commit of the model on the Hub.
        lexical_revision: branch, tag or commit of the lexical model.
        device: device to compute on; by default a GPU if there is one.
        batch_size: number of texts encoded at once.
        trust_remote_code: allow the code in the model's repository to run.
        progress: show progress bars.

    Returns:
        One row per figure: rates in %, with 95 % intervals over the items.

    Raises:
        ValueError: for an unknown task, option or language, options that do not go together, or malformed text.
        FileNotFoundError: if a model or text does not exist.
    """
    settings = _as_plain(locals())  # first, while the parameters are the only local names
    _check_lists(task, mteb, data, only_languages)
    data_by_task = _by_task(data)
    if target is not None and source is None:
        raise ValueError("target without source: give the source sentences, too.")
    _check_tasks(task, mteb, data_by_task, has_sides=source is not None)
    _check_options(methods, neighbours, pooling, layer, task, trust_remote_code)
    is_dense_alone = model is not None and lexical is None
    if not is_dense_alone:
        for name, value in (("query_prompt", query_prompt), ("document_prompt", document_prompt), ("pooling", pooling)):
            if value is not None:
                raise ValueError(f"{name}={value!r} is for a --model alone, without --lexical; leave it out.")
    _check_model(model, lexical, task, mteb, source_vectors, target_vectors)

    common = {
        "prompt": prompt,
        "query_prompt": query_prompt,
        "document_prompt": document_prompt,
        "pooling": pooling,
        "layer": layer if pooling else None,
        "trust_remote_code": trust_remote_code,
    }
    files = {"source_vectors": source_vectors, "target_vectors": target_vectors}
    load = partial(load_encoder, model, lexical, device=device, batch_size=batch_size, **files, **common)
    if model is None:  # a lexical model alone is the model, so `revision` may be meant for it
        lexical_revision = lexical_revision or revision
    models = _Models(load, {"model": (model, revision), "lexical": (lexical, lexical_revision)})
    folder = None if output is None else Path(output)
    options = {
        "languages": _languages(languages, task, models),
        "only_languages": tuple(only_languages),
        "split": split,
        "qe_split": qe_split,
        "methods": tuple(methods),
        "neighbours": neighbours,
        "centering": centering,
        "layer": layer,
        "pictures": folder,
    }
    tasks: dict[str, Task] = {}
    for name in task:
        wanted = {one.name: options[one.name] for one in fields(TASKS[name])}
        tasks[name] = TASKS[name](**wanted)
    if mteb:
        from hfxling.evaluation.mteb import mteb_tasks

        results_of_mteb = None if folder is None else folder / "mteb"
        tasks |= mteb_tasks(mteb, only_languages, batch_size, results_of_mteb)

    sides = TaskText() if source is None else TaskText.of_sides(source, target, options["languages"])
    texts_by_task = {name: _text_of(name, one, data_by_task, sides) for name, one in tasks.items()}
    _check_split(split, options["languages"], texts_by_task)
    texts: dict[str, tuple[Any, str]] = {}
    places: dict[str, dict] = {}
    for name, one in tasks.items():
        text = texts_by_task[name]
        texts[name] = one.read(text)
        places[name] = {"dataset": data_name or text.name() or name, "split": text.lines() or split}

    rows: list[EvalResult] = []
    for name, one in tasks.items():
        rows += _measured(name, one, texts[name], places[name], models, common, folder)
    evaluation = Evaluation(rows, settings)
    if folder is not None:
        evaluation.save(folder / "results.json")
        logger.info("results: %s", folder / "results.json")
    return evaluation


class _Models:
    """What is measured, loaded on first use: a model, a model fused with a lexical one, or files of vectors.

    Attributes:
        identities: identity of what was given, by role; None for objects in memory, which can change unseen.
    """

    def __init__(self, load: Callable[..., Encoder], given: Mapping[str, tuple[Any, str | None]]):
        self._load = load
        self._revisions: dict[str, str | None] = {}
        self.identities: dict[str, str | None] = {}
        for role, (model, revision) in given.items():
            self._revisions[role] = revision
            if model is None:
                continue
            self.identities[role] = _identity(role, model, revision)
            if isinstance(model, str | Path) and not Path(model).exists():
                # What is loaded is the commit that the key holds, even when the branch moves on meanwhile.
                self._revisions[role] = self.identities[role]
        if not self.identities:
            self.identities["vectors"] = self.encoder.revision

    @cached_property
    def encoder(self) -> Encoder:
        """What is measured."""
        return self._load(revision=self._revisions["model"], lexical_revision=self._revisions["lexical"])


def _identity(role: str, model: Any, revision: str | None) -> str | None:
    if not isinstance(model, str | Path):
        return None
    try:
        return identity(model, revision)
    except FileNotFoundError as error:
        raise FileNotFoundError(str(error).replace("model=", f"{role}=", 1)) from None


def _kind(encoder: Encoder) -> str:
    """What kind of encoder it is, for the table."""
    from hfxling.encoders.fused import FusedEncoder
    from hfxling.encoders.sparse import LexicalEncoder
    from hfxling.encoders.stored import LayerEncoder, StoredVectors

    if isinstance(encoder, FusedEncoder):
        return "dense vectors and links"
    if isinstance(encoder, LexicalEncoder):
        return "sparse vectors of links"
    if isinstance(encoder, StoredVectors):
        return "vectors of files"
    if isinstance(encoder, LayerEncoder):
        return "layer of a plain encoder"
    return "sparse vectors" if encoder.method == "dot" else "dense vectors"


def _measured(
    name: str,
    task: Task,
    text: tuple[Any, str],
    place: Mapping[str, str],
    models: _Models,
    common: Mapping[str, Any],
    folder: Path | None,
) -> list[EvalResult]:
    """The rows of a task: those of an earlier run with the same models, text and settings, or else new ones."""
    content, digest = text
    # The key names models by role: one folder gives other figures as model than as lexical model.
    decisive = [__version__, name, digest, models.identities, dict(common), task.settings(), dict(place)]
    key = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]
    path = None
    if folder is not None and None not in models.identities.values():
        path = folder / "tasks" / f"{name.replace(':', '-')}-{key}.json"
        if path.is_file():
            rows = read_results(path)
            if json.loads(path.read_text(encoding="utf-8")).get("key") != key:
                raise ValueError(f"{path} was measured with another model, text or setting; delete it.")
            logger.info("%s: measured before, kept in %s", name, path)
            return rows
    encoder = models.encoder
    if task.needs_dense and encoder.method == "dot":
        raise ValueError(
            f"{encoder.label} has sparse vectors, but {name} needs dense ones; give another model or task."
        )
    row = _row_fields(name, encoder, common) | dict(place) | {"revision": digest}
    rows = task.measure(content, encoder, row)
    if path is not None:
        write_results(path, rows, recipe=_RECIPE, extra={"key": key}, with_items=True)
    return rows


def _row_fields(name: str, encoder: Encoder, common: Mapping[str, Any]) -> dict:
    """Fields of `EvalResult` that all tasks fill alike, without those of the text."""
    settings = {"task": name, "kind": _kind(encoder)}
    for key in ("query_prompt", "document_prompt", "pooling"):
        if common[key] is not None:
            settings[key] = common[key]
    if encoder.prompt is not None:
        settings["prompt"] = encoder.prompt
    return {"model": encoder.label, "model_revision": encoder.revision, "settings": settings}


def _by_task(data: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The texts given as TASK=DATA, by task; under "" those for no task in particular."""
    by_task: dict[str, tuple[str, ...]] = {}
    for text in data:
        name, is_named, value = text.partition("=")
        if not is_named or name not in TASKS:
            name, value = "", text
        by_task[name] = (*by_task.get(name, ()), value)
    return by_task


def _text_of(name: str, task: Task, data: Mapping[str, tuple[str, ...]], sides: TaskText) -> TaskText:
    """The text of a task: its own, or else source and target, or else the text for no task in particular."""
    if name in data:
        return TaskText(data[name])
    if task.reads_pairs and sides:
        return sides
    return TaskText(data.get("", ()))


def _languages(languages: Languages | None, tasks: Sequence[str], models: _Models) -> Languages | None:
    """Source and target language, by default the model's; None if no task needs them."""
    if languages is not None:
        return languages_of(None, languages)
    if any("languages" in TASKS[name].needs for name in tasks):
        return languages_of(models.encoder, None, needed=True)
    return None


def _check_tasks(tasks: Sequence[str], mteb: Sequence[str], data: Mapping[str, Any], *, has_sides: bool) -> None:
    for name in tasks:
        if name not in TASKS:
            raise ValueError(f"task={name!r} is not one of {', '.join(TASKS)}.")
    if mteb and find_spec("mteb") is None:
        raise ValueError("--mteb needs the package mteb: pip install 'hfxling[mteb]'.")
    if not (tasks or mteb):
        raise ValueError(f"nothing to measure: give --task, one or more of {', '.join(TASKS)}, or --mteb TASK.")
    for name in data:
        if name and name not in tasks:
            raise ValueError(f"data={name}=...: {name} is not among the tasks ({' '.join(tasks)}); add it to --task.")
    readers = [name for name in tasks if name not in data and not (TASKS[name].reads_pairs and has_sides)]
    if "" in data and not readers:
        raise ValueError(f"data={' '.join(data[''])}: every task has other text already; leave it out.")
    for name in tasks:
        several = data.get(name, data.get("", ()) if name in readers else ())
        if len(several) > 1 and not TASKS[name].reads_pairs:
            raise ValueError(f"data={' '.join(several)}: task {name} reads only one; give one, or --data {name}=DATA.")
        kind = TASKS[name]
        has_text = "" in data or name in data or (kind.reads_pairs and has_sides)
        if "data" in kind.needs and not has_text:
            wanted = "--source and --target, or --data" if kind.reads_pairs else "--data"
            raise ValueError(f"task {name} needs {wanted}; see --help.")


def _check_lists(task: Sequence[str], mteb: Sequence[str], data: Sequence[str], only_languages: Sequence[str]) -> None:
    for option, value in (("task", task), ("mteb", mteb), ("data", data), ("only_languages", only_languages)):
        check_list(option, value)
    if only_languages and not mteb and "tatoeba" not in task:
        raise ValueError("only_languages is for tatoeba and mteb; add one of them, or leave it out.")


def _check_options(
    methods: Sequence[str],
    neighbours: int,
    pooling: str | None,
    layer: int | None,
    tasks: Sequence[str],
    trust_remote_code: bool,
) -> None:
    if not methods:
        raise ValueError(f"methods={methods!r}: give cosine, csls, or both.")
    able = [name for name, task in TASKS.items() if any(one.name == "methods" for one in fields(task))]
    if "csls" in methods and not {*able} & {*tasks}:
        raise ValueError(f"methods={' '.join(methods)}: csls is for {', '.join(able)}; leave it out.")
    check_counts(1, neighbours=neighbours)
    if pooling is not None and trust_remote_code:
        raise ValueError(
            f"pooling={pooling!r} reads encoders that come with transformers, without code of a repository; "
            "leave out pooling or trust_remote_code."
        )
    if layer is not None and not (pooling or "tokens" in tasks):
        raise ValueError(f"layer={layer} is only for --pooling and for task tokens; leave it out.")


def _check_split(split: str, languages: Languages | None, texts: Mapping[str, TaskText]) -> None:
    """Refuse the name of a split if all text is in files or in memory."""
    if split == "test" or languages is None or not texts:
        return
    if not any(text.has_splits(languages) for text in texts.values()):
        raise ValueError(f"split={split!r}: only data of the Hub and the sample have splits; leave it out.")


def _check_model(
    model: Any,
    lexical: Any,
    tasks: Sequence[str],
    mteb: Sequence[str],
    source_vectors: Sequence[str],
    target_vectors: Sequence[str],
) -> None:
    if lexical is not None:
        for name in tasks:
            if TASKS[name].needs_dense:
                raise ValueError(f"lexical={lexical!r}: task {name} needs dense vectors; leave one of them out.")
    if not (source_vectors or target_vectors):
        if model is None and lexical is None:
            raise ValueError("give --model, --lexical or both.")
        return
    counts = {TASKS[name].vector_files for name in tasks}
    if mteb:
        counts.add(0)
    if len(counts) > 1 or 0 in counts:
        able = [name for name, task in TASKS.items() if task.vector_files == 1]
        names = ", ".join(able)
        raise ValueError(f"files of vectors are for {names}, or for mining alone; other tasks need a --model.")
    if model is not None or lexical is not None:
        raise ValueError("give a --model or files of vectors, not both.")
    (wanted,) = counts
    if len(source_vectors) != wanted or len(target_vectors) != wanted:
        raise ValueError(f"task {tasks[0]} needs {wanted} file(s) of --source_vectors and --target_vectors.")


def _as_plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options in the form that JSON keeps: objects by their label or type, texts in memory by their number."""
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("source", "target") and isinstance(value, Sequence) and not isinstance(value, str):
            plain[name] = f"{len(value)} texts in memory"
        elif isinstance(value, str | int | float | None):
            plain[name] = value
        elif isinstance(value, Sequence):
            plain[name] = [str(one) for one in value]
        elif isinstance(value, Path):
            plain[name] = str(value)
        else:
            plain[name] = getattr(value, "label", type(value).__name__)
    return plain


def _without_single_languages(rows: Sequence[EvalResult]) -> list[EvalResult]:
    """All rows; if Tatoeba has averages, without those of its single languages."""
    if not any("languages" in row.settings for row in rows):
        return list(rows)
    return [row for row in rows if row.settings.get("task") != "tatoeba" or "languages" in row.settings]


def _plain_table(rows: Sequence[EvalResult]) -> tuple[list[str], list[list]]:
    """Headers and rows for `format_table`, one row per result; columns that no result fills are left out."""
    has_several_tasks = len({row.settings.get("task") for row in rows}) > 1
    lines = []
    for row in rows:
        digits = row.digits
        line: dict[str, Any] = {
            "task": row.settings.get("task") if has_several_tasks else None,
            "direction": row.direction,
            "metric": row.metric,
            "similarity": row.settings.get("method"),
            "n": row.n,
            "value": row.value if row.unit == "%" else f"{row.value:.{digits}f}",
            "95 %": None if row.low is None else f"{row.low:.{digits}f} to {row.high:.{digits}f}",
        }
        lines.append(line)
    return filled_columns(list(lines[0]), [list(line.values()) for line in lines])
