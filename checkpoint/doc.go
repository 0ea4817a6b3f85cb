// Package checkpoint defines what a log signs: its tree heads, as signed notes
// ([Signer.SignTreeHead]), and SCTs ([Signer.SignSCT]); and how a reader checks
// both ([Verifier]).
//
// It follows RFC 6962 sections 3.2 and 3.5, c2sp.org/static-ct-api (Checkpoints
// and SCT Extension), c2sp.org/tlog-checkpoint, c2sp.org/signed-note and
// c2sp.org/tlog-cosignature. All signing is deterministic: the same input under
// the same key gives the same bytes. Nothing here reads a clock, a file or the
// network, and all types are safe for concurrent use.
package checkpoint
