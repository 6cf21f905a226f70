"""``python -m pagedchat`` is ``pagedchat``."""

from .app.cli import main

if __name__ == "__main__":
    main()
