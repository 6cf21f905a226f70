"""Chats that leave and chats that come: files of ours and of other programs.

::

    file ──reading──> one reader a format ──> ChatTree ──mend──> ChatTree ──ExchangeStore.write_trees──> rows
    rows ──ExchangeStore.read_tree──> ChatTree ──formats.write──> file

A reader knows one format and no database; the store part knows rows and no format. Everything that is read is mended
before it is stored, and everything that was mended, left out or refused is in the report.
"""
