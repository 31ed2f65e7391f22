"""Configurations that are none, from every class."""

import pytest

from hfxling.models import AlignerModel, DapModel, DisentanglerModel, LexicalModel, SiameseModel


@pytest.mark.parametrize("content", ["[]", "null", "3", "[" * 100_000])
@pytest.mark.parametrize("cls", [AlignerModel, DapModel, DisentanglerModel, LexicalModel, SiameseModel])
def test_a_config_that_is_no_configuration(cls, content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises((ValueError, OSError), match="config") as error:
        cls.from_pretrained(tmp_path)
    assert str(tmp_path) in str(error.value)
