"""Licences by the Hub's identifiers."""

import pytest

from hfxling.data.licences import check_licence


def test_identifiers_of_the_hub_pass():
    for licence in (None, "apache-2.0", "cc-by-sa-4.0", "other", "odc-by"):
        check_licence("data_licence", licence)


@pytest.mark.parametrize(
    ("licence", "near"), [("apache2", "apache-2.0"), ("CC BY 4.0", "cc-by-4.0"), ("MIT", "mit"), ("", "")]
)
def test_what_is_none_names_the_nearest(licence, near):
    with pytest.raises(
        ValueError, match=f"^data_licence={licence!r} is not a licence of the Hub; did you mean '{near}"
    ):
        check_licence("data_licence", licence)
