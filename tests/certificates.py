"""Certificates of a test's own, made with openssl."""

import ssl
import subprocess
from pathlib import Path

CA = """
[ca]
default_ca = only
[only]
database = index.txt
new_certs_dir = .
serial = serial
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


def certificate(folder: Path, name: str, *, expired: bool = False, end: str = "20490101000000Z") -> ssl.SSLContext:
    """What a server shows that was made for this name; the certificate is `server.pem` in the folder."""

    def openssl(command: str) -> None:
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)

    (folder / "ca.cnf").write_text(CA)
    (folder / "index.txt").touch()
    (folder / "serial").write_text("01")
    when = "20200101000000Z -enddate 20200102000000Z" if expired else "20200101000000Z -enddate " + end
    openssl("ecparam -name prime256v1 -genkey -noout -out key.pem")
    openssl(f"req -new -key key.pem -out request.pem -subj /CN=parley -addext subjectAltName={name}")
    openssl(
        "ca -selfsign -batch -notext -config ca.cnf -keyfile key.pem -in request.pem -out server.pem -startdate " + when
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "key.pem")
    return context
