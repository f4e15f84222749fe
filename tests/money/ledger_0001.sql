PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE calls (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            at REAL NOT NULL,
            changed REAL NOT NULL,
            day TEXT NOT NULL,
            month TEXT NOT NULL,
            run TEXT NOT NULL,
            session TEXT NOT NULL,
            worker TEXT NOT NULL,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            purpose TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('held', 'settled', 'unconfirmed', 'released', 'void')),
            held INTEGER NOT NULL CHECK (held >= 0),
            charged INTEGER NOT NULL DEFAULT 0 CHECK (charged >= 0),
            tokens_in INTEGER NOT NULL DEFAULT 0 CHECK (tokens_in >= 0),
            tokens_out INTEGER NOT NULL DEFAULT 0 CHECK (tokens_out >= 0),
            price TEXT NOT NULL,
            keep INTEGER NOT NULL,
            owner INTEGER,
            started REAL NOT NULL
        ) STRICT;
INSERT INTO "calls" VALUES(1,'26f56300881d',1699963200.0,1699963200.0,'2023-11-14','2023-11','r0','s1','gpt','openai','gpt','answer','settled',2312500,325000,500,100,'[[250000000, 2000000000, 25000000, 312500000], [], "a test"]',1,4000000,1.0);
INSERT INTO "calls" VALUES(2,'d22834b60c75',1699963200.0,1699963200.0,'2023-11-14','2023-11','r0','s1','gpt','openai','gpt','answer','settled',2312500,325000,500,100,'[[250000000, 2000000000, 25000000, 312500000], [], "a test"]',1,4000000,1.0);
INSERT INTO "calls" VALUES(3,'73813b2a84ef',1699963200.0,1699963200.0,'2023-11-14','2023-11','r1','s1','gpt','openai','gpt','answer','unconfirmed',2312500,2312500,0,0,'[[250000000, 2000000000, 25000000, 312500000], [], "a test"]',1,4000000,1.0);
INSERT INTO "calls" VALUES(4,'d7d8986299ee',1699963200.0,1699963200.0,'2023-11-14','2023-11','r1','s1','gpt','openai','gpt','answer','held',2312500,0,0,0,'[[250000000, 2000000000, 25000000, 312500000], [], "a test"]',1,4000000,1.0);
CREATE TABLE ceilings (
            key INTEGER PRIMARY KEY,
            at REAL NOT NULL,
            scope TEXT NOT NULL CHECK (scope IN ('session', 'day', 'month')),
            amount INTEGER CHECK (amount >= 0)
        ) STRICT;
INSERT INTO "ceilings" VALUES(1,1699963200.0,'day',1000000000);
CREATE TABLE egress (
            key INTEGER PRIMARY KEY,
            call TEXT NOT NULL REFERENCES calls (id),
            at REAL NOT NULL,
            destination TEXT NOT NULL,
            size INTEGER NOT NULL,
            sha256 TEXT NOT NULL,
            body BLOB
        ) STRICT;
INSERT INTO "egress" VALUES(1,'26f56300881d',1699963200.0,'https://cloud.invalid',10,'059b92ac62e6fcbbfd50687ae9f7c67b7c6f4e1edd8fe40e629c525e2802b4a8',X'6F6C6420626F64792030');
INSERT INTO "egress" VALUES(2,'d22834b60c75',1699963200.0,'https://cloud.invalid',10,'e782635d005529d1915bcc9f6b5bbcdf659487733ddb0c1728e352d4ccad9a5a',X'6F6C6420626F64792031');
INSERT INTO "egress" VALUES(3,'73813b2a84ef',1699963200.0,'https://cloud.invalid',10,'ee1893d5dd6a2bd96b0f4cfc4ec1f3f0bb8e5c1800bb0213d9ad69ac7661ea88',X'6F6C6420626F64792032');
INSERT INTO "egress" VALUES(4,'d7d8986299ee',1699963200.0,'https://cloud.invalid',10,'2018e768b2de23b68ee95f2e818df801b23eb09c4c850b56c85dbf7cc50d8fca',X'6F6C6420626F64792033');
CREATE TABLE entries (
            key INTEGER PRIMARY KEY,
            call TEXT NOT NULL REFERENCES calls (id),
            at REAL NOT NULL,
            status TEXT NOT NULL,
            held INTEGER NOT NULL,
            charged INTEGER NOT NULL,
            tokens_in INTEGER NOT NULL,
            tokens_out INTEGER NOT NULL
        ) STRICT;
INSERT INTO "entries" VALUES(1,'26f56300881d',1699963200.0,'held',2312500,0,0,0);
INSERT INTO "entries" VALUES(2,'26f56300881d',1699963200.0,'settled',2312500,325000,500,100);
INSERT INTO "entries" VALUES(3,'d22834b60c75',1699963200.0,'held',2312500,0,0,0);
INSERT INTO "entries" VALUES(4,'d22834b60c75',1699963200.0,'settled',2312500,325000,500,100);
INSERT INTO "entries" VALUES(5,'73813b2a84ef',1699963200.0,'held',2312500,0,0,0);
INSERT INTO "entries" VALUES(6,'73813b2a84ef',1699963200.0,'unconfirmed',2312500,2312500,0,0);
INSERT INTO "entries" VALUES(7,'d7d8986299ee',1699963200.0,'held',2312500,0,0,0);
CREATE TABLE freezes (
            key INTEGER PRIMARY KEY,
            at REAL NOT NULL,
            reason TEXT NOT NULL,
            worker TEXT NOT NULL
        ) STRICT;
CREATE TABLE migrations (name TEXT PRIMARY KEY, applied REAL NOT NULL) STRICT;
INSERT INTO "migrations" VALUES('0001_money',1.79539660404276943212e+09);
CREATE TABLE totals (
            scope TEXT NOT NULL,
            name TEXT NOT NULL,
            settled INTEGER NOT NULL,
            held INTEGER NOT NULL,
            unconfirmed INTEGER NOT NULL,
            PRIMARY KEY (scope, name)
        ) STRICT, WITHOUT ROWID;
INSERT INTO "totals" VALUES('day','2023-11-14',650000,2312500,2312500);
INSERT INTO "totals" VALUES('month','2023-11',650000,2312500,2312500);
INSERT INTO "totals" VALUES('run','r0',650000,0,0);
INSERT INTO "totals" VALUES('run','r1',0,2312500,2312500);
INSERT INTO "totals" VALUES('session','s1',650000,2312500,2312500);
CREATE INDEX calls_by_run ON calls (run);
CREATE INDEX calls_by_time ON calls (at);
CREATE INDEX calls_on_their_way ON calls (owner, started) WHERE status = 'held';
CREATE INDEX calls_unconfirmed ON calls (key) WHERE status = 'unconfirmed';
CREATE INDEX egress_by_call ON egress (call);
CREATE TRIGGER calls_held AFTER INSERT ON calls BEGIN
            INSERT INTO entries (call, at, status, held, charged, tokens_in, tokens_out)
    VALUES (new.id, new.changed, new.status, new.held, new.charged, new.tokens_in, new.tokens_out);

            INSERT INTO totals VALUES ('run', new.run, (new.status = 'settled') * new.charged, (new.status = 'held') * new.held, (new.status = 'unconfirmed') * new.charged), ('session', new.session, (new.status = 'settled') * new.charged, (new.status = 'held') * new.held, (new.status = 'unconfirmed') * new.charged), ('day', new.day, (new.status = 'settled') * new.charged, (new.status = 'held') * new.held, (new.status = 'unconfirmed') * new.charged), ('month', new.month, (new.status = 'settled') * new.charged, (new.status = 'held') * new.held, (new.status = 'unconfirmed') * new.charged) ON CONFLICT (scope, name) DO UPDATE SET settled = settled + excluded.settled, held = held + excluded.held, unconfirmed = unconfirmed + excluded.unconfirmed;
        END;
CREATE TRIGGER calls_moved AFTER UPDATE OF status, charged ON calls BEGIN
            INSERT INTO entries (call, at, status, held, charged, tokens_in, tokens_out)
    VALUES (new.id, new.changed, new.status, new.held, new.charged, new.tokens_in, new.tokens_out);

            INSERT INTO totals VALUES ('run', new.run, (new.status = 'settled') * new.charged - (old.status = 'settled') * old.charged, (new.status = 'held') * new.held - (old.status = 'held') * old.held, (new.status = 'unconfirmed') * new.charged - (old.status = 'unconfirmed') * old.charged), ('session', new.session, (new.status = 'settled') * new.charged - (old.status = 'settled') * old.charged, (new.status = 'held') * new.held - (old.status = 'held') * old.held, (new.status = 'unconfirmed') * new.charged - (old.status = 'unconfirmed') * old.charged), ('day', new.day, (new.status = 'settled') * new.charged - (old.status = 'settled') * old.charged, (new.status = 'held') * new.held - (old.status = 'held') * old.held, (new.status = 'unconfirmed') * new.charged - (old.status = 'unconfirmed') * old.charged), ('month', new.month, (new.status = 'settled') * new.charged - (old.status = 'settled') * old.charged, (new.status = 'held') * new.held - (old.status = 'held') * old.held, (new.status = 'unconfirmed') * new.charged - (old.status = 'unconfirmed') * old.charged) ON CONFLICT (scope, name) DO UPDATE SET settled = settled + excluded.settled, held = held + excluded.held, unconfirmed = unconfirmed + excluded.unconfirmed;
        END;
CREATE TRIGGER calls_stay BEFORE DELETE ON calls BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END;
CREATE TRIGGER entries_stay_update BEFORE UPDATE ON entries
         BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END;
CREATE TRIGGER entries_stay_delete BEFORE DELETE ON entries
         BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END;
CREATE TRIGGER ceilings_stay_update BEFORE UPDATE ON ceilings
         BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END;
CREATE TRIGGER ceilings_stay_delete BEFORE DELETE ON ceilings
         BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END;
CREATE TRIGGER freezes_stay_update BEFORE UPDATE ON freezes
         BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END;
CREATE TRIGGER freezes_stay_delete BEFORE DELETE ON freezes
         BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END;
CREATE TRIGGER egress_stay_update BEFORE UPDATE ON egress
        WHEN new.body IS NOT NULL
                OR (new.key, new.call, new.at, new.destination, new.size, new.sha256)
                IS NOT (old.key, old.call, old.at, old.destination, old.size, old.sha256) BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END;
CREATE TRIGGER egress_stay_delete BEFORE DELETE ON egress
         BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END;
COMMIT;
