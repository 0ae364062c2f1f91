"""`python -m model --scripts FILE.json --log FILE [--port 0]`: prints its port and serves."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading

from model.handler import LOOK
from model.server import ScriptedModel


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m model", description="A scripted model on 127.0.0.1.")
    parser.add_argument("--scripts", required=True, metavar="FILE", help="JSON: names, each with a list of turns")
    parser.add_argument("--log", default="", metavar="FILE", help="gets one JSON line for each request")
    parser.add_argument("--port", type=int, default=0, help="default: any that is free; it is printed")
    options = parser.parse_args()
    try:
        with open(options.scripts, encoding="utf-8") as file:
            model = ScriptedModel(json.load(file), log=options.log, port=options.port)
    except (OSError, ValueError) as why:
        parser.error(f"{options.scripts}: {why}")
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    thread = threading.Thread(target=model.serve_forever, kwargs={"poll_interval": LOOK})
    thread.start()
    sys.stdout.write(f"{model.server_port}\n")
    sys.stdout.flush()
    ended.wait()
    model.stop()
    thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
