"""A second writer of portable prefix keys and of SipHash-1-3 with 128 bits, from their definitions, and the maker of the test vectors.

Portable keys: the definition at PortableKey in include/kvpage/cache/portable_key.hpp, with Python's hashlib.
SipHash: Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012, sections 2.1 to 2.4; 128-bit output: v1 is xored with 0xee at the
start, v2 with 0xee before the first final rounds, v1 with 0xdd before the second ones (the authors' reference implementation).

  portable_key.py --write FILE   writes the vectors
  portable_key.py --check FILE   fails when FILE is not what --write would write
"""

import argparse
import hashlib
import json
import pathlib
import random
import struct
import sys

MASK = (1 << 64) - 1


def root_key(block_size, fields):
    """fields: (type, bytes) in any order."""
    text = b"kvpage.key.v1\0" + struct.pack("<II", block_size, len(fields))
    for kind, value in sorted(fields):
        text += struct.pack("<HI", kind, len(value)) + value
    return hashlib.sha256(text).digest()


def block_key(parent, tokens, extras):
    """extras: (type, offset, digest) in order."""
    text = parent + struct.pack("<I", len(tokens)) + struct.pack(f"<{len(tokens)}I", *tokens) + struct.pack("<I", len(extras))
    for kind, offset, digest in extras:
        text += struct.pack("<HI", kind, offset) + digest
    return hashlib.sha256(text).digest()


def rotate(x, bits):
    return (x << bits | x >> (64 - bits)) & MASK


def sip_round(v):
    v[0] = (v[0] + v[1]) & MASK
    v[1] = rotate(v[1], 13) ^ v[0]
    v[0] = rotate(v[0], 32)
    v[2] = (v[2] + v[3]) & MASK
    v[3] = rotate(v[3], 16) ^ v[2]
    v[0] = (v[0] + v[3]) & MASK
    v[3] = rotate(v[3], 21) ^ v[0]
    v[2] = (v[2] + v[1]) & MASK
    v[1] = rotate(v[1], 17) ^ v[2]
    v[2] = rotate(v[2], 32)


def siphash128(compression, final, key, message):
    """key: 16 bytes. Returns (low, high)."""
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        for _ in range(compression):
            sip_round(v)
        v[0] ^= word
    halves = []
    for lane, mark in ((2, 0xEE), (1, 0xDD)):
        v[lane] ^= mark
        for _ in range(final):
            sip_round(v)
        halves.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return tuple(halves)


def key_vector(name, block_size, fields, blocks):
    keys = []
    key = root_key(block_size, fields)
    root = key
    for tokens, extras in blocks:
        key = block_key(key, tokens, extras)
        keys.append(key.hex())
    return {"name": name, "block_size": block_size, "fields": [{"type": kind, "bytes": value.hex()} for kind, value in fields],
            "root": root.hex(),
            "blocks": [{"tokens": tokens, "extras": [{"type": k, "offset": o, "digest": d.hex()} for k, o, d in extras], "key": key}
                       for (tokens, extras), key in zip(blocks, keys)]}


def published_vectors():
    """The 20 vectors that another writer can be checked with."""
    picture = hashlib.sha256(b"picture").digest()
    sound = hashlib.sha256(b"sound").digest()
    model, salt, adapter, user = (1, b"model digest"), (2, b"salt"), (3, b"adapter"), (4, b"user")
    chain = [(list(range(16 * i, 16 * i + 16)), []) for i in range(4)]
    return [
        key_vector("no fields, no block", 16, [], []),
        key_vector("another block size, no block", 32, [], []),
        key_vector("one block", 16, [], chain[:1]),
        key_vector("four blocks", 16, [], chain),
        key_vector("a partial block", 16, [], chain[:1] + [([7, 8, 9], [])]),
        key_vector("an empty block", 16, [], [([], [])]),
        key_vector("one token per block", 1, [], [([t], []) for t in (1, 0, 4294967295)]),
        key_vector("largest token ids", 4, [], [([4294967295, 4294967294, 0, 2147483648], [])]),
        key_vector("1024 tokens", 1024, [], [([t * 2654435761 % 2**32 for t in range(1024)], [])]),
        key_vector("a model", 16, [model], chain[:1]),
        key_vector("all fields", 16, [model, salt, adapter, user], chain[:2]),
        key_vector("all fields in another order", 16, [user, adapter, salt, model], chain[:2]),
        key_vector("salt ab", 16, [(2, b"ab")], chain[:1]),
        key_vector("salt a, adapter b", 16, [(2, b"a"), (3, b"b")], chain[:1]),
        key_vector("an empty field", 16, [(2, b"")], chain[:1]),
        key_vector("a field of 256 bytes", 16, [(1, bytes(range(256)))], chain[:1]),
        key_vector("eight fields", 16, [(kind, bytes([kind % 256])) for kind in range(65535, 65527, -1)], chain[:1]),
        key_vector("a picture", 16, [model], [([5] * 16, [(1, 0, picture)]), ([5] * 16, [(1, 16, picture)])]),
        key_vector("two extras", 16, [model], [([5] * 16, [(1, 96, picture), (2, 4294967295, sound)])]),
        key_vector("text behind a picture", 8, [model, user], [([1] * 8, [(1, 0, picture)]), ([2] * 8, [])]),
    ]


def random_vector(rng, number):
    block_size = 2 ** rng.randrange(0, 6)
    kinds = rng.sample(range(65536), rng.randrange(0, 9))
    fields = [(kind, rng.randbytes(rng.randrange(0, 40))) for kind in kinds]
    blocks = []
    for _ in range(rng.randrange(0, 5)):
        extras = [(rng.randrange(65536), rng.randrange(2**32), rng.randbytes(32)) for _ in range(rng.randrange(0, 3))]
        blocks.append(([rng.randrange(2**32) for _ in range(rng.randrange(0, block_size + 1))], extras))
    return key_vector(f"random {number}", block_size, fields, blocks)


def sip_vector(compression, final, key, message):
    low, high = siphash128(compression, final, key, message)
    return {"key": key.hex(), "message": message.hex(), "hash": struct.pack("<QQ", low, high).hex()}


def prefix_vector(rng, num_tokens):
    """What SipHash13 makes of (parent, extra, tokens)."""
    key, parent, extra = rng.randbytes(16), rng.randbytes(16), rng.randrange(2**32)
    tokens = [rng.randrange(2**32) for _ in range(num_tokens)]
    message = parent + struct.pack("<II", extra, num_tokens) + struct.pack(f"<{num_tokens}I", *tokens)
    low, high = siphash128(1, 3, key, message)
    return {"secret": key.hex(), "parent": parent.hex(), "extra": extra, "tokens": tokens, "key": struct.pack("<QQ", low, high).hex()}


def vectors():
    rng = random.Random(20261129)
    counting = bytes(range(16))
    return {"published": published_vectors(), "random": [random_vector(rng, i) for i in range(80)],
            "siphash_2_4": [sip_vector(2, 4, counting, bytes(range(n))) for n in range(64)],
            "siphash_1_3": [sip_vector(1, 3, rng.randbytes(16), rng.randbytes(n)) for n in range(0, 80)],
            "prefix_keys": [prefix_vector(rng, n) for n in range(0, 40)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--write", metavar="FILE", type=pathlib.Path)
    group.add_argument("--check", metavar="FILE", type=pathlib.Path)
    args = parser.parse_args()
    # 128-bit SipHash-2-4 of no bytes and of one zero byte under the key 00..0f, as the authors publish it in vectors.h.
    assert sip_vector(2, 4, bytes(range(16)), b"")["hash"] == "a3817f04ba25a8e66df67214c7550293"
    assert sip_vector(2, 4, bytes(range(16)), b"\0")["hash"] == "da87c1d86b99af44347659119b22fc45"
    made = vectors()
    assert len(made["published"]) == 20
    text = "{\n" + ",\n".join(f' "{name}": [\n  ' + ",\n  ".join(json.dumps(v) for v in made[name]) + "\n ]" for name in made) + "\n}\n"
    if args.write:
        args.write.write_text(text, encoding="utf-8")
    elif args.check.read_text(encoding="utf-8") != text:
        sys.exit(f"{args.check} is not what this writer makes of its inputs: run --write, and find out why they differ")


if __name__ == "__main__":
    main()
