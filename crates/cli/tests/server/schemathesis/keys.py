"""Gives each operation a key of a role that may call it, as the document says."""

import json
import os

import schemathesis

TOKENS = json.loads(os.environ["CREALEPH_TOKENS"])


@schemathesis.auth(refresh_interval=None)
class Keys:
    def get(self, case, context):
        roles = context.operation.definition.raw.get("x-crealeph-roles", [])
        return next((token for role, token in TOKENS.items() if role in roles), None)

    def set(self, case, data, context):
        if data is not None:
            case.headers["Authorization"] = f"Bearer {data}"
