"""Hashes."""
import base64
import hashlib
import hmac as _hmac


def _b(s):
    return s if isinstance(s, bytes) else str(s).encode("utf-8")


def md5_digest(s):
    return hashlib.md5(_b(s)).hexdigest()


def sha1_digest(s):
    return hashlib.sha1(_b(s)).hexdigest()


def sha256_digest(s):
    return hashlib.sha256(_b(s)).hexdigest()


def sha512_digest(s):
    return hashlib.sha512(_b(s)).hexdigest()


def base64_b64encode(s):
    return base64.b64encode(_b(s)).decode("ascii")


def base64_b64decode(s):
    raw = base64.b64decode(_b(s))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def hmac_signature(string, shared_secret, challenge_hmac):
    mine = base64.b64encode(_hmac.new(_b(shared_secret), _b(string), hashlib.sha256).digest())
    return _hmac.compare_digest(mine, _b(challenge_hmac))


def random_hash(size=9999999999, hash_type=None):
    import os
    return hashlib.new(hash_type or "sha256", os.urandom(32)).hexdigest()


def get_hash(path, form="sha256", chunk_size=65536):
    h = hashlib.new(form)
    with open(path, "rb") as fh:
        for chunk in iter(lambda: fh.read(chunk_size), b""):
            h.update(chunk)
    return h.hexdigest()
