package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/test/conformance"
)

type conformanceFlags struct {
	submission, monitoring, key, origin, verifierKey string
	roots, window, caCert, caKey, cases, dev         string
	only                                             []string
	entries, scan                                    int64
	idle                                             time.Duration
	strict, all, list, asJSON, noResubmit            bool
}

func newConformance() *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "conformance --submission URL --key BASE64",
		Short: "Hold a log to the specifications, clause by clause",
		Long: `Judges any Static CT log from outside: submits chains, right and wrong ones, reads the
tree back, and prints one line for each clause of RFC 6962, static-ct-api and what
they stand on, and for each fault of a list that other logs have had: ok, skip
(and why), warn (a SHOULD that is not kept) or FAIL. Nothing of this program that
serves logs takes part in judging them.

It needs chains that the log accepts: the certificate and key of an accepted root
(--ca-cert, --ca-key), or a folder of cases with the log's roots (--cases). With
neither, it submits some of the log's own entries again. --dev DIR takes all it
needs from a running daybook dev.

Against a log that is not yours, keep in mind that whatever it accepts stays in it.

Exit code 1 if a clause failed.`,
		Example: `  daybook conformance --dev /tmp/log
  daybook conformance --submission https://ct.example.com/2027h1/ \
    --monitoring https://mon.example.com/2027h1/ --key MFkwEwYHKoZI...`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				return listClauses(cmd.OutOrStdout())
			}
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.submission, "submission", "", "submission prefix, `URL`")
	flags.StringVar(&f.monitoring, "monitoring", "", "monitoring prefix, `URL`; default: the submission prefix")
	flags.StringVar(&f.key, "key", "", "the log's public key: `BASE64|FILE` (base64 of the SPKI, or a file with that, PEM or DER)")
	flags.StringVar(&f.origin, "origin", "", "`NAME` in checkpoints; default: the submission prefix without its scheme")
	flags.StringVar(&f.verifierKey, "verifier-key", "", "`VKEY` of another key that signs the log's checkpoints")
	flags.StringVar(&f.roots, "roots", "", "the accepted roots, PEM `FILE`, for get-roots to be held against")
	flags.StringVar(&f.window, "window", "", "NotAfter window, `START/LIMIT` in RFC 3339; default: any NotAfter")
	flags.StringVar(&f.caCert, "ca-cert", "", "certificate of an accepted root, PEM `FILE`")
	flags.StringVar(&f.caKey, "ca-key", "", "its private key, PEM `FILE`")
	flags.StringVar(&f.cases, "cases", "", "folder of cases, `DIR`")
	flags.StringVar(&f.dev, "dev", "", "judge the daybook dev that runs in `DIR`")
	flags.StringSliceVar(&f.only, "only", nil, "judge these clauses alone, `ID,...`")
	flags.Int64Var(&f.entries, "entries", 0, "fill the tree up to `N` entries, for the clauses about full tiles")
	flags.Int64Var(&f.scan, "scan", 20000, "read and verify the last `N` entries")
	flags.DurationVar(&f.idle, "idle", 0, "watch the log for so long with nothing to do")
	flags.BoolVar(&f.strict, "strict", false, "a SHOULD that is not kept is a failure")
	flags.BoolVar(&f.all, "all-faults", false, "print every fault, not the first of each clause alone")
	flags.BoolVar(&f.asJSON, "json", false, "print the results as JSON")
	flags.BoolVar(&f.noResubmit, "no-resubmit", false, "never submit the log's own entries")
	flags.BoolVar(&f.list, "list", false, "list the clauses and judge nothing")
	return cmd
}

func (f *conformanceFlags) run(cmd *cobra.Command) error {
	t, err := f.target()
	if err != nil {
		return err
	}
	o := conformance.Options{Strict: f.strict, Only: f.only, Entries: f.entries, Scan: f.scan, Idle: f.idle,
		Log: func(s string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), s) }}
	report, err := conformance.Run(cmd.Context(), t, o)
	if err != nil {
		return err
	}
	if f.asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
	} else {
		err = report.Print(cmd.OutOrStdout(), f.all)
	}
	switch {
	case err != nil:
		return err
	case report.Count(conformance.Failed) > 0:
		return fmt.Errorf("%s of %s failed", count(report.Count(conformance.Failed), "clause"), t.Submission)
	case !report.OK():
		return errors.New("nothing was checked")
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// target makes what the flags say.
func (f *conformanceFlags) target() (t conformance.Target, err error) {
	if f.dev != "" {
		if err := f.fromDev(); err != nil {
			return t, err
		}
	}
	if f.submission == "" || f.key == "" {
		return t, usagef("--submission and --key are needed, or --dev")
	}
	t = conformance.Target{Submission: f.submission, Monitoring: f.monitoring, Origin: f.origin, VerifierKey: f.verifierKey,
		Cases: f.cases, Resubmit: !f.noResubmit}
	if t.PublicKey, err = readPublicKey(f.key); err != nil {
		return t, usagef("--key: %w", err)
	}
	if t.WindowStart, t.WindowLimit, err = parseWindow(f.window); err != nil {
		return t, usagef("--window: %w", err)
	}
	if f.roots != "" {
		if t.Roots, err = conformance.ReadRoots(f.roots); err != nil {
			return t, usagef("--roots: %w", err)
		}
	}
	if (f.caCert == "") != (f.caKey == "") {
		return t, usagef("--ca-cert and --ca-key go together")
	}
	if f.caCert == "" {
		return t, nil
	}
	cert, err := os.ReadFile(f.caCert)
	if err != nil {
		return t, usagef("--ca-cert: %w", err)
	}
	key, err := os.ReadFile(f.caKey)
	if err != nil {
		return t, usagef("--ca-key: %w", err)
	}
	if t.Issuer, err = conformance.NewIssuer(cert, key); err != nil {
		return t, usagef("--ca-cert, --ca-key: %w", err)
	}
	return t, nil
}

// fromDev takes from a development log what is not given otherwise.
func (f *conformanceFlags) fromDev() error {
	d, err := readDevInfo(f.dev)
	if err != nil {
		return err
	}
	for to, value := range map[*string]string{&f.submission: d.SubmissionPrefix, &f.monitoring: d.MonitoringPrefix, &f.origin: d.Origin, &f.key: d.PublicKey} {
		if *to == "" {
			*to = value
		}
	}
	cert, key := filepath.Join(f.dev, devRoot), filepath.Join(f.dev, devRootKey)
	if ok, err := there(key); err != nil || !ok || f.caCert != "" {
		return err
	}
	f.caCert, f.caKey = cert, key
	return nil
}

func listClauses(w io.Writer) error {
	var b strings.Builder
	for _, c := range conformance.Clauses() {
		level := [...]string{"MUST", "SHOULD", "MAY"}[c.Level]
		fmt.Fprintf(&b, "%-4s %-6s  %s\n", c.ID, level, c.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
