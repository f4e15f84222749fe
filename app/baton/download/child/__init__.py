"""The download process: `hub_metadata` asks hubs, `transfer` fetches, copies and hashes files, and
`signed_release` fetches updates of the packaged binary and checks their signatures.

`main` calls these, each in a thread of its own:

    transfer.fetch(offer, target, progress, stopped) -> str
    transfer.copy(source, target, sha256, progress, stopped) -> str
    transfer.hash_file(path, progress, stopped) -> str
    signed_release.fetch_manifest(source, key) -> str
    signed_release.fetch_release_file(file, progress, stopped) -> str

`progress` takes a `download.progress.Progress`, as often as they like; `stopped` returns whether to
end, and is called at least once a second. Each returns a sha256 in hex, `fetch_manifest` a text.
They raise `hub_client.Stopped`, or `Failure` (ModelFileError where a file is wrong or finds no
room, WorkerUnavailable where a retry may work, ConfigError for an impossible request).
"""
