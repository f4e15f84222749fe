"""The schema of the history, as a sequence of named migrations."""

from __future__ import annotations

from baton.platform.sqlite import Migration

_LABELS = "CHECK (label IN ('local', 'lan', 'cloud'))"

_FIRST = Migration(
    "0001_conversations",
    (
        "CREATE TABLE migrations (name TEXT PRIMARY KEY, applied REAL NOT NULL) STRICT",
        f"""CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            label TEXT NOT NULL {_LABELS},
            system TEXT,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            head TEXT,
            sent_from TEXT,
            hidden_at REAL
        ) STRICT""",
        "CREATE INDEX conversations_by_update ON conversations (updated)",
        # A turn's key is when it was made, in milliseconds (or the next free number, but always
        # above those of its conversation): so the newest are the last, imported turns included,
        # parents come before children, and a search can stop at the newest few.
        f"""CREATE TABLE turns (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            parent TEXT REFERENCES turns (id),
            role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
            text TEXT NOT NULL,
            status TEXT NOT NULL
                CHECK (status IN ('streaming', 'done', 'cut', 'cancelled', 'failed', 'lost')),
            label TEXT NOT NULL {_LABELS},
            created REAL NOT NULL,
            worker TEXT NOT NULL,
            run TEXT
        ) STRICT""",
        "CREATE INDEX turns_by_conversation ON turns (conversation, key)",
        "CREATE INDEX turns_by_parent ON turns (parent)",
        f"""CREATE TABLE files (
            key INTEGER PRIMARY KEY,
            turn TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
            name TEXT NOT NULL,
            text TEXT NOT NULL,
            size INTEGER NOT NULL,
            label TEXT NOT NULL {_LABELS}
        ) STRICT""",
        "CREATE INDEX files_by_turn ON files (turn)",
        # `owner` is the process that executes the run.
        """CREATE TABLE runs (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            prompt TEXT NOT NULL,
            answer TEXT NOT NULL,
            status TEXT NOT NULL
                CHECK (status IN ('running', 'finished', 'failed', 'cancelled', 'lost')),
            created REAL NOT NULL,
            owner INTEGER
        ) STRICT""",
        "CREATE INDEX runs_by_conversation ON runs (conversation)",
        "CREATE INDEX runs_in_progress ON runs (status) WHERE status = 'running'",
        """CREATE TABLE events (
            run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            kind TEXT NOT NULL,
            data TEXT NOT NULL,
            PRIMARY KEY (run, seq)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX events_of_calls ON events (run) WHERE kind = 'Called'",
        """CREATE VIEW calls AS SELECT
            run,
            data ->> 'step' AS step,
            data ->> 'worker' AS worker,
            data ->> 'purpose' AS purpose,
            data ->> 'tokens_in' AS tokens_in,
            data ->> 'tokens_out' AS tokens_out,
            data ->> 'cached' AS cached,
            data ->> 'cost' AS cost,
            data ->> 'confirmed' AS confirmed,
            data ->> 'seconds' AS seconds,
            data ->> 'first_token' AS first_token,
            data ->> 'loading' AS loading,
            data ->> 'finish' AS finish
        FROM events WHERE kind = 'Called'""",
        f"""CREATE TABLE label_changes (
            key INTEGER PRIMARY KEY,
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            at REAL NOT NULL,
            old TEXT NOT NULL,
            label TEXT NOT NULL {_LABELS}
        ) STRICT""",
        "CREATE INDEX label_changes_by_conversation ON label_changes (conversation)",
        "CREATE TABLE drafts (conversation TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT",
        # Search. An answer is indexed once it is no longer being written, and
        # 'secure-delete' takes its words out of the index when it is purged.
        """CREATE VIRTUAL TABLE turns_search USING fts5 (
            text, content = 'turns', content_rowid = 'key',
            tokenize = 'unicode61 remove_diacritics 2', prefix = '1 2 3'
        )""",
        """CREATE VIRTUAL TABLE titles_search USING fts5 (
            title, content = 'conversations', content_rowid = 'key',
            tokenize = 'unicode61 remove_diacritics 2', prefix = '1 2 3'
        )""",
        "INSERT INTO turns_search (turns_search, rank) VALUES ('secure-delete', 1)",
        "INSERT INTO titles_search (titles_search, rank) VALUES ('secure-delete', 1)",
        """CREATE TRIGGER turns_added AFTER INSERT ON turns WHEN new.status <> 'streaming' BEGIN
            INSERT INTO turns_search (rowid, text) VALUES (new.key, new.text);
        END""",
        """CREATE TRIGGER turns_left AFTER UPDATE OF text, status ON turns
        WHEN old.status <> 'streaming' BEGIN
            INSERT INTO turns_search (turns_search, rowid, text)
            VALUES ('delete', old.key, old.text);
        END""",
        """CREATE TRIGGER turns_ended AFTER UPDATE OF text, status ON turns
        WHEN new.status <> 'streaming' BEGIN
            INSERT INTO turns_search (rowid, text) VALUES (new.key, new.text);
        END""",
        """CREATE TRIGGER turns_gone AFTER DELETE ON turns WHEN old.status <> 'streaming' BEGIN
            INSERT INTO turns_search (turns_search, rowid, text)
            VALUES ('delete', old.key, old.text);
        END""",
        """CREATE TRIGGER titles_added AFTER INSERT ON conversations BEGIN
            INSERT INTO titles_search (rowid, title) VALUES (new.key, new.title);
        END""",
        """CREATE TRIGGER titles_changed AFTER UPDATE OF title ON conversations BEGIN
            INSERT INTO titles_search (titles_search, rowid, title)
            VALUES ('delete', old.key, old.title);
            INSERT INTO titles_search (rowid, title) VALUES (new.key, new.title);
        END""",
        """CREATE TRIGGER titles_gone AFTER DELETE ON conversations BEGIN
            INSERT INTO titles_search (titles_search, rowid, title)
            VALUES ('delete', old.key, old.title);
        END""",
    ),
)

_POLICY = Migration(
    "0002_policy",
    # When this conversation may spend (NULL: as the settings say).
    ("ALTER TABLE conversations ADD COLUMN policy TEXT",),
)

_STEPS = Migration(
    "0003_steps",
    # A draft's text is kept by the event that ends its step, like that of every step.
    (
        """UPDATE events SET kind = 'StepFinished', data = json_object(
            'at', data -> 'at', 'step', data -> 'step', 'finish', 'stop', 'text', data ->> 'text'
        ) WHERE kind = 'Drafted'""",
    ),
)

_SIGNALS = Migration(
    "0004_signals",
    (
        # What the user did with an answer, and when that was last.
        """CREATE TABLE signals (
            turn TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
            kind TEXT NOT NULL
                CHECK (kind IN ('good', 'bad', 'stronger', 'again', 'edited', 'copied')),
            at REAL NOT NULL,
            PRIMARY KEY (turn, kind)
        ) STRICT, WITHOUT ROWID""",
        # A draft that was replaced has a second plan; without this, all events would be looked at.
        "CREATE INDEX events_of_plans ON events (run) WHERE kind = 'Planned'",
    ),
)

_OWNER = Migration(
    "0005_owner",
    # When the process `owner` began (see platform/processes); NULL where an older Baton wrote it.
    ("ALTER TABLE runs ADD COLUMN started REAL",),
)

_WARNINGS = Migration(
    "0006_warnings",
    # Each prompt asks which warnings its conversation had; without this, of all its events.
    ("CREATE INDEX events_of_warnings ON events (run) WHERE kind = 'Warned'",),
)

_CLIENTS = Migration(
    "0007_clients",
    (
        # `client` is the id of the access token of the program that said it ('': the user's own).
        # `fingerprint` and `opening` recognise a text that comes back (core.text_match); they are
        # NULL while it is written, and where an older Baton wrote what may go anywhere.
        "ALTER TABLE turns ADD COLUMN client TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE turns ADD COLUMN fingerprint TEXT",
        "ALTER TABLE turns ADD COLUMN opening TEXT",
        "CREATE INDEX turns_by_fingerprint ON turns (fingerprint) WHERE fingerprint IS NOT NULL",
        "CREATE INDEX turns_by_opening ON turns (opening, label) WHERE opening IS NOT NULL",
        """CREATE INDEX turns_unknown ON turns (key)
            WHERE fingerprint IS NULL AND label <> 'cloud' AND status <> 'streaming'""",
        # What was said privately and isn't kept, or was deleted: its fingerprints, so that it stays
        # private. `answer` is '' where the prompt alone is long enough.
        f"""CREATE TABLE private_marks (
            prompt TEXT NOT NULL,
            answer TEXT NOT NULL,
            client TEXT NOT NULL,
            label TEXT NOT NULL {_LABELS},
            PRIMARY KEY (prompt, answer, client, label)
        ) STRICT, WITHOUT ROWID""",
    ),
)

_PROGRAMS = Migration(
    "0008_programs",
    (
        # Whose conversation it is: the name of a program, '' the user's own.
        "ALTER TABLE conversations ADD COLUMN program TEXT NOT NULL DEFAULT ''",
        """UPDATE conversations SET program = 'another program' WHERE id IN (
            SELECT conversation FROM turns GROUP BY conversation HAVING min(client) <> ''
        )""",
        # Of a prompt, what stands for all that its program sent with it: NULL for the user's.
        "ALTER TABLE turns ADD COLUMN said TEXT",
        "CREATE INDEX turns_by_said ON turns (said) WHERE said IS NOT NULL",
    ),
)

_LONG_TEXTS = Migration(
    "0009_long_texts",
    (
        # What recognises a text that is long enough alone, besides `opening`: how many characters
        # its plain text has, and the fingerprint of all of it. Private texts get it when a history
        # is opened; for others it is enough that they get it from now on.
        "ALTER TABLE turns ADD COLUMN length INTEGER",
        "ALTER TABLE turns ADD COLUMN whole TEXT",
        "UPDATE turns SET fingerprint = NULL, opening = NULL WHERE status <> 'streaming'",
        "DROP INDEX turns_by_opening",  # in the new one is all that is asked for: no text is read
        """CREATE INDEX turns_by_opening ON turns (opening, label, length, whole)
            WHERE opening IS NOT NULL""",
        "CREATE INDEX turns_by_whole ON turns (whole) WHERE whole IS NOT NULL",
    ),
)

_PIECES = Migration(
    "0010_answer_pieces",
    (
        # What an answer that is being written has grown by since it was last saved: saving all of
        # it each time would write the square of its length. What it says is `turns.text`, then
        # these in order of `start`, in characters; once it is whole, all of it is in `turns.text`.
        """CREATE TABLE answer_pieces (
            turn INTEGER NOT NULL REFERENCES turns (key) ON DELETE CASCADE,
            start INTEGER NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (turn, start)
        ) STRICT, WITHOUT ROWID""",
    ),
)

_GRAMS = Migration(
    "0011_search_by_grams",
    (
        *(
            f"DROP TRIGGER {trigger}"
            for trigger in (
                *("turns_added", "turns_left", "turns_ended", "turns_gone"),
                *("titles_added", "titles_changed", "titles_gone"),
            )
        ),
        "DROP TABLE turns_search",
        "DROP TABLE titles_search",
        # Search (see search.py). The row of a turn bears its key, that of a title its
        # conversation's with a minus. A deleted row leaves its grams until `optimize`.
        """CREATE VIRTUAL TABLE search_grams USING fts5 (
            grams, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
        )""",
        # What isn't in it yet: the next search adds that, so that nothing waits while it is said,
        # and what is withdrawn at once was never in it.
        "CREATE TABLE search_pending (key INTEGER PRIMARY KEY) STRICT",
        "INSERT INTO search_pending SELECT key FROM turns WHERE status <> 'streaming'",
        "INSERT INTO search_pending SELECT -key FROM conversations",
        """CREATE TRIGGER turns_added AFTER INSERT ON turns WHEN new.status <> 'streaming' BEGIN
            INSERT INTO search_pending VALUES (new.key);
        END""",
        """CREATE TRIGGER turns_changed AFTER UPDATE OF text, status ON turns BEGIN
            DELETE FROM search_grams WHERE rowid = old.key;
            DELETE FROM search_pending WHERE key = old.key;
            INSERT INTO search_pending SELECT new.key WHERE new.status <> 'streaming';
        END""",
        """CREATE TRIGGER turns_gone AFTER DELETE ON turns BEGIN
            DELETE FROM search_grams WHERE rowid = old.key;
            DELETE FROM search_pending WHERE key = old.key;
        END""",
        """CREATE TRIGGER titles_added AFTER INSERT ON conversations BEGIN
            INSERT INTO search_pending VALUES (-new.key);
        END""",
        """CREATE TRIGGER titles_changed AFTER UPDATE OF title ON conversations BEGIN
            DELETE FROM search_grams WHERE rowid = -old.key;
            INSERT OR IGNORE INTO search_pending VALUES (-new.key);
        END""",
        """CREATE TRIGGER titles_gone AFTER DELETE ON conversations BEGIN
            DELETE FROM search_grams WHERE rowid = -old.key;
            DELETE FROM search_pending WHERE key = -old.key;
        END""",
    ),
)

_LOOKUPS = Migration(
    "0012_lookups",
    (
        # Without it, finding when help was weighed reads all events.
        "CREATE INDEX events_of_weighings ON events (run) WHERE kind = 'Weighed'",
        # Of a first turn, the parent alone (NULL) finds those of all conversations.
        "DROP INDEX turns_by_parent",
        "CREATE INDEX turns_by_parent ON turns (parent, conversation)",
    ),
)

MIGRATIONS: tuple[Migration, ...] = (
    _FIRST,
    _POLICY,
    _STEPS,
    _SIGNALS,
    _OWNER,
    _WARNINGS,
    _CLIENTS,
    _PROGRAMS,
    _LONG_TEXTS,
    _PIECES,
    _GRAMS,
    _LOOKUPS,
)
