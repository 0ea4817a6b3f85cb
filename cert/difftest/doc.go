// Package difftest compares package cert with another lax reader of
// certificates, the x509 package of certificate-transparency-go, which other CT
// logs use. It is a module of its own, so that the log does not depend on it.
package difftest
