"""One person's editing, without a page: what a job changes, and what nothing changes."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from painting_engine import PaintingEngine
from PIL import Image

from diffusion_engine import Cancelled, EngineError, Progress, UserError
from editor.images import Picture
from editor.jobs import Turns
from editor.requests import EditRequest, GenerateRequest
from editor.session import EditSession
from editor.sessions import Sessions

SIZE = (128, 96)
STEPS = 4


@pytest.fixture
def engine() -> PaintingEngine:
    return PaintingEngine(STEPS)


@pytest.fixture
def session(engine: PaintingEngine) -> EditSession:
    session = EditSession(engine, Turns())
    finish(session.generate(GenerateRequest("a field", size=SIZE)))
    return session


def finish(job: Iterator[Progress]) -> list[Progress]:
    return list(job)


def mask_file(box: tuple[int, int, int, int] | None = (10, 10, 40, 40), size: tuple[int, int] = SIZE) -> bytes:
    image = Image.new("L", size)
    if box:
        image.paste(255, box)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def state(session: EditSession) -> dict:
    """All that a person would miss if it were gone."""
    waiting = session.proposal
    return {
        "versions": [(version.id, version.image.tobytes()) for version in session.versions.values()],
        "current": session.current and session.current.id,
        "waiting": waiting and [candidate.image.tobytes() for candidate in waiting.candidates],
        "shown": session.shown_id,
        "mask_id": session.mask_id,
        "running": session.running,
    }


def test_an_edit_waits_until_it_is_kept(session: EditSession) -> None:
    base = session.current
    finish(session.edit(mask_file(), EditRequest("a cactus", variations=3)))
    assert session.current is base and len(session.proposal.candidates) == 3
    second = session.proposal.picture_ids[1]
    session.choose(second)
    chosen = session.picture(second).tobytes()
    session.keep()
    assert session.proposal is None and session.current.parent_id == base.id
    assert session.current.image.tobytes() == chosen
    session.undo()
    assert session.current is base


def test_nothing_changes_outside_and_a_leak_is_counted(session: EditSession) -> None:
    finish(session.edit(mask_file(), EditRequest("a cactus", feather_px=4)))
    old, new = np.asarray(session.current.image), np.asarray(session.proposal.candidate.image)
    changed = (old != new).any(axis=2)
    assert changed[10:40, 10:40].any() and not changed[session.proposal.blend == 0].any()
    assert session.changed_outside() == 0
    session.proposal.candidate.image.putpixel((100, 90), (1, 2, 3))
    assert session.changed_outside() == 1


@pytest.mark.parametrize("step", range(1, STEPS + 1))
@pytest.mark.parametrize("job", ["edit", "generate"])
def test_cancel_at_every_step_leaves_everything_as_it_was(engine, session: EditSession, job: str, step: int) -> None:
    before = state(session)

    def cancel_at(now: int) -> None:
        if now == step:
            session.cancel()

    engine.before_step = cancel_at
    steps_seen = []
    with pytest.raises(Cancelled):
        for progress in edit_or_generate(session, job):
            steps_seen.append(progress.step)
    assert state(session) == before
    assert all(seen < step for seen in steps_seen)
    engine.before_step = lambda now: None
    finish(edit_or_generate(session, job))  # the next one runs as if nothing had been


def edit_or_generate(session: EditSession, job: str) -> Iterator[Progress]:
    if job == "edit":
        return session.edit(mask_file(), EditRequest("a cactus"))
    return session.generate(GenerateRequest("a town", size=SIZE))


def test_closing_the_page_stops_the_job(engine: PaintingEngine, session: EditSession) -> None:
    before, reached = state(session), threading.Event()
    seen: list[int] = []

    def wait_after_first(step: int) -> None:
        seen.append(step)
        if step > 1:
            reached.wait(10)

    engine.before_step = wait_after_first
    job = session.edit(mask_file(), EditRequest("a cactus"))
    next(job)
    threading.Timer(0.05, reached.set).start()
    job.close()
    assert state(session) == before and len(seen) < STEPS


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(EngineError("out of memory"), id="engine"),
        pytest.param(UserError("no"), id="refused"),
        pytest.param(RuntimeError("a bug"), id="bug"),
    ],
)
def test_a_failed_edit_loses_nothing(engine: PaintingEngine, session: EditSession, failure: Exception) -> None:
    before = state(session)

    def fail(step: int) -> None:
        if step == 2:
            raise failure

    engine.before_step = fail
    with pytest.raises(type(failure)):
        finish(session.edit(mask_file(), EditRequest("a cactus")))
    assert state(session) == before


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        pytest.param(None, "Paint over", id="none"),
        pytest.param(mask_file(None), "Paint over", id="empty"),
        pytest.param(mask_file(size=(64, 64)), "64x64.*128x96", id="other-size"),
        pytest.param(b"\x89PNG not really", "mask", id="not-a-picture"),
        pytest.param(b"", "Paint over", id="no-bytes"),
    ],
)
def test_a_mask_that_cannot_be_used_is_refused_before_the_engine(engine, session, mask, sentence: str) -> None:
    before, calls = state(session), len(engine.calls)
    with pytest.raises(UserError, match=sentence):
        finish(session.edit(mask, EditRequest("a cactus")))
    assert state(session) == before and len(engine.calls) == calls


def test_a_mask_shrunk_to_nothing_is_refused_before_the_engine(engine, session) -> None:
    with pytest.raises(UserError, match="Nothing is left"):
        finish(session.edit(mask_file(), EditRequest("a cactus", grow_px=-100)))
    assert "edit" not in engine.calls


@pytest.mark.parametrize("fields", [{"grow_px": 257}, {"grow_px": -257}, {"feather_px": -1}, {"feather_px": 10**9}])
def test_distances_out_of_range_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(UserError, match="256 pixels"):
        EditRequest("a cactus", **fields)


def test_editing_without_a_picture_is_refused(engine: PaintingEngine) -> None:
    with pytest.raises(UserError, match="no picture"):
        finish(EditSession(engine, Turns()).edit(mask_file(), EditRequest("a cactus")))


def test_the_same_mask_again_replaces_the_candidates(session: EditSession) -> None:
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    finish(session.edit(mask_file(), EditRequest("a palm")))
    assert len(session.versions) == 1 and session.proposal.request.prompt == "a palm"


def test_another_mask_keeps_the_shown_candidate_first(session: EditSession) -> None:
    mask_id = session.mask_id
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    first = session.picture(session.shown_id).tobytes()
    finish(session.edit(mask_file((60, 60, 90, 90)), EditRequest("a palm")))
    assert session.current.image.tobytes() == first and session.proposal.request.prompt == "a palm"
    assert session.mask_id == mask_id  # the second mask is on the page and still belongs to the picture


@pytest.mark.parametrize("go", ["open", "generate", "leave", "visit"])
def test_going_elsewhere_keeps_what_waits_and_clears_the_mask(session: EditSession, go: str) -> None:
    base = session.current
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    mask_id = session.mask_id
    if go == "open":
        session.open(Picture(Image.new("RGB", (70, 80)), None, (), "PNG"))
    elif go == "generate":
        finish(session.generate(GenerateRequest("a town", size=SIZE)))
    elif go == "leave":
        session.leave()
    else:
        session.visit(base.id)
    assert session.mask_id != mask_id and session.proposal is None
    assert any(version.prompt == "a cactus" for version in session.versions.values())


def test_undo_drops_candidates_and_keeps_the_mask(session: EditSession) -> None:
    before = state(session)
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    session.undo()
    assert state(session) == before


def test_transparency_is_inherited(session: EditSession) -> None:
    alpha = Image.linear_gradient("L").resize(SIZE)
    session.open(Picture(Image.new("RGB", SIZE), alpha, (), "PNG"))
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    assert session.alpha(session.shown_id) is alpha
    session.keep()
    assert session.alpha(session.shown_id) is alpha


def test_while_a_job_runs_everything_else_is_refused(engine: PaintingEngine, session: EditSession) -> None:
    go_on = threading.Event()
    engine.before_step = lambda step: step == 1 or go_on.wait(10)
    job = session.edit(mask_file(), EditRequest("a cactus"))
    next(job)
    second = session.edit(mask_file(), EditRequest("a palm"))
    for action in (session.undo, session.keep, session.leave, lambda: finish(second)):
        with pytest.raises(UserError, match="being painted"):
            action()
    go_on.set()
    finish(job)
    assert session.proposal is not None


def test_two_sessions_do_not_cross_talk(engine: PaintingEngine) -> None:
    sessions = Sessions(engine)
    ann, bob = sessions.enter(None), sessions.enter(None)
    jobs = [s.generate(GenerateRequest(prompt, size=SIZE)) for s, prompt in ((ann, "a field"), (bob, "a town"))]
    threads = [threading.Thread(target=finish, args=(job,)) for job in jobs]  # the engine asserts one job at a time
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ann.current.prompt, bob.current.prompt) == ("a field", "a town")
    with pytest.raises(UserError):
        ann.picture(bob.current.id)
    with pytest.raises(UserError):
        ann.visit(bob.current.id)


def test_who_waits_for_a_turn_can_stop(engine: PaintingEngine) -> None:
    turns = Turns()
    session = EditSession(engine, turns)
    threading.Timer(0.2, session.cancel).start()
    with turns.take(), pytest.raises(Cancelled):
        finish(session.generate(GenerateRequest("a town", size=SIZE)))
    assert session.current is None and not session.running and not engine.calls


def test_a_full_line_says_so_at_once() -> None:
    turns = Turns(waiting_limit=0)
    with turns.take(), pytest.raises(UserError, match="waiting"), turns.take():
        pass
    with turns.take():  # and moves on
        pass


def test_the_session_unused_for_longest_makes_room(engine: PaintingEngine) -> None:
    sessions = Sessions(engine, limit=2)
    first, second = sessions.enter(None), sessions.enter(None)
    finish(first.generate(GenerateRequest("a field", size=SIZE)))
    finish(second.generate(GenerateRequest("a town", size=SIZE)))
    sessions.get(first.key)
    sessions.enter(None)
    assert sessions.get(first.key) is first
    with pytest.raises(UserError, match="reload"):
        sessions.get(second.key)
    assert list(engine.versions) == [first.current.id]


def test_hints_name_the_words_that_do_not_count(session: EditSession) -> None:
    assert session.hints("a red xyzzy") == ["This model does not know xyzzy."]
    assert session.hints("a red barn") == []
    assert "w78" in session.hints(" ".join(f"w{number}" for number in range(80)))[0]
