// Package power holds tests that cut the power of a machine on which a log
// runs, and judge the log by what a submitter and a monitor see afterwards.
//
// The machine is a QEMU with a Debian kernel; its only processes are an agent
// (directory guest) and the real program, its only disk, with ext4, is package
// disk, which loses a part of what was not flushed. A cut kills QEMU, so the
// machine loses its memory with the page cache, and the disk its volatile cache,
// of which it keeps what a policy says. The same cuts are also made on copies
// of the disk while the machine goes on, as many as wanted: a copy is what would
// be found if the power had failed at that moment.
//
// What a cut has left is tried twice: files are taken from the image, and the
// program recovers them on this machine, where everything is checked; and a new
// machine starts from the same image and goes on.
//
//	make power CUTS=60
//
// Tests of a log without its fsyncs show that this finds what it is to find.
package power
