// Package faultpoint lets crash tests end the real program, or fail one of its
// file operations, at a place that is named and counted, and lets power tests
// run it without its fsyncs.
//
// It does something only in binaries built with -tags faultpoints. Everywhere
// else [Enabled] is a constant false, so that the compiler leaves out what is
// guarded by it, and the program has neither the environment variables nor the
// code; test/crash looks into the binary for that.
package faultpoint

// Names of places that are not steps of a round. Steps have their own names;
// file operations have the prefix [File] and the name that package
// internal/durable gives them ("file.sync").
const (
	File = "file."

	// The writes of recovery.
	RecoverApply    = "recover.apply"
	RecoverPublish  = "recover.publish"
	RecoverRemember = "recover.remember"
	RecoverSync     = "recover.sync"
	RecoverDiscard  = "recover.discard"
)

// Names of the stores that can go without fsync.
const (
	Storage = "storage"
	Cache   = "cache"
)
