"""Names of the schema's versions. Kept apart from the steps, whose library takes 0.7 s to load: a current database
opens without it."""

from __future__ import annotations

MIGRATION_SET = "pagedchat"
MIGRATION_NAMES = ("m001_sessions", "m002_context", "m003_library", "m004_search", "m005_page")
"""All steps of ``migrations`` in order; ``user_version`` counts them."""
