"""Every bound, with its reason. Units stand in the names.

No read, wait, queue, recursion or pattern in fumehood is without one of these.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# --- JSON from outside
JSON_DEPTH = 64  # an InitializeResult is 6 deep; tool schemas seen in the field reach 20
JSON_REQUEST_BYTES = 64 * KIB  # a request with every field at its maximum is 36 KiB
JSON_NUMBER_CHARS = 64  # a double needs 17 digits, a sign and an exponent; longer ones cost time and mean nothing
JSON_VALUES = 4_000_000  # of one document: a full result has 1.7 million; Python needs 60 bytes and more for each
JSON_LISTED_BYTES = 256 * KIB  # of a document whose problems are all listed; each costs 3 KiB of memory
SIGNING_KEY_BYTES = 16 * KIB  # an Ed25519 key in PEM has some 120 bytes; comments around it are allowed
JSON_RESULT_BYTES = 64 * MIB  # result.json is bounded lists; validate reads it whole
REFUSALS = 64  # told at once; a request has fewer fields than that

# --- settings
SETTINGS_BYTES = 64 * KIB  # every setting written out with comments is below 4 KiB

# --- the log
LOG_TEXT_CHARS = 2000  # one text of a record
LOG_TRACEBACK_CHARS = 16_000  # forty frames
LOG_WAIT_SECONDS = 0.5  # for whoever reads the log to make room; without it the line is lost
LOG_DEPTH = 4  # of what is given beside an event; nothing of ours is deeper
LOG_ITEMS = 50  # of one list or object
MANIFEST_BYTES = 32 * MIB  # package-lock.json of a monorepo with 5,000 packages is 3 MiB

# --- a review, in seconds
ACQUIRE_SECONDS = 120.0  # git fetch of one commit; npm's LOCK and FETCH
INSTALL_SECONDS = 180.0  # as the requirements have it; scripts of 481 packages may compile
PREPARE_SECONDS = 180.0  # likewise; one build
START_SECONDS = 60.0  # the spawn
EXERCISE_SECONDS = 120.0  # the upper bound of a request's timeout_seconds
STOP_SECONDS = 30.0  # the kill
JOB_SECONDS = 600.0  # outranks the sum of the phases
LINGER_SECONDS_DEFAULT = 2.0  # a default that costs little; who waits for more asks for more
LINGER_SECONDS_MAX = 60.0  # programs that wait before they act were seen to wait 15 to 45

# --- a sandboxed child
MEMORY_BYTES = 1 * GIB  # of the whole tree; Node starts under 512 MiB, and a server may start a browser
PROCESSES = 512  # npm ci peaks at 41; Chromium-driving servers at about 200 threads
OPEN_FILES = 1024  # the soft limit of a login shell: what runs for a user runs here
FILE_BYTES = 512 * MIB  # stops a git pack bomb with SIGXFSZ; the largest wheel of Node is 206 MiB unpacked
LAYER_BYTES = 2 * GIB  # of one phase: four files of the largest size
CPU_SECONDS = 600  # per process; never below the job's wall time, a backstop only
CAPTURE_BYTES = 256 * KIB  # captured text per stream
SHARED_MEMORY_BYTES = 256 * MIB  # /dev/shm, where Chromium keeps its frames; counts as memory besides
SCRATCH_BYTES = 64 * MIB  # tmp and home of a child without layers
WATCH_SECONDS = 0.05  # between looks at memory; 20 ms let 260 to 284 MB through a bound of 256
WATCH_WAITING_SECONDS = 0.5  # the same for a child that waits for its work: nothing that is not ours runs in it
LAYER_WATCH_SECONDS = 0.25  # between looks at free space: 2 GB/s writes 0.5 GB in between
DISK_RESERVE_BYTES = 4 * GIB  # below it nobody may go on who may have taken more than a layer's bound
LAYER_SMALL_BYTES = 64 * MIB  # a lower bound is walked the more often: what others delete hides so little
LAYER_WALK_SECONDS = 5.0  # a layer is walked at the latest so long after the last time
LEAVING_SECONDS = 0.2  # from the end of a process's namespaces until its own, on a busy machine
DRAIN_SECONDS = 5.0  # for pipes to be read to their end once nobody is left to write
FIRST_UID = 10001  # above the users of a distribution; a uid that the system knows is refused
UID_SLOTS = 256  # reviews at once on one host

# --- protocol frames
FRAME_BYTES = 4 * MIB  # of one line; one of 60 MiB held the SDK's own client for 40 s
FRAME_INLINE_BYTES = 128 * KIB  # read at once, in 30 ms at most; a larger frame must not hold up deadlines and relay
FRAMES_TOTAL_BYTES = 16 * MIB  # of one conversation: four of the largest
FRAMES = 1_000_000  # lines looked at: behind 200,000 notifications the answer is still seen
FRAMES_RECORDED = 50  # per direction and kind: a flood of one hides no other, and all of them fit LIST_ITEMS
REPLIES = 1000  # answers of ours to requests of a peer; one that floods gets no more
REPLIES_QUEUED = 64  # a peer that does not read may hold up this many before further ones are dropped
LIST_PAGES = 100  # of one list of a server's; those in the field have at most 4
LISTED_ITEMS = 10_000  # of one list; a gateway in front of twenty servers has 600
DEFINITIONS = 400  # of one list that are described one by one; what is beyond counts and is in the list's digest
CAPABILITIES = 32  # of a server that are compared by name; the specification has seven
LIST_SECONDS = 30.0  # for one page: who never answers one list may answer the next
MEMBERS_UNLIKE = 32  # of a definition that changed, by name: those of the field have at most 8
DIFFERENCES = 200  # between two starts that are listed; what is beyond is counted

# --- a request of HTTP, as a sensor keeps it
HTTP_KEPT_HEADERS = 64  # browsers send 20
HTTP_KEPT_HEADERS_BYTES = 8 * KIB  # of names and values: two cookies of the largest size
HTTP_KEPT_TARGET_BYTES = 2 * KIB  # of the target; as long as the longest that all browsers take

# --- the trace
TRACE_LINE_BYTES = 64 * KIB  # TRACE_ARGV words of 200 bytes with every byte escaped are 50 KiB
TRACE_PAUSE_SECONDS = 0.01  # between reads: strace writes line by line, and 33,000 wake-ups cost an npm ci 0.5 s
STDERR_PACE_SECONDS = 0.02  # between reads of what somebody listens to: 3 MB a second, a tenth of a core
TRACE_RECORDS = 50_000  # of one kind kept from one trace: npm ci of 481 packages writes 18,000 files
TRACE_FOLDER_RECORDS = 5_000  # of those, in one folder: a flood in one place does not hide what happens elsewhere
TRACE_ARGV = 64  # words of one command line that are kept; strace itself cuts each at 200 bytes
TRACE_TRIED = 16  # places where one command was looked for

# --- evidence
EVENTS = 100_000  # lines of events.ndjson
EVENTS_PHASE = 20_000  # of one phase, so that a flood in one does not silence the next; npm ci is counted, not listed
EVENTS_PHASE_BYTES = 48 * MIB  # the same in bytes: five phases stay below EVENTS_BYTES
EVENTS_BYTES = 256 * MIB  # of events.ndjson: its lines are 400 bytes on average, this is for hostile ones
LIST_ITEMS = 500  # of one type in one phase in result.json
LIST_BYTES = 384 * KIB  # the same; 17 types in 5 phases then stay below JSON_RESULT_BYTES
ROOM_ITEMS = 4  # kept beyond a full list of what has a room of its own (review.evidence.rooms), for each room
ROOMS_ITEMS = 160  # the same for all rooms of one list: a table of 105 names
ROOMS_BYTES = 96 * KIB  # the same in bytes, a quarter of LIST_BYTES
OUTPUT_LIST_BYTES = 3 * MIB  # of captured text in one phase: two streams of CAPTURE_BYTES with every byte escaped
ROW_BYTES = 32 * KIB  # one observation but captured text; 32 arguments of 1,000 characters fit
DETAIL_DEPTH = 8  # an observation's detail is 3 deep
DETAIL_ITEMS = 256  # entries of one list or object in a detail
REPORT_PHASE_BYTES = 16 * MIB  # of one phase's rows in report.html, unfolded: EVENTS_PHASE rows of 800 bytes
REPORT_PHASE_PACKED_BYTES = 4 * MIB  # the same as gzip: in base64 five phases make 27 MiB; real rows pack to a tenth
ERRORS = 100  # of one result; likewise limitations
LAYER_ENTRIES = 400_000  # npm ci of 481 packages leaves 18,000
LAYER_DEPTH = 128  # folders in each other; each level holds a descriptor or a name while it is walked
DISK_ROOM_BYTES = 1 * MIB  # of free space below which a failed step is the disk's fault: a failed write leaves less
CAUSES = 16  # links of a chain of exceptions that are followed
PATH_BYTES = 64 * KIB  # of one path inside a tree: LAYER_DEPTH names of 255 bytes are 32 KiB
HOLE_BYTES = 16 * MIB  # a file with more of holes is described, not hashed: zeros cost nothing to make and time to hash
HASH_BLOCK_BYTES = 1 * MIB  # read at once
TEXT_BYTES = 4 * KIB  # one string inside an observation

HEADER_CHARACTERS = 300  # of one header of a request, as it is shown; 64 of them stay below ROW_BYTES

# --- planted credentials
CANARY_FOLD_BYTES = 64 * MIB  # of one step that come out of what is encoded or compressed: 10 s of work at the most
CANARY_SOURCE_BYTES = 4 * MIB  # the same of one body, file or line: a home's credentials are 20 KiB
CANARY_FLOOR_BYTES = 64 * KIB  # of a source also beyond these, of as many bytes again: for a thousand after the bombs
CANARY_FILE_BYTES = 128 * MIB  # of what a step wrote that is looked at, the smallest files first: 10 s of work
CANARY_PIECE_BYTES = 4 * MIB  # of a file, at once

# --- the relay
RELAY_DOWN_BYTES = 512 * MIB  # of one sandbox; as much as one file may have
RELAY_UP_BYTES = 64 * MIB  # of one sandbox; a target has little to send that a review should carry
RELAY_CONNECTIONS = 256  # at once; of 1,000 tried 256 were served and the others reset and counted
RELAY_NAMES = 4096  # of one sandbox; each takes an address of 198.18.0.0/15
RELAY_RECORDS = 1000  # per kind and decision, so that a flood of one cannot hide another
RELAY_FIRST_BYTES = 32 * KIB  # held back until judged; a ClientHello with post-quantum key shares is under 2 KiB
RELAY_FIRST_READS = 64  # parsing on every byte of a client that sends them one by one would be quadratic
RELAY_FIRST_SECONDS = 10.0  # from a client's first byte until its hello must be complete
RELAY_KEPT_BYTES = 256  # of a refused client's first bytes
RELAY_REFUSED_SECONDS = 3.0  # for a refused client to say what it wanted
RELAY_RESOLVE_SECONDS = 4.0  # below the stub resolver's 5
RELAY_LOOKUPS = 32  # at once; a hung lookup cannot be cancelled, only abandoned
RELAY_DIAL_SECONDS = 8.0  # for all addresses of a name: two dead ones
RELAY_DIAL_EACH_SECONDS = 4.0  # so that a dead first address leaves time for a second
RELAY_IDLE_SECONDS = 60.0  # outlasts TCP's rare window updates of a slow reader
RELAY_LIFE_SECONDS = 600.0  # the job's
RELAY_CHUNK_BYTES = 128 * KIB  # two for each connection; larger ones gained nothing
RELAY_TURN_SECONDS = 0.002  # after which a fast stream lets the others have the loop
RELAY_QUESTIONS = 256  # to our DNS, at once
RELAY_DNS_CONNECTIONS = 32  # at once; stub resolvers come by TCP only for what was cut
RELAY_DNS_SECONDS = 20.0  # the life of a DNS connection
RELAY_PACKETS = 4096  # distinct destinations remembered, so that a repeat is counted and not recorded
RELAY_BODY_BYTES = 64 * KIB  # kept of one request's body; a posted environment or key file is below 10 KiB
RELAY_BODIES_BYTES = 256 * KIB  # kept of all bodies of one connection: four of the largest
RELAY_EVIDENCE_BYTES = 16 * MIB  # kept of bodies and raw bytes of one sandbox: 64 connections that keep all they may
RELAY_EVIDENCE_FLOOR_BYTES = 4 * KIB  # kept of one connection also beyond that: a flood hides no later small upload
RELAY_RAW_BYTES = 16 * KIB  # kept of a connection that is answered here and speaks no HTTP
RELAY_REQUESTS = 1000  # answered on one connection; a client that polls each 100 ms for 100 s
RELAY_REQUESTS_KEPT = 100  # of one connection that are recorded; further ones are counted
RELAY_REQUESTS_TOTAL = 2000  # of one sandbox; beyond it the first one of each connection is
RELAY_ANSWERED_SECONDS = 5.0  # without a byte before an answered client is let go: as Node's own servers do
RELAY_SILENT_SECONDS = 10.0  # for a client's first bytes where we answer: a protocol may have its server speak first
RELAY_FAREWELL_SECONDS = 1.0  # for a client to read its last answer, before it is cut
RELAY_ANSWERED_BYTES = 16 * KIB  # read at once from an answered client: 1,000 small requests are 5 ms of work
RELAY_DATAGRAMS = 8  # of one destination that are recorded, each with its first bytes; further ones are counted
RELAY_ZONES = 1000  # names' last two labels whose first record is kept beyond every quota
RELAY_PAUSE_SECONDS = 0.2  # without accepting, when descriptors have run out
CRADLE_SECONDS = 15.0  # for one process to be started inside its cgroup; measured: 1 ms
LISTENERS_SECONDS = 15.0  # from the child's pid until its sockets; measured: 13 ms

# --- tools of ours (version probes and the like)
TOOL_SECONDS = 10.0  # `npm --version` takes 0.4 s on an idle machine
TOOL_OUTPUT_BYTES = 256 * KIB  # kept; the rest is read and dropped

# --- the probes of a host
PROBE_SECONDS = 5.0  # a confined /bin/true takes 16 ms; a machine that swaps is given time
RECORD_BYTES = 16 * MIB  # the RECORD of the Node wheel is 0.6 MiB
PROC_BYTES = 1 * MIB  # /proc/self/mountinfo of a container host reaches 100 KiB

# --- JSON Schemas of a peer; those of the servers in the field stay below a tenth of each
SCHEMA_DEPTH = 64  # of applicators in each other
SCHEMA_SUBSCHEMAS = 5000  # each is looked at before anything is checked
SCHEMA_REFERENCES = 1000  # `$ref` keywords; each is rehearsed before anything is checked
SCHEMA_REFERENCE_CHARACTERS = 1000  # of one `$ref`: a pointer through SCHEMA_DEPTH names of 15
SCHEMA_STEPS = 50_000  # pairs of subschema and value; eighteen doubled references alone take 12 s without this
SCHEMA_PATTERNS = 200  # each is compiled: together below PATTERN_COMPILED_BYTES times this
PATTERN_COMPILED_BYTES = 1 * MIB  # a tenth of the engine's own bound; 200 of them compile in a second
SCHEMA_PROBLEMS = 100  # told of one value

# --- inputs that are made for a tool from its schema, and its calls
INPUT_SCHEMA_BYTES = 1 * MIB  # of one schema; the largest seen in the field has 60 KiB
INPUT_DEPTH = 24  # of values in each other, of references and of groups of a pattern; the field stays below 8
INPUT_FULL_DEPTH = 5  # down to which optional members are given as well: a definition of itself ends there
INPUT_STEPS = 20_000  # subschemas looked at; a tool of 200 properties in 10 objects takes 1,000
INPUT_MEMBERS = 64  # of one object or list; a request for more is told
INPUT_TEXT_CHARACTERS = 4096  # of one text; a request for more is told
INPUT_PATTERN_CHARACTERS = 500  # of a pattern that is read; UUIDs and dates have below 80
INPUT_PATTERN_STEPS = 5000  # of one reading of it
INPUT_NAME_CHARACTERS = 200  # of a required member that no property describes
INPUT_BYTES = 256 * KIB  # of the arguments of one call; made ones stay below 4 KiB but for what a schema demands
INPUT_TRIES = 4  # arguments that are made until some fit their schema
INPUT_CPU_SECONDS = 2  # of the child, for one schema; a large one takes 30 ms
INPUT_SECONDS = 6.0  # for one answer of it, on a machine that is busy
INPUT_MEMORY_BYTES = 256 * MIB  # of the child: a schema of INPUT_SCHEMA_BYTES with small values takes 80
INPUT_STARTS = 8  # of a child in one review: each schema that ends one costs up to INPUT_CPU_SECONDS
CALLED_TOOLS = 100  # of one start; the largest servers of the field have some 200, and minutes for all of them
CALLED_NAMES = 50  # of tools that were not called, for one reason; the others are counted
CALLED_NAME_CHARACTERS = 100  # of a tool's name that are shown; the protocol advises at most 128
CALLED_ARGUMENTS_CHARACTERS = 600  # of arguments that are shown; made ones have 200
CALLED_TEXT_CHARACTERS = 400  # of a result's first text that are shown: 200 facts then stay below LIST_BYTES
CALL_SETTLE_SECONDS = 0.2  # after an answer: what a tool began and did not wait for is then its own
TOOL_CALL_SECONDS = 10.0  # for one answer: six tools that never answer leave as much for the others in a minute
INPUT_NOTES = 16  # of what was given up while arguments were made

# --- git and the overview of a served workspace
REVISION_CHARACTERS = 200  # of a revision; two names of branches as long as they get
GIT_CONFIGURATION_BYTES = 256 * KIB  # of one file; with a thousand branches it is 100 KiB
GIT_HEAD_BYTES = 4 * KIB  # of HEAD: a name of a branch, which is a path
GIT_INCLUDES = 10  # files that a configuration includes; as deep as git itself goes
GIT_ALTERNATES = 5  # stores of objects behind each other; as deep as git itself goes
GIT_REFS_DEPTH = 32  # folders of references in each other; a branch's name with as many slashes is not seen
GIT_BLANKED_BYTES = 32 * KIB  # of the arguments that blank keys; ten drivers with all their keys are 2 KiB
GIT_STORE_ENTRIES = 500_000  # names in a store of objects that are looked at; 7,000 loose ones make git pack them
GIT_OUTPUT_BYTES = 8 * MIB  # of one command; of a difference most of it stands around what is shown
LOG_MESSAGE_BYTES = 8 * KIB  # of one message shown; longer ones are generated
LOG_CHANGES = 300  # names of one commit that are judged; of an import with 12,000 the others are only counted
LOG_FILES = 50  # names of one commit shown; the rest is counted
DIFF_FILES = 300  # files of one difference
OVERVIEW_READ_BYTES = 512 * MIB  # of all files whose lines are counted: a second on an idle machine
OVERVIEW_MANIFESTS = 40  # that are read; a repository with more has one for each package
OVERVIEW_MANIFEST_BYTES = 256 * KIB  # of one; a package.json of 300 scripts and dependencies is 20 KiB
OVERVIEW_WORDS = 40  # of one list in a manifest; the rest is counted
OVERVIEW_WORD_CHARACTERS = 160  # of one of them
OVERVIEW_ENTRIES = 40  # entry points and folders of tests that are named
DIFF_AROUND_LINES = 64  # that are looked at around a hunk; a private key of 4,096 bits has 52
DIFF_ARGUMENT_BYTES = 48 * KIB  # of their names as arguments; one message to the starter holds 128 KiB

# --- a served workspace
SERVED_FILE_BYTES = 2 * MIB  # before and while reading; sources above it are generated
KEPT_TEXT_BYTES = 4 * MIB  # of files read page by page, in memory: two of the largest
READ_LINES = 2000  # of one read: what a model takes in at once
PASSAGE_CONTEXT_BYTES = 16 * KIB  # looked at on each side of what is shown: as far as a private key can reach
LINE_CHARACTERS = 2000  # of one line shown; longer ones are minified or data
SEARCH_RESULTS = 200  # of one search
REPLY_BYTES = 256 * KIB  # of the text of one reply: some 64,000 tokens
ENVELOPE_BYTES = 2 * MIB  # of one serialised reply: REPLY_BYTES with every byte escaped
PAGE_ENTRIES = 1000  # of one listing
WALKED_DEPTH = 128  # folders in each other; each holds a descriptor while it is walked
WALKED_FILES = 200_000  # of one walk; the largest public repositories have 100,000
CALL_SECONDS = 10.0  # of one call
RULE_FILE_BYTES = 1 * MIB  # of an operator's rules; gitleaks' own 222 are 130 KiB
RULES = 1000  # of an operator; each may look at all of a reply
RULE_PATTERN_BYTES = 8 * MIB  # compiled, of one of them; gitleaks' largest needs 2
PATTERN_CHARACTERS = 512  # of one search pattern, glob or symbol
PATTERN_PROGRAM_BYTES = 32 * MIB  # of one compiled: `(?:\w{0,20}){0,20}` takes 20; ripgrep's own bound is 100
SEARCHED_FILE_BYTES = 512 * KIB  # larger files are skipped by search, and counted
CONTEXT_LINES_SEARCH = 5  # around one hit
CONTEXT_LINES_DIFF = 10  # around one hunk
GLOB_CHOICES = 64  # that the braces of one glob give: each is matched on its own
GLOBS = 32  # of one search
LOG_ENTRIES = 200  # commits of one page
CURSOR_CHARACTERS = 1000  # of a cursor; ours are below 300
ARGUMENT_PATH_CHARACTERS = 4096  # of a path argument: PATH_MAX
CALLS_RUNNING = 8  # at once
CALLS_QUEUED = 32  # waiting; beyond it calls are answered `busy`
CALLS_A_MINUTE = 1200  # of one client: a model asks a few in a second
NAMED_BYTES = 64 * KIB  # of paths in one command line: half of what the starter takes
CHILD_OUTPUT_BYTES = 16 * MIB  # read from one child of a call before it is killed
STARTER_SECONDS = 10.0  # until the starter's walls stand, and until it has ended: 30 ms on an idle machine
CHILD_STDERR_BYTES = 1 * MIB  # kept of what a child says there; ripgrep names 4,000 folders that it passed by
SYMBOL_CHARACTERS = 200  # of a name that is defined; generated ones reach 120
SYMBOLS_IN_SOURCE = 10_000  # definitions of one file: 512 KiB with one in every 50 bytes
SYMBOLS_FILES = 200  # read with a grammar for one call; 15 KiB take 3 ms
SYMBOLS_SECONDS = 2.0  # for one file, before its worker is killed: 512 KiB of C++ take 0.3
SYMBOLS_CPU_SECONDS = 20  # of one worker, which serves one call: two of CALL_SECONDS
SYMBOLS_MEMORY_BYTES = 512 * MIB  # of one worker: a tree takes up to forty times its source
SYMBOLS_ANSWER_BYTES = 4 * MIB  # of one answer: SYMBOLS_IN_SOURCE of 400 bytes
SYMBOLS_START_SECONDS = 10.0  # for the grammars to be loaded: 0.3 on an idle machine
REQUEST_BYTES = 1 * MIB  # of one line or body towards a published server; a call is a few KiB
REQUEST_ID_CHARACTERS = 256  # of a request's id, which is kept while it is in flight; a UUID has 36
METHOD_CHARACTERS = 200  # of a method's name; the longest of the protocol has 36
META_BYTES = 16 * KIB  # of `_meta` of one request; client information and capabilities are below 1 KiB
PRINCIPALS = 1024  # callers that are counted at once
CONTROL_IN_FLIGHT = 64  # requests that are no calls, unanswered at once, before no more is read
OUTPUT_PENDING_BYTES = 4 * MIB  # answers that wait for a client to read, before no more of it is read
STALLED_SECONDS = 60.0  # without a byte taken, before a client that does not read is given up
DRAIN_CALLS_SECONDS = 60.0  # for calls in flight at the end of input: 40 calls of 10 s, 8 at a time
SESSION_BYTES = 64 * GIB  # of one connection: a line of the largest size each second for 18 hours
SESSION_LINES = 100_000_000  # of one connection
HANDED_OVER = 64  # messages between the thread that reads and the loop
TOOLS_TTL_MILLISECONDS = 300_000  # definitions change with the process only, and a client may reconnect
SESSION_IDLE_SECONDS = 1800.0  # of a legacy session over HTTP, which holds a task and a few KiB
ASK_SECONDS = 300.0  # for a person to answer a question
FORM_BYTES = 64 * KIB  # of what a person filled in, as JSON: a form of some lines
PARKED_SECONDS = 300.0  # for a client to come back with the answer to a question, as ASK_SECONDS
PARKED_EACH = 16  # calls of one caller that wait for an answer so: a person answers one at a time
PARKED = 1024  # of all callers; each holds a task and what it was called with
PROGRESS_SECONDS = 0.1  # between two reports of one request: nobody sees more
PROGRESS_BURST = 16  # reports before that: short work has a few, all at once
CHANGED_SECONDS = 0.1  # in which changes of a list are told as one
HOST_TTL_MILLISECONDS = 30_000  # of lists that change while a server runs; who listens is told sooner
LISTENERS_EACH = 8  # streams of changes of one caller
LISTENERS = 512  # of all; each holds a task
SESSIONS_EACH = 256  # sessions of HTTP of one caller: a hundred clients may share a token
SESSIONS = 1024  # of all; each holds two tasks and some 20 KiB
SESSION_SWEEP_SECONDS = 60.0  # between two looks for those that nobody uses
ASKED_BACK = 64  # requests of ours to one client without an answer: a person answers one at a time
FLUSH_SECONDS = 2.0  # for answers to be read once a connection is over

# --- a listener of HTTP
HTTP_HEADERS = 64  # of one request; browsers and clients of the field send below 20
HTTP_HEAD_BYTES = 32 * KIB  # request line and headers together; a token of HTTP_TOKEN_CHARACTERS and some cookies fit
HTTP_TARGET_CHARACTERS = 2048  # the request target; ours are below 60
HTTP_HEAD_SECONDS = 5.0  # from the first moment of a request until its head is there; loopback needs a millisecond
HTTP_HANDSHAKE_SECONDS = 5.0  # TLS; two round trips
HTTP_BODY_SECONDS = 10.0  # until the whole body is there: REQUEST_BYTES at 1 Mbit/s
HTTP_SEND_SECONDS = 10.0  # for one part of an answer to be taken; ENVELOPE_BYTES at 2 Mbit/s
HTTP_REQUEST_SECONDS = 60.0  # all of one request: CALLS_QUEUED before it, CALLS_RUNNING at once, CALL_SECONDS each
HTTP_HOST_SECONDS = 1200.0  # one request to a host: a call of 600 s and a question or two of ASK_SECONDS
HTTP_STREAM_SECONDS = 3600.0  # a stream of changes; then a client opens the next
HTTP_PING_SECONDS = 15.0  # between two signs of life in a stream; proxies give up after 30 and more
HTTP_UNREAD_BYTES = 256 * KIB  # of notifications that wait in one stream; further ones are dropped
HTTP_IDLE_SECONDS = 30.0  # a connection between two requests
HTTP_CLOSE_SECONDS = 10.0  # for the last bytes of a closed connection to be taken: ENVELOPE_BYTES at 2 Mbit/s
HTTP_DRAIN_SECONDS = 12.0  # after SIGTERM: one call of CALL_SECONDS is finished
HTTP_CONNECTIONS = 256  # at once; a quarter of the usual soft limit of open files
HTTP_BACKLOG = 128  # connections that the kernel holds before they are accepted
HTTP_PAUSE_SECONDS = 0.1  # without accepting, when descriptors have run out
HTTP_NAMES = 64  # names, origins and uids that a request is compared with, of one setting
HTTP_TOKENS = 64  # lines of a token file: every request is compared with each
HTTP_TOKEN_CHARACTERS = 8 * KIB  # of one bearer token; JWTs with many scopes stay below 4 KiB
HTTP_KEYS = 16  # of one JWK set; issuers publish two or three
HTTP_FILE_BYTES = 64 * KIB  # of a token file or a JWK set; certificates inside a set are a few KiB each
HTTP_CLOCK_SKEW_SECONDS = 30  # between the issuer's clock and ours
HTTP_SCOPES = 64  # of one token

# --- the audit log
AUDIT_LINE_BYTES = 4 * KIB  # a line has some 700 bytes; its longest names make 1.6 KiB
AUDIT_TORN_BYTES = 16 * KIB  # that a crash left unfinished: one line, or a few where recovering crashed as well
AUDIT_TAIL_BYTES = 64 * KIB  # read at the start, to find the last line: what is torn, and a line before it
AUDIT_FILE_BYTES = 64 * MIB  # of one file, then the next is begun: 110,000 lines, checked in some seconds
AUDIT_FILES = 10_000  # of one log that are followed: 600 GiB
AUDIT_SYNC_SECONDS = 0.1  # until what nobody waits for is synced; the other half of 200 ms is for the disk
AUDIT_NAMES = 100_000  # of the folder of a log that are looked at for its files
AUDIT_WAIT_SECONDS = 10.0  # for one sync: a disk may be slow, and not for ever
AUDIT_ANSWER_SECONDS = 12.0  # of a writer in a process of its own: a sync, and a busy host
AUDIT_TURN_SECONDS = 2.0  # until the writer of a server that was killed has synced and let go
AUDIT_START_SECONDS = 30.0  # until such a writer has opened its log: 0.3 s on two idle cores

# --- pinned tools
PIN_SERVERS = 200  # of one lock; a client's configuration names a dozen
PIN_TOOLS = 2000  # of one server; the largest of the field have some 200
PIN_FIELDS = 64  # members of one definition; the protocol knows nine
PIN_FIELD_CHARACTERS = 200  # of the name of one
PIN_SHOWN = 50  # tools of one difference that are shown; further ones are counted
PIN_SHOWN_CHARACTERS = 500  # of one foreign text in it
LOCK_BYTES = 16 * MIB  # of `fumehood.lock`: a server of 200 tools takes 160 KiB
DESCRIPTION_CHARACTERS = 4000  # of one tool, as it is passed on; those of the field stay below 3,000

# --- a program that a model wrote
CODE_BYTES = 64 * KIB  # of the program: a model writes a few hundred lines
CODE_WALL_SECONDS = 30.0  # of one run, the time of its tools included
CODE_WALL_SECONDS_MAX = 300.0  # where a job asks for more: fifty slow tools, one after the other
CODE_CPU_SECONDS = 5.0  # of the program itself; it does not run while only tools are waited for
CODE_CPU_SECONDS_MAX = 60.0  # where a job asks for more
CODE_MEMORY_BYTES = 256 * MIB  # of the child; Deno idles at 35 MiB
CODE_MEMORY_BYTES_MIN = 128 * MIB  # below it Deno does not start
CODE_MEMORY_BYTES_MAX = 512 * MIB  # where a job asks for more
CODE_OUTPUT_BYTES = 1 * MIB  # everything that a child says: its calls, its logs and its result
CODE_CALLS = 200  # of one run
CODE_CALLS_IN_FLIGHT = 16  # at once
CODE_LOG_LINES = 1000  # kept; further ones are counted
CODE_MESSAGE_BYTES = 512 * KIB  # of one message of a child
CODE_ANSWER_BYTES = 1 * MIB  # of one answer of a tool, towards a child
CODE_UNREAD_BYTES = CODE_ANSWER_BYTES  # of answers that wait for a child to read; then it is heard no more
CODE_STDERR_BYTES = 64 * KIB  # of a child, for the log of its owner
CODE_ERROR_CHARACTERS = 4000  # of a message or a stack
CODE_DEPTH = JSON_DEPTH  # of containers in one message of a child; three of them are the message's own
CODE_NAME_CHARACTERS = 200  # of the name of a tool; names of the field stay below 130
CODE_QUERY_CHARACTERS = 1000  # of a search: a few sentences
CODE_FOUND_TOOLS = 10  # of one search, where the program names no number
CODE_FOUND_TOOLS_MAX = 50  # where it does
CODE_DESCRIBED_TOOLS = 50  # in one call
CODE_QUERY_WORDS = 64  # of it that are looked for: each is one more list that the index joins
CODE_INDEXED_CHARACTERS = 4000  # of one description that are searched: ten times those of the field
CODE_TOOLS = 2000  # of one run: an index of them is made in 40 ms
CODE_DECLARED_CHARACTERS = 12 * KIB  # of one schema as TypeScript: CODE_DESCRIBED_TOOLS of them near CODE_ANSWER_BYTES
CODE_DECLARED_DEPTH = 10  # of types in each other; schemas of the field are 6 deep
CODE_DECLARED_MEMBERS = 100  # of one object
CODE_DECLARED_CHOICES = 50  # of one union or tuple; a longer one tells a reader little
CODE_DECLARED_WORDS = 1000  # characters of a tool's description
CODE_DECLARED_NOTE = 300  # characters of a member's
CODE_LISTED_PARAMETERS = 40  # in the words of a refusal
UPSTREAM_END_SECONDS = 5.0  # for a server whose input was closed; one of ours ends within half a second
CODE_THREADS = 64  # of a child: Deno has 8 on two cores, and more where there are more
CODE_OPEN_FILES = 128  # of a child: Deno holds 20
CODE_FILE_BYTES = 1 * MIB  # nothing can be written but a file in memory
CODE_COMPILED_BYTES = 1 * MIB  # a program of CODE_BYTES as JavaScript, with its source map: 0.3 MiB
CODE_CPU_SLACK_SECONDS = 2  # until the kernel ends a child that its supervisor did not: it counts whole seconds
CODE_START_SECONDS = 20.0  # until bubblewrap's blocked child is there: 0.02 on an idle machine
CODE_STOP_SECONDS = 10.0  # from the kill until nothing is left
CODE_EXIT_SECONDS = 1.0  # from the end of its stdout until a child has to be gone
CODE_CANCEL_SECONDS = 5.0  # for tools that are under way at the end of a run
CODE_RUNS = 64  # of one runner, at once: each has a child of up to CODE_MEMORY_BYTES_MAX
CODE_RUNS_DEFAULT = 8  # four for each of two cores
CODE_WARM_DEFAULT = 4  # 40 MiB resident each, 12 where shared pages are divided
CODE_INPUT_BYTES = 512 * KIB  # of a job's input as UTF-8: as much as one message of a child
CODE_TOKEN_CHARACTERS = 1000  # of a run token; a minted one has 43
CODE_LINK_DEPTH = CODE_DEPTH + 2  # of containers in one message of a link: a child's value, inside of a result
CODE_LINK_JOB_BYTES = 3 * MIB  # of what a backend says at once: program and input, each character as six of ASCII
CODE_LINK_RESULT_BYTES = 4 * MIB  # of what a runner says at once: CODE_OUTPUT_BYTES escaped is three times as much
CODE_LINK_SAID_BYTES = 8 * MIB  # of all that a runner says in one run: calls and logs once, and both again at its end
CODE_LINK_FIRST_SECONDS = 5.0  # until the job is there: CODE_LINK_JOB_BYTES at 5 Mbit/s
CODE_LINK_OPEN_SECONDS = 5.0  # for TCP, TLS and the handshake of HTTP; three round trips
CODE_LINK_SEND_SECONDS = 10.0  # for a result to be taken: CODE_LINK_RESULT_BYTES at 4 Mbit/s
CODE_LINK_CLOSE_SECONDS = 2.0  # for the other side to say goodbye
CODE_LINK_PING_SECONDS = 10.0  # between two looks whether the other side is there
CODE_LINK_PONG_SECONDS = 20.0  # for it to answer: a backend may be busy with one tool for a while
CODE_LINK_WAITING = 32  # connections without a run; each may hold CODE_LINK_JOB_BYTES until its token is known
CODE_LINK_FRAMES = 4  # frames that wait to be read, before no more is taken from the socket
CODE_CHILD_DESCRIPTORS = 16  # of a supervisor, for each child: 13 while it runs, some more while it starts
CODE_LINK_DESCRIPTORS = 100  # of a supervisor, beside them: CODE_LINK_WAITING twice, files that it looks at
CODE_LINK_CHUNK_BYTES = 16 * KIB  # that are read of a connection at once: 2,700 frames of nothing, 4 ms
CODE_LINK_STRANGER_BYTES = CODE_LINK_JOB_BYTES + 128 * KIB  # before there is a run: a job, its head and its frames
CODE_LINK_CONTROLS = 1000  # pings of the other side and answers to ours: one each 10 s, in runs of 330 s at most
CODE_LINK_LARGE_BYTES = 32 * KIB  # of a message that waits for its turn to be read: 1 MiB may take 0.2 s
CODE_LINK_PAUSES = 3  # times as long as it took, until the next such message is read
CODE_LINK_BACKLOG = 128  # connections that the kernel holds until they are taken
CODE_LINK_WRITE_BYTES = 64 * KIB  # that wait to be sent, before a writer waits
CODE_LINK_UNREAD_BYTES = 8 * MIB  # that wait to be sent, before the other side is given up: it asks and does not read
CODE_LINK_SLACK_SECONDS = 30.0  # beyond a run's own time: its child's start and end, and the way
CODE_DRAIN_SECONDS = 30.0  # after SIGTERM, for runs to finish by themselves: CODE_WALL_SECONDS
CODE_BUSY_SECONDS = 0.5  # after which a backend that was told busy may ask again
CODE_BUSY_SECONDS_MAX = 5.0  # whatever a runner says
CODE_BUSY_TRIES = 6  # in all, before a run is given up: some ten seconds
CODE_STARTS = 4  # children that start at once: each takes a core for 50 ms, more only wait for one another
CODE_READY_SECONDS = 20.0  # from the release of a child until it is ready: 0.03 on an idle machine
CODE_IDLE_CPU_SECONDS = 2.0  # of a child that waits for a program: its start takes 0.05, its waiting nothing
CODE_WARM_SECONDS = 600.0  # that a child waits: later it would be a Deno, libraries and a host of long ago
CODE_REFILL_AFTER_SECONDS = 0.05  # from the taking of a child to the start of the next: a few short programs are over
CODE_REFILL_SECONDS = 0.5  # after a start that failed, doubled each time
CODE_REFILL_SECONDS_MAX = 30.0  # who repaired the host waits no longer
CODE_SELFTEST_SECONDS = 0.5  # for who connects to the self test's listener to say something; some programs never do
CODE_ATTESTED_SECONDS = 30 * 86_400  # that a self test counts: what nobody thought of changes, too
CODE_ATTESTATION_BYTES = 16 * KIB  # of its record, which has 1.2 KiB
CODE_LAST_MOMENT = 253_402_300_799  # the end of the year 9999: later times have no name
THREADS_SECONDS = 10.0  # for threads that end by themselves, before rights are given up: a digest of Node takes 0.4
INIT_SECONDS = 10.0  # from the end of a container's supervisor until its process 1 ends: janitors need tenths

# --- servers behind the gateway
UPSTREAM_DIAL_SECONDS = 120.0  # for one to be there and introduce itself: a package is acquired at its first start
UPSTREAM_LIST_SECONDS = 30.0  # for all pages of its tools
UPSTREAM_AGAIN_SECONDS = 0.25  # before a server that was lost is started again: a start costs half a second
UPSTREAM_AGAIN_MOST_SECONDS = 60.0  # that wait, after many failures: somebody who repairs it waits no longer
UPSTREAM_WELL_SECONDS = 30.0  # up for so long, and its failures are forgotten
UPSTREAM_RELIST_SECONDS = 0.1  # between two readings of a list that changes: what is said at once is read once
UPSTREAM_RELIST_MOST_SECONDS = 10.0  # that, of a list that changes all the time
UPSTREAM_RELIST_WELL_SECONDS = 1.0  # without a change, and the next one is read at once
UPSTREAM_FAILURES = 5  # calls in a row without an answer, and calls are refused
UPSTREAM_FAILURES_SECONDS = 300.0  # within so long: five calls of a minute each
UPSTREAM_REFUSING_SECONDS = 2.0  # before one call may find out whether it answers again
UPSTREAM_PING_SECONDS = 10.0  # for a server to show that it lives: one that does not is started again
UPSTREAM_RUNNING = 32  # calls of one server at once
UPSTREAM_QUEUED = 224  # calls that wait for one of these places: with them as many as one principal may have at once
UPSTREAM_STOP_SECONDS = 15.0  # for all servers to end: each has five to end by itself, and is killed then
LOCK_LOOK_SECONDS = 1.0  # between two looks whether `fumehood.lock` is another one
LOCK_WAIT_SECONDS = 5.0  # for another process that writes it: it holds it for a few milliseconds

# --- a guarded server
TOPOLOGY_BYTES = 256 * KIB  # of gateway.toml: 200 servers of 20 lines are 150 KiB
TOML_DOTS = 500  # of one line: 250 lines of a key of 500 parts take a second; a list of 32 hosts has 100
IMPORT_BYTES = 8 * MIB  # of a client's configuration: some keep their history in the same file
GUARD_PLACES = 64  # paths of one policy, of each kind; a server is configured with a few
GUARD_ENDPOINTS = 32  # as a request of a review has
GUARD_NAMES = 64  # of variables that are passed
GUARD_NAME_CHARACTERS = 200  # of one of them
GUARD_POLICY_BYTES = 64 * KIB  # of a policy's file; every key filled with paths of 400 bytes
GUARD_CPU_SECONDS = 86_400  # of each process: a server may live for weeks, one that spins for a day is ended
GUARD_WALL_SECONDS = 30 * 86_400.0  # of one server: a client is restarted sooner
GUARD_END_SECONDS = 5.0  # for a server whose input was closed, or who got a signal, to end by itself
GUARD_IN_FLIGHT = 256  # requests of a client without an answer; clients ask a few at once
GUARD_HELD_BYTES = 16 * MIB  # of requests that wait for the first list of tools: four of the largest size
GUARD_ASKED_BACK = 64  # requests of a server to its client without an answer
GUARD_BLOCKS = 1000  # of the content of one result
GUARD_ITEMS = 2000  # of one list: tools, prompts, resources
GUARD_PAGES = 100  # of one list of tools, which is read whole before it is shown
GUARD_TITLE_CHARACTERS = 200  # of a title
GUARD_INSTRUCTIONS_CHARACTERS = 16_000  # of a server's instructions: four descriptions
GUARD_ERROR_CHARACTERS = 4000  # of the message of an error
GUARD_STDERR_LINE_BYTES = 4 * KIB  # of one line of a server's words; the rest of it is cut
GUARD_STDERR_BURST_BYTES = 256 * KIB  # of a server's words at once: a start with stack traces
GUARD_STDERR_BYTES = 16 * KIB  # of them in each second afterwards; 200 lines
GUARD_SAID = 200  # things that are said of one server's behaviour; the rest is counted

# --- the gateway
GATEWAY_SETTLE_SECONDS = 15.0  # that a client's first request waits for servers that start; most are there in two
GATEWAY_RUNNING = 64  # calls of one principal at once: a hundred local clients are one
GATEWAY_QUEUED = 192  # that wait; beyond it they are answered `busy`
GATEWAY_CALLS_A_MINUTE = 60_000  # of one principal: a hundred clients with ten calls a second each

# --- the gate of the gateway
GATE_GUESTS = PRINCIPALS  # connections, and principals without one, that are remembered at once
GATE_SCOPES = 16  # sets of scopes of one principal on one connection; a token has one, its renewal may have another
GATE_PAGE_ITEMS = 500  # of one list: some clients read only its first page
GATE_PAGE_BYTES = 1 * MIB  # the same in bytes: 500 tools of 2 KiB
GATE_CALLS = GATEWAY_RUNNING + GATEWAY_QUEUED  # of one guest at once, before a further one is answered `busy`
GATE_QUESTIONS = 16  # that one program may put to a person: nobody reads a hundred
GATE_REFUSALS = 5  # of a person in a row: the sixth question would be answered with yes, to be rid of it
GATE_QUESTION_CHARACTERS = 4000  # of arguments that are shown in a question; the rest is counted
GATE_QUESTION_SERVERS = 10  # that are named in a question; further ones are counted
GATE_ANSWER_BYTES = ENVELOPE_BYTES - 16 * KIB  # of one result; the rest is for the id, the taint and who answers
GATE_THREAD_BYTES = 8 * KIB  # of a result whose controls would hold up everybody else: up to 16 ms where it is hostile
GATE_LIST_SECONDS = 10.0  # for one server's prompts or resources, while the others' are there
GATE_PROGRESS = 1000  # notifications of one call that are passed on

# --- code mode of the gateway
CODEMODE_SHORT_CHARACTERS = 200  # of a description in the answer of a search: a sentence or two
CODEMODE_DESCRIBED_TOOLS = 20  # in one call of a client: a model asks for those of one program
CODEMODE_DESCRIBED_CHARACTERS = 64 * KIB  # of declarations in one answer: twenty tools of the field take 20 KiB
CODEMODE_VALUE_BYTES = 256 * KIB  # of what a program returns to a model: as much as a reply of `fumehood serve`
CODEMODE_LOG_CHARACTERS = 32 * KIB  # of what it logged
CODEMODE_CALLS_SHOWN = 50  # kinds of calls that are told of one run; further ones are counted
CODEMODE_LOOK_SECONDS = 1.0  # between two looks whether saved tools were accepted

# --- servers behind the gateway
UPSTREAM_IN_FLIGHT = 1024  # requests of one server without an answer; a hundred clients ask a few each
UPSTREAM_UNWRITTEN_BYTES = 8 * MIB  # that wait for a server to read; eight calls of REQUEST_BYTES
UPSTREAM_UNWRITTEN = 1024  # lines that wait likewise
UPSTREAM_WRITE_BYTES = 64 * KIB  # at once: a pipe's own buffer, so that each is taken or the server stands still
UPSTREAM_UNASKED_LINES = 50_000  # of a server at once that answer nothing: half a second of work
UPSTREAM_UNASKED_LINES_A_SECOND = 1000  # afterwards: a log at its most talkative, one hundredth of a core
UPSTREAM_UNASKED_BYTES = 128 * MIB  # the same in bytes: a result of 100 MB that is dropped ends nobody else's call
UPSTREAM_UNASKED_BYTES_A_SECOND = 1 * MIB  # afterwards: a line of the largest size in four seconds
UPSTREAM_PIECES = 32  # lines of one chunk that are judged before others have their turn: under 1 ms
UPSTREAM_PROGRESS_CHARACTERS = 500  # of the message of a progress
UPSTREAM_LISTEN_SECONDS = 60.0  # until a stream of changes that a server ended is asked for again
UPSTREAM_CAUSE_SECONDS = 1.0  # for a server whose output ended to end as well, so that its status can be told
UPSTREAM_OPEN_SECONDS = 30.0  # until a server has introduced itself: Node loads a large one in 3 on a busy machine
UPSTREAM_LEAVE_SECONDS = 1.0  # for a server whose input was closed to end by itself; those of the SDKs need a tenth

# --- a server of the gateway that is reached by HTTP
REMOTE_CONNECTIONS = UPSTREAM_RUNNING  # to one server, at once: who waits for one waits before it is asked
REMOTE_CONTROL_CONNECTIONS = 4  # beside them: for the stream of changes, and for what must not wait behind calls
REMOTE_IN_FLIGHT = 256  # requests to one server that run or wait for a connection: as GUARD_IN_FLIGHT
REMOTE_FIRST_ID = 100  # of requests: those before it open a conversation
REMOTE_KEPT_SECONDS = 30.0  # that a connection is kept between two requests; servers of the field end it after 5 to 60
REMOTE_ANSWER_BYTES = FRAMES_TOTAL_BYTES  # of one answer, its head and all events of a stream: four of the largest
REMOTE_HEAD_BYTES = 256 * KIB  # read before a head is complete, interim answers too: HTTP_HEAD_BYTES, and what follows
REMOTE_EVENTS = 10_000  # of one stream; a call that reports its progress each 100 ms for ten minutes has 6,000
REMOTE_OPEN_SECONDS = 30.0  # until it is known who a server is: three requests, a connection and a lookup
REMOTE_DISCOVER_SECONDS = 10.0  # of them, for `server/discover`: a server of the legacy era may stay silent
REMOTE_CONNECT_SECONDS = 10.0  # for TCP and TLS: RELAY_DIAL_SECONDS and two round trips
REMOTE_ADDRESSES_SECONDS = 10.0  # that the addresses of a name count, and a lookup that hangs is waited for by others
REMOTE_NOTE_SECONDS = 5.0  # for a notification or an answer of ours to be taken
REMOTE_NOTES = 32  # of these on their way at once; further ones are dropped
REMOTE_END_SECONDS = 2.0  # for a session to be ended, when nobody waits for anything any more
REMOTE_REST_BYTES = 4 * KIB  # of a stream, behind its answer, that are read so that the connection can be kept
REMOTE_REST_SECONDS = 0.5  # for them to come
REMOTE_FAILURES = 3  # in a row to reach a server, before a conversation counts as lost
REMOTE_LISTEN_SECONDS = 1.0  # until a stream of changes that ended is asked for again, doubled each time
REMOTE_LISTEN_SECONDS_MAX = 60.0  # whatever the server says
REMOTE_SILENT_SECONDS = 600.0  # of a stream of changes, before it is asked for anew: NAT forgets sooner
REMOTE_SESSION_CHARACTERS = 1024  # of a session's id; those of the field are UUIDs or JWTs
REMOTE_URL_CHARACTERS = 2000  # of `url`, as the schema has it
REMOTE_SHOWN_CHARACTERS = 200  # of a server's words in the log
REMOTE_MIRRORED = 64  # parameters of one tool that are sent as headers; HTTP_HEADERS
REMOTE_MIRRORED_BYTES = 8 * KIB  # of all of them in one request: a usual server takes heads of 16

# --- a batch of reviews
BATCH_BYTES = 64 * MIB  # of a list: 10,000 requests are 6 MiB
BATCH_LINES = 50_000  # of a list: five times the servers of both registries
BATCH_REFUSED_LINES = 1000  # told with their reasons; further ones are counted
BATCH_WORKERS = 64  # on one host, at once: UID_SLOTS leaves room for what else runs there
BATCH_TRIES = 3  # of one request in one pass, where an attempt says nothing about the target
BATCH_BARREN = 8  # attempts in a row without a result, after which the fault is this machine's
BATCH_ATTEMPTS = 9999  # folders of one request, as four digits can number them
BATCH_TASK_SECONDS = 720.0  # for one child: JOB_SECONDS, then STOP_SECONDS, the probes and the writing
BATCH_END_SECONDS = 45.0  # for a child that is told to end: STOP_SECONDS, and the folders to be removed
BATCH_LOOK_SECONDS = 0.25  # between two looks at whether a child is still wanted
BATCH_STDERR_BYTES = 8 * KIB  # of a child's last words that are kept; a traceback of forty frames
BATCH_RETURNED_BYTES = 96 * MIB  # of one attempt that comes back over a network, compressed
BATCH_CELL_ITEMS = 12  # names in one cell of the summary; the result has all of them
BATCH_LIVE_SECONDS = 0.5  # between two states of the live line
BATCH_SLOTS_SECONDS = 10.0  # between two looks at what a cluster offers, and for its first worker to come
BATCH_ETA_FINISHED = 5  # reviews of this pass before their mean is worth a guess
