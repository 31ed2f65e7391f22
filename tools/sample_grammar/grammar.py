"""A synchronous grammar: one abstract meaning, six languages, each in its own word order, with gold word links.

A meaning is a tree of `Node`s over entries of `lexicon.tsv`; every node names a rule of `rules.py`, which says how each
language writes it. Words of two languages that stem from the same place in the tree are linked.

Columns of the lexicon beside key, category and the six words: `class` (a noun's kinds, what an adjective describes, who
does an intransitive verb, the ground of a spatial relation), `object` (what a verb acts on, what stands in a relation),
`where` (places of a verb), `en_forms` (plural, "-" uncountable, "+" always plural; third person, past, participle and
-ing; comparative or "more"; object and possessive of a pronoun) and a classifier for each language that has them.
"""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from hfxling.data.sample import written

from .rules import AUXILIARIES, DETERMINERS, LANGUAGES, RULES, TEMPLATES, Template

# Sentences a split yields in equal shares of its templates; the grammar has more, found ever more slowly.
CAPACITY = {"train": 100_000, "dev": 20_000, "test": 50_000}
PATIENCE = 1000  # draws in a row without a new sentence after which a template counts as used up
GRAMMAR_CATEGORIES = {"function", "relation", "pronoun"}  # lexicon rows that are no content words
CLASS_GROUPS = {
    "human": "job,person,kin,speaker,hearer,other",
    "asked": "job,person,kin,hearer,other",  # the subject of a question is not "I"
    "goods": "fruit,dish,ingredient,drink,garment,accessory,print,device,furniture,tableware,container,tool,toy,gift",
}
HUMAN = tuple(CLASS_GROUPS["human"].split(","))
BARE = {"language", "subject", "city"}  # nouns with neither article nor possessor
UNOWNED = {"wild", "beast", "place", "aircraft"}
VERB_FORMS = ("3sg", "past", "part", "ing")
CLITICS = {"he": "nya", "she": "nya", "you": "mu"}  # Indonesian possessors written on to the word before
MONOSYLLABIC = {"big", "small", "new", "old"}  # Chinese adjectives that stand before the noun without 的


class Entry(NamedTuple):
    """One row of `lexicon.tsv`."""

    key: str
    category: str
    classes: tuple[str, ...]
    objects: tuple[str, ...]
    places: tuple[str, ...]
    english: str  # the column en_forms
    words: dict[str, dict[str, str]]  # language -> form -> word; the form "" always exists
    identity: str  # a sentence uses no identity twice


@cache
def lexicon() -> dict[str, Entry]:
    """The lexicon by key, in file order."""
    with open(Path(__file__).with_name("lexicon.tsv"), encoding="utf-8", newline="\n") as lines:
        return {row["key"]: _entry(row) for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)}


def _classes(names: str) -> tuple[str, ...]:
    return tuple(c for name in names.split(",") if name for c in CLASS_GROUPS.get(name, name).split(","))


def _entry(row: dict[str, str]) -> Entry:
    words = {lang: {"": row[lang], "cl": row[f"{lang}_cl"]} for lang in LANGUAGES[1:]}
    words["en"] = {"": row["en"], **dict(_english_forms(row))}
    if row["key"] in CLITICS:
        words["id"]["gen"] = CLITICS[row["key"]]
    classes, objects, places = (_classes(row[column]) for column in ("class", "object", "where"))
    # "I" and "we" exclude each other: "I helped us" is no sentence
    identity = classes[0] if classes[:1] in (("speaker",), ("hearer",)) else row["key"]
    return Entry(row["key"], row["category"], classes, objects, places, row["en_forms"], words, identity)


def _english_forms(row: dict[str, str]) -> Iterator[tuple[str, str]]:
    listed, (_, space, particle) = row["en_forms"].split(), row["en"].partition(" ")
    if row["category"] == "noun":
        yield "gen", row["en"] + "'s"
        yield "pl", row["en"] if row["en_forms"] in "-+" else row["en_forms"]
    elif row["category"] == "pronoun":
        yield from zip(("obj", "gen"), listed)
    elif listed == ["more"]:
        yield "comp", f"more {row['en']}"
    elif row["category"] in ("quality", "trait", "feeling"):
        yield "comp", listed[0]
    else:
        yield from ((form, word + space + particle) for form, word in zip(VERB_FORMS, listed))


class Node(NamedTuple):
    """A piece of meaning: a rule, its children and how an English verb agrees with it (index into AUXILIARIES)."""

    rule: str
    children: dict[str, Node | Entry]
    agreement: int = 1


class _DeadEnd(Exception):
    """The choices made so far leave nothing for the next child."""


@cache
def _entries(category: str, classes: tuple[str, ...] = ()) -> tuple[Entry, ...]:
    """The entries of a category that belong to one of the classes (all of them when no class is given)."""
    found = (entry for entry in lexicon().values() if entry.category == category)
    return tuple(entry for entry in found if not classes or not set(classes).isdisjoint(entry.classes))


def _is_human(noun: Entry) -> bool:
    return not set(HUMAN).isdisjoint(noun.classes)


def _allows(noun: Entry, rule: str) -> bool:
    if rule == "possessed":
        return "own" in noun.classes if _is_human(noun) else UNOWNED.isdisjoint(noun.classes)
    if rule == "bare":
        return not _is_human(noun)
    return rule == "the" or noun.english not in ("-", "+")


class _Meaning:
    """Draws the children of a template; no noun is used twice.

    A child is what a method of this class draws, or else a noun phrase: `S:human:subject` has a noun of these classes
    (or of those the child of that name selects: `O:V:object`) and one of the determiners in DETERMINERS.
    """

    def __init__(self, template: Template, rng: random.Random) -> None:
        self.rng = rng
        self.used: set[str] = set()
        self.children: dict[str, Node | Entry] = {}
        for name, kind, argument in template.children:
            child = getattr(self, kind)(argument) if hasattr(self, kind) else self.noun_phrase(kind, argument)
            if child is not None:  # an intransitive verb has no object
                self.children[name] = child

    def pick(self, *pools: tuple[Entry, ...]) -> Entry:
        """An entry that the sentence has not used yet."""
        options = [entry for pool in pools for entry in pool if entry.identity not in self.used]
        if not options:
            raise _DeadEnd
        entry = self.rng.choice(options)
        self.used.add(entry.identity)
        return entry

    def noun_classes(self, name: str) -> tuple[str, ...]:
        if name == "actor":
            return self.children["V"].classes or HUMAN
        if name == "rival":  # what compares with S
            kinds = self.children["S"].children["N"].classes
            return HUMAN if kinds[0] in HUMAN else kinds[:1]
        if name in self.children:
            selector = self.children[name]
            return selector.classes if name == "A" else selector.objects
        return _classes(name)

    def noun_phrase(self, classes: str, determiners: str) -> Node | None:
        wanted = self.noun_classes(classes)
        if not wanted:
            return None
        noun = self.pick(_entries("noun", wanted), _entries("pronoun", wanted))
        if noun.category == "pronoun":
            rule = "pronoun" if determiners in ("subject", "definite") else "object_pronoun"
            return Node(rule, {"N": noun}, {"i": 0, "he": 1, "she": 1}.get(noun.key, 2))
        if "kin" in noun.classes:
            return Node("kin", {"N": noun, "P": self.owner(noun)})
        rules = [rule for rule in DETERMINERS[determiners] if _allows(noun, rule)]
        if not BARE.isdisjoint(noun.classes):
            rules = ["bare"] * bool({"the", "bare"} & set(rules))
        if not rules:
            raise _DeadEnd
        rule = self.rng.choice(rules)
        children: dict[str, Node | Entry] = {"N": noun}
        if rule == "possessed":
            children["P"] = self.owner(noun)
        elif rule == "demonstrative":
            children["D"] = lexicon()[self.rng.choice(("this", "that"))]
        elif rule in ("count", "how_many"):
            numbers = _entries("number", () if {"small", "animal"} & set(noun.classes) else ("few",))
            children["Q"] = lexicon()["how_many"] if rule == "how_many" else self.rng.choice(numbers)
        # a predicate says the quality: "the big cup is small" is avoided by leaving the phrase only its colour
        categories = ("color",) if determiners in ("definite", "than") else ("quality", "color")
        if adjective := self.modifier(noun, categories):
            children["A"] = adjective
            if rule == "possessed" and isinstance(adjective, Node):
                rule = "possessed_quality"
        several = rule in ("count", "how_many") or noun.english == "+" or (rule == "bare" and noun.english != "-")
        return Node("count" if rule == "how_many" else rule, children, 2 if several else 1)

    def modifier(self, noun: Entry, categories: tuple[str, ...]) -> Node | Entry | None:
        options = [entry for category in categories for entry in _entries(category, noun.classes)]
        if not options or self.rng.random() > 0.35:
            return None
        adjective = self.rng.choice(options)
        return adjective if adjective.key in MONOSYLLABIC else Node("adjective_de", {"A": adjective})

    def owner(self, noun: Entry) -> Node:
        """A possessor: of people only "my", of things also "the doctor's" and "my mother's"."""
        pronoun = Node("my", {"N": self.rng.choice(_entries("pronoun"))})
        if _is_human(noun) or self.rng.random() < 0.6:
            return pronoun
        person = self.pick(_entries("noun", ("job", "person", "kin")))
        is_kin = "kin" in person.classes
        return Node("kin_owner", {"N": person, "P": pronoun}) if is_kin else Node("owner", {"N": person})

    def verb(self, categories: str) -> Entry:
        return self.pick(*map(_entries, categories.split(",")))

    def adjective(self, _: str) -> Entry:
        return self.pick(_entries("quality"), _entries("trait"), _entries("feeling"))

    def feeling(self, kind: str) -> Entry:
        return self.pick(_entries("feeling", (kind,)))

    def relation(self, _: str) -> Entry:
        return self.pick(_entries("relation"))

    def ground(self, _: str) -> Node:
        return Node("ground", {"N": self.pick(_entries("noun", self.children["R"].classes))})

    def place_noun(self, classes: tuple[str, ...]) -> tuple[Entry, Node | Entry]:
        if not classes:
            raise _DeadEnd
        noun = self.pick(_entries("noun", classes))
        return noun, noun if noun.english == "-" else Node("ground", {"N": noun})

    def location(self, _: str) -> Node:
        noun, place = self.place_noun(self.children["V"].places)
        rule = "city" if "city" in noun.classes else "inside" if "inside" in noun.classes else "location"
        return Node(rule, {"N": place})

    def destination(self, classes: str) -> Node:
        self.used.add("home")  # "to home" is no English
        return Node("to", {"N": self.place_noun(_classes(classes) or self.children["V"].places)[1]})

    def arrival(self, _: str) -> Node:
        return Node("arrival", {"N": self.place_noun(("place",))[1]})

    def time(self, kind: str) -> Node | Entry:
        if kind == "every":
            return Node("every", {"U": self.pick(_entries("period"))})
        near = {"past": "last", "future": "next"}.get(kind, "")
        unit = self.pick(_entries("time", (kind,)), _entries("weekday"), _entries("period", (near,)) if near else ())
        if unit.category == "weekday":
            return Node("weekday", {"U": unit})
        return unit if unit.category == "time" else Node("near_time", {"U": unit, "W": lexicon()[near]})


def _write(node: Node, lang: str, path: str, out: list[tuple[str, str]]) -> None:
    """Append (word, tag) for every word of the node; the tag names the constituent, "" for none."""
    children = node.children
    for kind, name, form, linked in RULES[node.rule][lang]:
        tag = path + name if linked else ""
        if kind == "child" or kind == "key":
            entry = children.get(name) if kind == "child" else lexicon()[name]
            if isinstance(entry, Node):
                _write(entry, lang, tag + ".", out)
            elif entry is not None:
                if form in children:
                    form = "3sg" if children[form].agreement == 1 else ""
                words = entry.words[lang]
                _append(out, lang, words.get(form, words[""]), tag + "#" if form == "cl" else tag)
        elif kind == "auxiliary":
            out.append((AUXILIARIES[name][children[form].agreement], tag))
        else:
            out.append((form, tag))


def _append(out: list[tuple[str, str]], lang: str, word: str, tag: str) -> None:
    """Append a word; an Indonesian prefix or clitic fuses with its neighbour, English words never hold a space."""
    if lang == "id" and out and (out[-1][0] == "se" or word in ("nya", "mu")):
        out[-1] = (out[-1][0] + word, out[-1][1])
    elif lang == "en" and " " in word:  # "look for", "how many", "more expensive"
        first, second = word.split()
        out += [(first, ""), (second, tag)] if first == "more" else [(first, tag), (second, "")]
    elif word:
        if lang == "en" and out and out[-1][0] == "a" and word[0] in "aeiou" and not word.startswith("uni"):
            out[-1] = ("an", out[-1][1])
        out.append((word, tag))


def realise(template: Template, children: dict[str, Node | Entry]) -> ParallelSentence:
    root = Node(template.name, children)
    words, tags, spoken, surface = {}, {}, {}, {}
    for lang in LANGUAGES:
        out: list[tuple[str, str]] = []
        _write(root, lang, "", out)
        spoken[lang] = [word for word, _ in out]
        surface[lang] = written(spoken[lang], lang, "?" if template.question else ".")
        words[lang], tags[lang] = zip(*[pair for pair in out if pair[0] != ","])
    uses = Counter(chain.from_iterable(tags.values()))
    shared = {tag: number for number, tag in enumerate(tag for tag, n in uses.items() if tag and n > 1)}
    concepts = {lang: tuple(shared.get(tag, -1) for tag in tags[lang]) for lang in LANGUAGES}
    return ParallelSentence(template.name, words, concepts, spoken, surface)


@dataclass(frozen=True)
class ParallelSentence:
    """One meaning in six languages.

    Attributes:
        template: name of the sentence rule.
        words: language -> words in that language's order, without punctuation or sentence capital. What a dictionary
            lists as one word is one word, also when it is written with a space ("bệnh viện", "rumah sakit").
        concepts: language -> for each word the id of the constituent it expresses, -1 for a word without counterpart in
            any other language (English "the", Thai แก่). An id occurs at most once in a language.
        spoken: language -> words and the commas between them.
        surface: language -> the written sentence.
    """

    template: str
    words: dict[str, tuple[str, ...]]
    concepts: dict[str, tuple[int, ...]]
    spoken: dict[str, list[str]] = field(repr=False)
    surface: dict[str, str] = field(repr=False)

    def text(self, lang: str) -> str:
        """The sentence as written; zh without spaces, th and lo with a space only between clauses and no full stop."""
        return self.surface[_known(lang)]

    def links(self, source_lang: str, target_lang: str) -> list[tuple[int, int]]:
        """Gold sure links (index of source word, index of target word), sorted."""
        position = {c: j for j, c in enumerate(self.concepts[_known(target_lang)]) if c >= 0}
        return [(i, position[c]) for i, c in enumerate(self.concepts[_known(source_lang)]) if c in position]


def generate(split: str, count: int, seed: int = 0) -> list[ParallelSentence]:
    """Draw `count` distinct sentences, taking the split's templates in turn.

    Within one call no text repeats in any language. The same arguments give the same sentences, and a smaller count
    gives the beginning of a larger one.

    Raises:
        ValueError: unknown split, or a count outside 0..CAPACITY[split].
    """
    if split not in CAPACITY:
        raise ValueError(f"split {split!r} is unknown; the sample grammar has {', '.join(CAPACITY)}")
    if not 0 <= count <= CAPACITY[split]:
        raise ValueError(f"count {count} is out of range; split {split!r} yields 0 to {CAPACITY[split]} sentences")
    rng = random.Random(f"{split} {seed}")
    seen: dict[str, set[str]] = {lang: set() for lang in LANGUAGES}
    active = [template for template in TEMPLATES.values() if template.split == split]
    sentences: list[ParallelSentence] = []
    while len(sentences) < count:
        if not active:
            raise ValueError(f"split {split!r} with seed {seed} yields no more than {len(sentences)} sentences")
        for template in tuple(active):
            sentence = draw(template, rng, seen)
            if sentence is None:
                active.remove(template)
            else:
                sentences.append(sentence)
    return sentences[:count]


def draw(template: Template, rng: random.Random, seen: dict[str, set[str]]) -> ParallelSentence | None:
    """A sentence new in every language, or None when the template seems used up."""
    for _ in range(PATIENCE):
        try:
            meaning = _Meaning(template, rng)
        except _DeadEnd:
            continue
        sentence = realise(template, meaning.children)
        if all(sentence.surface[lang] not in texts for lang, texts in seen.items()):
            for lang, texts in seen.items():
                texts.add(sentence.surface[lang])
            return sentence
    return None


def _known(lang: str) -> str:
    if lang not in LANGUAGES:
        raise ValueError(f"language {lang!r} is not in the sample corpus, which has {', '.join(LANGUAGES)}")
    return lang
