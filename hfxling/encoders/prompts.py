"""The prompt that a model expects before every text.

Translations are symmetric: neither side is the question to the other's answer. So both sides get the same prompt, the
one for symmetric tasks, unless the caller gives others.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .identity import json_of

logger = logging.getLogger(__name__)
_ANNOUNCED: set[tuple[str, str]] = set()  # models and prompts that were announced already


@dataclass(frozen=True)
class Family:
    """Models whose configuration does not say which prompt symmetric tasks need."""

    name: str  # of the family
    names: str  # pattern of its Hub ids and folders
    stored: Mapping[str, str]  # prompts that its configuration may have; they identify a renamed folder, too
    prompt: str  # put before every text of a symmetric task


FAMILIES = (
    # Its model card: a one-sentence instruction, for bitext mining this one (Wang et al. 2024, Table 15).
    Family(
        "E5 instruct",
        r"e5[-\w]*-instruct$",
        {},
        "Instruct: Retrieve parallel sentences.\nQuery: ",
    ),
    # Its model card: "query: " on both sides of symmetric tasks such as bitext mining (Wang et al. 2024).
    Family(
        "E5",
        r"(^|[/_-])e5-(small|base|large)(-v2|-unsupervised)?$",
        {"query": "query: ", "document": "passage: "},
        "query: ",
    ),
)
# Names under which models store a prompt for pairs that mean the same.
_SYMMETRIC = ("BitextMining", "Bitext mining", "bitext", "STS", "STSQuery", "Sentence Similarity", "symmetric")


def prompt_for(
    name: str, stored: Mapping[str, str], default_name: str | None = None, given: str | None = None
) -> str | None:
    """The prompt of every text, the same for both sides.

    It is the first of these that exists: the given one ("" for none), the model's stored default prompt, its stored
    prompt for symmetric tasks, the prompt of its family; otherwise None.
    """
    if given is not None:
        return given
    if default_name and stored.get(default_name):
        return stored[default_name]
    for key in _SYMMETRIC:
        if stored.get(key):
            return _announced(name, stored[key], f"its own for {key}")
    for family in FAMILIES:
        is_stored = bool(family.stored) and dict(stored) == dict(family.stored)
        if is_stored or re.search(family.names, name.rstrip("/")):
            return _announced(name, family.prompt, f"as {family.name} models expect it")
    return None


def prompt_of(name: str, revision: str | None = None) -> str | None:
    """The prompt of every text for a folder or Hub model that is not loaded yet; otherwise as `prompt_for`."""
    settings = json_of(name, "config_sentence_transformers.json", revision)
    return prompt_for(name, settings.get("prompts") or {}, settings.get("default_prompt_name"))


def with_prompt(prompt: str | None, texts: Sequence[str]) -> list[str]:
    """The texts with the prompt before each; raises as `check_prompt`."""
    check_prompt(prompt, texts)
    return [(prompt or "") + text for text in texts]


def check_prompt(prompt: str | None, texts: Sequence[str]) -> None:
    """Refuse a prompt that most of the texts already begin with."""
    start = (prompt or "").strip()
    if not start:
        return
    count = sum(text.startswith(start) for text in texts)
    if 2 * count > len(texts):
        raise ValueError(
            f"{count} of {len(texts)} texts already begin with the prompt {prompt!r}: remove it there, or give "
            "prompt=''."
        )


def _announced(name: str, prompt: str, reason: str) -> str:
    """Say once which prompt a model gets by default."""
    if (name, prompt) not in _ANNOUNCED:
        _ANNOUNCED.add((name, prompt))
        logger.info("%s: %r is put before every text, %s (--prompt changes it)", name, prompt, reason)
    return prompt
