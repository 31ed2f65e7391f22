"""Which version of a package is there, for tests of what older ones lack (`make test-lowest`)."""

from importlib.metadata import version

from packaging.version import Version


def older(package: str, than: str) -> bool:
    """Whether the installed version is an older one."""
    return Version(version(package)) < Version(than)
