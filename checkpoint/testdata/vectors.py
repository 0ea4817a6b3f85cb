#!/usr/bin/env python3
"""Makes vectors.json: python3 vectors.py > vectors.json

Written from the specifications alone and sharing no code with the Go package:
HKDF (RFC 5869), HMAC_DRBG key generation for P-256 (c2sp.org/det-keygen), ECDSA
(FIPS 186-5) with the nonces of RFC 6979, and the structures of RFC 6962. The
standard library of Python 3.8 or newer is all it needs. Not constant time: for
test keys only.
"""
import base64
import hashlib
import hmac
import json
import struct

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
     0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5)


def b64(b):
    return base64.b64encode(b).decode()


def add(p, q):
    if p is None:
        return q
    if q is None:
        return p
    if p[0] == q[0]:
        if (p[1] + q[1]) % P == 0:
            return None
        m = (3 * p[0] * p[0] - 3) * pow(2 * p[1], -1, P)
    else:
        m = (q[1] - p[1]) * pow(q[0] - p[0], -1, P)
    x = (m * m - p[0] - q[0]) % P
    return x, (m * (p[0] - x) - p[1]) % P


def mul(k, p):
    r = None
    while k:
        if k & 1:
            r = add(r, p)
        p, k = add(p, p), k >> 1
    return r


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def hkdf(secret, salt, info):
    return mac(mac(salt, secret), info, b"\x01")


class DRBG:
    """HMAC_DRBG of SP 800-90A with SHA-256; RFC 6979 uses the same steps."""

    def __init__(self, seed):
        self.k, self.v = b"\x00" * 32, b"\x01" * 32
        self.update(seed)

    def update(self, data=b""):
        self.k = mac(self.k, self.v, b"\x00", data)
        self.v = mac(self.k, self.v)
        if data:
            self.k = mac(self.k, self.v, b"\x01", data)
            self.v = mac(self.k, self.v)

    def block(self):
        self.v = mac(self.k, self.v)
        return self.v


def det_keygen(secret):
    drbg = DRBG(secret + b"det ECDSA key gen P-256")
    while True:
        d = int.from_bytes(drbg.block(), "big")
        if 0 < d < N:
            return d
        drbg.update()


def der_int(i):
    b = i.to_bytes(i.bit_length() // 8 + 1, "big")
    return b"\x02" + bytes([len(b)]) + b


def digitally_signed(d, message):
    h = hashlib.sha256(message).digest()
    z = int.from_bytes(h, "big")
    drbg = DRBG(d.to_bytes(32, "big") + (z % N).to_bytes(32, "big"))
    while True:
        k = int.from_bytes(drbg.block(), "big")
        if 0 < k < N:
            r = mul(k, G)[0] % N
            s = pow(k, -1, N) * (z + r * d) % N
            if r and s:
                break
        drbg.update()
    body = der_int(r) + der_int(s)
    der = b"\x30" + bytes([len(body)]) + body
    return b"\x04\x03" + struct.pack(">H", len(der)) + der


def spki(d):
    x, y = mul(d, G)
    head = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
    return head + b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")


def tree_head(d, origin, log_id, size, root, timestamp):
    message = b"\x00\x01" + struct.pack(">QQ", timestamp, size) + root
    key_id = hashlib.sha256(origin.encode() + b"\n\x05" + log_id).digest()[:4]
    sig = key_id + struct.pack(">Q", timestamp) + digitally_signed(d, message)
    return {
        "size": size,
        "root": root.hex(),
        "timestamp": timestamp,
        "text": "%s\n%d\n%s\n" % (origin, size, b64(root)),
        "line": "\u2014 %s %s\n" % (origin, b64(sig)),
    }


def sct(d, log_id, unit, repeat, issuer_key_hash, index, timestamp):
    certificate = unit * repeat
    extensions = b"\x00\x00\x05" + struct.pack(">Q", index)[3:]
    entry = b"\x00\x01" + issuer_key_hash if issuer_key_hash else b"\x00\x00"
    message = (b"\x00\x00" + struct.pack(">Q", timestamp) + entry +
               struct.pack(">I", len(certificate))[1:] + certificate +
               struct.pack(">H", len(extensions)) + extensions)
    sig = digitally_signed(d, message)
    return {
        "certificate_unit": unit.hex(),
        "certificate_units": repeat,
        "issuer_key_hash": issuer_key_hash.hex(),
        "index": index,
        "timestamp": timestamp,
        "signature": sig.hex(),
        "json": '{"sct_version":0,"id":"%s","timestamp":%d,"extensions":"%s","signature":"%s"}'
                % (b64(log_id), timestamp, b64(extensions), b64(sig)),
    }


def log(seed, origin):
    d = det_keygen(hkdf(seed, b"sunlight", b"ECDSA P-256 log key"))
    log_id = hashlib.sha256(spki(d)).digest()
    empty = hashlib.sha256(b"").digest()
    heads = [(0, empty, 1), (1, hashlib.sha256(b"one").digest(), 1700000000000)]
    heads += [(1 << s, hashlib.sha256(b"%d" % s).digest(), 1800000000000 + s) for s in (8, 20, 40)]
    scts = [
        (b"\x30\x03\x02\x01\x2a", 1, b"", 0, 1700000000001),
        (b"\x30\x03\x02\x01\x2b", 1, hashlib.sha256(b"issuer").digest(), 1, 1700000000002),
        (b"\x30", 70000, b"", 2**40 - 1, 2**63 - 1),
    ]
    return {
        "seed": seed.hex(),
        "origin": origin,
        "spki": b64(spki(d)),
        "log_id": b64(log_id),
        "mldsa_seed": hkdf(seed, b"sunlight", b"ML-DSA-44 log key").hex(),
        "tree_heads": [tree_head(d, origin, log_id, *h) for h in heads],
        "scts": [sct(d, log_id, *s) for s in scts],
    }


print(json.dumps([
    log(bytes(range(32)), "log.example/2027h1"),
    log(hashlib.sha256(b"another log").digest(), "b\u00fccher.example:8443/ct/a"),
], indent=1))
