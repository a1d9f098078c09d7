"""Reading side of flipscope: the library, the pages, the command. Imports `capture`, never the reverse."""

from __future__ import annotations
