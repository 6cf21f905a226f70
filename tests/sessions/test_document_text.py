"""What files say: text of any encoding, PDF beside the server, and one plain sentence for all else."""

from __future__ import annotations

import asyncio
import time

import pytest

from pagedchat.sessions import document_text, pdf_text
from pagedchat.sessions.document_text import Extract, extract
from support.made_pdf import pdf


def read(data: bytes, name: str = "file") -> Extract:
    return asyncio.run(extract(data, name))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("# Überschrift\r\nwörter 模型".encode(), "# Überschrift\nwörter 模型"),
        ("\ufeffwith a mark".encode(), "with a mark"),
        ("mark 模".encode("utf-16"), "mark 模"),
        ("wide 🦜".encode("utf-32"), "wide 🦜"),
        ("café – “déjà vu”".encode("cp1252"), "café – “déjà vu”"),
        (b'{"a": [1, 2]}', '{"a": [1, 2]}'),
        (b"BM is how this text begins, and no picture", "BM is how this text begins, and no picture"),
        (b"page one\fpage two\x07", "page one\npage two"),
    ],
)
def test_text_is_read_in_the_letters_it_was_written_in(data: bytes, text: str) -> None:
    assert read(data) == Extract(text)


@pytest.mark.parametrize(
    ("data", "name", "sentence"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a.png", "This model reads text only; an image cannot be"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "photo.txt", "This model reads text only; an image"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "a.wav", "This model reads text only; a recording"),
        (b"\0\0\0\x18ftypmp42\0\0", "a.mp4", "This model reads text only; a video"),
        (b"PK\x03\x04\x14\0\0\0\x08\0", "letter.docx", "A .docx file cannot be read; save it as a PDF or as text"),
        (b"\x7fELF\x02\x01\x01\0\0", "program", "Only text, Markdown, code, CSV, JSON and PDF files can be read"),
        (bytes(range(1, 256)) * 9, "noise.txt", "Only text, Markdown"),
        (b"", "a.txt", "The file is empty."),
        (b" \n\t ", "a.txt", "The file has nothing in it but blanks."),
        (b"%PDF-1.7\nno more than that", "a.pdf", "This PDF is damaged"),
        (pdf("", ""), "scan.pdf", "The pages of this PDF are pictures without text"),
        (pdf("secret words", encrypted="x"), "locked.pdf", "This PDF is protected by a password"),
    ],
)
def test_what_no_model_can_read_gets_one_plain_sentence(data: bytes, name: str, sentence: str) -> None:
    found = read(data, name)
    assert found.text is None and (found.problem or "").startswith(sentence)
    assert (found.problem or "").endswith(".")


def test_the_pages_of_a_pdf_follow_each_other() -> None:
    assert read(pdf("First page", "", "Third page")) == Extract("First page\n\nThird page")


def test_a_pdf_that_takes_too_long_is_given_up_and_holds_nothing_up() -> None:
    async def story() -> None:
        beats, begun = 0, time.monotonic()
        reading = asyncio.create_task(pdf_text.read(pdf("x"), seconds=0.05))
        while not reading.done():
            await asyncio.sleep(0.005)
            beats += 1
        assert "longer than" in (reading.result().problem or "") and time.monotonic() - begun < 5 and beats > 3

    asyncio.run(story())


def test_a_text_that_is_too_long_is_refused_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_text, "MOST_CHARACTERS", 1_000)
    assert "2,000 characters, but 1,000" in (read(b"x" * 2_000).problem or "")
