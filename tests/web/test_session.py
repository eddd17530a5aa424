"""One person's editing, without a page: what a job changes, and what nothing changes."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest
from painting_engine import PaintingEngine
from PIL import Image

from diffusion_engine import Cancelled, EngineError, Progress, UserError
from editor.images import Picture
from editor.jobs import Job, Turns
from editor.proposals import MAX_TAKES
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


def finish(job: Job[None]) -> list[Progress]:
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
        "entries": [(entry.id, entry.image.tobytes()) for entry in session.history],
        "current": session.current and session.current.id,
        "waiting": waiting and [session.picture(take.id).tobytes() for take in waiting.takes],
        "shown": session.shown_id,
        "masks": (session.document, session.used_masks),
        "running": session.running,
    }


def test_an_edit_waits_until_it_is_kept(session: EditSession) -> None:
    base = session.current
    finish(session.edit(mask_file(), EditRequest("a cactus", variations=3)))
    assert session.current is base and len(session.proposal.takes) == 3
    second = session.proposal.takes[1].id
    session.choose(second)
    chosen = session.picture(second).tobytes()
    session.keep()
    assert session.proposal is None and session.current.parent_id == base.id
    assert session.current.image.tobytes() == chosen
    session.undo()
    assert session.current is base
    session.redo()
    assert session.current.image.tobytes() == chosen


def test_B1_nothing_changes_outside_and_a_leak_is_counted(session: EditSession) -> None:
    finish(session.edit(mask_file(), EditRequest("a cactus", feather_px=4)))
    take = session.proposal.shown
    old, new = np.asarray(session.current.image), np.asarray(session.picture(take.id))
    changed = (old != new).any(axis=2)
    assert changed[10:40, 10:40].any() and not changed[take.blend == 0].any()
    assert session.changed_outside() == 0
    take.candidate.image.putpixel((100, 90), (1, 2, 3))
    assert session.changed_outside() == 1


@pytest.mark.parametrize("step", range(1, STEPS + 1))
@pytest.mark.parametrize("job", ["edit", "generate"])
def test_F1_cancel_at_every_step_leaves_everything_as_it_was(engine, session: EditSession, job: str, step: int) -> None:
    before = state(session)
    begun: list[int] = []

    def cancel_at(now: int) -> None:
        begun.append(now)
        if now == step:
            session.cancel()

    engine.before_step = cancel_at
    steps_seen = []
    with pytest.raises(Cancelled):
        for progress in edit_or_generate(session, job):
            steps_seen.append(progress.step)
    assert state(session) == before
    assert begun == list(range(1, step + 1)) and all(seen < step for seen in steps_seen)
    engine.before_step = lambda now: None
    finish(edit_or_generate(session, job))  # the next one runs as if nothing had been


def edit_or_generate(session: EditSession, job: str) -> Job[None]:
    if job == "edit":
        return session.edit(mask_file(), EditRequest("a cactus"))
    return session.generate(GenerateRequest("a town", size=SIZE))


def test_a_job_goes_on_while_nobody_follows_it_and_can_be_found_again(engine: PaintingEngine, session) -> None:
    go_on = threading.Event()
    engine.before_step = lambda step: step == 1 or go_on.wait(10)
    next(iter(session.edit(mask_file(), EditRequest("a cactus"))))
    assert session.running and session.job_size == SIZE
    go_on.set()
    finish(session.job)
    assert session.proposal is not None and not session.running


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
        pytest.param(np.zeros((96, 128), np.uint8), "Paint over", id="blank-array"),
    ],
)
def test_A7_a_mask_that_cannot_be_used_is_refused_before_the_engine(engine, session, mask, sentence: str) -> None:
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


def test_another_prompt_for_the_same_mask_keeps_the_earlier_takes_in_reach(session: EditSession) -> None:
    finish(session.edit(mask_file(), EditRequest("a cactus", variations=2)))
    finish(session.edit(mask_file(), EditRequest("a palm")))
    assert [take.request.prompt for take in session.proposal.takes] == ["a cactus", "a cactus", "a palm"]
    assert len(session.history) == 1 and session.proposal.shown.request.prompt == "a palm"


def test_only_so_many_takes_wait(session: EditSession) -> None:
    for seed in range(MAX_TAKES + 3):
        finish(session.edit(mask_file(), EditRequest("a cactus", seed=seed)))
    assert [take.candidate.seed for take in session.proposal.takes] == list(range(3, MAX_TAKES + 3))


@pytest.mark.parametrize(
    ("takes", "chosen", "waiting"),
    [
        pytest.param(1, 0, "0d", id="the only one"),
        pytest.param(3, 1, "01d2", id="one in the middle"),
        pytest.param(MAX_TAKES, MAX_TAKES - 1, "1234567d", id="the last of a full strip"),
        pytest.param(MAX_TAKES, 0, "0d123456", id="the first of a full strip"),
    ],
)
def test_a_check_puts_the_dense_result_beside_the_take(
    session: EditSession, takes: int, chosen: int, waiting: str
) -> None:
    for seed in range(takes):
        finish(session.edit(mask_file(), EditRequest("a cactus", seed=seed)))
    first = session.proposal.takes[chosen]
    session.choose(first.id)
    finish(session.check())
    now = session.proposal
    seen = "".join("d" if one.report.mode == "dense" else str(one.candidate.seed) for one in now.takes)
    assert seen == waiting and len({one.id for one in now.takes}) == len(now.takes) <= MAX_TAKES
    assert now.shown.id == first.id and now.shown.check_db == pytest.approx(30.07), "what is looked at stays"
    dense = next(one for one in now.takes if one.report.mode == "dense")
    session.choose(dense.id)
    wanted = session.picture(dense.id).tobytes()
    session.keep()
    assert session.current.image.tobytes() == wanted and session.current.made["mode"] == "dense"


def test_checking_nothing_is_refused(session: EditSession) -> None:
    with pytest.raises(UserError, match="nothing to check"):
        session.check()


@pytest.mark.parametrize("step", [1, STEPS])
def test_a_check_that_is_stopped_leaves_everything_as_it_was(engine, session: EditSession, step: int) -> None:
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    before = state(session)
    engine.before_step = lambda now: session.cancel() if now == step else None
    with pytest.raises(Cancelled):
        session.check().result()
    assert state(session) == before


def test_another_mask_keeps_the_shown_take_first(session: EditSession) -> None:
    document = session.document
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    first = session.picture(session.shown_id).tobytes()
    finish(session.edit(mask_file((60, 60, 90, 90)), EditRequest("a palm")))
    assert session.current.image.tobytes() == first and session.proposal.shown.request.prompt == "a palm"
    assert session.document == document  # the second mask is on the page and still belongs to the picture
    assert session.used_masks == 0


@pytest.mark.parametrize("go", ["open", "generate", "leave", "visit", "undo"])
def test_going_elsewhere_keeps_what_waits_and_is_done_with_the_mask(session: EditSession, go: str) -> None:
    base = session.current
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    before = session.document, session.used_masks
    if go == "open":
        session.open(Picture(Image.new("RGB", (70, 80)), None, (), "PNG"))
    elif go == "generate":
        finish(session.generate(GenerateRequest("a town", size=SIZE)))
    elif go == "leave":
        session.leave()
    elif go == "undo":
        session.undo()
    else:
        session.visit(base.id)
    assert (session.document, session.used_masks) != before and session.proposal is None
    assert any(entry.name == "a cactus" for entry in session.history)


def test_dropping_what_waits_leaves_everything_as_it_was(session: EditSession) -> None:
    before = state(session)
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    session.drop()
    assert state(session) == before


def test_a_branch_begins_at_any_entry_and_redo_goes_where_undo_came_from(session: EditSession) -> None:
    root = session.current
    for prompt in ("a cactus", "a palm"):
        session.visit(root.id)
        finish(session.edit(mask_file(), EditRequest(prompt)))
        session.keep()
    cactus, palm = list(session.history)[1:]
    assert cactus.parent_id == palm.parent_id == root.id
    places = session.history.places()
    assert {entry.name: vars(places[entry.id]) for entry in session.history} == {
        "a field": {"column": 0, "lane": 0},
        "a cactus": {"column": 1, "lane": 0},
        "a palm": {"column": 1, "lane": 1},
    }
    session.visit(cactus.id)
    session.undo()
    session.redo()
    assert session.current is cactus
    session.visit(palm.id)
    session.undo()
    session.redo()
    assert session.current is palm


@pytest.mark.parametrize(("name", "kept"), [("  my\n dunes ", "my dunes"), ("x" * 200, "x" * 80)])
def test_a_name_is_one_line(session: EditSession, name: str, kept: str) -> None:
    session.rename(session.current.id, name)
    assert session.current.name == kept == session.history[session.current.id].name


@pytest.mark.parametrize("name", ["", "  \n"])
def test_a_name_that_says_nothing_is_refused(session: EditSession, name: str) -> None:
    with pytest.raises(UserError, match="letter"):
        session.rename(session.current.id, name)


def test_transparency_and_camera_data_are_inherited(session: EditSession) -> None:
    alpha, exif = Image.linear_gradient("L").resize(SIZE), Image.Exif()
    session.open(Picture(Image.new("RGB", SIZE), alpha, (), "PNG", exif))
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    assert session.source(session.shown_id).alpha is alpha
    session.keep()
    source = session.source(session.shown_id)
    assert source.alpha is alpha and source.exif is exif


def test_while_a_job_runs_everything_else_is_refused(engine: PaintingEngine, session: EditSession) -> None:
    go_on = threading.Event()
    engine.before_step = lambda step: step == 1 or go_on.wait(10)
    job = session.edit(mask_file(), EditRequest("a cactus"))
    next(iter(job))
    second = lambda: session.edit(mask_file(), EditRequest("a palm"))  # noqa: E731
    for action in (session.undo, session.keep, session.leave, second):
        with pytest.raises(UserError, match="being painted"):
            action()
    go_on.set()
    finish(job)
    assert session.proposal is not None


def test_F6_two_sessions_do_not_cross_talk(engine: PaintingEngine) -> None:
    sessions = Sessions(engine)
    ann, bob = sessions.enter(None), sessions.enter(None)
    jobs = [s.generate(GenerateRequest(prompt, size=SIZE)) for s, prompt in ((ann, "a field"), (bob, "a town"))]
    threads = [threading.Thread(target=finish, args=(job,)) for job in jobs]  # the engine asserts one job at a time
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ann.current.name, bob.current.name) == ("a field", "a town")
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
