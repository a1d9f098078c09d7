"""Recording side of flipscope: domain, engines, bundles. Imports nothing of `app`."""

from __future__ import annotations
