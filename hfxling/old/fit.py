"""From sentence pairs to the best model for them: what can be made of the pairs competes, the winner is written.

hfxling fit my.zh my.vi --languages zh vi [--model ID_OR_FOLDER] [--output FOLDER]
hfxling fit pairs.tsv --languages zh vi --choose static

Links learnt from the pairs alone need no model and no download. With --model its vectors compete too, as they are and
behind a head, and so does the sum of both scores. Every score is a cross-validated one: of pairs that were left out.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass

from hfxling.arguments import key, parse_arguments
from hfxling.data.licences import check_licence

NAMES = ("head", "layers", "static", "sparse", "fused")


@dataclass(kw_only=True)
class FitArguments:
    """Pairs, their languages, and what may compete."""

    pairs: list[str] = key(
        "two line-aligned files, or one source of both sides as in the recipes (TSV, CSV, JSONL, Parquet, Hub id, "
        "sample; @1-1543 picks lines, #1,0 columns)",
        positional=True,
    )
    languages: list[str] = key("codes of both languages, source first")
    model: str | None = key("frozen encoder that competes, folder or Hub id; none without it", None)
    pooling: str = key("of the encoder: mean, cls or last", "mean")
    one_map: bool = key("only what needs not know which language a text is in", False)
    only: list[str] = key(f"what competes, with all that it is made of, of {', '.join(NAMES)}; by default all", [])
    choose: str | None = key(f"write this one and not the winner: {', '.join(NAMES)}", None)
    output: str = key("folder that is written", "outputs/fit", writes="folder")
    repo: str | None = key("name of the repository in the card, org/name", None)
    licence: str | None = key("of the pairs, for the card", None)
    seed: int = key("of folds and fits", 42)

    def __post_init__(self):
        if len(self.languages) != 2 or self.languages[0] == self.languages[1]:
            raise ValueError(f"languages={self.languages}: give the codes of two languages, such as zh vi.")
        if len(self.pairs) > 2:
            raise ValueError(f"{len(self.pairs)} files: give two line-aligned ones, or one with both sides.")
        check_licence("licence", self.licence)
        if self.choose and self.choose not in NAMES:
            raise ValueError(f"choose={self.choose!r} is not one of {', '.join(NAMES)}.")
        if stray := {*self.only} - {*NAMES}:
            raise ValueError(f"only={self.only}: {', '.join(sorted(stray))} is not one of {', '.join(NAMES)}.")
        if self.choose and self.only and self.choose not in self.only:
            raise ValueError(f"choose={self.choose!r} does not compete with only={self.only}; name it there, too.")
        for name in (self.choose, *self.only):
            if name in ("head", "layers", "fused") and not self.model:
                raise ValueError(f"{name!r} needs an encoder: give --model, or take static or sparse.")


def main(argv: list[str] | None = None) -> str:
    argv = sys.argv[1:] if argv is None else argv
    (args,) = parse_arguments((FitArguments,), argv, prog="hfxling fit", description=__doc__)
    from .contest import Contest

    contest = Contest(args)
    contest.run()
    winner = contest.choose(args.choose)
    sys.stdout.write(f"{contest.table()}\n\n{winner.name} is written:\n")
    folders = contest.write(winner, ["hfxling", "fit", *argv])
    sys.stdout.write(
        f"use it: {winner.use.format(**{name: shlex.quote(str(path)) for name, path in folders.items()})}\n"
    )
    return winner.name
