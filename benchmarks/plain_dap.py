"""DAP's objectives computed as plainly as the authors' released code does: what `dap_step.py` compares with.

Written anew from what that code does: sides padded to the full length and encoded together, the head at all positions
of source and placeholders, logits of every position in float32 at once, torch's cross-entropy with ignored labels.
Where the released code costs more for reasons of its own (the embeddings of a second encoder beside the head), it is
not followed.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertModel
from transformers.models.bert.modeling_bert import BertLayer

IGNORED = -100


class PlainDap(nn.Module):
    """One encoder and one objective.

    Args:
        encoder: Bert.
        objective: "tr", "tr+rtl" or "tr+tlm".
        words: rows of the output matrix of RTL; None for the whole vocabulary, tied to the embeddings.
    """

    def __init__(self, encoder: BertModel, objective: str, words: int | None = None):
        super().__init__()
        config, size = encoder.config, encoder.config.hidden_size
        self.encoder, self.objective, self.words = encoder, objective, words
        self.cls = nn.Linear(size, size)
        if objective == "tr":
            return
        self.transform = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.LayerNorm(size))
        self.bias = nn.Parameter(torch.zeros(words or config.vocab_size))
        self.output = nn.Parameter(torch.randn(words, size) * 0.02) if words else None
        if objective == "tr+rtl":
            self.layers = nn.ModuleList(BertLayer(config) for _ in range(2))
            self.mask = nn.Parameter(torch.zeros(size))
            self.positions = nn.Parameter(torch.zeros(config.max_position_embeddings, size))
            self.norm = nn.LayerNorm(size)

    def forward(self, source: dict[str, Tensor], target: dict[str, Tensor]) -> Tensor:
        """Loss of (B, S) pairs, both sides padded to the same S; target ids below `words` where that is given."""
        ids, mask = (torch.cat([source[key], target[key]]) for key in ("input_ids", "attention_mask"))
        states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        x, y = torch.tanh(self.cls(states[:, 0])).chunk(2)
        similarity = F.cosine_similarity(x[:, None], y[None], dim=-1) / 0.05
        loss = F.cross_entropy(similarity, torch.arange(len(x), device=x.device))
        if self.objective == "tr+rtl":
            return loss + self.rtl(states[: len(x)], source, target)
        return loss + self.tlm(source, target) if self.objective == "tr+tlm" else loss

    def rtl(self, states: Tensor, source: dict[str, Tensor], target: dict[str, Tensor]) -> Tensor:
        """Head, transform and logits at all 2 S positions; half of them are thrown away."""
        mask = torch.cat([source["attention_mask"], target["attention_mask"]], dim=1)
        length = states.shape[1]
        placeholders = self.norm(self.mask + self.positions[:length]).expand(len(states), -1, -1)
        states = torch.cat([states, self.norm(placeholders + self.positions[:length])], dim=1)  # twice, as there
        for layer in self.layers:
            states = layer(states, mask[:, None, None].bool())
        labels = target["input_ids"].masked_fill(target["attention_mask"] == 0, IGNORED)
        return self.predict(states, torch.cat([torch.full_like(labels, IGNORED), labels], dim=1))

    def tlm(self, source: dict[str, Tensor], target: dict[str, Tensor]) -> Tensor:
        """The concatenated pair through the encoder again, logits at all positions."""
        ids, mask = (torch.cat([source[key], target[key]], dim=1) for key in ("input_ids", "attention_mask"))
        chosen = (torch.rand(ids.shape, device=ids.device) < 0.15) & mask.bool()
        states = self.encoder(input_ids=ids.masked_fill(chosen, 103), attention_mask=mask).last_hidden_state
        return self.predict(states, ids.masked_fill(~chosen, IGNORED))

    def predict(self, states: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy of (B, L) labels."""
        output = self.encoder.embeddings.word_embeddings.weight if self.output is None else self.output
        logits = F.linear(self.transform(states), output, self.bias).float()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
