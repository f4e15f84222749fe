"""What the fetcher does: `metadata` asks hubs, `transfer` fetches files, `digest` reads them, and
`release` has both done for updates of the packaged binary, of which it checks the signature.

The child calls, in a thread of its own for each:

    transfer.fetch(offer: Offer, target: Path, progress, stopped) -> str
    transfer.copy(source: Path, target: Path, sha256: str, progress, stopped) -> str
    digest.digest(path: Path, progress, stopped) -> str
    release.manifest(source: str, key: str) -> str
    release.bring(source, name, size, sha256, target: Path, progress, stopped) -> str

`progress` takes a `models.model_types.Progress` (as often as one likes), `stopped` tells whether to
end, which is asked at least once a second. Each returns the sha256 in hex, `manifest` its text, and
raises `wire.Stopped` or `front.Failure` (ModelFileError where a file is wrong or finds no room,
WorkerUnavailable where trying again may work, ConfigError for what can't be what was asked for).
"""
