"""How a scripted agent asks: `ipc/NNN.question` by rename, then wait for `ipc/NNN.answer`."""

from __future__ import annotations

import json
import os
import time


def ask(ipc: str, question: str) -> int:
    """Write the next question and return its number."""
    os.makedirs(ipc, exist_ok=True)
    taken = [int(name[:3]) for name in os.listdir(ipc) if name[:3].isdigit()]
    seq = max(taken, default=0) + 1
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    path = f"{ipc}/{seq:03d}.question"
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        json.dump({"seq": seq, "timestamp": stamp, "question": question}, file, ensure_ascii=False)
    os.rename(f"{path}.tmp", path)
    return seq


def await_answer(ipc: str, seq: int) -> str:
    """Block until the question is answered; the answer appears by rename, so it is whole when it is there."""
    path = f"{ipc}/{seq:03d}.answer"
    while not os.path.exists(path):
        time.sleep(0.02)
    with open(path, encoding="utf-8") as file:
        return str(json.load(file)["answer"])
