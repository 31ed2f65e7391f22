"""The licences that have an identifier on the Hub."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

_IDENTIFIERS = """
apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0 bigcode-openrail-m afl-3.0
artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0
cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0
cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl ecl-2.0
epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1 lgpl-3.0 isc h-research
intel-research lppl-1.3c ms-pl apple-ascl apple-amlr mpl-2.0 odc-by odbl openmdw-1.0 openrail++ osl-3.0 postgresql
ofl-1.1 ncsa unlicense zlib pddl lgpl-lr deepfloyd-if-license fair-noncommercial-research-license llama2 llama3 llama3.1
llama3.2 llama3.3 llama4 grok2-community gemma unknown other
"""
LICENCES = frozenset(_IDENTIFIERS.split())


def check_licence(name: str, licence: str | None) -> None:
    """Refuse a licence that is not an identifier of the Hub; None is allowed. `name` is the argument's name."""
    if licence is not None and licence not in LICENCES:
        near = difflib.get_close_matches(licence.lower().replace(" ", "-"), sorted(LICENCES), n=1, cutoff=0.0)[0]
        raise ValueError(f"{name}={licence!r} is not a licence of the Hub; did you mean {near!r}? Else give 'other'.")


def release_fault(licence: str | None, parts: Mapping[str, str | None]) -> str | None:
    """Why a work may not be released under a licence, given the licences of what it was made from; None if it may.

    `parts` are the licences of the text and of the base model, by their names; None if none is stated.
    """
    for name, theirs in parts.items():
        if theirs in (None, "unknown", "other"):
            where = "--licence of text (in a recipe --data_licence), --base_licence of a base model"
            return f"{name}: no licence is stated, so nothing made of it may be released; if you know it, give {where}."
        kinds = _kinds(theirs)
        if "nd" in kinds:
            return f"{name} is under {theirs}, which forbids to release what is made of it."
        if "nc" in kinds and "nc" not in _kinds(licence):
            return f"{name} is under {theirs}: what is made of it may not be released for commercial use, as {licence}."
        if "sa" in kinds and not ("sa" in _kinds(licence) and _family(licence) == _family(theirs)):
            return f"{name} is under {theirs}: what is made of it must be released under that licence, not {licence}."
    return None


def _kinds(licence: str | None) -> set[str]:
    """Which of "nd" (no derivatives), "nc" (non-commercial) and "sa" (share alike) a licence has."""
    kinds = {word for word in (licence or "").split("-") if word in ("nd", "nc", "sa")}
    if licence in ("fair-noncommercial-research-license", "deepfloyd-if-license", "h-research", "intel-research"):
        kinds.add("nc")
    return kinds


def _family(licence: str | None) -> tuple:
    """The words of a licence's name without its version: "cc" and "by" for "cc-by-4.0"."""
    words = (licence or "").split("-")
    return tuple(word for word in words if not word[:1].isdigit())
