"""Claim: the published vectors are what their header says, regenerate byte for byte, and can fail.

The oracle of the generated vectors is the naive model; here the reference evaluator and a target
behind the protocol are held to them.
"""

import base64
import json
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from loopcore.mutation import vectors
from loopcore.mutation.conformance import run_vectors
from loopcore.mutation.values import DataError
from loopcore.suite import load_target, suite_folder

VECTORS = vectors.load_vectors()
FILE_BYTES_MAX = 3 * 10**6


def test_the_committed_file_is_what_the_generator_writes() -> None:
    assert (suite_folder("mutations") / vectors.FILE).read_bytes() == vectors.spelled()


def test_the_header_names_the_digest_and_the_count_of_the_rest() -> None:
    data = (suite_folder("mutations") / vectors.FILE).read_bytes()
    head, _, body = data.partition(b"\n")
    header = json.loads(head)
    assert header["schema"] == "loopcore/vectors/1"
    assert header["sha256"] == sha256(body).hexdigest()
    assert header["count"] == len(body.splitlines()) >= 600
    assert len(data) < FILE_BYTES_MAX


def test_a_changed_vector_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray((suite_folder("mutations") / vectors.FILE).read_bytes())
    data[-3] ^= 1
    (tmp_path / "vectors").mkdir()
    (tmp_path / vectors.FILE).write_bytes(bytes(data))

    def folder(name: str) -> Path:
        return tmp_path if name == "mutations" else Path(name)

    monkeypatch.setattr(vectors, "suite_folder", folder)
    with pytest.raises(DataError, match="does not fit"):
        vectors.load_vectors.__wrapped__()


def test_the_reference_evaluator_agrees_with_every_vector() -> None:
    wrong = [each for each in run_vectors(load_target()) if each.verdict != "agreed"]
    assert not wrong


def test_a_target_behind_the_protocol_agrees_with_every_vector_that_it_can_be_asked() -> None:
    target = load_target(command=f"{sys.executable} -m loopcore serve")
    try:
        results = run_vectors(target)
    finally:
        target.close()
    counts = Counter(each.verdict for each in results)
    assert not [each for each in results if each.verdict == "disagreed"]
    assert counts["agreed"] >= 600


def test_damage_that_a_parser_hides_is_not_put_to_a_target_that_is_given_values() -> None:
    seen = [v for v in VECTORS if v.wire == "values"]
    for vector in seen:
        document = json.loads(vector.data)
        again = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        assert json.loads(again) == document
        assert list(document) == ["schema", "policy", "steps"]
    assert len(seen) >= 300


def test_a_wrong_expectation_is_a_disagreement() -> None:
    spoilt = msgspec.structs.replace(VECTORS[0], expected={"receipt_sha256": "0" * 64})
    (result,) = run_vectors(load_target(), (spoilt,))
    assert result.verdict == "disagreed"


def test_every_input_is_base64_and_every_id_stands_once() -> None:
    assert len({vector.id for vector in VECTORS}) == len(VECTORS)
    for vector in VECTORS:
        assert base64.b64encode(base64.b64decode(vector.input_base64)) == (
            vector.input_base64.encode()
        )


def test_all_three_wires_have_vectors_with_receipts_and_with_errors() -> None:
    kinds = {(vector.wire, "code" in vector.expected) for vector in VECTORS}
    assert kinds == {
        (wire, is_error) for wire in ("bytes", "values", "stream") for is_error in (0, 1)
    }
