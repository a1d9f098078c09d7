"""The version of flipscope. Imports nothing."""

from __future__ import annotations

VERSION = "0.1.0"
