# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs are JSON, one object a line, of at least one level; a stream that cannot be written stops nobody."""

import errno
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from placement.app.telemetry.logs import LEVELS, Log


def test_a_line_is_an_object_with_time_level_message_and_fields():
    stream, before = io.StringIO(), datetime.now(UTC)
    Log(stream=stream).warning("not\nso good", name="pod", path=Path("/x"))
    text = stream.getvalue()
    assert text.count("\n") == 1
    line = json.loads(text)
    # Of milliseconds, without what is less.
    before = before.replace(microsecond=before.microsecond // 1000 * 1000)
    assert before <= datetime.fromisoformat(line.pop("time")) <= datetime.now(UTC)
    assert line == {"level": "warning", "message": "not\nso good", "name": "pod", "path": "/x"}


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_less_than_the_level_is_not_said(level):
    stream = io.StringIO()
    log = Log(level, stream)
    for name in LEVELS:
        getattr(log, name)("words")
    said = [json.loads(line)["level"] for line in stream.getvalue().splitlines()]
    assert said == list(LEVELS)[list(LEVELS).index(level) :]


def test_a_log_that_cannot_be_written_stops_nobody():
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    stream = Full()
    for _unused in range(2):
        Log(stream=stream).error("said to nobody")
    assert stream.getvalue().count("said to nobody") == 2
