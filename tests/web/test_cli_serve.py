"""`msd serve` as a browser and others see it: the real command, asked over real connections."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from msd.cli import msd
from tests.web.served import serving

WEIGHTS = "0123456789abcdef0123456789abcdef"
CONTENT = bytes(range(256)) * 41 + b"odd"
FILES = {
    "index.html": b"<!doctype html><title>a page</title>",
    "page.css": b"body {}",
    "page/main.js": b"export {};",
    "icon.svg": b"<svg/>",
    "icon.png": b"\x89PNG",
    "manifest.webmanifest": b"{}",
    "litert/wasm/runtime.wasm": b"\0asm",
    "model/web-manifest.json": b"{}",
    "model/tokens.txt": b"a\n",
    "model/unet.tflite": b"TFL3",
    "model/empty.bin": b"",
    f"model/weights/{WEIGHTS}.bin": CONTENT,
    "a name with spaces & ü.txt": b"named",
    ".hidden": b"hidden",
}
SHARD = f"/model/weights/{WEIGHTS}.bin"
Answer = tuple[int, dict[str, str], bytes]


def write_site(folder: Path) -> Path:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("serve") / "site")


@pytest.fixture(scope="module")
def port(site: Path) -> Iterator[int]:
    with serving(site) as (_, port):
        yield port


@pytest.fixture
def ask(port: int) -> Callable[..., Answer]:
    """`ask(target, method="GET", **headers)`: the status, the headers and the body; one connection each."""

    def ask(target: str, method: str = "GET", **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.putrequest(method, target, skip_host=False)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    return ask


def run(*arguments: object) -> Result:
    return CliRunner().invoke(msd, ["serve", *map(str, arguments)], prog_name="msd", terminal_width=100)


TYPES = {
    "/": "text/html; charset=utf-8",
    "/index.html": "text/html; charset=utf-8",
    "/index.html?from=phone": "text/html; charset=utf-8",
    "/page.css": "text/css; charset=utf-8",
    "/page/main.js": "text/javascript; charset=utf-8",
    "/icon.svg": "image/svg+xml",
    "/icon.png": "image/png",
    "/manifest.webmanifest": "application/manifest+json",
    "/litert/wasm/runtime.wasm": "application/wasm",
    "/model/web-manifest.json": "application/json",
    "/model/tokens.txt": "text/plain; charset=utf-8",
    "/model/unet.tflite": "application/octet-stream",
    "/model/empty.bin": "application/octet-stream",
    "/a%20name%20with%20spaces%20%26%20%C3%BC.txt": "text/plain; charset=utf-8",
    SHARD: "application/octet-stream",
}


@pytest.mark.parametrize(("target", "kind"), TYPES.items())
def test_each_file_comes_with_its_type(ask: Callable[..., Answer], target: str, kind: str) -> None:
    status, headers, body = ask(target)
    name = {"/": "index.html", "/index.html?from=phone": "index.html"}.get(target, target[1:])
    expected = FILES.get(name, b"named")
    assert (status, headers["content-type"], body) == (200, kind, expected)
    assert headers["content-length"] == str(len(expected))
    assert headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize("target", ["/", SHARD, "/missing", "/model/web-manifest.json"])
def test_every_answer_is_isolated_and_names_its_policy(ask: Callable[..., Answer], target: str) -> None:
    _, headers, _ = ask(target)
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'self'"
    assert policy["script-src"] == "'self' 'wasm-unsafe-eval'"
    assert policy["img-src"] == "'self' blob: data:"
    assert not {"'unsafe-inline'", "'unsafe-eval'", "*"} & set(" ".join(policy.values()).split())
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-embedder-policy"] == "require-corp"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert "python" not in headers["server"].lower()


def test_weights_stay_for_ever_and_the_page_is_asked_for_again(ask: Callable[..., Answer]) -> None:
    assert "immutable" in ask(SHARD)[1]["cache-control"]
    for target in ("/", "/page/main.js", "/model/web-manifest.json", "/model/unet.tflite"):
        assert ask(target)[1]["cache-control"] == "no-cache"
    assert ask("/missing")[1]["cache-control"] == "no-store"


@pytest.mark.parametrize("target", ["/", SHARD])
def test_what_the_browser_has_is_not_sent_again(ask: Callable[..., Answer], target: str) -> None:
    tag = ask(target)[1]["etag"]
    for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        status, headers, body = ask(target, If_None_Match=known)
        assert (status, headers["etag"], body) == (304, tag, b"")
    assert ask(target, If_None_Match='"other"')[0] == 200


def test_a_file_that_changes_has_another_tag(ask: Callable[..., Answer], site: Path) -> None:
    path = site / "page/changing.js"
    path.write_bytes(b"one;")
    before = ask("/page/changing.js")[1]["etag"]
    path.write_bytes(b"two;")
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    after = ask("/page/changing.js")[1]["etag"]
    assert before != after
    assert ask("/page/changing.js", Range="bytes=1-2", If_Range=before)[::2] == (200, b"two;")
    assert ask("/page/changing.js", Range="bytes=1-2", If_Range=after)[::2] == (206, b"wo")


SIZE = len(CONTENT)
RANGES = {
    "bytes=0-0": (0, 1),
    "bytes=5-1004": (5, 1005),
    "bytes=7-": (7, SIZE),
    "BYTES=7-": (7, SIZE),
    "bytes=-3": (SIZE - 3, SIZE),
    f"bytes=-{SIZE + 9}": (0, SIZE),
    f"bytes={SIZE - 1}-{SIZE + 100}": (SIZE - 1, SIZE),
}
WHOLE = [
    "bytes=0-1,5-6",
    "bytes=5-2",
    "bytes=",
    "bytes=-",
    "bytes=a-b",
    "lines=1-2",
    "bytes 1-2",
    "bytes=1-2-3",
]


@pytest.mark.parametrize(("wanted", "place"), RANGES.items())
def test_a_range_is_answered_with_its_bytes(
    ask: Callable[..., Answer], wanted: str, place: tuple[int, int]
) -> None:
    first, end = place
    status, headers, body = ask(SHARD, Range=wanted)
    assert (status, body) == (206, CONTENT[first:end])
    assert headers["content-range"] == f"bytes {first}-{end - 1}/{SIZE}"
    assert headers["content-length"] == str(end - first)


@pytest.mark.parametrize("wanted", WHOLE)
def test_several_ranges_and_what_is_none_get_the_whole_file(ask: Callable[..., Answer], wanted: str) -> None:
    status, headers, body = ask(SHARD, Range=wanted)
    assert (status, body) == (200, CONTENT)
    assert "content-range" not in headers


@pytest.mark.parametrize("wanted", [f"bytes={SIZE}-", f"bytes={SIZE + 5}-{SIZE + 9}", "bytes=-0"])
def test_a_range_behind_the_end_is_refused_with_the_size(ask: Callable[..., Answer], wanted: str) -> None:
    status, headers, body = ask(SHARD, Range=wanted)
    assert (status, headers["content-range"]) == (416, f"bytes */{SIZE}")
    assert CONTENT not in body
    assert ask("/model/empty.bin", Range="bytes=0-")[0] == 416


def test_if_range_asks_for_a_part_of_the_same_version_only(ask: Callable[..., Answer]) -> None:
    tag = ask(SHARD)[1]["etag"]
    assert ask(SHARD, Range="bytes=9-", If_Range=tag)[::2] == (206, CONTENT[9:])
    for other in ('"other"', f"W/{tag}", "Sun, 06 Nov 1994 08:49:37 GMT"):
        assert ask(SHARD, Range="bytes=9-", If_Range=other)[::2] == (200, CONTENT)


def test_head_tells_what_get_would_without_the_file(ask: Callable[..., Answer]) -> None:
    for target in ("/", SHARD, "/missing"):
        got, head = ask(target), ask(target, "HEAD")
        for headers in (got[1], head[1]):
            headers.pop("date")
        assert (head[0], head[1], head[2]) == (got[0], got[1], b"")
    assert ask(SHARD, "HEAD", Range="bytes=3-4")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_get_and_head_is_answered(ask: Callable[..., Answer], method: str) -> None:
    status, headers, body = ask("/", method)
    assert (status, headers["allow"], headers["connection"]) == (405, "GET, HEAD", "close")
    assert b"only GET, HEAD are answered" in body


def test_other_methods_are_unknown(ask: Callable[..., Answer]) -> None:
    assert ask("/", "BREW")[0] == 501


NOWHERE = [
    "/../secret.txt",
    "/..%2fsecret.txt",
    "/%2e%2e/secret.txt",
    "/%2e%2e%2fsecret.txt",
    "/page/../../secret.txt",
    "/page/../index.html",
    "/./index.html",
    "/page//main.js",
    "/..%5csecret.txt",
    "/index.html%00",
    "/index.html%00.png",
    "/%ff%fe",
    "/.hidden",
    "/page",
    "/page/",
    "/model",
    "/model/weights/",
    "/out.txt",
    "/outside/secret.txt",
    "/round",
    "/pipe",
    "/index.html/",
    "/" + "long" * 5000,
    "index.html",
    "http://127.0.0.1/index.html",
    "*",
]


@pytest.mark.parametrize("target", NOWHERE, ids=lambda target: target[:30])
def test_nothing_outside_the_folder_and_no_folder_is_shown(
    ask: Callable[..., Answer], site: Path, target: str
) -> None:
    (site.parent / "secret.txt").write_text("secret")
    links = {"out.txt": site.parent / "secret.txt", "outside": site.parent, "round": site / "round"}
    for name, goal in links.items():
        if not (site / name).is_symlink():
            (site / name).symlink_to(goal)
    if not (site / "pipe").exists():
        os.mkfifo(site / "pipe")
    status, _, body = ask(target)
    assert status == 404
    assert b"secret" not in body
    assert b"hidden" not in body


def test_a_link_within_the_folder_is_followed(ask: Callable[..., Answer], site: Path) -> None:
    (site / "icon-link.svg").symlink_to(site / "icon.svg")
    assert ask("/icon-link.svg")[::2] == (200, FILES["icon.svg"])


def test_a_file_that_may_not_be_read_is_not_there(ask: Callable[..., Answer], site: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to root")
    (site / "locked.txt").write_text("locked")
    (site / "locked.txt").chmod(0)
    assert ask("/locked.txt")[0] == 404


def test_one_connection_answers_many_requests(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    for target, status in (("/", 200), ("/missing", 404), (SHARD, 200)):
        connection.request("GET", target)
        answer = connection.getresponse()
        assert (answer.status, len(answer.read()) > 0) == (status, True)
        assert connection.sock is not None
    connection.close()


def test_the_body_of_a_request_is_no_second_request(port: int) -> None:
    smuggled = b"GET /page.css HTTP/1.1\r\nHost: x\r\n\r\n"
    for method in (b"GET", b"POST"):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            head = method + b" / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
            connection.sendall(head + smuggled)
            said = b""
            try:
                while more := connection.recv(65536):
                    said += more
            except ConnectionResetError:
                pass
        assert said.startswith(b"HTTP/1.1 ")
        assert FILES["page.css"] not in said


def test_a_browser_that_goes_away_disturbs_nobody(site: Path) -> None:
    (site / "large.bin").write_bytes(bytes(20_000_000))
    with serving(site) as (process, port):
        slow = socket.create_connection(("127.0.0.1", port))
        slow.sendall(b"GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        other = HTTPConnection("127.0.0.1", port, timeout=60)
        other.request("GET", "/")
        assert other.getresponse().read() == FILES["index.html"]
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        slow.close()
        other.request("GET", "/page.css")
        assert other.getresponse().read() == FILES["page.css"]
        other.close()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0


def test_it_ends_with_ctrl_c(site: Path) -> None:
    with serving(site) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0


def test_it_answers_this_machine_alone(port: int) -> None:
    with socket.socket() as outside:
        outside.settimeout(10)
        with pytest.raises(OSError):  # noqa: PT011
            outside.connect(("127.0.0.2", port))


def test_it_says_how_a_phone_reaches_it(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ctrl_c(server: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("socketserver.BaseServer.serve_forever", ctrl_c)
    result = run(site, "--port", 0)
    assert (result.exit_code, result.stderr) == (0, "")
    port = result.stdout.split("127.0.0.1:")[1].split("/")[0]
    assert f"{site}: http://127.0.0.1:{port}/ (Ctrl-C ends it)" in result.stdout
    assert f"adb reverse tcp:{port} tcp:{port}, then http://localhost:{port}/" in result.stdout
    assert "HTTPS" in result.stdout


def test_a_folder_that_is_no_site_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path, "--port", 0)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: {tmp_path} is no exported site (it has no model/web-manifest.json);"
        f" msd export-web BUNDLE -o {tmp_path} writes one\n"
    )
    assert run(tmp_path / "missing").exit_code == 1
    (tmp_path / "file").write_text("x")
    assert run(tmp_path / "file").exit_code == 2


def test_a_port_that_is_in_use_is_refused(site: Path, port: int) -> None:
    result = run(site, "--port", port)
    assert (result.exit_code, result.stdout) == (1, "")
    expected = f"error: port {port} is in use; give another with --port, or 0 for any free one\n"
    assert result.stderr == expected


@pytest.mark.parametrize("wrong", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_wrong_usage(site: Path, wrong: str) -> None:
    assert run(site, "--port", wrong).exit_code == 2


def test_the_help_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("serve-help.txt", run("--help").output)


def test_a_bundle_is_led_to_its_page(bundle_folder: Path) -> None:
    result = CliRunner().invoke(msd, ["serve", str(bundle_folder)])
    assert result.exit_code == 1
    page = f"{bundle_folder}-page"
    assert f"first msd export-web {bundle_folder} -o {page}, then msd serve {page}" in result.stderr
