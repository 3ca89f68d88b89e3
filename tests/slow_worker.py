"""The worker of msd.run.runners that never ends loading a decoder: writes its process id to $LOADING."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msd.run.runners.messages import CompileForCpu, Done
from msd.run.runners.worker import Models, serve


def main(handle: int) -> None:
    models = Models()

    def answer(request: Any) -> Done:
        if isinstance(request, CompileForCpu) and "vae_decoder" in request.path.name:
            Path(os.environ["LOADING"]).write_text(f"{os.getpid()}\n")
            time.sleep(600)
        return models.answer(request)

    serve(Connection(handle), answer)
