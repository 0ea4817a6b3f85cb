// Package witness holds the clients by whose eyes black-box suites judge a log:
// they submit to it, remember every SCT and every checkpoint that reached them,
// through all lives of the log and on all addresses, and hold the log to them.
//
// A witness notices by itself, and [Witness.Err] tells: an SCT that does not
// verify, another SCT for an entry that had one before, a checkpoint that does
// not verify or contradicts the order of those before. [Witness.Verify] has a
// monitor find every promised entry in the tree, and every remembered checkpoint
// consistent with it.
//
// How a log is run and broken, and for how long a client waits, is the suite's.
package witness
