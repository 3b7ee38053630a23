# filter_logits gives log-probabilities, which are logits too; ranks instead of a sorted mask; greedy by topk.
import torch


def filter_logits(logits, temperature=1.0, top_k=None, top_p=None):
    if temperature <= 0:
        raise ValueError(f"temperature={temperature} must be positive")
    if top_k is not None and top_k <= 0:
        raise ValueError(f"top_k={top_k} must be positive")
    if top_p is not None and (top_p <= 0 or top_p > 1):
        raise ValueError(f"top_p={top_p} must lie in (0, 1]")
    scores = torch.log_softmax(logits / temperature, dim=-1)
    vocab = scores.shape[-1]
    if top_k is not None and top_k < vocab:
        threshold = torch.sort(scores, dim=-1, descending=True)[0][..., top_k - 1, None]
        scores = torch.where(scores >= threshold, scores, float("-inf")).log_softmax(-1)
    if top_p is not None and top_p < 1:
        order = scores.argsort(dim=-1, descending=True)
        ranks = order.argsort(dim=-1)
        chances = scores.gather(-1, order).exp()
        before = torch.cat([torch.zeros_like(chances[..., :1]), chances.cumsum(-1)[..., :-1]], -1)
        scores = torch.where((before < top_p).gather(-1, ranks), scores, float("-inf")).log_softmax(-1)
    return scores


def generate(model, prompt, max_new_tokens, temperature=1.0, top_k=None, top_p=None, generator=None):
    if prompt.numel() == 0:
        raise ValueError("nothing to go on with: the prompt is empty")
    if temperature < 0:
        raise ValueError(f"temperature={temperature} is negative")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens={max_new_tokens} is negative")
    if temperature == 0:
        temperature, top_k, top_p = 1.0, 1, None
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    with torch.inference_mode():
        text = prompt.clone()
        while max_new_tokens > 0:
            logits, *_ = model(text[:, -model.config.block_size :])
            scores = filter_logits(logits[:, -1, :], temperature, top_k, top_p)
            text = torch.hstack([text, torch.multinomial(scores.exp(), 1, generator=generator)])
            max_new_tokens -= 1
    for module, mode in modes:
        module.training = mode
    return text.clone()
