"""The editor over HTTP, as gradio_client calls it."""

from __future__ import annotations

import io
from pathlib import Path

import httpx
import numpy as np
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

from editor.web.routes import UPLOAD_LIMIT_BYTES


@pytest.fixture
def client(address: str, tmp_path: Path) -> Client:
    return Client(address, verbose=False, download_files=str(tmp_path / "downloads"))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    noise = np.random.default_rng(1).integers(0, 256, (90, 130, 3), np.uint8)
    mask = np.zeros((90, 130), np.uint8)
    mask[20:50, 30:70] = 255
    for name, pixels in {"picture": noise, "mask": mask, "empty": np.zeros_like(mask), "other": mask[:80]}.items():
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    return {path.stem: path for path in tmp_path.glob("*.png")}


def pixels(client: Client, address: str) -> np.ndarray:
    """The exact pixels behind an address of an answer."""
    answer = httpx.get(client.src.rstrip("/") + address).raise_for_status()
    return np.asarray(Image.open(io.BytesIO(answer.content)))


def test_A17_B2_pixels_outside_are_the_picture_s_own_after_ten_edits(client: Client, files: dict[str, Path]) -> None:
    original, mask = np.asarray(Image.open(files["picture"])), np.asarray(Image.open(files["mask"])) > 0
    opened = client.predict(handle_file(files["picture"]), api_name="/open")
    assert np.array_equal(pixels(client, opened["url"]), original)
    for seed in range(10):
        answer = client.predict(
            mask=handle_file(files["mask"]), prompt="a cactus", seed=seed, variations=2, feather=3, api_name="/edit"
        )
        assert answer["changed_outside"] == 0 and len(answer["candidates"]) == 2
        kept = client.predict(answer["candidates"][1]["picture_id"], api_name="/commit")
        assert kept["parent_id"] == answer["picture_id"]
    changed = (pixels(client, kept["url"]) != original).any(axis=2)
    assert changed[mask].any() and not changed[~mask].any()


def test_generate_tells_its_steps(client: Client) -> None:
    job = client.submit("a field", width=96, height=64, seed=3, api_name="/generate")
    answer = job.result()
    assert pixels(client, answer["url"]).shape == (64, 96, 3)
    assert [step["stage"] for step in job.outputs()[:-1]] == ["denoise"] * (len(job.outputs()) - 1) != []


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        pytest.param("empty", "Paint over", id="empty-mask"),
        pytest.param("other", "130x80.*130x90", id="mask-of-another-size"),
    ],
)
def test_a_mask_that_cannot_be_used_is_refused_in_a_sentence(client, files, engine, mask: str, sentence: str) -> None:
    client.predict(handle_file(files["picture"]), api_name="/open")
    with pytest.raises(AppError, match=sentence):
        client.predict(mask=handle_file(files[mask]), prompt="a cactus", api_name="/edit")
    assert "edit" not in engine.calls


def test_an_unknown_version_is_refused(client: Client, files: dict[str, Path]) -> None:
    with pytest.raises(AppError, match="history"):
        client.predict(handle_file(files["mask"]), "a cactus", "v999", api_name="/edit")


def test_a_bug_is_not_told_to_the_caller(client: Client, engine) -> None:
    def fail(step: int) -> None:
        raise RuntimeError("secret /path")

    engine.before_step = fail
    with pytest.raises(AppError) as refused:
        client.predict("a field", api_name="/generate")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("marked", [True, False], ids=["as-an-upload", "bare"])
def test_a_file_of_the_server_cannot_be_opened_by_its_name(address: str, files: dict[str, Path], marked: bool) -> None:
    """Sent as it is: gradio_client would upload the file."""
    named = {"path": str(files["picture"])} | ({"meta": {"_type": "gradio.FileData"}} if marked else {})
    call = f"{address}/gradio_api/call/open"
    event = httpx.post(call, json={"data": [named, 4, 4.0, "ddim", ""]}).raise_for_status().json()["event_id"]
    answer = httpx.get(f"{call}/{event}").text
    assert answer.startswith("event: error") and "picture_id" not in answer


def test_uploads_of_the_page_are_limited_and_need_a_session(client, address: str, files: dict[str, Path]) -> None:
    opened = client.predict(handle_file(files["picture"]), api_name="/open")
    upload = address + opened["url"].partition("/pictures")[0] + "/upload"
    assert httpx.post(upload, content=bytes(UPLOAD_LIMIT_BYTES)).status_code == 204
    assert httpx.post(upload, content=bytes(UPLOAD_LIMIT_BYTES + 2**17)).status_code == 413
    assert httpx.post(f"{address}/sessions/guessed/upload", content=b"data").status_code == 404
    assert np.array_equal(pixels(client, opened["url"]), np.asarray(Image.open(files["picture"])))


def test_an_edit_of_any_version_by_its_id_is_a_branch(client: Client, files: dict[str, Path]) -> None:
    root = client.predict(handle_file(files["picture"]), api_name="/open")["picture_id"]
    kept = []
    for prompt in ("a cactus", "a palm"):
        answer = client.predict(handle_file(files["mask"]), prompt, root, api_name="/edit")
        kept.append(client.predict(answer["candidates"][0]["picture_id"], api_name="/commit")["picture_id"])
    history = client.predict(api_name="/history")
    assert [(v["picture_id"], v["parent_id"]) for v in history["versions"]] == [
        (root, None),
        *((k, root) for k in kept),
    ]
    assert history["current"] == kept[1] and history["versions"][1]["made"]["prompt"] == "a cactus"


@pytest.mark.parametrize(("format", "kind"), [("png", "PNG"), ("webp", "WEBP"), ("jpg", "JPEG")])
def test_B4_an_export_is_a_file_of_its_kind(client: Client, files: dict[str, Path], format: str, kind: str) -> None:
    opened = client.predict(handle_file(files["picture"]), api_name="/open")
    answer = client.predict(opened["picture_id"], format, api_name="/export")
    data = httpx.get(client.src.rstrip("/") + answer["url"]).raise_for_status().content
    assert Image.open(io.BytesIO(data)).format == kind


@pytest.mark.parametrize(("picture", "format"), [("gone", "png"), (None, "tiff"), (None, "../x")])
def test_an_export_that_cannot_be_is_refused(client, files: dict[str, Path], picture: str | None, format: str) -> None:
    opened = client.predict(handle_file(files["picture"]), api_name="/open")
    with pytest.raises(AppError):
        client.predict(picture or opened["picture_id"], format, api_name="/export")


def test_E1_words_that_do_not_count_are_named_in_the_answer(client: Client) -> None:
    prompt = " ".join(f"w{number}" for number in range(90)) + " xyzzy"
    unknown, cut = client.predict(prompt, api_name="/generate")["notices"]
    assert "xyzzy" in unknown and "w77 w78" in cut and "w76" not in cut


def test_another_client_goes_on_with_a_session_that_it_names(
    client: Client, address: str, files: dict[str, Path]
) -> None:
    opened = client.predict(handle_file(files["picture"]), api_name="/open")
    other = Client(address, verbose=False)
    with pytest.raises(AppError, match="no such session"):
        other.predict(session=opened["session"][:-1], api_name="/history")
    for named in ({"session": opened["session"]}, {}):  # from then on it is in it
        told = other.predict(**named, api_name="/history")
        assert (told["session"], told["current"]) == (opened["session"], opened["picture_id"])


def test_only_these_endpoints_are_public(client: Client) -> None:
    public = {"/open", "/generate", "/edit", "/commit", "/history", "/export"}
    assert set(client.view_api(return_format="dict", print_info=False)["named_endpoints"]) == public
