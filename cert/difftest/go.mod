module github.com/daybook-ct/daybook/cert/difftest

go 1.27.3

require (
	github.com/daybook-ct/daybook v0.0.0
	github.com/google/certificate-transparency-go v1.3.3
)

require golang.org/x/crypto v0.59.0 // indirect

replace github.com/daybook-ct/daybook => ../..
