# Two dicts, one each way, saved as a JSON object; most_common sorts; BPE is trained through a file.

import json
import tempfile
from collections import Counter
from itertools import takewhile

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer


class Vocab:
    SPECIALS = ["<pad>", "<sos>", "<eos>", "<unk>"]

    def __init__(self):
        self.token_to_id = {token: index for index, token in enumerate(self.SPECIALS)}
        self.id_to_token = dict(enumerate(self.SPECIALS))

    def add(self, token):
        if token not in self.token_to_id:
            self.id_to_token[len(self.id_to_token)] = token
            self.token_to_id[token] = len(self.token_to_id)

    @staticmethod
    def build(sentences, min_freq=1):
        vocab, counter = Vocab(), Counter()
        for sentence in sentences:
            counter.update(sentence)
        for token, count in counter.most_common():
            if count < min_freq:
                break
            vocab.add(token)
        return vocab

    def encode(self, tokens):
        ids = [1]
        for token in tokens:
            ids.append(self.token_to_id[token] if token in self.token_to_id else 3)
        return ids + [2]

    def decode(self, ids):
        return [self.id_to_token[int(index)] for index in takewhile(lambda i: i != 2, ids) if index > 3]

    def __len__(self):
        return len(self.id_to_token)

    def save(self, path):
        with open(path, "w") as file:
            json.dump({"tokens": self.token_to_id}, file)

    @staticmethod
    def load(path):
        vocab = Vocab()
        with open(path) as file:
            vocab.token_to_id = json.load(file)["tokens"]
        vocab.id_to_token = {index: token for token, index in vocab.token_to_id.items()}
        return vocab


def tokenize_zh(text):
    return list("".join(text.split()))


def tokenize_en(text):
    tokens, word = [], ""
    text = text.lower()
    for place, char in enumerate(text):
        inside = char == "'" and word and text[place + 1 : place + 2].isalnum()
        if char.isalnum() or inside:
            word += char
            continue
        if word:
            tokens.append(word)
            word = ""
        if not char.isspace():
            tokens.append(char)
    return [*tokens, word] if word else tokens


def train_bpe(texts, vocab_size):
    tokenizer = Tokenizer(BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = Sequence(
        [Split(Regex(r"\s*\S+"), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        initial_alphabet=ByteLevel.alphabet(),
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in Vocab.SPECIALS],
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(texts))
        file.flush()
        tokenizer.train([file.name], trainer)
    return tokenizer
