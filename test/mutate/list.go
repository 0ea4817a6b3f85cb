package main

import "slices"

// mutations returns the whole list. An old text must stand in its file once, so
// the list has to follow the code: TestList says where it does not.
func mutations() []mutation {
	return slices.Concat(rounds(), intake(), recovery(), files(), databases(), trees(), signatures(), submissions(), serving())
}

const (
	roundFile    = "sequencer/round.go"
	intakeFile   = "sequencer/intake.go"
	gateFile     = "sequencer/gate.go"
	recoverFile  = "sequencer/recover.go"
	rememberFile = "sequencer/remember.go"
	durableFile  = "internal/durable/durable.go"
	posixFile    = "storage/posix/posix.go"
	lockFile     = "storage/sqlitelock/sqlitelock.go"
	edgeFile     = "tlog/edge.go"
	signerFile   = "checkpoint/signer.go"
	chainFile    = "submission/chain.go"
)

// in makes the mutations of one package, whose tests run unless one names another.
func in(pkg string, list ...mutation) []mutation {
	for i := range list {
		if list[i].pkg == "" {
			list[i].pkg = pkg
		}
	}
	return list
}
