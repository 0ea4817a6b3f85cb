package main

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/monitor"
)

type verifyFlags struct {
	key, origin, remember string
	signatures            bool
	workers               int
}

func newVerify() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify URL",
		Short: "Download a log and verify all of it",
		Long: `Reads a Static CT log through its monitoring prefix URL alone, as any monitor can,
and verifies everything: the checkpoint's signature, every hash tile up to the
root, every entry against its leaf hash, position, timestamp and names, and that
all issuers are served. It tells the first thing wrong and exits with 1.

The log's key and origin are taken from its log.v3.json where they are not given;
then the log proves only that it agrees with itself.

With --remember the checkpoint is kept in FILE, and the next run also verifies
that the log is still consistent with it: that nothing was taken back.`,
		Example: `  daybook verify http://127.0.0.1:8080/
  daybook verify https://ct.example.com/2027h1/ --signatures --key key.pem
  daybook verify https://ct.example.com/2027h1/ --remember 2027h1.checkpoint`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "the log's public key: `BASE64|FILE` (base64 of the SPKI, or a file with that, PEM or DER)")
	flags.StringVar(&f.origin, "origin", "", "the log's `NAME` in its checkpoints")
	flags.BoolVar(&f.signatures, "signatures", false, "also verify the signatures of all certificates")
	flags.StringVar(&f.remember, "remember", "", "keep the checkpoint in `FILE`, and hold the log to the one there")
	flags.IntVar(&f.workers, "workers", 4, "tiles to verify at a `time`")
	return cmd
}

func (f *verifyFlags) run(cmd *cobra.Command, url string) error {
	o := monitor.Options{Prefix: url, Origin: f.origin, Signatures: f.signatures, Workers: f.workers}
	if _, err := monitor.NewClient(url, monitor.ClientOptions{}); err != nil {
		return usagef("%w", err)
	}
	if f.key != "" {
		var err error
		if o.Key, err = readPublicKey(f.key); err != nil {
			return usagef("--key: %w", err)
		}
	}
	if f.remember != "" {
		switch known, err := os.ReadFile(f.remember); {
		case err == nil:
			o.Known = append(o.Known, known)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("reading the checkpoint of the last run: %w", err)
		}
	}
	bar := newProgress(cmd.ErrOrStderr())
	o.Progress = func(p monitor.Progress) {
		bar.show("verifying", p.Tiles, p.TotalTiles, fmt.Sprintf("%s entries, %s", thousands(p.Entries), bytesize(p.Bytes)))
	}
	report, err := monitor.Verify(cmd.Context(), o)
	bar.end()
	if err != nil {
		return err
	}
	if f.remember != "" {
		if err := durable.WriteFile(f.remember, report.Checkpoint, durable.Replace, 0o644); err != nil {
			return fmt.Errorf("keeping the checkpoint: %w", err)
		}
	}
	return printReport(cmd.OutOrStdout(), report, f)
}

func printReport(w io.Writer, r *monitor.Report, f *verifyFlags) error {
	entries := fmt.Sprintf("%s entries (%s precertificates), %s hash tiles, %s data tiles, ", thousands(r.Entries), thousands(r.Precerts), thousands(r.HashTiles), thousands(r.DataTiles))
	if r.NamesTiles > 0 {
		entries += thousands(r.NamesTiles) + " names tiles, "
	}
	entries += thousands(int64(r.Issuers)) + " issuers"
	if f.signatures {
		entries += ", " + thousands(r.Signatures) + " signatures"
	}
	at := time.UnixMilli(r.Timestamp)
	_, err := fmt.Fprintf(w, `origin      %s
log ID      %s
tree        %s entries, root %v
checkpoint  %s, %v ago; %d seen, consistent with each other
verified    %s
received    %s in %s requests, %.1f s
`, r.Origin, base64.StdEncoding.EncodeToString(r.LogID[:]), thousands(r.Tree.N), r.Tree.Hash,
		at.UTC().Format("2006-01-02 15:04:05.000 MST"), time.Since(at).Round(time.Second/10), r.Checkpoints,
		entries, bytesize(r.Bytes), thousands(r.Requests), r.Took.Seconds())
	return err
}

// readPublicKey reads a SubjectPublicKeyInfo: base64, or the name of a file
// with base64, PEM or DER.
func readPublicKey(s string) ([]byte, error) {
	if der, err := base64.StdEncoding.DecodeString(s); err == nil {
		if checkPublicKey(der) == nil {
			return der, nil
		}
	}
	b, err := os.ReadFile(s)
	if err != nil {
		return nil, fmt.Errorf("it is neither the base64 of a public key nor a file: %w", err)
	}
	der := b
	if block, _ := pem.Decode(b); block != nil {
		der = block.Bytes
	} else if text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(b))); err == nil {
		der = text
	}
	if err := checkPublicKey(der); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return der, nil
}

func checkPublicKey(der []byte) error {
	_, err := checkpoint.NewVerifier("key", der)
	return err
}
