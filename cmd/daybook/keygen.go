package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/internal/server"
)

func newKeygen() *cobra.Command {
	var usePEM, printPublic bool
	var origin string
	cmd := &cobra.Command{
		Use:   "keygen FILE",
		Short: "Make a log's key, or show the public part of one",
		Long: `Writes a new private key to FILE, which must not exist: a seed of 32 bytes, from
which the log's ECDSA P-256 and ML-DSA-44 keys are derived, or with --pem an
ECDSA P-256 key as PKCS#8 PEM, which has no ML-DSA-44 key beside it. FILE is
readable by its owner alone. Then the public part is printed.

` + "`daybook init`" + ` makes a key by itself; keygen is for making one ahead of it, on
another machine. Use it with ` + "`daybook init --existing-key`" + `.`,
		Example: `  daybook keygen example2027h1.seed
  daybook keygen --print-public example2027h1.seed --origin ct.example.com/2027h1`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := args[0]
			if printPublic && usePEM {
				return usagef("--pem is about a new key, --print-public about an existing one")
			}
			if origin != "" {
				if err := checkpoint.CheckOrigin(origin); err != nil {
					return usagef("%w", err)
				}
			}
			if !printPublic {
				if err := writeKey(path, usePEM); err != nil {
					return err
				}
			}
			return printKey(&printer{w: cmd.OutOrStdout()}, path, origin)
		},
	}
	cmd.Flags().BoolVar(&usePEM, "pem", false, "make an ECDSA P-256 key as PKCS#8 PEM, not a seed")
	cmd.Flags().BoolVar(&printPublic, "print-public", false, "make nothing, print the public part of FILE")
	cmd.Flags().StringVar(&origin, "origin", "", "print the ML-DSA-44 verifier key for the log with this `origin`, too")
	return cmd
}

// writeKey makes a new key file.
func writeKey(path string, usePEM bool) error {
	key := make([]byte, checkpoint.SeedSize)
	rand.Read(key) // never fails
	if usePEM {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return fmt.Errorf("making a key: %w", err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			return fmt.Errorf("encoding the key: %w", err)
		}
		key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	err := durable.WriteFile(path, key, durable.New, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: a key is never overwritten, give another name or remove it yourself", path)
	}
	return err
}

// printKey prints what is public about a key file.
func printKey(out *printer, path, origin string) error {
	name := origin
	if name == "" {
		name = "any" // log ID and public key do not depend on it
	}
	signer, err := server.ReadKey(path, name)
	if err != nil {
		return err
	}
	id := server.IdentityOf(signer)
	out.printf("key file:    %s\n", path)
	printIdentity(out, id, origin != "")
	return out.err
}

// printIdentity prints log ID and public keys.
func printIdentity(out *printer, id server.Identity, verifier bool) {
	out.printf("log ID:      %s\n", id.LogIDBase64())
	out.printf("public key:  %s\n", id.PublicKeyBase64())
	switch {
	case id.VerifierKey == "":
		out.printf("ML-DSA-44:   none, since the key is no seed\n")
	case verifier:
		out.printf("ML-DSA-44:   %s\n", id.VerifierKey)
	}
}
