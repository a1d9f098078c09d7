"""Recording with a real engine in its own process: a tiny random model, so that each start takes seconds."""

from __future__ import annotations
