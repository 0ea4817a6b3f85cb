// Package config reads daybook.yaml. It is strict: whatever it does not
// understand is an error that names the file and the line, and all errors of a
// file are reported together.
//
// The comments of the structs in this file are the reference: docs/config.md
// is made of them (go generate), so they speak of keys as the file has them.
package config

//go:generate go test -run ^TestReference$ -update .

// Config is the whole file.
//
// The struct tags are part of the format. default is what holds when a key is
// missing; required keys must be there; example stands in the reference and in
// error messages.
type Config struct {
	// The addresses, host:port, on which submissions are taken and the tree is
	// served, both over plain HTTP. Every log of the file is reached on every
	// address; the host and the path of a request say which log is meant, see
	// `logs[].submission_prefix`. A reverse proxy in front holds the
	// certificates and passes the Host header on.
	Listen []string `yaml:"listen" default:"127.0.0.1:8080" example:"[\"127.0.0.1:8080\"]"`

	// Networks (CIDR) or addresses of the reverse proxies in front. From them
	// alone the X-Forwarded-For header is believed. Without an entry every
	// submission behind a proxy seems to come from the proxy itself, so that
	// all submitters share the portion of one.
	TrustedProxies []Network `yaml:"trusted_proxies,omitempty" example:"[\"127.0.0.1\", \"10.1.0.0/16\"]"`

	// The listener for the operator.
	Admin Admin `yaml:"admin" example:"{listen: \"127.0.0.1:8081\"}"`

	// What is logged, and how. Log lines go to the standard error stream.
	Logging Logging `yaml:"logging" example:"{level: info}"`

	// The lock of all logs that have none of their own. One lock database holds
	// any number of logs.
	Lock *Lock `yaml:"lock,omitempty" example:"{path: lock.db}"`

	// How long open connections have at an orderly end. On SIGINT or SIGTERM new
	// submissions get a 503, every log runs its last round, waiting submitters
	// get their answers, and everything is closed. Connections that are still
	// open so long after the last round are cut; a round is never cut.
	ShutdownTimeout Duration `yaml:"shutdown_timeout" default:"30s"`

	// What happens when a log halts after a fatal error. `stay`: it answers 503 to
	// submissions, /health says so, and everything else goes on: the tree is
	// still served, and other logs of the file still run. `exit`: the whole
	// process comes to an orderly end with exit code 1, so that a supervisor
	// starts it again and recovery decides. With `stay`, too, the exit code is
	// 1 if a log had halted when the process is stopped later.
	OnHalt OnHalt `yaml:"on_halt" default:"stay"`

	// How often root lists at URLs (`logs[].roots.ccadb`) are read again, at
	// least a minute. One that failed is tried again after an hour.
	RootsInterval Duration `yaml:"roots_interval" default:"24h"`

	// The logs, at least one. All run in one process; nothing is shared between
	// them but the listeners and, if you say so, the lock database.
	Logs []Log `yaml:"logs" required:"true" example:"[{name: example2027h1, ...}]"`

	file  string         // for warnings
	lines map[string]int // line of each key of the file
}

// Admin is the listener for the operator.
type Admin struct {
	// The address, host:port, of /metrics (Prometheus), /health and /ready (JSON;
	// 200 or 503), /rounds (JSON lines) and /debug/pprof/. There is no access control:
	// keep it on a loopback or a private address.
	Listen string `yaml:"listen" default:"127.0.0.1:8081"`
}

// Logging says what is logged, and how.
type Logging struct {
	// The least level that is logged: `debug`, `info`, `warn` or `error`.
	Level Level `yaml:"level" default:"info"`

	// `text` (key=value) or `json`, one line per record either way.
	Format Format `yaml:"format" default:"text"`
}

// Log is one log.
type Log struct {
	// A short name for log lines, metrics and the --log flag of commands:
	// lower-case letters, digits, - and _, at most 64. It may be changed later,
	// but metrics begin anew.
	Name string `yaml:"name" required:"true" example:"example2027h1"`

	// The URL below which submitters reach the log: `<prefix>/ct/v1/add-chain`
	// and so on. It cannot be changed once the log exists: without its scheme and
	// trailing slash it is the origin, the log's name in every checkpoint.
	//
	// https, or http for loopback hosts alone. A port and a path are possible. A
	// request belongs to the log whose host and path it carries; if its
	// Host header names no host of the file, as behind a proxy that does not
	// pass it on, then to the only log with this path.
	SubmissionPrefix Prefix `yaml:"submission_prefix" required:"true" example:"https://ct.example.com/2027h1/"`

	// The URL below which monitors read the log: `<prefix>/checkpoint`,
	// `<prefix>/tile/...` and so on. It may be served by Daybook, or by any HTTP
	// server or CDN from `storage.directory`. If it is missing, it is the same as
	// `submission_prefix`.
	MonitoringPrefix Prefix `yaml:"monitoring_prefix" example:"https://mon.example.com/2027h1/"`

	// The file with the log's private key: a seed of 32 bytes, from which the
	// ECDSA P-256 and the ML-DSA-44 keys are derived, or an ECDSA P-256 key as
	// PKCS#8 PEM. `daybook init` makes a seed. Keep a copy in a safe place: a log
	// whose key is lost, or known to others, is at its end.
	Key string `yaml:"key" required:"true" path:"true" example:"example2027h1.seed"`

	// Where the log is written to.
	Storage Storage `yaml:"storage" required:"true" example:"{directory: example2027h1}"`

	// The lock, which holds the last signed checkpoint and keeps two processes
	// from running one log. If it is missing, the `lock` at the top of the file
	// is used; one of them is needed.
	Lock *Lock `yaml:"lock,omitempty" example:"{path: lock.db}"`

	// The dedup cache, which knows what was submitted before.
	Cache Cache `yaml:"cache" required:"true" example:"{path: example2027h1-cache.db}"`

	// The roots that submitted chains may end in: those of all sources named
	// here together, and those that the log has accepted before. The set never
	// shrinks by itself. It is kept in the storage as _roots.pem, so the log
	// starts even if a source fails; only its first start needs one that gives
	// roots. A source that fails or answers nonsense is logged as an error and
	// counted in daybook_roots_reload_total. A certificate that cannot be a root
	// is named in the log and left out.
	//
	// All sources are read at the start and on SIGHUP, URLs also every
	// `roots_interval`. To take a root away, stop the log, remove the certificate
	// from the sources and from _roots.pem, and start the log again.
	Roots Roots `yaml:"roots" required:"true" example:"{files: [roots.pem]}"`

	// The certificates that the log takes, by the NotAfter date of the leaf.
	// Without it any date is taken, which no public log does.
	Window *Window `yaml:"window,omitempty" example:"{start: 2027-01-01T00:00:00Z, limit: 2027-07-01T00:00:00Z}"`

	// How often a round is sequenced and a checkpoint published. A submitter
	// waits for the rest of the interval and one round.
	Interval Duration `yaml:"interval" default:"200ms"`

	// The most entries of one round; what comes above is refused with a 503, or
	// takes the place of an entry of lower priority. `pool_size / interval` is
	// the log's capacity: 150 at 200ms are 750 entries a second. A pool that
	// takes longer to sequence than the interval makes everybody wait: raise it
	// only as far as the rounds keep their time. 0 means no limit.
	PoolSize int `yaml:"pool_size" default:"150" example:"150"`

	// The records of the rounds, from which daybook rounds tells why some are
	// slow. Those of the last hour are in memory, too, and on the admin
	// listener, /rounds.
	Rounds Rounds `yaml:"rounds" example:"{max_size: 64MiB}"`

	// How many resubmissions a second of entries that the log has already, and
	// that nobody waits for (certificates that carry SCTs, precertificates of two
	// days ago and more), one network gets answers for; ten times as many may
	// come at once. Beyond that they get a 429. A network is an IPv4 address or
	// an IPv6 /64. 0 means no limit.
	DuplicateRate int `yaml:"duplicate_rate" default:"50"`

	// Networks (CIDR) or addresses to which `duplicate_rate` does not apply, at
	// most 100: those of somebody who resubmits a lot for good reason, such as a
	// cross-poster that the operator knows. For IPv6 a network has /64 or less, as
	// submitters are told apart by that. What they resubmit is counted in
	// `daybook_duplicates_exempt_total`. They get nothing else by it: in a full
	// pool their entries give way as those of anybody, so that nobody, known or
	// not, can crowd out the rest.
	DuplicateExempt []Network `yaml:"duplicate_exempt,omitempty" example:"[\"192.0.2.0/24\", \"2001:db8:1::/48\"]"`

	// When the log becomes read-only for good, as RFC 3339: from then on
	// submissions get a 410, and the tree is signed and served as before. Without
	// it, never.
	Sunset *Time `yaml:"sunset,omitempty" example:"2027-07-08T00:00:00Z"`

	// Takes leaves with any extended key usage. Otherwise a leaf that has the
	// extension must list serverAuth in it.
	AcceptAnyEKU bool `yaml:"accept_any_eku" default:"false"`

	// Refuses precertificates that a Precertificate Signing Certificate issued
	// (RFC 6962 section 3.1). Otherwise they are taken.
	RefusePrecertSigning bool `yaml:"refuse_precert_signing" default:"false"`
}

// Storage is where a log is written to.
type Storage struct {
	// The directory of the tree: checkpoint, tiles, issuers, and the staging
	// bundles of rounds in progress. It is trusted and must be durable: losing
	// any file of it breaks the log. `daybook init` makes it; an empty
	// directory, such as a mount point, may be there before.
	Directory string `yaml:"directory" required:"true" path:"true" example:"example2027h1"`

	// The floor of the space that must be free on each of the file systems of
	// storage, cache and lock. Below it new entries are refused with a 503,
	// while checkpoints go on, until a tenth more than it is free again. It must
	// have room for what is written in a second or two. 0B means no floor: then
	// it is the first round that does not fit which fails.
	MinFree Size `yaml:"min_free" default:"1GiB"`

	// Below so much free space, on any of the same file systems, it is told that
	// it runs short: one line in the log, and the metric `daybook_storage_low`.
	WarnFree Size `yaml:"warn_free" default:"5GiB"`

	// The same floor in inodes, that is, in files; twice as many are told to run
	// short. A round makes some ten files. File systems that make inodes as they
	// need them have no such floor. 0 means none.
	MinFreeInodes int `yaml:"min_free_inodes" default:"10000"`

	// How many data tiles a second are read and verified again, from the disk,
	// without end: each holds 256 entries. What is damaged is named in the log
	// and counted in `daybook_scrub_findings_total`; nothing is changed. At 1, a
	// log of 100 million entries takes some five days. 0 means none.
	ScrubRate int `yaml:"scrub_rate" default:"1" example:"1"`
}

// Lock is a lock database.
type Lock struct {
	// The SQLite file. It is trusted and must be durable, on a local disk of
	// this machine. Never put an old copy of it back: the log could fork.
	Path string `yaml:"path" required:"true" path:"true" example:"lock.db"`
}

// Cache is a dedup cache.
type Cache struct {
	// The SQLite file, one for each log. Losing it costs duplicate entries only.
	// On ZFS give it a dataset of its own with 4 KiB records.
	Path string `yaml:"path" required:"true" path:"true" example:"example2027h1-cache.db"`

	// The most memory that SQLite may use to keep pages of the cache, for each
	// of its two connections. All interior pages should fit, or lookups wait for
	// the disk; 1 GiB is enough for some hundred million entries.
	PageCache Size `yaml:"page_cache" default:"1GiB"`
}

// Rounds are the records of a log's rounds.
type Rounds struct {
	// The file, of one JSON line per round, and beside it an older one with .1 at
	// the end of its name. If it is missing, it is `cache.path` with
	// .rounds.jsonl at the end. Rounds never wait for it, and go on if it
	// cannot be written.
	Path string `yaml:"path" path:"true" example:"example2027h1.rounds.jsonl"`

	// The most that both files take together; at least 1MiB, or 0B for no files.
	// A day of rounds at 200ms takes some 300MiB.
	MaxSize Size `yaml:"max_size" default:"64MiB"`
}

// Roots are the accepted roots of a log.
type Roots struct {
	// PEM files, or directories, of which the files *.pem and *.crt are read.
	// `roots: [a.pem, b.pem]` is short for `roots: {files: [a.pem, b.pem]}`.
	Files []string `yaml:"files,omitempty" path:"true" short:"true" example:"[roots.pem]"`

	// Reports of the Common CA Database in CSV: a file, an https URL (http for
	// loopback hosts), or one of two words. `included` is
	// https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesIncludedByRSReportCSV,
	// the roots in the stores of Apple, Chrome, Microsoft or Mozilla;
	// `applicants` is
	// https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesInclusionReportCSV,
	// those that have applied and are in none. Of a report those
	// roots are taken whose intended use is server authentication, and the
	// one for CT monitoring.
	CCADB []Report `yaml:"ccadb,omitempty" path:"true" example:"[included]"`

	// Takes the root "Merge Delay Monitor Root" of Google, which is built in.
	// Chrome's monitor tests logs with certificates under it, so that a log has
	// to accept it to be accepted by Chrome. The report `included` has it, too.
	MergeDelayMonitor bool `yaml:"merge_delay_monitor" default:"false"`
}

// Window is a range of NotAfter dates.
type Window struct {
	// The first NotAfter that is taken, as RFC 3339 with seconds.
	Start Time `yaml:"start" required:"true" example:"2027-01-01T00:00:00Z"`

	// The first NotAfter after the window: it is not taken any more.
	Limit Time `yaml:"limit" required:"true" example:"2027-07-01T00:00:00Z"`
}
