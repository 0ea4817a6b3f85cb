// Package submission is the side of a log that submitters see: the endpoints
// add-chain, add-pre-chain and get-roots of RFC 6962 section 4 over HTTP.
//
// A request goes through these steps: body (at most 512 KiB), JSON and base64,
// chain, entry, [Log.Add], SCT. Each reason for which it can end elsewhere has
// a row in one table, with the status, the sentence that the client is told
// and the label of the metric.
//
// # Which chains are accepted
//
// The first certificate is the leaf. Each one after it must certify the one
// before: their names must be equal byte for byte, the signature must verify,
// and the issuer must be a CA by its basicConstraints and, if it has a
// keyUsage, may sign certificates. The last one must be an accepted root or be
// certified by one, which is then added: the first, in the order they were
// added, that has the name and whose key verifies. The chain is recorded as it
// was submitted. A chain has at most 100 certificates.
//
// An accepted root is trusted as it is given; neither its own signature nor its
// extensions are judged.
//
// Nothing else decides: not expiry, revocation, path length, name constraints,
// policies, or an AuthorityKeyIdentifier. A certificate that breaks such a rule
// is one that a log should show. By its own policy a log takes only leaves
// whose NotAfter is in its window and, unless told otherwise, only those usable
// for serverAuth: without an extended key usage, or with serverAuth in it.
//
// # Where a log has a choice
//
//   - A root re-issued under the same name and key, submitted in place of the
//     accepted one, is an ordinary certificate that the accepted one certifies:
//     the chain is accepted and recorded with both.
//   - So is a chain in which two CAs certify each other, as long as no
//     certificate comes twice. One that does is refused.
//   - A chain that goes on past its accepted root is refused, unless it ends in
//     another one.
//   - An accepted root by itself is refused: it has no issuer to record.
//   - Names that are equal by RFC 5280 section 7.1 but differ in bytes are
//     different names: the chain is refused.
//   - A CA whose keyUsage lacks keyCertSign may not issue.
//   - Precertificates issued by a Precertificate Signing Certificate are
//     accepted, unless the log is told otherwise. The signing certificate must
//     not be a root or stand below another one, and it and the precertificate
//     must both have an AuthorityKeyIdentifier, or neither; else the SCT could
//     never verify for the final certificate.
//   - A final certificate that a Precertificate Signing Certificate issued
//     should not exist, so it is accepted.
//   - Line breaks inside the base64 of a request are skipped.
//
// What makes a certificate malformed is decided by package cert.
//
// # Accepted roots
//
// See [Roots]. Package rootsource loads them from files and URLs.
package submission
