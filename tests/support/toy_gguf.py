"""Makes small GGUF files of random weights from the descriptions in tests/data/toy_models.json (standard library only).

To run another loader on them: python3 toy_gguf.py toy_models.json DIR"""
import json
import math
import os
import random
import struct
import sys

U8, U32, I32, F32, BOOL, STR, ARR = 0, 4, 5, 6, 7, 8, 9
TYPES = {"u8": U8, "i8": 1, "u16": 2, "i16": 3, "u32": U32, "i32": I32, "f32": F32, "bool": BOOL, "str": STR, "arr": ARR, "u64": 10,
         "i64": 11, "f64": 12}
CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}


def value(kind, v):
    if kind == STR:
        v = v.encode()
        return struct.pack("<Q", len(v)) + v
    if kind == ARR:
        of, items = v
        return struct.pack("<IQ", of, len(items)) + b"".join(value(of, x) for x in items)
    return struct.pack("<" + CODES[kind], v)


def write(path, keys, tensors):
    """keys: {name: (type, value)}; tensors: [(name, dims with the row length first, floats)], all F32."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    for name, (kind, v) in keys.items():
        head += value(STR, name) + struct.pack("<I", kind) + value(kind, v)
    place = 0
    for name, dims, floats in tensors:
        head += value(STR, name) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims)
        head += struct.pack("<IQ", 0, place)
        place += -(-4 * len(floats) // 32) * 32
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for _, _, floats in tensors:
            data = struct.pack("<%df" % len(floats), *floats)
            f.write(data + b"\0" * (-len(data) % 32))


def alphabet():
    """One printable character for each byte, as byte-level vocabularies have it."""
    plain = set(range(0x21, 0x7F)) | set(range(0xA1, 0xAD)) | set(range(0xAE, 0x100))
    rest = iter(range(0x100, 0x200))
    return [chr(b) if b in plain else chr(next(rest)) for b in range(256)]


def vocabulary(extra, types):
    """Token b is the byte b; token 256 is 'ab'; then `extra`."""
    tokens = alphabet() + ["ab"] + extra
    return len(tokens), {
        "tokenizer.ggml.model": (STR, "gpt2"),
        "tokenizer.ggml.pre": (STR, "gpt-2"),
        "tokenizer.ggml.tokens": (ARR, (STR, tokens)),
        "tokenizer.ggml.token_type": (ARR, (I32, [1] * 257 + types)),
        "tokenizer.ggml.merges": (ARR, (STR, ["a b"])),
        "tokenizer.ggml.bos_token_id": (U32, 257),
        "tokenizer.ggml.eos_token_id": (U32, 257),
        "tokenizer.ggml.add_bos_token": (BOOL, 0),
    }


def model(arch="llama", layers=2, hidden=32, heads=2, kv_heads=1, dim=16, ffn=32, context=256, seed=1, keys=None, bias=(), gain=2.0,
          extra=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), types=(3, 3, 3)):
    """Random weights. `bias`: which of attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down, output have one."""
    r = random.Random(seed)
    size, meta = vocabulary(list(extra), list(types))
    k = {"general.architecture": (STR, arch), "general.name": (STR, "toy")}
    for name, kind, v in (("block_count", U32, layers), ("context_length", U32, context), ("embedding_length", U32, hidden),
                          ("feed_forward_length", U32, ffn), ("attention.head_count", U32, heads),
                          ("attention.head_count_kv", U32, kv_heads), ("attention.layer_norm_rms_epsilon", F32, 1e-5),
                          ("attention.key_length", U32, dim),
                          ("attention.value_length", U32, dim), ("rope.dimension_count", U32, dim), ("rope.freq_base", F32, 10000.0)):
        k[arch + "." + name] = (kind, v)
    k.update(meta)
    k.update(keys or {})
    t = []

    def add(name, rows, cols, spread, middle=0.0):
        dims = [cols, rows] if rows else [cols]
        t.append((name, dims, [middle + spread * r.uniform(-1, 1) for _ in range(cols * max(rows, 1))]))

    def matrix(name, rows, cols):
        add(name + ".weight", rows, cols, gain / math.sqrt(cols))
        if name.split(".")[-1] in bias:
            add(name + ".bias", 0, rows, 0.5)

    add("token_embd.weight", size, hidden, 1.7)
    gemma = arch == "gemma3"
    for i in range(layers):
        p = "blk.%d." % i
        add(p + "attn_norm.weight", 0, hidden, 0.2, 1.0)
        matrix(p + "attn_q", heads * dim, hidden)
        matrix(p + "attn_k", kv_heads * dim, hidden)
        matrix(p + "attn_v", kv_heads * dim, hidden)
        matrix(p + "attn_output", hidden, heads * dim)
        if gemma:
            add(p + "attn_q_norm.weight", 0, dim, 0.2, 1.0)
            add(p + "attn_k_norm.weight", 0, dim, 0.2, 1.0)
            add(p + "post_attention_norm.weight", 0, hidden, 0.2, 1.0)
        add(p + "ffn_norm.weight", 0, hidden, 0.2, 1.0)
        matrix(p + "ffn_gate", ffn, hidden)
        matrix(p + "ffn_up", ffn, hidden)
        matrix(p + "ffn_down", hidden, ffn)
        if gemma:
            add(p + "post_ffw_norm.weight", 0, hidden, 0.2, 1.0)
    add("output_norm.weight", 0, hidden, 0.2, 1.0)
    add("output.weight", size, hidden, 0.5)
    if "output" in bias:
        add("output.bias", 0, size, 0.5)
    return k, t


def fused(keys, tensors):
    """attn_q, attn_k and attn_v as one tensor attn_qkv, rows one behind the other; their biases likewise."""
    table = {name: (dims, floats) for name, dims, floats in tensors}
    out = []
    for name, dims, floats in tensors:
        if ".attn_k." in name or ".attn_v." in name:
            continue
        if ".attn_q." in name:
            parts = [table[name.replace("attn_q", "attn_" + x)] for x in "qkv"]
            name, dims = name.replace("attn_q", "attn_qkv"), dims[:-1] + [sum(d[-1] for d, _ in parts)]
            floats = [v for _, fs in parts for v in fs]
        out.append((name, dims, floats))
    return keys, out


def typed(v):
    """["u32", 4] or ["arr", "bool", [..]] as a pair (type, value); the items of an array of arrays are such pairs without "arr"."""
    if v[0] != "arr":
        return TYPES[v[0]], v[1]
    of = TYPES[v[1]]
    return ARR, (of, [typed(["arr"] + x)[1] for x in v[2]] if of == ARR else v[2])


def gated(keys, tensors):
    """ffn_gate and ffn_up as one tensor ffn_up, the rows of the gate first."""
    table = {name: (dims, floats) for name, dims, floats in tensors}
    out = []
    for name, dims, floats in tensors:
        if ".ffn_gate." in name:
            continue
        if ".ffn_up." in name:
            gate = table[name.replace("ffn_up", "ffn_gate")]
            dims, floats = dims[:-1] + [gate[0][-1] + dims[-1]], gate[1] + floats
        out.append((name, dims, floats))
    return keys, out


def build(case):
    """(keys, tensors) of one entry of the cases."""
    keys, tensors = model(keys={k: typed(v) for k, v in case.get("keys", {}).items()}, **case.get("model", {}))
    for step in case.get("fused", []):
        keys, tensors = {"qkv": fused, "gate_up": gated}[step](keys, tensors)
    tensors += [(name, [len(floats)], floats) for name, floats in case.get("vectors", {}).items()]
    without = case.get("without", [])
    return {k: v for k, v in keys.items() if k not in without}, [t for t in tensors if t[0] not in without]


if __name__ == "__main__":
    os.makedirs(sys.argv[2], exist_ok=True)
    for c in json.load(open(sys.argv[1]))["cases"]:
        write(os.path.join(sys.argv[2], c["name"] + ".gguf"), *build(c))
