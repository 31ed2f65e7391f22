"""The model card: rendered from result rows, so that it has no score that was not measured."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from hfxling.data.sources import Source
from hfxling.evaluation.results import EvalResult, format_table, p_told
from hfxling.evaluation.short_vectors import PRECISIONS

from .index import conditions, is_hub_id, metadata, metric_of, plain, setting_of, stage_of
from .snippets import Client, client_snippets, fenced, fused_snippet, standard_snippets

LOWER_IS_BETTER = frozenset({"AER", "error", "xsim", "loss", "alignment", "uniformity", "language accuracy"})
DATA_FIELDS = {"name", "pairs", "revision", "licence", "dropped", "leaks", "hub_id"}
_CUT = 256  # components, the length of short vectors that the limits tell of
_SECRETS = ("token", "hub_token", "api_key")


@dataclass(frozen=True)
class CardInfo:
    """Everything that a card says besides its result rows; fields without a default must not be empty."""

    repo_id: str  # of the repository that the model is, or would be, published in
    method: str  # the name of its package under `hfxling.methods`
    summary: str  # one sentence about the method
    citation: str  # BibTeX of its paper
    base_model: str  # Hub id of the encoder; a local folder is shown by its name only
    languages: Sequence[str]
    licence: str  # the Hub's identifier, e.g. "apache-2.0", "cc-by-sa-4.0"
    # A mapping for each data set: `name`, `pairs` and, where known, `revision` (commit or content hash), `licence`,
    # `dropped` (pairs removed, by reason), `leaks` (removed as the test text has them) and `hub_id`.
    train_data: Sequence[Mapping]
    intended_use: str  # a sentence or two
    limits: Sequence[str]  # what a user must know before trusting the model
    loading: Mapping[str, str] = field(default_factory=dict)  # Python snippets by title, with {repo} for the repository
    training_command: str | None = None  # as it was run
    configuration: Mapping = field(default_factory=dict)  # of the run, resolved; printed as YAML without tokens
    coverage: str | None = None  # one line about how the vocabulary covers the languages
    status: str | None = None  # comes before anything else, such as what was special about the encoder's weights
    clients: Mapping[str, Client] = field(default_factory=dict)  # servers and frameworks, see `clients_of`
    width: int | None = None  # of a vector
    base_licence: str | None = None  # of the base model
    tags: Sequence[str] = ()  # further ones of the Hub, by the kinds of vectors that the folder gives
    lexical: str | None = None  # Hub id or name of the lexical model that the folder's fusion.json was made for
    dense: str | None = None  # Hub id of the dense model that this lexical model's scores are added to
    space: str | None = None  # id of the Space of the Hub that shows the model
    relation: str = "finetune"  # or "adapter": of the repository to the base model, as the Hub names it
    variants: Mapping[str, str] = field(default_factory=dict)  # what other repositories of the model hold, by their ids
    part_of: str | None = None  # id of the repository of the whole model, whose card has the figures
    # Two sentences of a language by its code, for languages whose examples come from the text (`own_examples`).
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self):
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", self.licence or ""):
            raise ValueError(f"licence={self.licence!r}: give the Hub's identifier, e.g. apache-2.0 or cc-by-sa-4.0.")
        for each in fields(self):
            is_required = each.default is MISSING and each.default_factory is MISSING
            if is_required and not getattr(self, each.name):
                raise ValueError(f"{each.name} is empty: a card must say it.")
        for data in self.train_data:
            if set(data) - DATA_FIELDS or not {"name", "pairs"} <= set(data):
                optional = ", ".join(sorted(DATA_FIELDS - {"name", "pairs"}))
                raise ValueError(f"train_data entry {dict(data)} needs name and pairs; it may also have {optional}.")

    @classmethod
    def from_record(cls, card: Mapping) -> CardInfo:
        """What the entry "card" of a results.json says."""
        clients = {name: Client(**client) for name, client in card.get("clients", {}).items()}
        return cls(**card | {"clients": clients})


def render_card(results: Sequence[EvalResult], info: CardInfo) -> str:
    """The card's Markdown with its YAML front matter.

    Rows of the stages "before" and "after" (settings["stage"]; rows without one count as "after") that agree in
    everything else share a line of the table, and the card says whether the trained model is better: by
    settings["paired"] of the "after" row (a `PairedTest` of after against before as a dict, in the row's unit), or else
    by whether the two intervals overlap. The model-index holds one "after" row per data set and direction.

    Raises:
        ValueError: if two rows belong in one place of the table; or for a score in `intended_use` or `limits` that is
            in no row, no count of training data and not in the configuration.
    """
    short = [row for row in results if "dimensions" in row.settings]  # of `short_vector_results`
    results = [row for row in results if "dimensions" not in row.settings]
    lines = _pair_stages(results)
    outcomes = [_compare(line)[0] for line in lines if len(line) == 2]
    snippets = dict(info.loading or standard_snippets(info.languages, examples=info.examples))
    if info.lexical is not None:
        fused = fused_snippet(info.lexical, info.languages, info.examples)
        snippets = {"With its lexical model, by hfxling": fused} | snippets
    for client, snippet in client_snippets(info.clients, info.languages, info.width, info.examples).items():
        snippets[f"With {client}"] = snippet
    values = {
        "name": info.repo_id.rsplit("/", 1)[-1],
        "info": info,
        "base_model": info.base_model if is_hub_id(info.base_model) else Path(info.base_model).name,
        "verdict": _verdict(outcomes, bool(results), info.part_of),
        "is_of_both": is_of_both(results),
        "tested": _tested(results, info.part_of),
        "unread": {name: client.fault for name, client in info.clients.items() if client.fault},
        "results_table": _results_table(lines) if results else "",
        "snippets": {title: fenced(text.replace("{repo}", info.repo_id)) for title, text in snippets.items()},
        "linked": linked,
        "runs_code": any("trust_remote_code=True" in text for text in snippets.values()),
        "data_table": _data_table(info.train_data),
        "lines": lines_sentence(info.configuration),
        "configuration": public_yaml(info.configuration).rstrip() if info.configuration else "",
        "short_table": _short_table(short) if short else "",
        "cut": _cut_sentence(short, is_static="static-embeddings" in info.tags),
    }
    known = " ".join(values[part] for part in ("results_table", "data_table", "configuration"))
    texts = [] if info.part_of else [info.intended_use, *info.limits]  # those of a part are in the whole's card, too
    for text in texts:
        stray = stray_scores(text, known)
        if stray:
            raise ValueError(f"The number {stray[0]} in {text!r} is in no result row; measure it or leave it out.")
    return f"---\n{metadata(results, info).to_yaml()}\n---\n\n{template('model_card').render(values)}"


def is_of_both(results: Sequence[EvalResult]) -> bool:
    """Whether the results are of the summed scores of a dense and a lexical model."""
    return any(str(row.settings.get("row", "")).endswith("fused") for row in results)


def linked(name: str) -> str:
    """A model's name, with a link if it is a Hub id."""
    return f"[{name}](https://huggingface.co/{name})" if "/" in name else f"`{name}`"


def moved(card: str, before: Mapping, after: Mapping) -> str:
    """A card that keeps sentences added by hand, while everything that was rendered is rendered again.

    This merges two changes to the rendered card: the one by hand, to `card`, and the one of the record. `before` and
    `after` are the contents of results.json.
    """
    lines, old, new = card.splitlines(), _of_record(before).splitlines(), _of_record(after).splitlines()
    # What replaces each line of `old`: the line itself, or, at the first line of a changed part, all of its new
    # lines. Inserted lines belong to the line before them.
    now: dict[int, list[str]] = defaultdict(list)
    for kind, start, stop, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            for number in range(start, stop):
                now[number] = [old[number]]
        elif kind == "replace":
            now[start] += new[first:last]
        else:
            now[start - 1] += new[first:last]
    merged = []
    for kind, start, stop, first, last in SequenceMatcher(None, old, lines, autojunk=False).get_opcodes():
        if kind == "equal":
            for number in range(start, stop):
                merged += now[number]
        else:
            merged += lines[first:last]
    return "\n".join(merged) + "\n"


def _of_record(record: Mapping) -> str:
    """The card that is rendered from the content of a results.json."""
    rows = [EvalResult(**row) for row in record["results"]]
    return render_card(rows, CardInfo.from_record(record["card"]))


@cache
def template(name: str) -> Template:
    """A card's template."""
    environment = Environment(
        loader=PackageLoader("hfxling.hub"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )  # Markdown, not HTML
    return environment.get_template(f"{name}.md.jinja")


def _interval(low: float | None, high: float | None, digits: int) -> str:
    return "" if low is None or high is None else f" [{low:.{digits}f}, {high:.{digits}f}]"


def _measured(row: EvalResult | None) -> str:
    return "" if row is None else f"{row.value:.{row.digits}f}{_interval(row.low, row.high, row.digits)}"


def _pair_stages(results: Sequence[EvalResult]) -> list[dict[str, EvalResult]]:
    """One {stage: row} for every line of the results table, in the order of the rows."""
    lines: dict[tuple, dict[str, EvalResult]] = {}
    for row in results:
        how = conditions(row)
        how.pop("row", None)  # what it was before has another name
        place = (row.dataset, row.split, row.revision, row.direction, row.n, metric_of(row), str(how))
        line, stage = lines.setdefault(place, {}), stage_of(row)
        if stage not in ("before", "after"):
            raise ValueError(f'{row.metric} on {row.dataset}: stage {stage!r} is not "before" or "after".')
        if stage in line:
            what = " ".join(filter(None, (row.metric, row.direction, "on", row.dataset, row.split, setting_of(row))))
            raise ValueError(f'Two rows "{stage}" for {what}: say in settings what tells them apart, or average them.')
        line[stage] = row
    return list(lines.values())


def _compare(line: Mapping[str, EvalResult]) -> tuple[str, str]:
    """("better" | "worse" | "unclear", the reason) for a line with both stages."""
    before, after = line["before"], line["after"]
    paired = after.settings.get("paired")
    if paired and paired["low"] is not None:
        low, high = paired["low"], paired["high"]
        basis = f"{paired['difference']:+.{after.digits}f}{_interval(low, high, after.digits)}"
        basis += f", p {p_told(paired['p_value'])}"
    elif None in (before.low, before.high, after.low, after.high):
        return "unclear", "no interval"
    else:
        low, high = after.low - before.high, after.high - before.low
        basis = "intervals overlap" if low <= 0 <= high else "intervals apart"
    if low <= 0 <= high:
        return "unclear", basis
    is_better = high < 0 if after.metric in LOWER_IS_BETTER else low > 0
    return "better" if is_better else "worse", basis


def _verdict(outcomes: Sequence[str], measured: bool, part_of: str | None) -> str:
    if part_of:
        return f"It was measured as a part of {linked(part_of)}, whose card has the figures."
    if not measured:
        return "**This model has not been evaluated.**"
    if not outcomes:
        return "Before and after training were not both measured, so this card claims no improvement."
    if all(outcome == "better" for outcome in outcomes):
        return "Training made the model better in every comparison below."
    if "better" in outcomes:
        return '**Training did not make the model better in every comparison**; the column "Change" says where.'
    if "worse" in outcomes:
        return '**The trained model is not better than the encoder it starts from, and worse where "Change" says so.**'
    return "**The trained model is not shown to be better than the encoder it starts from.**"


def _tested(results: Sequence[EvalResult], part_of: str | None) -> str:
    """What the model was tested on, with the statement that it was tested on nothing else."""
    if part_of:
        return f"Tested as a part of {linked(part_of)} only."
    seen: dict[str, list[str]] = {}
    for row in results:
        if stage_of(row) == "after":
            seen.setdefault(f"{row.dataset} ({row.split})", []).append(row.direction or "")
    if not seen:
        return "Tested on nothing yet."
    parts = []
    for name, directions in seen.items():
        distinct = [direction for direction in dict.fromkeys(directions) if direction]
        parts.append(f"{name}, {' and '.join(distinct)}" if distinct else name)
    return f"Tested on {'; '.join(parts)}, and on nothing else: not on other domains, other languages or longer text."


def _results_table(lines: Sequence[Mapping[str, EvalResult]]) -> str:
    headers = ["Dataset", "Split", "Direction", "Setting", "Metric", "n", "Before", "After", "Change"]
    claims = {"better": "better", "worse": "**worse**", "unclear": "**not shown to be better**"}
    rows = []
    for line in lines:
        row = line.get("after") or line["before"]
        change = ""
        if len(line) == 2:
            outcome, basis = _compare(line)
            change = f"{basis}: {claims[outcome]}"
        labels = [row.dataset, row.split, row.direction, setting_of(row), metric_of(row), row.n]
        rows.append([*labels, _measured(line.get("before")), _measured(line.get("after")), change])
    return format_table(headers, rows)


def _short_table(rows: Sequence[EvalResult]) -> str:
    """P@1 of shortened and quantised vectors, with a line for each data set, direction and number of components."""
    lines: dict[tuple, dict[str, str]] = {}
    for row in rows:
        place = (row.dataset, row.split, row.direction, row.settings["dimensions"])
        line = lines.setdefault(place, {})
        precision = row.settings["precision"]
        line[precision] = f"{row.value:.1f}"
        if precision == "int8":
            line["range"] = f"{row.settings['range']:g}"
    header = ["Dataset", "Split", "Direction", "Components", *PRECISIONS, "int8 range"]
    cells = []
    for place, line in lines.items():
        cells.append([*place, *map(line.get, PRECISIONS), line.get("range")])
    return format_table(header, cells)


def _cut_sentence(rows: Sequence[EvalResult], *, is_static: bool) -> str:
    """What cutting vectors to `_CUT` components loses at worst; for static vectors also that it was not measured."""
    if not rows:
        return "What shorter vectors (`truncate_dim`) lose was not measured." if is_static else ""
    scores: dict[int, dict[tuple, float]] = defaultdict(dict)  # P@1 by length, then by test set and direction
    for row in rows:
        if row.settings["precision"] == "float32":
            scores[row.settings["dimensions"]][row.dataset, row.split, row.direction] = row.value
    width = max(scores)
    if width == _CUT or _CUT not in scores:
        return ""
    whole, cut = scores[width], scores[_CUT]
    worst = max(whole, key=lambda test: whole[test] - cut[test])
    direction = worst[2]
    return (
        f"The first {_CUT} of {width} components (`truncate_dim={_CUT}`) find at worst "
        f"{cut[worst]:.1f} % in place of {whole[worst]:.1f} % ({direction})."
    )


def _files_and_lines(texts: str | Sequence[str]) -> tuple[set[str], list[str]]:
    """The files that these sources name, and the lines that they pick."""
    files, lines = set(), set()
    for text in [texts] if isinstance(texts, str) else texts:
        source = Source.parse(text)
        files.add(source.data)
        if source.lines:
            lines.add(source.lines)
    return files, sorted(lines)


def lines_sentence(configuration: Mapping) -> str:
    """Which lines of a collection were learnt from and which are the test; "" if no lines were picked."""
    files, lines = _files_and_lines(configuration.get("train_data") or [])
    test_files, test_lines = _files_and_lines(configuration.get("test_data") or [])
    if not lines:
        return ""
    sentence = f"Learnt from lines {', '.join(lines)}"
    if test_lines:
        of_the_same = "of the same text" if files == test_files else "of other text"
        sentence += f", tested on lines {', '.join(test_lines)} {of_the_same}"
    return f"{sentence}."


def _data_table(train_data: Sequence[Mapping]) -> str:
    rows = []
    for data in train_data:
        dropped = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in data.get("dropped", {}).items())
        labels = [data["name"], data.get("revision"), data.get("licence")]
        rows.append([*labels, data["pairs"], dropped, data.get("leaks")])
    return format_table(["Name", "Revision", "Licence", "Pairs", "Filtered out", "Test leaks removed"], rows)


def scrubbed(text: str, token: str | None = None) -> str:
    """The text as it may be published: without the Hub's token, or what looks like one."""
    if token:
        text = text.replace(token, "TOKEN")
    return re.sub(r"\bhf_\w{4,}", "TOKEN", text)


def public_yaml(configuration: Mapping) -> str:
    """A run's configuration as YAML without secrets."""
    public = {key: value for key, value in configuration.items() if key not in _SECRETS}
    return scrubbed(yaml.safe_dump(plain(public), sort_keys=False, allow_unicode=True))


def stray_scores(text: str, known: str) -> list[str]:
    """Decimals and percentages in a text that another text does not have."""
    numbers = set(re.findall(r"\d+(?:\.\d+)?", known))
    return [score for score in re.findall(r"\d+\.\d+|\d+(?=\s*%)", text) if score not in numbers]
