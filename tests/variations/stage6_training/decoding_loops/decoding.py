# Unusual: beam search in plain Python, one source after the other, with hypotheses in lists; one batch of memory.
import sacrebleu
import torch


class Quiet:
    """Eval mode without gradients, as long as it lasts."""

    def __init__(self, model):
        self.model = model
        self.no_grad = torch.no_grad()

    def __enter__(self):
        self.was_training = self.model.training
        self.model.train(False)
        self.no_grad.__enter__()

    def __exit__(self, *error):
        self.no_grad.__exit__(*error)
        self.model.train(self.was_training)


def last_logits(model, tokens, memory, mask):
    length = tokens.shape[1]
    may = torch.ones(1, 1, length, length, dtype=torch.bool, device=tokens.device).tril()
    may = may & (tokens != model.pad_id)[:, None, None, :]
    return model.fc_out(model.decode(tokens, memory, may, mask))[:, -1, :]


def write(model, src, max_len, pick):
    if max_len < 1:
        raise ValueError(f"max_len was {max_len}")
    with Quiet(model):
        mask = (src != model.pad_id)[:, None, None, :]
        memory = model.encode(src, mask)
        rows = [[1] for _ in range(len(src))]
        open_rows = list(range(len(src)))
        while open_rows and len(rows[open_rows[0]]) < max_len:
            tokens = torch.tensor([rows[row] for row in open_rows], device=src.device)
            chosen = pick(last_logits(model, tokens, memory[open_rows], mask[open_rows]))
            for row, token in zip(open_rows, chosen.tolist()):
                rows[row].append(token)
            open_rows = [row for row in open_rows if rows[row][-1] != 2]
    return together(rows, model.pad_id, src.device)


def together(rows, pad_id, device):
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [pad_id] * (longest - len(row)) for row in rows], device=device)


def greedy_decode(model, src, max_len):
    return write(model, src, max_len, lambda logits: logits.argmax(-1))


def sample(model, src, max_len, temperature=1.0, generator=None):
    if not temperature > 0:
        raise ValueError(f"temperature was {temperature}")

    def pick(logits):
        # The inverse of the cumulative distribution.
        cumulative = (logits / temperature).softmax(-1).cumsum(-1)
        uniform = torch.rand(len(logits), 1, generator=generator, device=logits.device, dtype=logits.dtype)
        return (cumulative < uniform * cumulative[:, -1:]).sum(-1)

    return write(model, src, max_len, pick)


def beam_search(model, src, max_len, beam=4, length_penalty=0.6):
    if max_len < 1 or beam < 1:
        raise ValueError(f"max_len was {max_len}, beam was {beam}")
    with Quiet(model):
        mask = (src != model.pad_id)[:, None, None, :]
        memory = model.encode(src, mask)
        rows = [
            best_of(model, memory[row : row + 1], mask[row : row + 1], max_len, beam, length_penalty)
            for row in range(len(src))
        ]
    return together(rows, model.pad_id, src.device)


def best_of(model, memory, mask, max_len, beam, length_penalty):
    hypotheses = [(0.0, [1])]
    for _ in range(max_len - 1):
        growing = [one for one in hypotheses if one[1][-1] != 2 or len(one[1]) == 1]
        if not growing:
            break
        tokens = torch.tensor([ids for _, ids in growing], device=memory.device)
        logits = last_logits(model, tokens, memory.expand(len(growing), -1, -1), mask)
        candidates = [one for one in hypotheses if one not in growing]
        for (total, ids), log_probs in zip(growing, logits.log_softmax(-1)):
            values, indices = log_probs.topk(min(beam, len(log_probs)))
            for value, token in zip(values.tolist(), indices.tolist()):
                candidates.append((total + value, [*ids, token]))
        hypotheses = sorted(candidates, key=lambda one: one[0], reverse=True)[:beam]
    return max(hypotheses, key=lambda one: one[0] / ((5 + len(one[1]) - 1) / 6) ** length_penalty)[1]


def corpus_bleu(hypotheses, references):
    if len(hypotheses) != len(references) or len(references) == 0:
        raise ValueError(f"got {len(hypotheses)} hypotheses but {len(references)} references")
    metric = sacrebleu.metrics.BLEU()
    metric.corpus_score(hypotheses, [references])
    return sacrebleu.corpus_bleu(hypotheses, [references]).score, metric.get_signature().format()
