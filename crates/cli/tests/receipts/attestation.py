"""Reads an envelope with implementations that are not ours: securesystemslib for DSSE, in-toto-attestation for the
statement. Prints what it found, or fails."""

import base64
import hashlib
import json
import pathlib
import sys

from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

envelope_file, key_line, workspace = sys.argv[1:]
name, key_id, typed = key_line.split("+", 2)
public = base64.b64decode(typed)[1:]
key = SSlibKey(f"{name}+{key_id}", "ed25519", "ed25519", {"public": public.hex()})

envelope = Envelope.from_dict(json.loads(pathlib.Path(envelope_file).read_text()))
assert envelope.payload_type == "application/vnd.in-toto+json", envelope.payload_type
signers = envelope.verify([key], 1)

statement = json_format.Parse(envelope.payload, statement_pb2.Statement())
Statement.copy_from_pb(statement).validate()

for subject in statement.subject:
    place = pathlib.Path(envelope_file).parent if subject.name == "RECEIPT.json" else pathlib.Path(workspace)
    content = (place / subject.name).read_bytes()
    blob = b"blob %d\0" % len(content) + content
    assert subject.digest["sha256"] == hashlib.sha256(content).hexdigest(), subject.name
    assert subject.digest["gitBlob"] == hashlib.sha1(blob).hexdigest(), subject.name

print(json.dumps({
    "signers": sorted(signers),
    "predicateType": statement.predicate_type,
    "subjects": [subject.name for subject in statement.subject],
    "predicate": json_format.MessageToDict(statement.predicate),
}))
