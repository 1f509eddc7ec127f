"""Unpacks helm from the wheel: it is in an archive within an archive."""

from __future__ import annotations

import io
import pathlib
import sys
import tarfile
import zipfile

folder = pathlib.Path(sys.argv[1])
[bundle] = folder.glob("aws_cdk/**/_jsii/*.tgz")
with tarfile.open(bundle) as files:
    layer = files.extractfile("package/lib/layer.zip")
    assert layer is not None, "the wheel has another shape"
    program = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
(folder / "bin").mkdir()
(folder / "bin/helm").write_bytes(program)
(folder / "bin/helm").chmod(0o755)
bundle.unlink()
