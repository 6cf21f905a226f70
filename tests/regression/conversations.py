"""What the regression set asks the default model, as text. `renew` turns it into token ids and expected replies.

Kinds: ``short`` questions, ``turns`` (several questions of one chat), ``document`` (long summaries), ``retrieval``
(answers from numbered sources), ``tools`` (a call to write), ``structured`` (JSON and tables) and ``streams`` (served
all at once).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pagedchat.app

PASSAGES = (Path(pagedchat.app.__file__).parent / "bench/data" / "quality_text.txt").read_text("utf-8").split("====\n")
ASSISTANT = "You are a helpful assistant."
BRIEF = "Answer in one short sentence."


@dataclass(frozen=True)
class Conversation:
    """Questions of one chat, asked one after another.

    Attributes:
        most: tokens of each reply at most.
        examples: questions with their answers that stand before the first question.
    """

    name: str
    kind: str
    questions: tuple[str, ...]
    system: str = ASSISTANT
    most: int = 24
    examples: tuple[tuple[str, str], ...] = ()


def document(*places: int) -> str:
    """Passages of the corpus, one after another."""
    return "\n".join(PASSAGES[place] for place in places)


SOURCES = """Answer from the sources alone and name the source in brackets, as in [2].

[1] The ferry from Lund to the island runs from April to October, four times a day. The crossing takes 50 minutes.
[2] Dogs travel free of charge, but have to stay on the open deck. Bicycles cost 3 euros.
[3] The island museum shows boats and nets of the last two centuries. It is open on weekends from 10 to 4.
[4] In 1921 a storm destroyed the old pier. The present one was built of granite in 1924.

"""
HANDBOOK = """Use the numbered passages. End every sentence with the number of the passage it comes from.

(1) The pump must be filled with water before it is switched on. A dry start damages the seal within a minute.
(2) The red lamp means that the filter is blocked. Rinse it under the tap, then press the button for 3 seconds.
(3) In winter the hose has to be emptied, because ice breaks the valve. The warranty does not cover frost.
(4) The pump draws 800 watts and needs a fuse of 10 amperes.
(5) Spare seals carry the number 44-118, spare filters the number 44-121.

"""
TOOLS = """Reply with one JSON object that calls one of these functions, and with nothing else.

{"name": "get_weather", "parameters": {"city": "string", "unit": "celsius or fahrenheit"}}
{"name": "add_event", "parameters": {"title": "string", "date": "YYYY-MM-DD", "time": "HH:MM"}}
{"name": "convert", "parameters": {"amount": "number", "from": "string", "to": "string"}}
"""
CALLS = (
    (
        "What is the weather in Rome?",
        '{"name": "get_weather", "arguments": {"city": "Rome", "unit": "celsius"}}',
    ),
    (
        "How many yen are 40 francs?",
        '{"name": "convert", "arguments": {"amount": 40, "from": "CHF", "to": "JPY"}}',
    ),
    (
        "Put lunch with Maya on 2 May 2030 at noon into the calendar.",
        '{"name": "add_event", "arguments": {"title": "Lunch with Maya", "date": "2030-05-02", "time": "12:00"}}',
    ),
)
PEOPLE = (
    ("Ahmed, 41, has lived in Cairo all his life.", '{"name": "Ahmed", "age": 41, "city": "Cairo"}'),
    ("The winner is Sofia from Lisbon, who turned 19 in May.", '{"name": "Sofia", "age": 19, "city": "Lisbon"}'),
)

SHORT = (
    Conversation("capital", "short", ("What is the capital of France?",)),
    Conversation("primes", "short", ("List the first five prime numbers.",), BRIEF),
    Conversation("sky", "short", ("Why is the sky blue?",)),
    Conversation("no system prompt", "short", ("Give me a name for a grey cat.",), ""),
    Conversation("other scripts", "short", ("Translate to English: «Où est la gare?» – 駅はどこですか 🚉",)),
    Conversation(
        "spaces and code", "short", ("What does this print?\n\n    for i in range(3):\n        print(i * i)\n",)
    ),
)
TURNS = (
    Conversation("planets", "turns", ("Which planet is the largest?", "And the smallest?", "How far away is it?")),
    Conversation("shopping", "turns", ("I need a list for pancakes.", "Add fruit.", "Now without eggs."), BRIEF),
    Conversation(
        "a function",
        "turns",
        ("Write a Python function that adds two numbers.", "Rename it to total.", "Add a docstring.", "Thanks!"),
        "You are a programmer. Answer with code only.",
    ),
)
DOCUMENT = (
    Conversation(
        "a story", "document", (f"Summarize this story in two sentences.\n\n{document(0)}",), "You summarize texts.", 32
    ),
    Conversation(
        "tides and a letter",
        "document",
        (
            f"Here are two texts.\n\n{document(2, 5)}\nSummarize both.",
            "Which of the two is a letter, and who wrote it?",
        ),
        "You summarize texts.",
        32,
    ),
)
RETRIEVAL = (
    Conversation("ferry", "retrieval", (f"{SOURCES}Question: How long does the crossing take?",)),
    Conversation("museum", "retrieval", (f"{SOURCES}Question: When is the museum open?", "May I take my dog?")),
    Conversation("pump", "retrieval", (f"{HANDBOOK}Question: What does the red lamp mean?", "And in winter?")),
)
TOOL_CALLS = (
    Conversation("weather", "tools", ("What is the weather in Quito?",), TOOLS, 32, CALLS),
    Conversation(
        "calendar", "tools", ("Put the dentist on 3 June 2031 at 09:30 into the calendar.",), TOOLS, 44, CALLS
    ),
    Conversation("money", "tools", ("How many euros are 250 dollars?", "And 12 pounds?"), TOOLS, 32, CALLS),
)
STRUCTURED = (
    Conversation(
        "extract",
        "structured",
        ("Old Henrik of Bergen is 83 and still sails.",),
        "Turn the sentence into JSON with the keys name, age and city.",
        28,
        PEOPLE,
    ),
    Conversation("json list", "structured", ("Write a JSON list with three colours and nothing else.",), "", 32),
    Conversation("table", "structured", ("Make a Markdown table of three animals and their legs.",), BRIEF, 40),
)
TOPICS = (
    *("rain", "bread", "the moon", "a bicycle", "chess", "rivers", "glass", "honey"),
    *("trains", "wool", "volcanoes", "maps", "the violin", "salt", "bridges", "owls"),
)
STREAMS = tuple(
    Conversation(topic, "streams", (f"Tell me one fact about {topic}.",), BRIEF if place % 2 else ASSISTANT, 12)
    for place, topic in enumerate(TOPICS)
)
CONVERSATIONS = (*SHORT, *TURNS, *DOCUMENT, *RETRIEVAL, *TOOL_CALLS, *STRUCTURED, *STREAMS)
