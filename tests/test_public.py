from __future__ import annotations

from capture.model import Runtime
from capture.public import public_runtime


def test_a_bundle_tells_no_path_and_no_secret() -> None:
    runtime = Runtime(
        name="a",
        engine="torch",
        model="/home/someone/models/small",
        options={"template": "/home/someone/chat.jinja", "tokenizer": "~/tokenizer", "dtype": "bfloat16", "threads": 2},
        environment={
            "OMP_NUM_THREADS": "2",
            "TORCH_HOME": "/home/someone/torch",
            "NCCL_AUTH_TOKEN": "secret",
            "HF_TOKEN": "secret",
        },
        command=("/home/someone/venv/bin/python",),
    )
    seen = public_runtime(runtime)
    assert seen.model == "small"
    assert seen.command == ()
    assert seen.options == {"template": "chat.jinja", "tokenizer": "tokenizer", "dtype": "bfloat16", "threads": 2}
    hidden = dict.fromkeys(("TORCH_HOME", "NCCL_AUTH_TOKEN", "HF_TOKEN"), "(set)")
    assert seen.environment == {"OMP_NUM_THREADS": "2", **hidden}
