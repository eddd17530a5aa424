"""The editor for assistants: the endpoints as tools of the Model Context Protocol (streamable HTTP), at one address.

It does not use the MCP server that Gradio has. In 6.26 a tool whose function also returns a gr.State answers nothing;
files that are sent to it pile up in a folder that no limit knows; a password does not guard it; and it asks assistants
for addresses of files, which the editor does not fetch.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from inspect import Parameter, isgeneratorfunction
from typing import Annotated, Any

import gradio as gr
import mcp_types as types
from gradio.utils import get_function_description
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, create_model
from pydantic_core import PydanticCustomError
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from editor.arguments import program_version
from editor.sessions import Sessions
from editor.web.endpoints import Endpoint, arguments, endpoints
from editor.web.failures import apology
from editor.web.routes import small_jpeg

Context = ServerRequestContext[Any, Request]
INSTRUCTIONS = (
    "Paints parts of pictures anew and leaves every other pixel as it is. Begin a session with open or generate, edit "
    "a part under a mask, look at the candidates (shown in their order) and commit one; each commit is a version that "
    "can be edited again. Every answer names its session: pass it on."
)
BASIC = {"WWW-Authenticate": "Basic"}
SHOWN_PX = 384  # of a picture's longer side: enough to look at, and 16 of them stay below the 1 MB that clients take
BEGINNINGS = ("open", "generate")  # every other tool has to be told the session: an assistant is in none of its own


def decoded(sent: Any) -> bytes:
    """A file's bytes from its data: address. Nothing else is looked at, no path and no other address."""
    head, _, body = sent.partition(",") if isinstance(sent, str) else ("", "", "")
    try:
        if head.startswith("data:") and head.endswith(";base64"):
            return base64.b64decode("".join(body.split()), validate=True)  # tools break it into lines
    except binascii.Error:
        pass
    raise PydanticCustomError("file", "send the file itself, as data:image/png;base64,... (nothing else is opened)")


File = Annotated[bytes, BeforeValidator(decoded), WithJsonSchema({"type": "string"})]
AS_DATA = ", sent as data:image/png;base64,..."


@dataclass(frozen=True)
class Tool:
    """An endpoint, what it can be told, and how it is listed."""

    endpoint: Endpoint
    arguments: type[BaseModel]
    listed: types.Tool


class McpServer:
    """ASGI application. It serves while its lifespan is open; with `auth`, "user:password", to who knows them."""

    def __init__(self, sessions: Sessions, auth: str | None) -> None:
        self._sessions = sessions
        self._tools = {endpoint.__name__: tool(endpoint) for endpoint in endpoints(sessions)}
        self._credentials = base64.b64encode(auth.encode()) if auth else None
        server = Server[Any](
            "deltabrush",
            version=program_version(),
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        # how large a body may be is decided in front of it, by BodyLimits
        self._manager = StreamableHTTPSessionManager(server, max_request_body_size=sys.maxsize)

    def lifespan(self, app: ASGIApp) -> AbstractAsyncContextManager[None]:
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._manager.handle_request
        if not self._may_enter(Headers(scope=scope)):
            app = PlainTextResponse("Send user and password as basic authentication.", 401, BASIC)
        elif scope["method"] == "GET":  # a stream on which nothing would ever come, and which would outlive the server
            app = PlainTextResponse("This address is for assistants: see docs/api.md.", 405, {"Allow": "POST, DELETE"})
        await app(scope, receive, send)

    def _may_enter(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if self._credentials is None:
            return True
        return scheme.lower() == "basic" and secrets.compare_digest(given.encode(), self._credentials)

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.listed for tool in self._tools.values()])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            if params.name not in self._tools:
                raise gr.Error(f"There is no tool {params.name[:100]}.")
            tool = self._tools[params.name]
            given = dict(await run_in_threadpool(tool.arguments.model_validate, params.arguments or {}))
            told = await outcome(tool.endpoint, given, context)
            assert context.request is not None
            text = json.dumps(with_whole_urls(told, f"http://{context.request.headers['host']}"))
            shown = await run_in_threadpool(self._shown, told)
            return types.CallToolResult(content=[types.TextContent(text=text), *shown])
        except ValidationError as error:
            wrong = error.errors()[0]
            sentence = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}."
        except gr.Error as error:
            sentence = error.message
        except Exception as error:
            sentence = apology(error)
        return types.CallToolResult(content=[types.TextContent(text=sentence)], is_error=True)

    def _shown(self, told: dict[str, Any]) -> list[types.ImageContent]:
        """What an answer is about, to look at: the candidates if it has some, in their order, else the version."""
        session = self._sessions.get(told["session"])
        ids = [made["picture_id"] for made in told.get("candidates", [told]) if "picture_id" in made]
        pictures = [small_jpeg(session.picture(picture_id), SHOWN_PX) for picture_id in ids]
        return [types.ImageContent(data=base64.b64encode(it).decode(), mime_type="image/jpeg") for it in pictures]


def tool(endpoint: Endpoint) -> Tool:
    """Lists an endpoint with what its signature and its docstring say."""
    description, told, _ = get_function_description(endpoint)
    fields: dict[str, Any] = {}
    for argument in arguments(endpoint):
        name = argument.name
        needed = argument.default is Parameter.empty or (name == "session" and endpoint.__name__ not in BEGINNINGS)
        kind, how = (File, AS_DATA) if argument.annotation is bytes else (argument.annotation, "")
        fields[name] = (kind, Field(... if needed else argument.default, description=told[name] + how))
    model = create_model(endpoint.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    schema = model.model_json_schema()
    return Tool(endpoint, model, types.Tool(name=endpoint.__name__, description=description, input_schema=schema))


async def outcome(endpoint: Endpoint, given: dict[str, Any], context: Context) -> dict[str, Any]:
    """The last answer of an endpoint; the steps before it are reported. Who cancels the call stops the work."""
    if not isgeneratorfunction(endpoint):
        _, told = await run_in_threadpool(endpoint, None, **given)
        return told
    told, number, answers = {}, 0, endpoint(None, **given)
    try:
        async for _, told in iterate_in_threadpool(answers):
            if "stage" in told:
                number += 1  # steps begin anew with every stage, but progress may only grow
                await context.session.report_progress(number, None, "{stage} {step}/{steps}".format(**told))
    finally:
        answers.close()
    return told


def with_whole_urls(told: Any, editor: str) -> Any:
    """Puts the address of the editor before each url: an assistant may not know where its tools are."""
    if isinstance(told, list):
        return [with_whole_urls(one, editor) for one in told]
    if isinstance(told, dict):
        return {name: editor + it if name == "url" else with_whole_urls(it, editor) for name, it in told.items()}
    return told
