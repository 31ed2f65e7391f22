import pytest

from hfxling.data.markup import markup_differs


@pytest.mark.parametrize(
    "text",
    [
        "<p>Xin chào</p>",
        'Xin <a href="/vi/chao">chào</a>',
        "Xin<br/>chào",
        '<seg id="1">Xin chào',
        "Xin <unk> chào",
        "Xin&nbsp;chào",
        "&quot;Xin chào&QUOT;",
        "Xin chào&#8230;",
        "Xin chào&#x2026;",
    ],
)
def test_markup_on_one_side(text):
    assert markup_differs("你好", text)
    assert markup_differs(text, "你好")
    assert not markup_differs("<b>你好</b>", text)


@pytest.mark.parametrize(
    "text",
    ["a < b và c > d", "x <y và z> w", "tôi <3 bạn", "AT&T; R&D; &nosuch;", "5 & 6; 7", "<<Báo>> <Báo Nhân dân>", ""],
)
def test_what_is_no_markup(text):
    assert not markup_differs("你好", text)
