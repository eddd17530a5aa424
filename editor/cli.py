"""The `deltabrush` command: turns every failure into one sentence and an exit code.

0 done, 1 the engine failed, 2 bad input, 130 stopped by Ctrl-C. Nothing heavy is imported until the command line makes
sense, so that --help and a mistyped option answer at once.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module

from editor.arguments import EDITOR_OPTIONS, ENGINE_OPTIONS, UsageError, parse_arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. `argv` defaults to the process's own arguments."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it warns of image parts that nobody here uses
    try:
        options, rest = parse_arguments(sys.argv[1:] if argv is None else argv)
        return _run_with_plain_errors(options, rest)
    except UsageError as error:
        return _fail(error, 2)
    except KeyboardInterrupt:
        return _fail("Stopped.", 130)


def _run_with_plain_errors(options: Namespace, rest: list[str]) -> int:
    from diffusion_engine import Cancelled, EngineError, UserError

    try:
        return _run(options, rest)
    except UserError as error:
        return _fail(error, 2)
    except EngineError as error:
        return _fail(error, 1)
    except Cancelled:
        return _fail("Stopped.", 130)


def _run(options: Namespace, rest: list[str]) -> int:
    if options.command in (None, "open"):
        from editor.settings import Settings

        names = (*ENGINE_OPTIONS, *EDITOR_OPTIONS, "project")
        given = {name: getattr(options, name) for name in names if name in options}
        settings = Settings(**given)  # checked before the web server is even imported
        import_module("editor.web.serve").run(settings)
        return 0
    if options.command == "bench":
        return import_module(f"benchmarks.{options.benchmark}").main(rest)
    if options.command == "eval":
        return import_module("benchmarks.evaluate").main(rest)
    if options.command == "models":
        from editor.installed_models import print_models

        print_models()
        return 0
    from editor import commands

    return commands.generate(options) if options.command == "generate" else commands.edit(options)


def _fail(sentence: object, code: int) -> int:
    print(sentence, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
