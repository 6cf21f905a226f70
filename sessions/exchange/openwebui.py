"""Open WebUI's export: a list of chats, each with ``chat.history``: messages by id, and the id of the last one."""

from __future__ import annotations

from typing import Any

from .contents import calls_text, count_tokens, joined, missing, model_run, picture, text_of, thoughts_of
from .report import Mends
from .tree import Attached, ChatTree, Node, tree_order
from .values import as_dict, as_id, as_list, as_name, as_object, as_text, as_time

_PARAMS = {"repeat_penalty": "repetition_penalty", "num_predict": "max_tokens"}
_NO_PARAMS = ("system", "stream_response", "function_calling", "stream_delta_chunk_size", "reasoning_tags")


def is_openwebui(entry: dict[str, Any]) -> bool:
    """Whether an entry is a chat of Open WebUI, in the form of today or the older one without ``chat`` around it."""
    chat = as_dict(entry.get("chat")) or entry
    messages = as_dict(chat.get("history")).get("messages")
    return isinstance(messages, dict) or (chat is not entry and isinstance(chat.get("messages"), list))


def read_openwebui(entry: dict[str, Any], mends: Mends) -> ChatTree:
    """One chat."""
    chat = as_dict(entry.get("chat")) or entry
    tree = ChatTree(as_id(entry.get("id")) or as_id(chat.get("id")) or "", origin="openwebui")
    tree.title = as_name(entry.get("title")) or as_name(chat.get("title"))
    tree.created_at = as_time(entry.get("created_at")) or as_time(chat.get("timestamp")) or ""
    tree.updated_at = as_time(entry.get("updated_at")) or ""
    tree.pinned, tree.archived = entry.get("pinned") is True, entry.get("archived") is True
    tree.folder = _folder(entry)
    tree.model = next((name for one in as_list(chat.get("models")) if (name := as_name(one))), None)
    _settings(tree, as_object(chat.get("params")), chat.get("system"))
    history = as_dict(chat.get("history"))
    tree.head_id = as_id(history.get("currentId"))
    children = _add_history(tree, as_dict(history.get("messages")), mends)
    if not tree.nodes:
        _add_list(tree, as_list(chat.get("messages")), mends)
    tree_order(tree.nodes, children)
    return tree


def _folder(entry: dict[str, Any]) -> str | None:
    """The folder's name; an export has only its id, under which chats of one folder stay together."""
    named = as_name(as_dict(entry.get("folder")).get("name")) or as_name(entry.get("folder"))
    folder_id = as_id(entry.get("folder_id"))
    return named or (f"Open WebUI {folder_id[:8]}" if folder_id else None)


def _settings(tree: ChatTree, params: dict[str, Any], system: Any) -> None:
    system = params.get("system") or system
    tree.system_prompt = as_text(system) if isinstance(system, str) and system else None
    for name, value in params.items():
        if value is None or name in _NO_PARAMS:
            continue
        if name == "stop" and isinstance(value, str):
            value = [one for one in value.split(",") if one]
        tree.params[_PARAMS.get(name, name)] = value


def _add_history(tree: ChatTree, messages: dict[str, Any], mends: Mends) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for key, raw in messages.items():
        if not isinstance(raw, dict):
            mends["broken"] += 1
            continue
        node = _node(as_id(raw.get("id")) or as_text(key), raw, mends)
        node.parent_id = as_id(raw.get("parentId"))
        children[node.id] = [one for raw_id in as_list(raw.get("childrenIds")) if (one := as_id(raw_id))]
        tree.nodes.append(node)
    return children


def _add_list(tree: ChatTree, messages: list[Any], mends: Mends) -> None:
    """The older form: a plain list of messages."""
    for raw in messages:
        if not isinstance(raw, dict):
            mends["broken"] += 1
            continue
        node = _node(as_id(raw.get("id")) or f"#{len(tree.nodes)}", raw, mends)
        node.parent_id = tree.nodes[-1].id if tree.nodes else None
        tree.nodes.append(node)
    tree.head_id = tree.nodes[-1].id if tree.nodes else None


def _node(node_id: str, raw: dict[str, Any], mends: Mends) -> Node:
    node = Node(node_id, None, as_text(raw.get("role")))
    node.created_at = as_time(raw.get("timestamp")) or ""
    text = text_of(raw.get("content"), mends, node.attachments)
    if node.role == "assistant":
        text, node.reasoning = thoughts_of(text)
        node.reasoning = as_text(raw.get("reasoning_content")) or node.reasoning
        node.runs = model_run(raw.get("model") or raw.get("modelName"), node.created_at, _completed(raw))
        usage = as_dict(raw.get("usage")) or as_dict(raw.get("info"))
        count_tokens(
            node.runs,
            usage.get("prompt_tokens", usage.get("prompt_eval_count")),
            usage.get("completion_tokens", usage.get("eval_count")),
        )
        node.status = "interrupted" if raw.get("done") is False else "done"
    _set_error(node, raw.get("error"))
    files = [_file(as_dict(one), node.attachments, mends) for one in as_list(raw.get("files"))]
    node.content = joined(text, calls_text(raw.get("tool_calls"), mends), *files)
    return node


def _completed(raw: dict[str, Any]) -> str:
    return as_time(raw.get("completedAt")) or ""


def _set_error(node: Node, error: Any) -> None:
    if not error:
        return
    node.status = "error"
    said = error.get("content") if isinstance(error, dict) else error
    node.error = as_text(said) if said is not True and said else "This reply ended with an error."


def _file(raw: dict[str, Any], files: list[Attached], mends: Mends) -> str:
    inner = as_dict(raw.get("file"))
    name = as_name(raw.get("name")) or as_name(inner.get("filename")) or as_name(raw.get("type")) or "file"
    url = raw.get("url")
    if isinstance(url, str) and url.startswith("data:"):
        return picture(url, name, mends, files)
    content = as_dict(inner.get("data")).get("content")
    if isinstance(content, str) and content:
        files.append(Attached(name, "text/plain", as_text(content).encode()))
        return ""
    mends["attachment"] += 1
    return missing(name)
