"""The rules of the sample grammar: for every phrase and sentence, how each of the six languages writes it.

A rule has one line per language. The notation of a line, token by token:

    S       upper case: write the child of that name here, if there is one
    V:past  the same in a form: an English inflection, `cl` for the classifier; a capital (`V:S`) agrees with that child
    will    lower case: the lexicon's word for this key; languages that both write it are linked
    q=吗    a word given on the spot, linked between languages under the name before the sign
    =the    a word that is linked with nothing
    ,       the border of two clauses

The keyword `sea` stands for vi, th, id and lo, `th_lo` for th and lo; a narrower keyword goes before a wider one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

LANGUAGES = ("en", "zh", "vi", "th", "id", "lo")
AUXILIARIES = {  # English, by agreement: "I", third person singular, other
    "be": ("am", "is", "are"),
    "was": ("was", "was", "were"),
    "do": ("do", "does", "do"),
    "have": ("have", "has", "have"),
}
DETERMINERS = {  # of a noun phrase by its place in the sentence: the phrase rules it may use
    "subject": ("the", "count", "demonstrative", "possessed"),
    "definite": ("the", "demonstrative", "possessed"),
    "than": ("the", "demonstrative", "possessed"),
    "person": ("a", "demonstrative", "possessed"),
    "known_person": ("the", "demonstrative", "possessed"),
    "friend": ("possessed",),
    "object": ("a", "count", "demonstrative", "possessed", "bare"),
    "known": ("demonstrative", "possessed", "bare"),
    "kind": ("bare",),
    "habitual": ("count", "possessed", "bare"),
    "amount": ("a", "count", "bare"),
    "figure": ("a", "count"),
    "how_many": ("how_many",),
    "role": ("role",),
    "other_role": ("other_role",),
    "specific": ("demonstrative", "possessed"),
}


class Token(NamedTuple):
    """One token of a rule's line; `kind` is child, key, auxiliary, word or break."""

    kind: str
    name: str
    form: str
    linked: bool


@dataclass(frozen=True)
class Template:
    """A sentence rule.

    Attributes:
        children: what to draw, in order: (name, kind, argument). The kind is a method of `grammar._Meaning` or else
            noun classes, the argument then a row of DETERMINERS: `S:human:subject`, `O:V:object` (what V acts on).
    """

    name: str
    split: str
    question: bool
    children: tuple[tuple[str, ...], ...]


def _token(text: str) -> Token:
    tag, sign, word = text.partition("=")
    name, _, form = (word or tag).partition(":")
    if text == ",":
        return Token("break", "", ",", False)
    if name in AUXILIARIES and form:
        return Token("auxiliary", name, form, not sign)
    if sign:
        return Token("word", tag, word, bool(tag))
    return Token("child" if name[0].isupper() else "key", name, form, True)


def _rule(**lines: str) -> dict[str, tuple[Token, ...]]:
    wider = {"vi": ("sea",), "th": ("th_lo", "sea"), "id": ("sea",), "lo": ("th_lo", "sea")}
    found = {lang: next(lines[k] for k in (lang, *wider.get(lang, ())) if k in lines) for lang in LANGUAGES}
    return {lang: tuple(map(_token, line.split())) for lang, line in found.items()}


TEMPLATES: dict[str, Template] = {}


def _template(split: str, name: str, children: str, *, question: bool = False, **lines: str) -> None:
    specs = (f"{child}::".split(":")[:3] for child in children.split())
    TEMPLATES[name] = Template(name, split, question, tuple(map(tuple, specs)))
    RULES[name] = _rule(**lines)


def _question(split: str, name: str, children: str, **lines: str) -> None:
    _template(split, name, children, question=True, **lines)


# fmt: off
# Phrases. N noun, A adjective, Q numeral, D demonstrative, P possessor, U unit of time, W which one.
RULES = {
    "the": _rule(en="=the A N", zh="A N", vi="N:cl N A", id="N A =itu", th_lo="N A"),
    "bare": _rule(en="A N:pl", zh="A N", sea="N A"),
    "a": _rule(en="a A N", zh="a N:cl A N", sea="a N:cl N A", th_lo="N A N:cl a"),
    "role": _rule(en="a A N", zh="a N:cl A N", sea="a N:cl N A", th_lo="N A"),
    "other_role": _rule(en="a A N", zh="A N", sea="N A"),
    "count": _rule(en="Q A N:pl", zh="Q N:cl A N", sea="Q N:cl N A", th_lo="N A Q N:cl"),
    "demonstrative": _rule(en="D A N", zh="D N:cl A N", vi="N:cl N A D", id="N A D", th_lo="N A N:cl D"),
    "possessed": _rule(en="P A N", zh="P of A N", vi="N:cl N A of P", id="N A P", th_lo="N A of P"),
    "possessed_quality": _rule(en="P A N", zh="P A N", vi="N:cl N A of P", id="N A P", th_lo="N A of P"),
    "kin": _rule(en="P N", zh="P N", sea="N P", th_lo="N of P"),
    "kin_owner": _rule(en="P N:gen", zh="P N", sea="N P"),
    "owner": _rule(en="=the N:gen", zh="N", vi="N:cl N", sea="N"),
    "my": _rule(en="N:gen", zh="N", sea="N:gen"),
    "pronoun": _rule(en="N", zh="N", sea="N"),
    "object_pronoun": _rule(en="N:obj", zh="N", sea="N"),
    "adjective_de": _rule(en="A", zh="A =的", sea="A"),
    "ground": _rule(en="=the N", zh="N", sea="N"),
    "location": _rule(en="at N", zh="at N", sea="at N"),
    "inside": _rule(en="inside N", zh="inside N =里", sea="inside N"),
    "city": _rule(en="at=in N", zh="at N", sea="at N"),
    "to": _rule(en="to N", zh="N", sea="to N", th_lo="N"),
    "arrival": _rule(en="=at N", zh="N", sea="N", id="=di N"),
    "weekday": _rule(en="on_day U", zh="U", sea="on_day U"),
    "every": _rule(en="every U", zh="every U:cl U", sea="every U"),
    "near_time": _rule(en="W U", zh="W U:cl U", sea="U W"),
}

# Sentences. S subject, V verb, O object, X someone else, L location, D destination, T time, A F adjectives, K a number
# of things, R spatial relation, G what it relates to, J profession.
_template("train", "habit", "V:verb:action,steady,social,plain S:actor:subject O:V:habitual T:time:every",
          en="S V:S O T", zh="S T V O", sea="S V O T")
_template("train", "past_at", "V:verb:action,social,event S:human:subject O:V:object L:location T:time:past",
          en="S V:past O L T", zh="S T L V past=了 O", vi="S past=đã V O L T", sea="S V O L T")
_template("train", "progressive", "V:verb:action,steady,social,plain S:actor:subject O:V:object",
          en="S be:S V:ing O", zh="S prog=正在 V O", vi="S prog=đang V O", th="S prog=กำลัง V O", id="S prog=sedang V O",
          lo="S prog=ກຳລັງ V O")
_template("train", "future", "V:verb:action,social,plain S:human:subject O:V:object T:time:future",
          en="S will V O T", zh="S T will V O", sea="S will V O T")
_template("train", "want", "V:verb:action,steady,social,plain S:human:subject O:V:object L:location",
          en="S want:S =to V O L", zh="S want L V O", sea="S want V O L")
_template("train", "is_noun", "S:single,adult:definite J:job:role",
          en="S be:S J", zh="S be J", sea="S be J")
_template("train", "is_not_noun", "S:single,adult:definite J:job:other_role",
          en="S be:S not_be J", zh="S not_be be=是 J", vi="S not_be be=là J", sea="S not_be J")
_template("train", "very", "A:adjective S:A:definite",
          en="S be:S very A", zh="S very A", th_lo="S A very", sea="S very A")
_template("train", "did_not", "V:verb:action,social,event S:human:subject O:V:known T:time:past",
          en="S =did did_not V O T", zh="S T did_not V O", sea="S did_not V O T")
_template("train", "not_yet", "V:verb:action,social,plain S:human:subject O:V:known",
          en="S have:S not_yet V:part O still", zh="S still not_yet V O", th_lo="S still not_yet V O",
          sea="S not_yet V O")
_template("train", "already", "V:verb:action,social,event S:human:subject O:V:object",
          en="S have:S already V:part O", zh="S already V =了 O", vi="S already V O =rồi", id="S already V O",
          th_lo="S V O already")
_question("train", "does", "V:verb:action,steady,social,plain S:asked:subject O:V:habitual T:time:every",
          en="do:S S V O T", zh="S T V O q=吗", vi="S =có V O T q=không", th="S V O T q=ไหม", id="q=apakah S V O T",
          lo="S V O T q=ບໍ")
_question("train", "what", "V:verb:action S:asked:subject L:location T:time:past",
          en="what =did S V L T", zh="S T L V past=了 what", vi="S past=đã V what L T", sea="S V what L T")
_question("train", "who", "V:verb:action,social,event O:V:object T:time:past",
          en="who V:past O T", zh="who T V past=了 O", vi="who past=đã V O T", id="who =yang V O T", sea="who V O T")
_question("train", "where_is", "S:human,small,pet,vehicle,container:subject",
          en="where be:S S", zh="S at=在 where", vi="S at=ở where", th="S at=อยู่ where", id="where S", lo="S at=ຢູ່ where")
_question("train", "when", "V:verb:action,social,plain S:asked:subject O:V:object",
          en="when will S V O", zh="S when will V O", sea="when S will V O", th_lo="S will V O when")
_template("train", "can", "V:verb:action,steady,social,plain S:actor:subject O:V:object",
          en="S can V O", zh="S can V O", vi="S can V O", id="S can V O", th_lo="S V O can")
_template("train", "must", "V:verb:action,social,plain S:human:subject O:V:object T:time:future",
          en="S must V O T", zh="S T must V O", sea="S must V O T")
_template("train", "go_to_do", "V:verb:action,social,plain S:human:subject O:V:object D:destination T:time:future",
          en="S will go D purpose V O T", zh="S T will go D V O", sea="S will go D purpose V O T")
_template("train", "there_are", "R:relation G:ground K:R:figure",
          en="exist=there be:K K R G", zh="G R exist=有 K", vi="R G exist=có K", th="R G exist=มี K",
          id="exist=ada K =di R G", lo="=ຢູ່ R G exist=ມີ K")
_question("train", "how_many_are", "R:relation G:ground K:R:how_many",
          en="K be:K exist=there R G", zh="G R exist=有 K", vi="R G exist=có K", th="R G exist=มี K",
          id="exist=ada K =di R G", lo="=ຢູ່ R G exist=ມີ K")
_template("train", "give", "S:human:subject X:human:person O:gift,reading,accessory,device,fruit:amount T:time:past",
          en="S give:past X O T", zh="S T give past=了 X O", vi="S past=đã give X O T", th="S give O =แก่ X T",
          id="S give X O T", lo="S =ເອົາ O give X T")
_template("train", "compare", "A:adjective S:A:definite X:rival:than:than",
          en="S be:S A:comp than X", zh="S than X A", id="S =lebih A than X", sea="S A than X")
_template("train", "with", "V:verb:action,plain S:human:subject O:V:object X:human:person T:time:future",
          en="S will V O with X T", zh="S T will with X =一起 V O", sea="S will V O with X T")
_template("train", "and", "V:verb:action S:human:subject O:V:amount Y:V:amount T:time:past",
          en="S V:past O and Y T", zh="S T V past=了 O and Y", vi="S past=đã V O and Y T", sea="S V O and Y T")
_template("train", "feel_because", "F:feeling:emotion S:human:subject V:verb:action,event X:human:subject O:V:object",
          en="S be:S F because X V:past O", zh="S =很 F , because X V past=了 O", vi="S F because X past=đã V O",
          sea="S F because X V O")
_template("train", "if_rain", "T:time:ahead S:human:subject D:destination:place,city",
          en="if =it rain:3sg T , S will not go D", zh="if T rain , S =就 not go D",
          vi="if T =trời rain , S will not go D", id="if T rain , S not will go D", th_lo="if T rain , S will not go D")
_template("train", "think", "Z:human:subject V:verb:action,social,plain S:human:subject O:V:object T:time:future",
          en="Z think:Z that=that S will V O T", zh="Z think S T will V O", vi="Z think that=rằng S will V O T",
          th="Z think that=ว่า S will V O T", id="Z think that=bahwa S will V O T", lo="Z think that=ວ່າ S will V O T")
_template("train", "please", "V:verb:action,plain O:V:known L:location",
          en="please V O L", zh="please L V O", sea="please V O L")
_template("train", "like", "V:verb:action,steady,plain S:human:subject O:V:kind",
          en="S like:S V:ing O", zh="S like V O", sea="S like V O")
_template("train", "the_person_who", "V:verb:action,social X:kin,own:friend O:V:object",
          en="=the people which=who =be:X V:ing O be:X X", zh="prog=正在 V O which=的 people be X",
          vi="people prog=đang V O be X", th="people which=ที่ prog=กำลัง V O be=คือ X",
          id="people which=yang prog=sedang V O be X", lo="people which=ທີ່ prog=ກຳລັງ V O be=ແມ່ນ X")
_template("train", "do_not_know", "S:human:subject X:human:known_person",
          en="S do:S not know X", zh="S not know X", sea="S not know X")
_template("train", "when_arrive", "S:human:subject D:arrival V:verb:action,social,plain X:human:subject O:V:object",
          en="while S arrive:past D , X was:X V:ing O", zh="S arrive D =的 while , X prog=正在 V O",
          vi="while S arrive D , X prog=đang V O", th="while S arrive D , X prog=กำลัง V O",
          id="while S arrive D , X prog=sedang V O", lo="while S arrive D , X prog=ກຳລັງ V O")
_template("train", "before", "V:verb:action,event S:human:subject O:V:object X:human:subject D:arrival",
          en="S V:past O before X arrive:past D", zh="X arrive D before , S V past=了 O",
          vi="S past=đã V O before X arrive D", id="S V O before X arrive D", th="S V O before X =จะ arrive D",
          lo="S V O before X =ຈະ arrive D")
_template("train", "tell", "S:human:subject X:human:person V:verb:action,plain O:V:object",
          en="S tell:past X =to V O", zh="S tell X V O", vi="S past=đã tell X V O", th="S tell =ให้ X V O",
          id="S tell X V O", lo="S tell =ໃຫ້ X V O")
_template("train", "cause", "F:feeling:emotion S:show,text,mail,picture:specific X:human:person",
          en="S cause:past X F", zh="S cause X =很 F", sea="S cause X F")

_template("dev", "is_at", "R:relation G:ground S:R:definite",
          en="S be:S R G", zh="S at=在 G R", vi="S at=ở R G", th="S at=อยู่ R G", id="S exist=ada =di R G",
          lo="S at=ຢູ່ R G")
_template("dev", "is_not", "A:adjective S:A:definite",
          en="S be:S not A", zh="S not A", sea="S not A")
_template("dev", "does_not_want", "V:verb:action,plain S:human:subject O:V:known L:location",
          en="S do:S not want =to V O L", zh="S not want L V O", sea="S not want V O L")
_question("dev", "will", "V:verb:action,social,plain S:asked:subject O:V:object T:time:future",
          en="will S V O T", zh="S T will V O q=吗", vi="S =có V O T q=không", th="S will V O T q=ไหม",
          id="q=apakah S will V O T", lo="S will V O T q=ບໍ")

_question("test", "where_does", "V:verb:action,steady,plain S:asked:subject O:V:habitual",
          en="where do:S S V O", zh="S at=在 where V O", vi="S V O at=ở where", id="where S V O", th="S V O where",
          lo="S V O at=ຢູ່ where")
_question("test", "how_many_did", "V:verb:action S:asked:subject K:V:how_many T:time:past",
          en="K =did S V T", zh="S T V past=了 K", vi="S past=đã V K T", sea="S V K T")
_template("test", "feel_when", "F:feeling:emotion S:human:subject V:verb:action,event X:human:subject O:V:object",
          en="S was:S F while X V:past O", zh="X V past=了 O =的 while , S =很 F", sea="S F while X V O")
_template("test", "did_not_because", "S:human:subject D:destination:place T:time:past F:feeling:body X:human:subject",
          en="S =did did_not go D T because X was:X F", zh="S T did_not go D , because X =很 F",
          sea="S did_not go D T because X F")
_template("test", "if_then_feel", "V:verb:action,event S:human:subject O:V:object F:feeling:emotion X:human:subject",
          en="if S V:S O , X will =be very F", zh="if S V O , X will very F", th_lo="if S V O , X will F very",
          sea="if S V O , X will very F")
_question("test", "who_with", "V:verb:action,plain O:V:object X:human:person T:time:future",
          en="who want:3sg =to V O with X T", zh="who T want with X =一起 V O", id="who =yang want V O with X T",
          sea="who want V O with X T")
_template("test", "want_to_go", "V:verb:action,social,plain S:human:subject O:V:object D:destination",
          en="S want:S =to go D purpose V O", zh="S want go D V O", sea="S want go D purpose V O")
_question("test", "who_gave", "X:human:person O:gift,reading,accessory,device,fruit:amount T:time:past",
          en="who give:past X O T", zh="who T give past=了 X O", vi="who past=đã give X O T", th="who give O =แก่ X T",
          id="who =yang give X O T", lo="who =ເອົາ O give X T")
_template("test", "know_person_who", "S:human:subject V:verb:action,social O:V:object T:time:past",
          en="S know:S =the people which=who V:past O T", zh="S know T V past=了 O which=的 people",
          vi="S know people past=đã V O T", th="S know people which=ที่ V O T", id="S know people which=yang V O T",
          lo="S know people which=ທີ່ V O T")
_template("test", "think_compare", "Z:human:subject A:adjective S:A:definite X:rival:than:than",
          en="Z think:Z that=that S be:S A:comp than X", zh="Z think S than X A", vi="Z think that=rằng S A than X",
          th="Z think that=ว่า S A than X", id="Z think that=bahwa S =lebih A than X", lo="Z think that=ວ່າ S A than X")
