"""PDF files for tests, made without a program that draws."""

from __future__ import annotations

import io
import zlib

from pypdf import PdfWriter


def pdf(*pages: str, encrypted: str = "", padding: int = 0) -> bytes:
    """A PDF with a line of text on each page; none for an empty line.

    Args:
        padding: bytes of blanks behind each line, which take up next to nothing in the file.
    """
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    for text in pages:
        drawn = zlib.compress(f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode() + b" " * padding if text else b"")
        objects.append(b"<< /Length %d /Filter /FlateDecode >> stream\n%s\nendstream" % (len(drawn), drawn))
        content = len(objects)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % content
        )
    kids = b" ".join(b"%d 0 R" % (5 + 2 * place) for place in range(len(pages)))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages))
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, io.SEEK_END)
    for number, one in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, one))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % place for place in places)
    out.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))
    if not encrypted:
        return out.getvalue()
    writer = PdfWriter(clone_from=io.BytesIO(out.getvalue()))
    writer.encrypt(encrypted, algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()
