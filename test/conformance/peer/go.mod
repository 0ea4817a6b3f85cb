module github.com/daybook-ct/daybook/test/conformance/peer

go 1.27.3

require github.com/google/certificate-transparency-go v1.3.3

require golang.org/x/crypto v0.59.0 // indirect
