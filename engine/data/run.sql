CREATE TABLE meta(
  name TEXT PRIMARY KEY,      -- manifest, grid (the sweep without its rows), progress, forgotten
  value TEXT NOT NULL,        -- JSON
  crc INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE passages(        -- source texts of questions, each once
  passage INTEGER PRIMARY KEY,
  text TEXT NOT NULL,
  crc INTEGER NOT NULL
);

CREATE TABLE problems(
  problem INTEGER PRIMARY KEY,  -- from 0
  id TEXT NOT NULL UNIQUE,
  question TEXT NOT NULL,
  passage INTEGER,              -- number in passages
  answers TEXT NOT NULL,        -- JSON: [{label, text, work}]
  truth TEXT NOT NULL,          -- JSON: value of each answer; 1 is true, -1 is false
  more TEXT,                    -- JSON: group, graded, environment, conversation, flaws
  crc INTEGER NOT NULL
);

CREATE TABLE rows(            -- rows of the report
  row INTEGER PRIMARY KEY,    -- from 0
  protocol TEXT NOT NULL,
  agent TEXT NOT NULL,        -- empty for a protocol without an agent
  judge TEXT NOT NULL,
  settings TEXT NOT NULL,     -- JSON: the protocol with all its roles
  address TEXT NOT NULL,      -- digest of the settings
  more TEXT NOT NULL,         -- JSON: names of classes, digests of prompts, axes, labels
  crc INTEGER NOT NULL
);

CREATE TABLE endpoints(       -- who replied
  endpoint INTEGER PRIMARY KEY,
  model TEXT NOT NULL,
  identity TEXT NOT NULL,     -- of the endpoint, as the store's keys have it
  served TEXT NOT NULL,       -- the model that the provider says answered
  settings TEXT NOT NULL,     -- JSON: temperature, max_tokens and other settings of the request
  came TEXT NOT NULL,         -- live ADDRESS, batch ADDRESS, imported, unknown; empty if simulated
  elsewhere INTEGER NOT NULL, -- 1: not the address that the run itself asks, or not known
  crc INTEGER NOT NULL,
  UNIQUE(model, identity, served, settings, came, elsewhere)
);

CREATE TABLE calls(           -- distinct replies
  call INTEGER PRIMARY KEY,
  address BLOB NOT NULL,      -- digest of the call, 32 bytes: hex(address) has its digits
  endpoint INTEGER NOT NULL,
  outcome TEXT NOT NULL,      -- ok, truncated, refused, empty
  stop_reason TEXT NOT NULL,
  text TEXT NOT NULL,
  reasoning TEXT,
  tool_calls TEXT,            -- JSON: [{id, name, arguments}]
  draw TEXT,                  -- JSON: numbers that tell equal requests apart
  origin TEXT NOT NULL,       -- new, stored, batch, person, unknown
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  dollars REAL,               -- NULL: the price is unknown
  at INTEGER,                 -- when it was paid, in seconds since 1970; NULL: from the store
  crc INTEGER NOT NULL
);

CREATE INDEX calls_begin ON calls(substr(address, 1, 4));

CREATE TABLE cells(           -- one world of one problem in one row
  place INTEGER PRIMARY KEY,  -- index in the sweep, from 0
  id TEXT NOT NULL,           -- 16 hex digits
  row INTEGER NOT NULL,
  problem INTEGER NOT NULL,
  side INTEGER NOT NULL,      -- index of the answer argued for, from 0
  repeat INTEGER NOT NULL,    -- from 0
  status TEXT NOT NULL,       -- verdict, failed, not run, withdrawn
  probs TEXT,                 -- JSON: probability of each answer, in the order of the question
  failure TEXT,               -- kind of a failure, as are the next columns; all NULL otherwise
  message TEXT,               -- also why a cell was not run
  raw TEXT,                   -- the unreadable text
  call TEXT,                  -- address of the call at fault
  seat TEXT,
  cause TEXT,
  label_probability REAL,     -- least probability of the answer labels together; NULL: 1
  redraws TEXT,               -- JSON: the verdicts of which probs is the mean
  bounds TEXT,                -- JSON: [least, most] of each answer; NULL: all replies were read
  measures TEXT,              -- JSON
  counts TEXT,                -- JSON
  unparsed TEXT,              -- JSON: how many replies could not be read, by role and cause
  flags TEXT,                 -- JSON: [{seat, cause, call}], the replies that could not be read
  call_count INTEGER NOT NULL,       -- rows in asked
  turn_count INTEGER NOT NULL,       -- rows in turns
  judgement_count INTEGER NOT NULL,  -- rows in judgements
  completed INTEGER NOT NULL, -- order in which cells were recorded, from 1
  crc INTEGER NOT NULL
);

CREATE INDEX cells_completed ON cells(completed);

CREATE TABLE asked(           -- calls of a cell, in order
  place INTEGER NOT NULL,
  n INTEGER NOT NULL,         -- from 0
  call INTEGER NOT NULL,
  role TEXT NOT NULL,         -- speak, draft, rate, judge and others
  seat TEXT NOT NULL,         -- who was asked: Debater A
  heard INTEGER NOT NULL,     -- turns before it
  crc INTEGER NOT NULL,
  PRIMARY KEY(place, n)
) WITHOUT ROWID;

CREATE TABLE turns(           -- speeches of a cell
  place INTEGER NOT NULL,
  turn INTEGER NOT NULL,      -- from 0
  speaker TEXT NOT NULL,
  side TEXT,                  -- label of the answer argued for
  call INTEGER,
  text TEXT,                  -- NULL: the text of the call
  more TEXT,                  -- JSON: outcome, tools, quotes and others that are not as usual
  crc INTEGER NOT NULL,
  PRIMARY KEY(place, turn)
) WITHOUT ROWID;

CREATE TABLE judgements(      -- readings of judges in a cell
  place INTEGER NOT NULL,
  n INTEGER NOT NULL,         -- from 0
  role TEXT NOT NULL,         -- verdict: the outcome is made of it; rate, judge: on the way there
  judge TEXT NOT NULL,        -- empty in a verdict
  heard INTEGER,              -- turns before it; NULL in a verdict
  probs TEXT NOT NULL,        -- JSON: of each answer, or (holds, does not hold) of a statement
  about TEXT,                 -- number of the call of the last turn heard, or its address
  side TEXT,
  statement TEXT,             -- the statement judged; NULL: which answer is right
  label_probability REAL,     -- NULL: 1
  text TEXT,                  -- NULL: the text of the first call
  calls TEXT NOT NULL,        -- JSON: numbers of calls; addresses of those that are not in asked
  unknown_stop INTEGER,       -- 1: the reply ended for an unknown reason; NULL: it did not
  error TEXT,                 -- why it could not be read
  crc INTEGER NOT NULL,
  PRIMARY KEY(place, n)
) WITHOUT ROWID;
