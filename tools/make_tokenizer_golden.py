r"""Writes tests/data/golden/tokenizer_normalised.json: texts that publishers' tokenizers change before they cut them.

python3 -m venv V && V/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 gguf protobuf
V/bin/python tools/make_tokenizer_golden.py smollm2=FILE.gguf qwen0.5b=FILE.gguf gemma3=FILE.gguf \
    > tests/data/golden/tokenizer_normalised.json

The vocabularies are those of the GGUF files; what a GGUF does not say (normalizer, cutting, SentencePiece's options) is that of
the tokenizer.json or tokenizer.model that the publishers ship. Ids are those of the tokenizers library and of SentencePiece.
"""
import io
import json
import random
import sys

import gguf
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CONTROL, USER_DEFINED, BYTE = 3, 4, 6
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOCK = 0x1000


def read_vocabulary(path):
    fields = gguf.GGUFReader(path).fields
    return {key.removeprefix("tokenizer.ggml."): field.contents() for key, field in fields.items() if key.startswith("tokenizer.ggml.")}


class Bpe:
    """`tokenizers` with a vocabulary; control tokens are found only by the second of two objects."""

    def __init__(self, vocabulary, composes):
        self.plain = self.make(vocabulary, composes, (USER_DEFINED,))
        self.special = self.make(vocabulary, composes, (USER_DEFINED, CONTROL))

    @staticmethod
    def make(vocabulary, composes, types):
        pieces = vocabulary["tokens"]
        model = models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[tuple(m.split(" ")) for m in vocabulary["merges"]])
        tokenizer = Tokenizer(model)
        if composes:
            tokenizer.normalizer = normalizers.NFC()
            cut, byte_level = pre_tokenizers.Split(Regex(SPLIT), "isolated"), {"use_regex": False}
        else:
            cut, byte_level = pre_tokenizers.Digits(individual_digits=True), {"use_regex": True}
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, **byte_level)])
        added = [piece for piece, kind in zip(pieces, vocabulary["token_type"]) if kind in types]
        tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in added])
        return tokenizer

    def ids(self, text, parse_special=False):
        return (self.special if parse_special else self.plain).encode(text).ids


def sentence_piece(vocabulary):
    """SentencePiece with a vocabulary. Converters write user-defined pieces with spaces where SentencePiece has U+2581."""
    proto = sentencepiece_model_pb2.ModelProto()
    for text, score, kind in zip(vocabulary["tokens"], vocabulary["scores"], vocabulary["token_type"]):
        proto.pieces.add(piece=text.replace(" ", "\u2581") if kind == USER_DEFINED else text, score=score, type=kind)
    proto.trainer_spec.model_type = 2
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.vocab_size = len(vocabulary["tokens"])
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        setattr(proto.trainer_spec, name + "_id", vocabulary[key + "_token_id"])
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = vocabulary["add_space_prefix"]
    proto.normalizer_spec.remove_extra_whitespaces = False
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(proto.SerializeToString())
    return processor


def train_small():
    """A SentencePiece vocabulary with a space in front of texts and user-defined symbols, some of which have spaces."""
    words = "page pages cache the block blocks a of and token tokens in to key keys value values is on".split()
    chance = random.Random(11)
    corpus = [" ".join(chance.choice(words) for _ in range(12)) for _ in range(400)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(corpus), model_writer=model, model_type="bpe", vocab_size=360, byte_fallback=True, minloglevel=2,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<X>", "\n\n", "\u2581\u2581", "\u2581<Y>"])
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    fields = {"tokens": "piece", "scores": "score", "types": "type"}
    return processor, {name: [getattr(piece, field) for piece in proto.pieces] for name, field in fields.items()}


NFC_PARTS = [
    "Vie\u0323\u0302t", "a\u0306\u0301", "u\u031b\u0300", "\u01a1\u0301", "o\u0301\u031b", "\u1112\u1161\u11ab", "\uac00\u11a8",
    "\u1100\u1173\u11af", "\u1100\u1161\u11a7", "\u0958", "\u0915\u093c", "\u09c7\u09be", "\u2126", "\u212b", "\uf900", "\U0002f800",
    "\u0344", "\ufb1d", "\u0f73", "e\u0323\u0301", "e\u0301\u0323", "\u0301", "\u0345\u0334", "\u0bc6\u0bbe", "\u3046\u3099", "caf\u00e9",
    "cafe\u0301", "=\u0338", ">\u0338", "\U0001d157\U0001d165", "\U0001d15e", "\u0898\u0334", "\u1ac1\u0316", "'\u017f", "I'LL", " the",
    "123", "\n", "  ", "\u4eca\u5929", "."]
BYTE_PARTS = [
    "\x04", "\x06", "\x13", "\x14", "\x16", "\x1d", "\x05", ".", "..", "=", "==", " ", "a", "the", " the", "1", "\n", "'", "s",
    "\U000c0000", "\u3007"]
SPACE_PARTS = [
    "\u2581", "\u2581\u2581", " ", "  ", "\n", "\n\n", "\t", "<b>", "</b>", "<table>", "a", "the", "\u2581the", "\u4e2d", "\u00e9", "."]
SMALL_PARTS = [
    "\u2581", " ", "  ", "   ", "\n\n", "\n", "<X>", "<Y>", " <Y>", "page", " page", "cache", "the", "\u2581the",
    "tokens", "\u00e9", "<", ">"]
SPECIAL_TEXTS = ["e<|im_end|>\u0301", "<|im_start|>\u0338user", "e\u0301<|im_end|>e\u0301", "<tool_call>\u0338", "e\u0301<tool_call>"]


def texts(parts, count, seed, extra):
    chance = random.Random(seed)
    return extra + ["".join(chance.choice(parts) for _ in range(chance.randrange(1, 7))) for _ in range(count - len(extra))]


def rows(encode, made, *flags):
    return [{"text": text, "parse_special": bool(flags), "ids": encode(text, *flags)} for text in made]


def fnv(blob, value=0xCBF29CE484222325):
    for byte in blob:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def composition_hashes():
    """For each block of code points the FNV-1a hash of what they become alone, among marks, between jamo and behind a syllable."""
    compose = normalizers.NFC().normalize_str
    forms = "# a#\u0323\u0301 \u0345#\u0334 \u1112#\u11ab \uac00#"
    hashes = []
    for block in range(0, 0x110000, BLOCK):
        code_points = [c for c in range(block, block + BLOCK) if not 0xD800 <= c <= 0xDFFF]
        hashes.append("%016x" % fnv("".join(compose(forms.replace("#", chr(c))) for c in code_points).encode()))
    return hashes


def main():
    paths = dict(argument.split("=", 1) for argument in sys.argv[1:])
    smollm2 = Bpe(read_vocabulary(paths["smollm2"]), composes=False)
    qwen = Bpe(read_vocabulary(paths["qwen0.5b"]), composes=True)
    gemma = sentence_piece(read_vocabulary(paths["gemma3"]))
    small, vocabulary = train_small()
    spaces = texts(SPACE_PARTS, 40, 3, ["\u2581\u2581", "\u2581 ", "a\u2581\u2581b", "  \u2581", "\n\u2581\u2581"])
    prefixes = texts(SMALL_PARTS, 60, 4, ["<X>page", "page<X>page", " page", "<Y>", " <Y>", "<X><X>", "<X> page"])
    golden = {
        "made_with": {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__},
        "smollm2": rows(smollm2.ids, texts(BYTE_PARTS, 40, 1, ["..\x04..", "...\x05...", "==\x06==", " \x04 a", "1\x04 1"])),
        "qwen0.5b": rows(qwen.ids, texts(NFC_PARTS, 60, 2, NFC_PARTS[:20])) + rows(qwen.ids, SPECIAL_TEXTS, True),
        "gemma3": rows(lambda text: gemma.encode(text), spaces),
        "small_spm": {"vocabulary": vocabulary, "rows": rows(lambda text: small.encode(text), prefixes)},
        "composition": {"block": BLOCK, "fnv1a": composition_hashes()},
    }
    print("{")
    print(",\n".join(f'"{key}": ' + json.dumps(value).replace('{"text"', '\n{"text"') for key, value in golden.items()))  # one row a line
    print("}")


main()
