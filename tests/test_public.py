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


def test_folders_inside_tables_and_lists_are_cut_too() -> None:
    options = {"engine_arguments": {"hf_config_path": "/home/someone/config", "paths": ["~/a/b", {"c": "/d/e"}]}}
    seen = public_runtime(Runtime("a", "vllm", "m", options=options)).options
    assert seen == {"engine_arguments": {"hf_config_path": "config", "paths": ["b", {"c": "e"}]}}
