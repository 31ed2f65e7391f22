"""What all verbs have in common."""

import pytest

import hfxling


def test_a_parameter_that_there_is_not_is_refused_by_the_verbs_name():
    with pytest.raises(TypeError, match=r"^verify\(\) got an unexpected keyword argument 'nonsense'$"):
        hfxling.verify("folder", nonsense=1)
