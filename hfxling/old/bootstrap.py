"""From a hundred pairs and two heaps of text to a bitext and a model of your own.

hfxling bootstrap A.zh B.vi --seed_pairs seed.tsv --source_lang zh --target_lang vi --output outputs/bootstrap

Links are learnt from the seed, pairs are mined with them, links are learnt from seed and pairs, and again, until hidden
seed pairs stop gaining. Writes OUTPUT/pairs.tsv, the pairs of the wanted precision, best first, OUTPUT/model, a lexical
encoder (docs/lexical.md), and OUTPUT/rounds.json.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hfxling.arguments import key, parse_arguments, resolved
from hfxling.data.parallel import check_languages
from hfxling.data.sources import load_pairs, name_of_pair
from hfxling.data.texts import read_texts
from hfxling.evaluation.results import format_table
from hfxling.files import atomic_path, check_replaceable, files_of
from hfxling.sentences.engine import Mined
from hfxling.sentences.neighbours import bytes_of
from hfxling.sentences.precision import check_wanted

from .mined import DEDUP, check_dropping, flagged, plain, without, write

if TYPE_CHECKING:
    from hfxling.methods.lexical.bootstrap import Round


@dataclass(kw_only=True)
class BootstrapArguments:
    """Text, seed pairs, and when to stop."""

    source: str = key("text: FILE (.gz or not), TABLE#COLUMN or a Hub id", positional=True)
    target: str = key("the same of the other language", positional=True)
    seed_pairs: list[str] = key("known pairs, as the recipes' text (FILE.tsv, FILE+FILE, ...), at least 100")
    source_lang: str = key("language code of the source side")
    target_lang: str = key("language code of the target side")
    output: str = key("folder of pairs, model and rounds", "outputs/bootstrap", writes="folder")
    rounds: int = key("at most, after the first, that learns from the seed alone", 5)
    precision: float = key("share of right pairs that is wanted of the bitext", 0.95)
    unpaired: float | None = key("assumed share of sources without a translation; by default estimated", None)
    dedup: str | None = key(f"{', '.join(DEDUP)}: keep the best pair of each normalised text", None)
    filters: list[str] = key("drop pairs with these flags (see hfxling mine)", [])
    memory: str = key("that the search may use beside the vectors", "4GiB")
    seed: int = key("of folds and models", 42)

    def __post_init__(self):
        check_languages(self.source_lang, self.target_lang)
        check_wanted(self.precision, self.unpaired, 100)
        bytes_of(self.memory)
        if self.rounds < 0:
            raise ValueError(f"rounds={self.rounds}: give 0 or more.")
        check_dropping(self.dedup, self.filters)


def main(argv: list[str] | None = None) -> Path:
    (args,) = parse_arguments((BootstrapArguments,), argv, prog="hfxling bootstrap", description=__doc__)
    from hfxling.fit import save_lexical
    from hfxling.methods.lexical import Arguments
    from hfxling.methods.lexical.bootstrap import bootstrap

    languages, output = (args.source_lang, args.target_lang), Path(args.output).expanduser()
    check_replaceable(output, [args.source, args.target, args.seed_pairs])
    seed = read_seed(args)
    sides = [without(read_texts(side), own) for side, own in zip((args.source, args.target), seed)]
    shown: list[Round] = []

    def told(found: Round, _: Mined) -> None:
        shown.append(found)
        print(table(shown[-1:]), flush=True)

    settings = Arguments(pairs=[name_of_pair(languages)], train_data=args.seed_pairs)
    options = {"rounds": args.rounds, "precision": args.precision, "unpaired": args.unpaired}
    options |= {"seed": args.seed, "memory": args.memory, "told": told}
    found = bootstrap(settings, seed, *(side.texts for side in sides), **options)
    rows = flagged(found.pairs, sides, languages, filters=args.filters, dedup=args.dedup)
    with atomic_path(output) as scratch:
        scratch.mkdir()
        save_lexical(found.model, scratch / "model")
        write(scratch / "pairs.tsv", rows)
        about = {"settings": resolved(args), "rounds": [dataclasses.asdict(each) for each in shown]}
        about["files"] = sorted(files_of(scratch))
        text = json.dumps(about, indent=2, ensure_ascii=False)
        (scratch / "rounds.json").write_text(text + "\n", encoding="utf-8")
    print(f"\n{table(shown)}\n{len(rows)} pairs: {output / 'pairs.tsv'}; model: {output / 'model'}")
    return output


def read_seed(args: BootstrapArguments) -> tuple[list[str], list[str]]:
    """Seed pairs, each source once."""
    rows = load_pairs(args.seed_pairs, (args.source_lang, args.target_lang))
    pairs = dict(zip(map(plain, rows["source"]), zip(rows["source"], rows["target"])))
    check_wanted(args.precision, args.unpaired, len(pairs))
    return tuple(map(list, zip(*pairs.values())))


def table(rounds: list[Round]) -> str:
    """A line a round."""
    header = ["round", "learnt from", "hidden seed found, %", "mined", "of the wanted precision", "estimated, %"]
    lines = []
    for each in rounds:
        estimate = each.estimate
        told = (
            f"{100 * estimate.precision:.0f} ({100 * estimate.low:.0f} to {100 * estimate.high:.0f})"
            if estimate
            else ""
        )
        lines.append([each.number, each.learnt, 100 * each.found, each.mined, each.strict, told])
    return format_table(header, lines)
