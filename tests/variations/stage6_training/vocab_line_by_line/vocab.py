# Counts are a plain dict, the vocabulary is itself a list; regular expressions the other way round; BPE from a generator.

import json
import re

from tokenizers import Tokenizer
from tokenizers import decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer


class Vocab(list):
    @classmethod
    def build(cls, sentences, min_freq=1):
        counts, first = {}, {}
        for sentence in sentences:
            for token in sentence:
                counts[token] = counts.get(token, 0) + 1
                first.setdefault(token, len(first))
        order = sorted(counts, key=lambda token: (-counts[token], first[token]))
        return cls("<pad> <sos> <eos> <unk>".split() + [token for token in order if counts[token] >= min_freq])

    def encode(self, tokens):
        ids = []
        for token in ("<sos>", *tokens, "<eos>"):
            try:
                ids.append(self.index(token))
            except ValueError:
                ids.append(self.index("<unk>"))
        return ids

    def decode(self, ids):
        ids = list(ids)
        if 2 in ids:
            ids = ids[: ids.index(2)]
        return [token for token in (self[index] for index in ids) if not re.fullmatch(r"<(pad|sos|eos|unk)>", token)]

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"version": 1, "tokens": [*self]}, file, ensure_ascii=True)

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file)["tokens"])


def tokenize_zh(text):
    return re.findall(r"\S", text)


def tokenize_en(text):
    spaced = re.sub(r"(?<!\w)'|'(?!\w)|[^\w\s']", lambda mark: f" {mark[0]} ", text.casefold())
    return spaced.split()


def train_bpe(texts, vocab_size):
    tokenizer = Tokenizer(BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel()])
    trainer = BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=0,
        show_progress=False,
        special_tokens=["<pad>", "<sos>", "<eos>", "<unk>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator((text for text in texts), trainer=trainer)
    return tokenizer
