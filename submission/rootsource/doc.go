// Package rootsource finds the roots that logs accept (RFC 6962 section 3.1):
// in PEM files and directories, in the CSV reports of the Common CA Database,
// and in the program itself.
//
// One [Loader] serves all logs of a process: it reads each [Source] once for
// all of them, and they share the certificates it has parsed. Each log has an
// [Accepted] of its own, which decides what that log accepts.
//
// # What is accepted
//
// The union of what all sources of a log have ever listed. It never shrinks by
// itself: a source that fails, answers nonsense or lists less than before takes
// nothing away. The set is kept in the log's storage as _roots.pem, which is
// read first at a start and only ever appended to; a root is in it before the
// log accepts it. So a log that has it starts whatever happens to its sources.
// One that does not have it starts if any source gave roots.
//
// To take a root away, an operator stops the log, removes the certificate from
// _roots.pem and from every source that lists it, and starts the log again.
//
// # When sources are read
//
// All at the start and when somebody asks, as by SIGHUP; URLs also after an
// interval, and what has failed after an hour. At the start of a log that has
// its _roots.pem already, URLs are read once it runs, so that a slow server
// does not hold it up.
//
// # What can go wrong
//
// A source that cannot be read or makes no sense is logged as an error and
// counted in daybook_roots_reload_total{source,outcome}. A single certificate
// that cannot be a root is left out and named in the log, and hinders no other.
package rootsource
