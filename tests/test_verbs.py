"""What all verbs have in common."""

import pytest

import hfxling


def test_a_parameter_that_there_is_not_is_refused_by_the_verbs_name():
    with pytest.raises(TypeError, match=r"^verify\(\) got an unexpected keyword argument 'nonsense'$"):
        hfxling.verify("folder", nonsense=1)


def test_a_result_is_shown_as_its_table():
    source, target = ["一只猫", "一只狗", "一只猫"], ["một con mèo", "một con chó", "một con mèo"]
    cleaned = hfxling.clean(source, target, languages=("zh", "vi"), progress=False)
    assert repr(cleaned) == cleaned.table()
    links = hfxling.align_words(source, target, languages=("zh", "vi"), progress=False)
    assert repr(links) == links.table()
