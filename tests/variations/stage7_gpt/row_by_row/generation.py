# Writes into a tensor made beforehand, one row after the other, and draws by adding Gumbel noise.
import torch


def filter_logits(logits, temperature=1.0, top_k=None, top_p=None):
    for name, value, right in (
        ("temperature", temperature, temperature > 0),
        ("top_k", top_k, top_k is None or top_k >= 1),
        ("top_p", top_p, top_p is None or 0 < top_p <= 1),
    ):
        if not right:
            raise ValueError(f"{name} cannot be {value}")
    out = (logits / temperature).clone()
    for row in out.view(-1, out.shape[-1]):
        if top_k is not None:
            k = min(top_k, len(row))
            row[row < row.kthvalue(len(row) - k + 1).values] = -torch.inf
        if top_p is not None:
            total, chances = 0.0, row.softmax(0)
            for index in chances.argsort(descending=True).tolist():
                if total >= top_p:
                    row[index] = -torch.inf
                total += float(chances[index])
    return out


@torch.no_grad()
def generate(model, prompt, max_new_tokens, temperature=1.0, top_k=None, top_p=None, generator=None):
    batch, length = prompt.shape
    if length < 1:
        raise ValueError(f"a prompt of {length} tokens cannot be continued")
    if max_new_tokens < 0:
        raise ValueError(f"cannot write {max_new_tokens} tokens")
    if temperature != 0:
        filter_logits(torch.zeros(1, 1), temperature, top_k, top_p)  # looks at the settings
    training, text = model.training, prompt.new_zeros(batch, length + max_new_tokens)
    text[:, :length] = prompt
    model.train(False)
    try:
        for end in range(length, length + max_new_tokens):
            begin = max(0, end - model.config.block_size)
            if temperature == 0:
                for row in range(batch):
                    text[row, end] = model(text[row : row + 1, begin:end])[0][0, -1].argmax()
                continue
            logits = model(text[:, begin:end])[0][:, -1]
            if top_k is None and top_p is None:
                logits = logits / temperature
            else:
                # One row of each kind is enough.
                kinds, which = logits.unique(dim=0, return_inverse=True)
                logits = filter_logits(kinds, temperature, top_k, top_p)[which]
            uniform = torch.rand(logits.shape, generator=generator, device=logits.device, dtype=torch.float64)
            text[:, end] = (logits - (-uniform.log()).log()).argmax(-1)
    finally:
        model.train(training)
    return text
