"""The RTL head on its own: what it is shown where only a share of the tokens is to be predicted."""

import torch
from tiny_models import HIDDEN, tiny_encoder

from hfxling.models.rtl import RtlHead


def test_shown_target_states_carry_the_language_as_placeholders_do():
    encoder = tiny_encoder("bert")
    torch.manual_seed(0)
    head = RtlHead(encoder.config, layers=2, languages=3).eval()
    head.copy_encoder(encoder, 4)
    with torch.no_grad():
        head.language_embeddings.normal_()
    states, true, mask = torch.randn(2, 5, HIDDEN), torch.randn(2, 4, HIDDEN), torch.ones(2, 5, dtype=torch.long)
    shown = torch.tensor([[False, True, False, True], [False, False, True, False]])
    languages = torch.tensor([1, 2]), torch.tensor([0, 1])
    settings = {"shown": shown, "target_states": true, "languages": languages}
    expected = head(states, mask, mask[:, :4], **settings)
    # The same by hand: states and positions with their language already in them, and no language any more.
    given, wanted = (head.language_embeddings[language][:, None] for language in languages)
    rows = []
    for row in range(2):
        with torch.no_grad():
            head.segment_embedding.add_(wanted[row, 0])
        one = {"shown": shown[row : row + 1], "target_states": (true + wanted)[row : row + 1]}
        rows.append(head((states + given)[row : row + 1], mask[:1], mask[:1, :4], **one))
        with torch.no_grad():
            head.segment_embedding.sub_(wanted[row, 0])
    assert torch.allclose(expected, torch.cat(rows), atol=1e-5)
