// Package rounds keeps a record of each round of a log, and finds out from
// them why rounds are slow and how many entries a round can take.
//
// A [Recorder] keeps the records of the last hour in memory and older ones in a
// ring of two files, as JSON lines. [Analyze] and [Judge] are pure functions of
// records, wherever they come from.
package rounds
