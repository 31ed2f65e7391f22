"""What the benchmarks share: options, clocks, memory, and how a measurement is told and kept."""

import argparse
import json
import platform
import re
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from hfxling.evaluation.results import EvalResult, as_json, cpu_minutes, format_table, read_results, write_results

_gone_on_with: dict[Path, dict] = {}  # by its path, a results file that an earlier run wrote and this one goes on with


def parser(description: str, name: str | None = None) -> argparse.ArgumentParser:
    """For a benchmark's options; with the name of its results file also where that is written."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if name:
        made.add_argument("--results_dir", default="results", help=f"folder for {name}.json (default results)")
    return made


def clock() -> np.ndarray:
    """(CPU, wall) seconds of this process by now."""
    return np.array([time.process_time(), time.perf_counter()])


def timed(function: Callable, *args) -> np.ndarray:
    """(CPU, wall) seconds of a call."""
    before = clock()
    function(*args)
    return clock() - before


def bfloat16_speed() -> float:
    """How many times faster than in float32 a product of an encoder's size runs in bfloat16, on this processor."""
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        x, layer = torch.randn(512, 768, dtype=dtype), torch.nn.Linear(768, 3072, dtype=dtype)
        with torch.inference_mode():
            seconds[dtype] = statistics.median([timed(layer, x)[0] for _ in range(6)][1:])
    return seconds[torch.float32] / seconds[torch.bfloat16]


def peak_mib() -> float:
    """High-water mark of the resident memory in MiB, libraries and parameters included.

    From /proc where there is one: the other counter of a fresh process begins with its parent's peak.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text()).group(1)) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def machine() -> dict:
    """What the seconds were measured on."""
    cpu = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return {"threads": torch.get_num_threads(), "cpu": cpu, "torch": torch.__version__}


def report(
    benchmark: str,
    figures: dict,
    settings: dict,
    *,
    title: str | None = None,
    name: str | None = None,
    path: str | Path | None = None,
    goals: Mapping[str, str] | None = None,
    folder: str = "benchmarks",
    **extra,
) -> dict:
    """Print the figures beside their goals, write them where a path is given, and end with the line for programs.

    Args:
        benchmark: the script's name.
        figures: numbers, or groups of them.
        settings: what they depend on.
        title: of the table.
        name: of the measurement; by default the script's.
        path: of the results file.
        goals: of some of the figures.
        folder: of the script.
        extra: further figures that are not shown in tables; entries of their own in the results file.

    Returns:
        The figures.
    """
    if path:
        about = {"title": title, "figures": figures} | minutes_of(path) | extra
        write_results(path, [], recipe=f"{folder}/{benchmark}.py", settings=settings, extra=about)
    rows = []
    for label, value in _flat(figures).items():
        shown = f"{value:.6g}" if isinstance(value, float) else value
        rows.append([label, shown, *([goals.get(label.split()[-1])] if goals else [])])
    table = format_table(["figure", "value", *(["goal"] if goals else [])], rows)
    print(f"\n{title}\n\n{table}\n" if title else f"\n{table}\n")
    print(json.dumps({"name": name or benchmark, "figures": figures | extra, "settings": settings}, ensure_ascii=False))
    return figures


def report_rows(
    benchmark: str,
    results: Sequence[EvalResult],
    settings: dict,
    *,
    title: str,
    labels: Sequence[str],
    metrics: list[str],
    shown: int = 1,
    figures: Mapping[str, float] | None = None,
    with_items: bool = False,
) -> dict:
    """The same for result rows of several systems: a line a system, a column a test set.

    Args:
        benchmark: the script's name.
        results: with the system's label as the setting "row".
        settings: with the keys name and results_dir, which name the results file.
        title: of the table.
        labels: of the systems, in the table's order.
        metrics: those that are printed.
        shown: how many of them, from the first, the rendered table shows.
        figures: further ones, by name.
        with_items: whether the file keeps the outcome of every item.
    """
    from hfxling.evaluation.tables import study_table

    shown_first = metrics[:shown]
    write_rows(benchmark, results, settings, title=title, labels=labels, metrics=shown_first, with_items=with_items)
    header, table = study_table(results, [{"label": label} for label in labels], show={"metric": metrics})
    print(format_table(header, table))
    figures = {line[0]: dict(zip(header[2:], line[2:])) for line in table} | dict(figures or {})
    print(json.dumps({"name": settings["name"], "figures": figures, "settings": settings}, ensure_ascii=False))
    return figures


def write_rows(
    benchmark: str,
    results: Sequence[EvalResult],
    settings: dict,
    *,
    title: str,
    labels: Sequence[str],
    metrics: Sequence[str],
    with_items: bool = False,
) -> None:
    """Write what is measured by now, as a file that pages can be rendered from; arguments as for `report_rows`."""
    rows = [{"label": label} for label in labels]
    about = {"title": title, "rows": rows, "paper_columns": [], "show": {"metric": list(metrics)}}
    path = Path(settings["results_dir"]) / f"{settings['name']}.json"
    about |= minutes_of(path)
    recipe = f"benchmarks/{benchmark}.py"
    write_results(path, results, recipe=recipe, settings=settings, extra=about, with_items=with_items)


def earlier_rows(settings: dict, *more: str) -> list[EvalResult]:
    """Rows of a run that was stopped, with the same settings; it may have been told others of `more`.

    Args:
        settings: as for `report_rows`.
        more: settings that say how much is measured, such as "seeds".
    """
    path = Path(settings["results_dir"]) / f"{settings['name']}.json"
    own = {key: value for key, value in settings.items() if key not in ("results_dir", *more)}
    return read_results(path) if earlier_file(path, own) else []


def earlier_file(path: str | Path, settings: Mapping | None = None) -> dict:
    """The results file of an earlier run, to go on with it: its CPU minutes are added to those of this run.

    Args:
        path: of the file.
        settings: that it must have; others do not matter.

    Returns:
        What the file holds; {} where there is none, or one of other settings.
    """
    path = Path(path)
    _gone_on_with.pop(path, None)
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    then = content.get("settings", {})
    for key, value in as_json(dict(settings or {})).items():
        if key not in then or then[key] != value:
            return {}
    _gone_on_with[path] = content
    return content


def minutes_unknown(path: str | Path) -> None:
    """Say no CPU minutes in a results file: this run goes on with something that does not say how long it took."""
    _gone_on_with[Path(path)] = {}


def minutes_of(path: str | Path) -> dict[str, float]:
    """The entry of a results file that says the CPU minutes, with those of earlier runs that this one goes on with."""
    return cpu_minutes(_gone_on_with.get(Path(path)))


def systems_left(systems: Mapping[tuple, Callable], results: Sequence[EvalResult], dataset: str) -> dict:
    """Those, by label and seed, that have no row of a dataset.

    All, where one of ours is among them: their tests are against the others' items, which rows do not keep.
    """
    there = {(row.settings["row"], row.seed) for row in results if row.dataset == dataset}
    left = {key: system for key, system in systems.items() if key not in there}
    return dict(systems) if any(label.startswith("statistical") for label, _ in left) else left


def replaced(results: Sequence[EvalResult], rows: Sequence[EvalResult]) -> list[EvalResult]:
    """Results with new rows in place of those of the same dataset, system and seed; a dataset's stand together."""
    new = {(row.dataset, row.settings["row"], row.seed) for row in rows}
    kept = [row for row in results if (row.dataset, row.settings["row"], row.seed) not in new]
    order = list(dict.fromkeys(row.dataset for row in [*results, *rows]))
    return sorted([*kept, *rows], key=lambda row: order.index(row.dataset))


def _flat(figures: Mapping) -> dict:
    """Figures of groups under the group's name and their own."""
    found = {}
    for name, value in figures.items():
        found |= {f"{name} {k}": v for k, v in _flat(value).items()} if isinstance(value, dict) else {name: value}
    return found
