# Unusual: the first step of the beam is taken by one hypothesis alone, `beam` of its continuations are the start;
# scores in float32; the masks come from a single helper; greedy decoding is a beam of one.
import torch
from sacrebleu.metrics import BLEU

from ..stage1_attention.attention import causal_mask, padding_mask


def _scores(model, tokens, memory, src_mask):
    length = tokens.shape[1]
    mask = causal_mask(length, tokens.device) & padding_mask(tokens, model.pad_id)
    hidden = model.decode(tokens, memory, mask, src_mask)
    return torch.log_softmax(model.fc_out(hidden[:, -1:]).squeeze(1), -1)


def beam_search(model, src, max_len, beam=4, length_penalty=0.6):
    if max_len < 1:
        raise ValueError(f"max_len must be positive, not {max_len}")
    if beam < 1:
        raise ValueError(f"beam must be positive, not {beam}")
    before = model.training
    try:
        with torch.no_grad():
            return _search(model.eval(), src, max_len, beam, length_penalty)
    finally:
        model.train(before)


def _search(model, src, max_len, beam, length_penalty):
    batch, src_mask = len(src), padding_mask(src, model.pad_id)
    memory = model.encode(src, src_mask)
    tokens = torch.ones(batch, 1, dtype=torch.int64, device=src.device)
    if max_len == 1:
        return tokens
    first = _scores(model, tokens, memory, src_mask)
    width = min(beam, first.shape[1])
    total, token = first.topk(width, dim=1)
    tokens = torch.stack([torch.ones_like(token), token], dim=2)  # (batch, width, 2)
    while tokens.shape[2] < max_len:
        ended = (tokens[:, :, 1:] == 2).any(-1)
        if ended.all():
            break
        index = torch.arange(batch, device=src.device).repeat_interleave(width)
        gain = _scores(model, tokens.flatten(0, 1), memory[index], src_mask[index]).view(batch, width, -1)
        vocab = gain.shape[2]
        nothing = torch.full_like(gain, -torch.inf)
        nothing[:, :, model.pad_id] = 0
        gain = torch.where(ended[..., None], nothing, gain)
        everything = (total[..., None] + gain).view(batch, -1)
        new_width = min(beam, everything.shape[1])
        total, index = everything.topk(new_width, dim=1)
        parent = index.div(vocab, rounding_mode="trunc")[..., None].expand(-1, -1, tokens.shape[2])
        tokens = torch.cat([tokens.gather(1, parent), (index % vocab)[..., None]], dim=2)
        width = new_width
    is_eos = tokens == 2
    last = torch.where(is_eos.any(-1), is_eos.int().argmax(-1), tokens.shape[2] - 1)
    winner = (total / ((5 + last) / 6).pow(length_penalty)).argmax(1)
    return tokens[torch.arange(batch, device=src.device), winner]


def greedy_decode(model, src, max_len):
    return beam_search(model, src, max_len, beam=1)


def sample(model, src, max_len, temperature=1.0, generator=None):
    if max_len < 1 or temperature <= 0:
        raise ValueError(f"max_len {max_len}, temperature {temperature}")
    before = model.training
    model.eval()
    with torch.no_grad():
        src_mask = padding_mask(src, model.pad_id)
        memory = model.encode(src, src_mask)
        tokens = torch.ones(len(src), 1, dtype=torch.int64, device=src.device)
        while tokens.shape[1] < max_len and not (tokens == 2).any(1).all():
            logits = _scores(model, tokens, memory, src_mask) / temperature
            # Whoever arrives first: exponential waiting times.
            waiting = torch.empty_like(logits).exponential_(generator=generator)
            token = (logits.softmax(-1) / waiting).argmax(-1, keepdim=True)
            token[(tokens == 2).any(1)] = model.pad_id
            tokens = torch.cat([tokens, token], 1)
    model.train(before)
    return tokens


def corpus_bleu(hypotheses, references):
    if len(hypotheses) == 0 or len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses, {len(references)} references")
    bleu = BLEU()
    scored = bleu.corpus_score(hypotheses, references=[references])
    return scored.score, f"{bleu.get_signature()}"
