// Package crash holds tests that run the real program, end it without warning
// or spoil what it stands on, start it again, and judge it by what a submitter
// and a monitor see: every SCT that reached a client is kept, no two
// checkpoints ever seen contradict each other, and where the log refuses to go
// on, it says why. docs/safety.md lists what these tests found for each fault.
//
//	make crash                 some forty kills, and each fault once
//	make crash-long KILLS=500  many kills, and many flipped bits
//
// Kills at named places need a binary built with the tag faultpoints (package
// internal/faultpoint); kills at random times, and most faults, use a normal
// one. Some faults need root (a file system of their own), or strace (errors of
// system calls); where these are missing the test is skipped, and says so.
package crash
