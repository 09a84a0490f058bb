"""https against a real server with a certificate of an authority that the test makes (with the openssl command)."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError
from palpate.models import Model
from palpate.models.adapters import http
from tests.models.adapters.local_server import LocalServer, keyword_probability

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
NOTE = "Mr Smith has sepsis"


def openssl(*arguments: str, folder: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def authority(name: str, folder: Path) -> None:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    of_ca = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    subject = ("-subj", f"/CN={name}", "-days", "2", *of_ca)
    openssl("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", *subject, folder=folder)


def signed(name: str, by: str, names: str, folder: Path) -> None:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}", folder=folder)
    (folder / "names.txt").write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
    by_ca = ("-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial", "-extfile", "names.txt")
    openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", "-days", "2", *by_ca, folder=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("certificates")
    authority("hospital", place)
    authority("stranger", place)
    signed("right", "hospital", "IP:127.0.0.1", place)
    signed("elsewhere", "hospital", "DNS:coder.hospital.example,IP:10.0.0.1", place)
    return place


@pytest.fixture
def serve(folder: Path) -> Iterator[Any]:
    running: list[LocalServer] = []

    def start(name: str) -> LocalServer:
        server = LocalServer()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        server._server.socket = context.wrap_socket(
            server._server.socket, server_side=True, do_handshake_on_connect=False
        )
        running.append(server)
        return server

    yield start
    for server in running:
        server.close()


def load(server: LocalServer, folder: Path, **options: Any) -> Model:
    settings = {"backoff": 0.01, "timeout": 5, "labels": ["ill"], "batch_size": 2, **options}
    return http.load_https(f"//127.0.0.1:{server.port}/predict", settings, folder=folder)


def test_a_certificate_of_the_named_authority_is_trusted(folder: Path, serve: Any) -> None:
    server, asked = serve("right"), Inputs.from_texts([f"{NOTE} {k}" for k in range(5)])
    model = load(server, folder, ca="hospital.pem")
    np.testing.assert_array_equal(model.predict(asked), [[keyword_probability(text)] for text in asked.texts])
    model.close()


@pytest.mark.parametrize(
    ("certificate", "options", "said"),
    [
        ("right", {}, "the endpoint's certificate is not trusted"),
        ("right", {"ca": "stranger.pem"}, "the endpoint's certificate is not trusted"),
        ("elsewhere", {"ca": "hospital.pem"}, "the endpoint's certificate is not for 127.0.0.1"),
    ],
)
def test_any_other_certificate_is_refused_before_a_note_is_sent(
    folder: Path, serve: Any, certificate: str, options: dict[str, str], said: str
) -> None:
    server = serve(certificate)
    model = load(server, folder, **options)
    with pytest.raises(ModelError, match=said) as caught:
        model.predict(Inputs.from_texts([NOTE]))
    assert "tried" not in str(caught.value), "trying again mends nothing"
    assert NOTE not in str(caught.value)
    assert server.n_requests == 0
    model.close()


def test_a_wrong_option_is_named(folder: Path, serve: Any) -> None:
    (folder / "empty.pem").write_text("no certificate\n")
    server = serve("right")
    for ca, said in (("none.pem", "not found"), ("empty.pem", "holds no certificate")):
        with pytest.raises(ConfigError, match=said):
            load(server, folder, ca=ca)
    with pytest.raises(ConfigError, match="`ca` is for https"):
        http.load("//127.0.0.1:1/predict", {"ca": "hospital.pem"}, folder=folder)
