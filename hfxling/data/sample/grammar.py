"""A synchronous grammar: one abstract meaning, six languages, each in its own word order, with gold word links.

A meaning is a tree of `Node`s over entries of `lexicon.tsv`. Every node names a rule, and a rule is one line per
language that says how to write that node. The notation of a line, token by token:

    S       upper case: write the child of that name here
    V:past  the same in a form: an English inflection, `cl` the noun's classifier, a capital (`V:S`) agrees with that child
    will    lower case: the lexicon's word for this key; languages that both write it are linked
    q=吗    a word given on the spot, linked between languages under the name before the sign
    =the    a word that is linked with nothing
    ,       the border of two clauses

The keyword `sea` stands for vi, th, id and lo, `th_lo` for th and lo; a language's own line goes before both.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

LANGUAGES = ("en", "zh", "vi", "th", "id", "lo")
CLASSIFIER_LANGUAGES = ("zh", "vi", "th", "id", "lo")
# Distinct sentences a split is known to yield (tested); a request beyond it is refused, not answered with repeats.
CAPACITY = {"train": 500_000, "dev": 40_000, "test": 100_000}
GRAMMAR_CATEGORIES = {"function", "relation", "pronoun"}  # rows that are no content words
MACROS = {
    "human": "job,person,kin,speaker,hearer,other",
    "asked": "job,person,kin,hearer,other",
    "goods": "fruit,dish,ingredient,drink,garment,accessory,reading,device,furniture,tableware,container,tool,toy,gift",
}
ENGLISH_FORMS = {"noun": ("pl",), "pronoun": ("obj", "gen")}  # what `en_forms` lists; other categories are verbs
VERB_FORMS = ("3sg", "past", "part", "ing")
AUXILIARIES = {  # by agreement: first singular, third singular, other
    "be": ("am", "is", "are"),
    "was": ("was", "was", "were"),
    "do": ("do", "does", "do"),
    "have": ("have", "has", "have"),
}
CLITICS = {"he": "nya", "she": "nya", "you": "mu"}  # Indonesian possessors written on to the word before
MONOSYLLABIC = {"big", "small", "new", "old"}  # Chinese adjectives that stand before the noun without 的
BARE_CLASSES = {"language", "subject", "city"}  # nouns that take neither article nor possessor
UNOWNED_CLASSES = {"wild", "beast", "place", "aircraft"}


def _rule(**lines: str) -> dict[str, tuple]:
    """Parse one rule: language -> ((kind, name, form), ...)."""
    parsed = {}
    for lang in LANGUAGES:
        group = "th_lo" if lang in ("th", "lo") and "th_lo" in lines else "sea"
        line = lines[lang] if lang in lines else lines[group]
        parsed[lang] = tuple(_token(token) for token in line.split())
    return parsed


def _token(token: str) -> tuple[str, str, str]:
    if token == ",":
        return "break", "", ""
    if "=" in token and ":" not in token:
        tag, word = token.split("=")
        return "word", tag, word.replace("_", " ")
    name, _, form = token.removeprefix("=").partition(":")
    if name in AUXILIARIES and form:
        return ("auxiliary" if name == token.partition(":")[0] else "unlinked"), name, form
    return ("child" if name[0].isupper() else "key"), name, form


# Phrases. N noun, A adjective, Q numeral, D demonstrative, P possessor, U unit of time.
RULES = {
    "the": _rule(en="=the A N", zh="A N", vi="N:cl N A", sea="N A"),
    "bare": _rule(en="A N:pl", zh="A N", sea="N A"),
    "a": _rule(en="a A N", zh="a N:cl A N", vi="a N:cl N A", id="a N:cl N A", th_lo="N A N:cl a"),
    "count": _rule(en="Q A N:pl", zh="Q N:cl A N", vi="Q N:cl N A", id="Q N:cl N A", th_lo="N A Q N:cl"),
    "how_many": _rule(en="=how Q A N:pl", zh="Q N:cl A N", vi="Q N:cl N A", id="Q N:cl N A", th_lo="N A Q N:cl"),
    "demonstrative": _rule(en="D A N", zh="D N:cl A N", vi="N:cl N A D", id="N A D", th_lo="N A N:cl D"),
    "possessed": _rule(en="P A N", zh="P of A N", vi="N:cl N A of P", id="N A P", th_lo="N A of P"),
    "kin": _rule(en="P N", zh="P N", vi="N P", id="N P", th_lo="N of P"),
    "role": _rule(en="a A N", zh="a N:cl A N", vi="a N:cl N A", id="a N:cl N A", th_lo="N A"),
    "pronoun": _rule(en="N", zh="N", sea="N"),
    "object_pronoun": _rule(en="N:obj", zh="N", sea="N"),
    "my": _rule(en="N:gen", zh="N", id="N:gen", sea="N"),
    "owner": _rule(en="=the N:gen", zh="N", vi="N:cl N", sea="N"),
    "kin_owner": _rule(en="P N:gen", zh="P N", sea="N P"),
    "adjective_de": _rule(en="A", zh="A =的", sea="A"),
    "location": _rule(en="at =the N", zh="at N", sea="at N"),
    "inside": _rule(en="inside =the N", zh="inside N =里", sea="inside N"),
    "home": _rule(en="at N", zh="at N", sea="at N"),
    "city": _rule(en="at=in N", zh="at N", sea="at N"),
    "to": _rule(en="to =the N", zh="N", vi="to N", id="to N", th_lo="N"),
    "to_city": _rule(en="to N", zh="N", vi="to N", id="to N", th_lo="N"),
    "arrival": _rule(en="=at =the N", zh="N", id="=di N", sea="N"),
    "arrival_city": _rule(en="=in N", zh="N", id="=di N", sea="N"),
    "ground": _rule(en="=the N", zh="N", sea="N"),
    "adverb": _rule(en="U", zh="U", sea="U"),
    "weekday": _rule(en="on_day U", zh="U", sea="on_day U"),
    "every": _rule(en="every U", zh="every U:cl U", sea="every U"),
    "last": _rule(en="last U", zh="last U:cl U", sea="U last"),
    "next": _rule(en="next U", zh="next U:cl U", sea="U next"),
}


@dataclass(frozen=True)
class Template:
    """One sentence rule: the children it draws, in order, as `name:method:argument` of `_Meaning`, and its split."""

    name: str
    split: str
    children: tuple[tuple[str, str, str], ...]
    question: bool


TEMPLATES: dict[str, Template] = {}


def _template(split: str, name: str, children: str, *, question: bool = False, **lines: str) -> None:
    specs = tuple(tuple((spec + "::").split(":")[:3]) for spec in children.split())
    TEMPLATES[name] = Template(name, split, specs, question)
    RULES[name] = _rule(**lines)


def _question(split: str, name: str, children: str, **lines: str) -> None:
    _template(split, name, children, question=True, **lines)


# Training sentences. S subject, V verb, O object, X another person, L location, D destination, T time.
_template("train", "habit", "V:verb:action,social,plain S:subject O:object T:time:every",
          en="S V:S O T", zh="S T V O", sea="S V O T")
_template("train", "past_at", "V:verb:action,social,event S:subject:human O:object L:location T:time:past",
          en="S V:past O L T", zh="S T L V past=了 O", vi="S past=đã V O L T", sea="S V O L T")
_template("train", "progressive", "V:verb:action,social,plain S:subject O:object",
          en="S be:S V:ing O", zh="S prog=正在 V O", vi="S prog=đang V O", th="S prog=กำลัง V O", id="S prog=sedang V O",
          lo="S prog=ກຳລັງ V O")
_template("train", "future", "V:verb:action,social,plain S:subject:human O:object T:time:future",
          en="S will V O T", zh="S T will V O", sea="S will V O T")
_template("train", "want", "V:verb:action,social,plain S:subject:human O:object L:location",
          en="S want:S =to V O L", zh="S want L V O", sea="S want V O L")
_template("train", "is_noun", "S:one_person J:role",
          en="S be:S J", zh="S be J", sea="S be J")
_template("train", "is_not_noun", "S:one_person J:role",
          en="S be:S not_be J", zh="S not_be be=是 J", vi="S not_be be=là J", sea="S not_be J")
_template("train", "very", "A:adjective S:described",
          en="S be:S very A", zh="S very A", th_lo="S A very", sea="S very A")
_template("train", "did_not", "V:verb:action,social,event S:subject:human O:object:known T:time:past",
          en="S =did did_not V O T", zh="S T did_not V O", sea="S did_not V O T")
_template("train", "not_yet", "V:verb:action,social,plain S:subject:human O:object:known",
          en="S have:S not_yet V:part O still", zh="S still not_yet V O", th_lo="S still not_yet V O",
          sea="S not_yet V O")
_template("train", "already", "V:verb:action,social,event S:subject:human O:object",
          en="S have:S already V:part O", zh="S already V =了 O", vi="S already V O =rồi", id="S already V O",
          th_lo="S V O already")
_question("train", "does", "V:verb:action,social,plain S:subject:asked O:object T:time:every",
          en="do:S S V O T", zh="S T V O q=吗", vi="S =có V O T q=không", th="S V O T q=ไหม", id="q=apakah S V O T",
          lo="S V O T q=ບໍ")
_question("train", "what", "V:verb:action S:subject:asked L:location T:time:past",
          en="what =did S V L T", zh="S T L V past=了 what", vi="S past=đã V what L T", sea="S V what L T")
_question("train", "who", "V:verb:action,social,event O:object T:time:past",
          en="who V:past O T", zh="who T V past=了 O", vi="who past=đã V O T", id="who =yang V O T", sea="who V O T")
_question("train", "where_is", "S:located",
          en="where be:S S", zh="S at=在 where", vi="S at=ở where", th="S at=อยู่ where", id="where S", lo="S at=ຢູ່ where")
_question("train", "when", "V:verb:action,social,plain S:subject:asked O:object",
          en="when will S V O", zh="S when will V O", vi="when S will V O", id="when S will V O", th_lo="S will V O when")
_template("train", "can", "V:verb:action,social,plain S:subject O:object",
          en="S can V O", zh="S can V O", vi="S can V O", id="S can V O", th_lo="S V O can")
_template("train", "must", "V:verb:action,social,plain S:subject:human O:object T:time:future",
          en="S must V O T", zh="S T must V O", sea="S must V O T")
_template("train", "go_to_do", "V:verb:action,social,plain S:subject:human O:object D:destination T:time:future",
          en="S will go D purpose V O T", zh="S T will go D V O", sea="S will go D purpose V O T")
_template("train", "there_are", "R:relation G:ground K:figures",
          en="exist=there be:K K R G", zh="G R exist=有 K", vi="R G exist=có K", th="R G exist=มี K",
          id="exist=ada K =di R G", lo="=ຢູ່ R G exist=ມີ K")
_question("train", "how_many_are", "R:relation G:ground K:figures:how_many",
          en="K be:K exist=there R G", zh="G R exist=有 K", vi="R G exist=có K", th="R G exist=มี K",
          id="exist=ada K =di R G", lo="=ຢູ່ R G exist=ມີ K")
_template("train", "give", "S:subject:human X:person O:gift T:time:past",
          en="S give:past X O T", zh="S T give past=了 X O", vi="S past=đã give X O T", th="S give O =แก่ X T",
          id="S give X O T", lo="S =ເອົາ O give X T")
_template("train", "compare", "A:adjective S:described X:rival",
          en="S be:S A:comp than X", zh="S than X A", id="S =lebih A than X", sea="S A than X")
_template("train", "with", "V:verb:action,plain S:subject:human O:object X:person T:time:future",
          en="S will V O with X T", zh="S T will with X =一起 V O", sea="S will V O with X T")
_template("train", "and", "V:verb:action S:subject:human O:object:amount Y:second T:time:past",
          en="S V:past O and Y T", zh="S T V past=了 O and Y", vi="S past=đã V O and Y T", sea="S V O and Y T")
_template("train", "feel_because", "F:feeling:emotion S:subject:human V:verb:action,event X:subject:human O:object",
          en="S be:S F because X V:past O", zh="S =很 F , because X V past=了 O", vi="S F because X past=đã V O",
          sea="S F because X V O")
_template("train", "if_rain", "T:time:ahead S:subject:human D:destination:place,city",
          en="if =it rain:3sg T , S will not go D", zh="if T rain , S =就 not go D", vi="if T =trời rain , S will not go D",
          id="if T rain , S not will go D", sea="if T rain , S will not go D")
_template("train", "think", "Z:subject:human V:verb:action,social,plain S:subject:human O:object T:time:future",
          en="Z think:Z that=that S will V O T", zh="Z think S T will V O", vi="Z think that=rằng S will V O T",
          th="Z think that=ว่า S will V O T", id="Z think that=bahwa S will V O T", lo="Z think that=ວ່າ S will V O T")
_template("train", "please", "V:verb:action,plain O:object:known L:location",
          en="please V O L", zh="please L V O", sea="please V O L")
_template("train", "like", "V:verb:action,plain S:subject:human O:object:kind",
          en="S like:S V:ing O", zh="S like V O", sea="S like V O")
_template("train", "the_person_who", "V:verb:action,social X:acquaintance O:object",
          en="=the people which=who =be:X V:ing O be:X X", zh="prog=正在 V O which=的 people be X",
          vi="people prog=đang V O be X", th="people which=ที่ prog=กำลัง V O be=คือ X",
          id="people which=yang prog=sedang V O be X", lo="people which=ທີ່ prog=ກຳລັງ V O be=ແມ່ນ X")
_template("train", "do_not_know", "S:subject:human X:person",
          en="S do:S not know X", zh="S not know X", sea="S not know X")
_template("train", "when_arrive", "S:subject:human D:arrival V:verb:action,social,plain X:subject:human O:object",
          en="while S arrive:past D , X was:X V:ing O", zh="S arrive D =的 while , X prog=正在 V O",
          vi="while S arrive D , X prog=đang V O", th="while S arrive D , X prog=กำลัง V O",
          id="while S arrive D , X prog=sedang V O", lo="while S arrive D , X prog=ກຳລັງ V O")
_template("train", "before", "V:verb:action,event S:subject:human O:object X:subject:human D:arrival",
          en="S V:past O before X arrive:past D", zh="X arrive D before , S V past=了 O",
          vi="S past=đã V O before X arrive D", id="S V O before X arrive D", th="S V O before X =จะ arrive D",
          lo="S V O before X =ຈະ arrive D")
_template("train", "tell", "S:subject:human X:person V:verb:action,plain O:object",
          en="S tell:past X =to V O", zh="S tell X V O", vi="S past=đã tell X V O", th="S tell =ให้ X V O",
          id="S tell X V O", lo="S tell =ໃຫ້ X V O")
_template("train", "cause", "F:feeling:emotion S:stimulus X:person",
          en="S cause:past X F", zh="S cause X =很 F", sea="S cause X F")

_template("dev", "is_at", "R:relation G:ground S:figure",
          en="S be:S R G", zh="S at=在 G R", vi="S at=ở R G", th="S at=อยู่ R G", id="S exist=ada =di R G",
          lo="S at=ຢູ່ R G")
_template("dev", "is_not", "A:adjective S:described",
          en="S be:S not A", zh="S not A", sea="S not A")
_template("dev", "does_not_want", "V:verb:action,plain S:subject:human O:object:known L:location",
          en="S do:S not want =to V O L", zh="S not want L V O", sea="S not want V O L")
_question("dev", "will", "V:verb:action,social,plain S:subject:asked O:object T:time:future",
          en="will S V O T", zh="S T will V O q=吗", vi="S will V O T q=không", th="S will V O T q=ไหม",
          id="q=apakah S will V O T", lo="S will V O T q=ບໍ")

_question("test", "where_does", "V:verb:action,plain S:subject:asked O:object",
          en="where do:S S V O", zh="S at=在 where V O", vi="S V O at=ở where", id="where S V O", th="S V O where",
          lo="S V O at=ຢູ່ where")
_question("test", "how_many_did", "V:verb:action S:subject:asked K:amount_of T:time:past",
          en="K =did S V T", zh="S T V past=了 K", vi="S past=đã V K T", sea="S V K T")
_template("test", "feel_when", "F:feeling:emotion S:subject:human V:verb:action,event X:subject:human O:object",
          en="S was:S F while X V:past O", zh="X V past=了 O =的 while , S =很 F", sea="S F while X V O")
_template("test", "did_not_because", "S:subject:human D:destination:place T:time:past F:feeling:body X:subject:human",
          en="S =did did_not go D T because X was:X F", zh="S T did_not go D , because X =很 F",
          sea="S did_not go D T because X F")
_template("test", "if_then_feel", "V:verb:action,event S:subject:human O:object F:feeling:emotion X:subject:human",
          en="if S V:S O , X will =be very F", zh="if S V O , X will very F", th_lo="if S V O , X will F very",
          sea="if S V O , X will very F")
_question("test", "who_with", "V:verb:action,plain O:object X:person T:time:future",
          en="who want:3sg =to V O with X T", zh="who T want with X =一起 V O", id="who =yang want V O with X T",
          sea="who want V O with X T")
_template("test", "want_to_go", "V:verb:action,social,plain S:subject:human O:object D:destination",
          en="S want:S =to go D purpose V O", zh="S want go D V O", sea="S want go D purpose V O")
_question("test", "who_gave", "X:person O:gift T:time:past",
          en="who give:past X O T", zh="who T give past=了 X O", vi="who past=đã give X O T", th="who give O =แก่ X T",
          id="who =yang give X O T", lo="who =ເອົາ O give X T")
_template("test", "know_person_who", "S:subject:human V:verb:action,social O:object T:time:past",
          en="S know:S =the people which=who V:past O T", zh="S know T V past=了 O which=的 people",
          vi="S know people past=đã V O T", th="S know people which=ที่ V O T", id="S know people which=yang V O T",
          lo="S know people which=ທີ່ V O T")
_template("test", "think_compare", "Z:subject:human A:adjective S:described X:rival",
          en="Z think:Z that=that S be:S A:comp than X", zh="Z think S than X A", vi="Z think that=rằng S A than X",
          th="Z think that=ว่า S A than X", id="Z think that=bahwa S =lebih A than X", lo="Z think that=ວ່າ S A than X")

# fmt: on


