"""Language codes: which are allowed, and which mean the same language."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

# ISO 639-1 codes, each after a code of three letters that means the same: those of ISO 639-2 and 639-3 (lao, zho, chi),
# and those that data sets such as FLORES and Tatoeba use for the language (cmn, arb, zsm).
_CODES = """
aar-aa abk-ab ave-ae afr-af aka-ak amh-am arg-an ara-ar arb-ar asm-as ava-av aym-ay ayr-ay aze-az azj-az bak-ba bel-be
bul-bg bih-bh bis-bi bam-bm ben-bn bod-bo tib-bo bre-br bos-bs cat-ca che-ce cha-ch cos-co cre-cr ces-cs cze-cs chu-cu
chv-cv cym-cy wel-cy dan-da deu-de ger-de div-dv dzo-dz ewe-ee ell-el gre-el eng-en epo-eo spa-es ekk-et est-et baq-eu
eus-eu fas-fa per-fa pes-fa prs-fa ful-ff fin-fi fij-fj fao-fo fra-fr fre-fr fry-fy gle-ga gla-gd glg-gl grn-gn gug-gn
guj-gu glv-gv hau-ha heb-he hin-hi hmo-ho hrv-hr hat-ht hun-hu arm-hy hye-hy her-hz ina-ia ind-id ile-ie ibo-ig iii-ii
ipk-ik ido-io ice-is isl-is ita-it ike-iu iku-iu jpn-ja jav-jv geo-ka kat-ka kon-kg kik-ki kua-kj kaz-kk kal-kl khm-km
kan-kn kor-ko kau-kr knc-kr kas-ks kmr-ku kur-ku kom-kv kpv-kv cor-kw kir-ky lat-la ltz-lb lug-lg lim-li lin-ln lao-lo
lit-lt lub-lu lav-lv lvs-lv mlg-mg plt-mg mah-mh mao-mi mri-mi mac-mk mkd-mk mal-ml khk-mn mon-mn mar-mr may-ms msa-ms
zsm-ms mlt-mt bur-my mya-my nau-na nob-nb nde-nd nep-ne npi-ne ndo-ng dut-nl nld-nl nno-nn nor-no nbl-nr nav-nv nya-ny
oci-oc ojg-oj oji-oj gaz-om orm-om ori-or ory-or oss-os pan-pa pli-pi pol-pl pbt-ps pbu-ps pus-ps por-pt que-qu quy-qu
quz-qu roh-rm run-rn ron-ro rum-ro rus-ru kin-rw san-sa src-sc srd-sc snd-sd sme-se sag-sg hbs-sh sin-si slk-sk slo-sk
slv-sl smo-sm sna-sn som-so alb-sq als-sq sqi-sq srp-sr ssw-ss sot-st sun-su swe-sv swa-sw swh-sw tam-ta tel-te tgk-tg
tha-th tir-ti tuk-tk tgl-tl tsn-tn ton-to tur-tr tso-ts tat-tt twi-tw tah-ty uig-ug ukr-uk urd-ur uzb-uz uzn-uz ven-ve
vie-vi vol-vo wln-wa wol-wo xho-xh ydd-yi yid-yi yor-yo zha-za chi-zh cmn-zh zho-zh zul-zu
"""
# Code of three letters -> code of two letters for the same language.
TWO_LETTERS = dict(codes.split("-") for codes in _CODES.split())
# Smaller languages whose script puts no spaces between words, by the large language of that script: Chinese languages;
# Tai languages and Northern Khmer in Thai letters; Shan, Mon and Karen in Burmese letters.
_LIKE = {
    "zh": "yue wuu gan hsn lzh",  # Min Nan and Hakka are often written in Latin letters
    "th": "tts nod sou kxm",
    "my": "shn mnw rki ksw blk kjp",
}
_LARGE = {code: large for large, codes in _LIKE.items() for code in codes.split()}
COUNTRY_FOR_LANGUAGE = {"cn": "zh", "jp": "ja", "vn": "vi", "kh": "km", "mm": "my", "cz": "cs", "gr": "el", "ua": "uk"}


def base_code(lang: str) -> str:
    """The language that a code means, without region or script: `lo` for lo, lo-LA, lao and lao-Laoo.

    A code of three letters without an equivalent of two letters, such as yue or fil, is kept.
    """
    base = lang.partition("-")[0]
    return TWO_LETTERS.get(base, base)


def written_like(lang: str) -> str:
    """The base code of the language whose word segmentation also fits this one: `zh` for yue, `th` for tts."""
    base = base_code(lang)
    return _LARGE.get(base, base)


def check_languages(source_lang: str, target_lang: str) -> None:
    """Raise ValueError unless both are language codes (zh, lo, fil, zh-tw) and they differ."""
    for code in (source_lang, target_lang):
        if not isinstance(code, str) or not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", code):
            form = "a code is 2-3 small letters, with a region or script if need be: zh, lo, zh-tw, zh-Hans"
            raise ValueError(f"language {code!r}: {form}")
        base = code.partition("-")[0]
        two_letters = set(TWO_LETTERS.values())
        if len(base) == 2 and base not in two_letters:
            near = COUNTRY_FOR_LANGUAGE.get(base) or " or ".join(difflib.get_close_matches(base, two_letters, n=2))
            raise ValueError(f"language {code!r} is not in ISO 639-1; did you mean {near or 'zh, vi or th'}?")
    if source_lang.lower() == target_lang.lower():
        raise ValueError(f"source_lang and target_lang are both {source_lang!r}; parallel text needs two languages")


def same_language(lang: str, known: Iterable[str]) -> str | None:
    """The known code for a language: the same code, or the only one with the same base (`lo` for lao); else None."""
    known = list(known)
    if lang in known:
        return lang
    same = [code for code in known if base_code(code) == base_code(lang)]
    return same[0] if len(same) == 1 else None


def pair_of(languages: Any, known: Sequence[str] = ()) -> tuple[str, str]:
    """Source and target language, each by its known code if it has one; ValueError unless two codes are given."""
    if languages is None or isinstance(languages, str) or len(languages) != 2 or languages[0] == languages[1]:
        raise ValueError(f"languages={languages!r}: give the codes of two languages, such as zh vi.")
    check_languages(*languages)
    source, target = [same_language(language, known) or language for language in languages]
    return source, target
