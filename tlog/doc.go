// Package tlog defines the bytes of a Static CT log: what was submitted
// ([Entry]), where it stands ([Leaf]), how leaves become Merkle tree hashes,
// tiles and their paths, and how a tree grows ([Edge.Append]).
//
// It follows RFC 6962 sections 2.1, 3.2 and 3.4, c2sp.org/static-ct-api and
// c2sp.org/tlog-tiles. Everything here is pure: no I/O, clock, log or metric.
//
// Package golang.org/x/mod/sumdb/tlog is wrapped here and imported nowhere
// else, so that only one package is called tlog in the rest of the program.
package tlog

import "golang.org/x/mod/sumdb/tlog"

// Hash is a Merkle tree hash (SHA-256, RFC 6962 section 2.1).
type Hash = tlog.Hash

// Tree is a tree head: its size N and its root Hash.
type Tree = tlog.Tree

// EmptyRoot is the root hash of a tree of size zero, SHA-256 of nothing.
var EmptyRoot = Hash{
	0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
	0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
}

// NodeHash returns the hash of an interior node (RFC 6962 section 2.1).
func NodeHash(left, right Hash) Hash { return tlog.NodeHash(left, right) }

// Object is a named sequence of bytes, as a log stores it.
type Object struct {
	Name string
	Data []byte

	// Base, if not "", names an object of the tree before, whose first Prefix
	// bytes are those of Data. Who keeps both need not keep them twice.
	Base   string
	Prefix int
}
