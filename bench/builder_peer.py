"""The Builder's work as a DBOS workflow: read what is known and decide, call the agent over HTTP, write artifacts, event and
record. Each of the three is a durable step; the write commits with its checkpoint in one transaction, as DBOS advises.

Asked over standard input, one JSON object a line: {"clients": 64, "seconds": 2}; answers with one line of figures.
"""

import http.client
import json
import sys
import threading
import time
import uuid

import sqlalchemy as sa
from dbos import DBOS, SetWorkflowID, SQLAlchemyDatasource

database_url, agent_port = sys.argv[1], int(sys.argv[2])
is_sqlite = database_url.startswith("sqlite")
if is_sqlite:
    # Its default is a rollback journal; a write-ahead log is faster, and also synced on every commit.
    with sa.create_engine(database_url).connect() as connection:
        connection.execute(sa.text("PRAGMA journal_mode = WAL"))

DBOS(config={
    "name": "builder-peer",
    "system_database_url": database_url,
    "sys_db_pool_size": 64,
    "log_level": "ERROR",
    "db_engine_kwargs": {"pool_size": 64, "max_overflow": 16},
})
source = SQLAlchemyDatasource.create(database_url, engine_kwargs={"pool_size": 64, "max_overflow": 16})
number = "INTEGER PRIMARY KEY AUTOINCREMENT" if is_sqlite else "BIGSERIAL PRIMARY KEY"
with source.engine.begin() as connection:
    connection.execute(sa.text(
        f"CREATE TABLE entries (seq {number}, id TEXT UNIQUE, robot TEXT, type TEXT, state TEXT, execution TEXT, "
        "at DOUBLE PRECISION, payload TEXT)"))
    connection.execute(sa.text("CREATE INDEX newest ON entries (robot, type, state, seq)"))
    for kind in ["signal", "fusion", "idea", "copy", "benchmark", "playbook"]:
        connection.execute(
            sa.text("INSERT INTO entries (id, robot, type, state, at, payload) VALUES (:id, 'r', :type, 'final', :at, :payload)"),
            {"id": str(uuid.uuid4()), "type": kind, "at": time.time(), "payload": json.dumps({"text": "words " * 20})})

calls = threading.local()


@DBOS.step()
def read_and_decide(robot):
    known = {}
    with source.engine.connect() as connection:
        for kind in ["signal", "fusion", "idea", "copy", "benchmark", "playbook"]:
            row = connection.execute(
                sa.text("SELECT id, at, payload FROM entries WHERE robot = :robot AND type = :type AND state <> 'draft' "
                        "ORDER BY seq DESC LIMIT 1"),
                {"robot": robot, "type": kind}).one()
            known[kind] = {"id": row.id, "at": row.at, "payload": json.loads(row.payload)}
    is_fresh = all(time.time() - entry["at"] < 86400 for entry in known.values())
    return {"known": known, "allowed": is_fresh, "ids": [entry["id"] for entry in known.values()]}


@DBOS.step()
def call(execution, decided):
    start = time.perf_counter()
    if not hasattr(calls, "connection"):
        calls.connection = http.client.HTTPConnection("127.0.0.1", agent_port)
    given = {"executionId": execution, "intelligenceSnapshot": decided["known"],
             "allowedLineage": {"dependsOnLedgerIds": decided["ids"]}}
    calls.connection.request("POST", "/", json.dumps(given), {"content-type": "application/json"})
    answer = json.loads(calls.connection.getresponse().read())
    calls.took = time.perf_counter() - start
    return answer


@source.transaction(isolation_level="SERIALIZABLE" if is_sqlite else "READ COMMITTED")
def write(execution, decided, answer):
    session = source.sql_session()
    allowed = set(decided["ids"])
    entries = []
    for artifact in answer["artifacts"]:
        if not set(artifact["dependsOnLedgerIds"]) <= allowed:
            raise ValueError("invented lineage")
        entries.append((artifact["type"], "draft", artifact["payload"]))
    entries.append(("execution_event", "succeeded", {"executionId": execution, "attempt": 1}))
    entries.append(("execution_record", "succeeded", {"executionId": execution, "decision": decided["allowed"]}))
    session.execute(
        sa.text("INSERT INTO entries (id, robot, type, state, execution, at, payload) "
                "VALUES (:id, 'r', :type, :state, :execution, :at, :payload)"),
        [{"id": str(uuid.uuid4()), "type": kind, "state": state, "execution": execution, "at": time.time(),
          "payload": json.dumps(payload)} for kind, state, payload in entries])
    return len(entries)


@DBOS.workflow()
def build(execution):
    decided = read_and_decide("r")
    if not decided["allowed"]:
        return "deferred"
    return write(execution, decided, call(execution, decided))


DBOS.launch()


def client(until, runs, overheads, failures):
    while time.perf_counter() < until:
        execution = str(uuid.uuid4())
        start = time.perf_counter()
        try:
            with SetWorkflowID(execution):
                build(execution)
        except Exception as error:  # Told, not hidden: a peer that fails is no peer.
            failures.append(repr(error))
            return
        took = time.perf_counter() - start
        runs.append(took)
        overheads.append(took - calls.took)


print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    runs, overheads, failures = [], [], []
    start = time.perf_counter()
    until = start + asked["seconds"]
    threads = [threading.Thread(target=client, args=(until, runs, overheads, failures)) for _ in range(asked["clients"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    print(json.dumps({"seconds": took, "runs": runs, "overheads": overheads, "failures": failures[:3]}), flush=True)
