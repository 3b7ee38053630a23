# Unusual: tokens in a tensor of full width, so that trailing columns of <pad> come back; integer masks; F.linear.
import torch
import torch.nn.functional as F
from sacrebleu import BLEU


def _start(model, src, copies, max_len):
    if max_len < 1 or copies < 1:
        raise ValueError(f"max_len={max_len} and beam={copies} should be 1 or more")
    real = (src != model.pad_id).long()[:, None, None, :]
    memory = model.encode(src, real)
    tokens = torch.full((len(src), copies, max_len), model.pad_id, device=src.device)
    tokens[..., 0] = 1
    order = torch.arange(len(src), device=src.device).repeat_interleave(copies)
    return memory[order], real[order], tokens


def _logits(model, memory, real, tokens, length):
    flat = tokens[..., :length].reshape(-1, length)
    lower = torch.ones(length, length, dtype=torch.long, device=flat.device).tril()
    mask = lower * (flat != model.pad_id).long()[:, None, None, :]
    hidden = model.decode(flat, memory, mask, real)
    logits = F.linear(hidden, model.fc_out.weight, model.fc_out.bias)[:, length - 1]
    return logits.reshape(*tokens.shape[:2], -1)


def _decode(model, src, max_len, choose):
    mode = model.training
    model.eval()
    with torch.inference_mode():
        memory, real, tokens = _start(model, src, 1, max_len)
        ended = torch.zeros(len(src), dtype=torch.bool, device=src.device)
        for length in range(1, max_len):
            token = choose(_logits(model, memory, real, tokens, length)[:, 0])
            tokens[:, 0, length] = torch.where(ended, model.pad_id, token)
            ended |= token == 2
            if ended.all():
                break
    model.train(mode)
    return tokens[:, 0].clone()


def greedy_decode(model, src, max_len):
    return _decode(model, src, max_len, lambda logits: logits.max(-1).indices)


def sample(model, src, max_len, temperature=1.0, generator=None):
    if temperature <= 0:
        raise ValueError(f"a temperature of {temperature} makes no sense")
    return _decode(
        model,
        src,
        max_len,
        lambda logits: (logits / temperature).softmax(-1).multinomial(1, generator=generator)[:, 0],
    )


def beam_search(model, src, max_len, beam=4, length_penalty=0.6):
    mode = model.training
    model.eval()
    with torch.inference_mode():
        memory, real, tokens = _start(model, src, beam, max_len)
        n = torch.arange(len(src), device=src.device)[:, None]
        total = memory.new_zeros(len(src), beam)
        total[:, 1:] = -torch.inf
        ended = torch.zeros_like(total, dtype=torch.bool)
        count = torch.zeros_like(total)
        for length in range(1, max_len):
            gain = _logits(model, memory, real, tokens, length)
            gain = gain - gain.logsumexp(-1, keepdim=True)
            gain[ended] = -torch.inf
            gain[..., model.pad_id] = torch.where(ended, 0, gain[..., model.pad_id])
            vocab = gain.shape[-1]
            total, index = (total[..., None] + gain).reshape(len(src), -1).sort(descending=True, stable=True)
            total, index = total[:, :beam], index[:, :beam]
            parent = torch.div(index, vocab, rounding_mode="floor")
            tokens, ended, count = tokens[n, parent], ended[n, parent], count[n, parent]
            tokens[..., length] = index % vocab
            count += (~ended).float()
            ended = ended | (index % vocab == 2)
            if ended.all():
                break
        best = (total * (6 / (5 + count)) ** length_penalty).max(-1).indices
    model.train(mode)
    return tokens[n[:, 0], best].clone()


def corpus_bleu(hypotheses, references):
    if not len(hypotheses) == len(references) > 0:
        raise ValueError(f"{len(hypotheses)} and {len(references)} sentences")
    bleu = BLEU(tokenize="13a")
    result = bleu.corpus_score(list(hypotheses), [list(references)])
    return [result.score, str(bleu.get_signature())][0], str(bleu.get_signature())
