"""``/api/kv`` after a chat was deleted, or a temporary one has ended: nothing of it is told any more."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from pagedchat.engine.scheduler import common_prefix
from support.chat_templates import CHATML
from support.loop_client import LoopClient, scripted_loop_client
from support.page_server import PageServer

SYSTEM = "Be kind to everybody, whoever they are."


class PagedLoopClient(LoopClient):
    """As much of the real client as the application asks of one."""

    engine_pid = None

    def watch_ends(self, callback: object) -> object:
        return lambda: None

    async def refresh_info(self) -> dict[str, object]:
        return self.engine.info()


@pytest.fixture
def server(tmp_path) -> Iterator[PageServer]:
    client = scripted_loop_client(CHATML, client=PagedLoopClient)
    with PageServer(tmp_path, client) as running:  # type: ignore[arg-type]
        yield running


def ask(server: PageServer, session: str, text: str, parent: str | None = None) -> dict:
    """One turn, to its end."""
    reply = server.do(server.service.send(session, parent, text))["reply"]
    job = server.service.core.jobs.get(reply["id"])
    if job is not None:
        server.do(job.done.wait())
    return reply


def told(server: PageServer, http: httpx.Client) -> str:
    """All that the routes tell of the pool, its requests and their past."""
    names = ("snapshot", "requests", "idle-blocks", "pins", "steps")
    texts = [json.dumps(http.get(f"/api/kv/{name}").json()) for name in names]
    with http.stream("GET", "/api/kv/events?from=0") as events:
        for line in events.iter_lines():
            if line.startswith("data: "):
                texts.append(line)
                if json.loads(line[6:])["seq"] >= json.loads(texts[0])["seq"]:
                    return "\n".join(texts)
    raise AssertionError("the events end before the snapshot")


@pytest.mark.parametrize("temporary", [False, True])
def test_a_deleted_chat_is_in_no_answer_any_more(server: PageServer, temporary: bool) -> None:
    with httpx.Client(base_url=server.url, timeout=120) as http:
        params = {"temperature": 0, "max_tokens": 12}
        kept = server.do(server.service.create_session(SYSTEM, params))["id"]
        ask(server, kept, "A question that stays.")
        mine = server.do(server.service.create_session(SYSTEM, params, temporary=temporary))["id"]
        first = ask(server, mine, "My secret question?")
        second = ask(server, mine, "And another secret?", first["id"])
        ids = server.do(server.service.branch_tokens(mine))
        salt = f"temporary:{mine}" if temporary else ""
        before = http.post("/api/kv/probe", json={"prompt": ids, "cache_salt": salt}).json()
        assert before["cached_tokens"] > len(ids) - 3
        branch = http.get("/api/kv/branch", params={"session": mine}).json()
        assert all(row["cached_tokens"] for row in branch["blocks"])
        assert mine in told(server, http) and second["id"] in told(server, http)
        kept_ids = server.do(server.service.branch_tokens(kept))
        found = http.post("/api/kv/probe", json={"prompt": kept_ids}).json()

        server.do(server.service.delete(mine))

        answers = told(server, http)
        assert not any(word in answers for word in (mine, first["id"], second["id"])) and kept in answers
        after = http.post("/api/kv/probe", json={"prompt": ids, "cache_salt": salt}).json()
        shared = 0 if temporary else common_prefix(ids, kept_ids, len(ids))
        assert after["cached_tokens"] == shared < before["cached_tokens"] - 20 and after["reason"] in (
            "not_computed",
            "other_text",
        )
        assert http.get("/api/kv/branch", params={"session": mine}).status_code == 404
        assert http.post("/api/kv/probe", json={"prompt": kept_ids}).json() == found
        snapshot = http.get("/api/kv/snapshot").json()
        tokens = sum(one["num_tokens"] for one in snapshot["blocks"])
        assert snapshot["conserved"] and tokens == len(kept_ids) - 1, "what is left is the other chat's, to the token"
