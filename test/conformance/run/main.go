// Command run builds nothing and needs a daybook: it starts logs with it, holds
// them to the clauses of package conformance, and prints one line a clause. It
// can also write the tables of docs/admission.md from what these logs answered.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/daybook-ct/daybook/test/conformance"
	"github.com/daybook-ct/daybook/test/conformance/own"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	binary := flag.String("daybook", "bin/daybook", "the `binary` to start logs with")
	cases := flag.String("cases", defaultCases(), "folder of cases, `DIR`")
	quick := flag.Bool("quick", false, "leave out what takes a minute")
	all := flag.Bool("all-faults", false, "print every fault")
	admission := flag.String("admission", "", "write the tables into this `FILE`")
	check := flag.String("check-admission", "", "fail if the tables in this `FILE` are not what was found")
	dump := flag.String("dump", "", "write the SCTs that were given, as JSON, into this `FILE`")
	keep := flag.String("keep", "", "keep the logs in `DIR`")
	flag.Parse()

	o := own.Options{Quick: *quick, Dir: *keep, Log: func(s string) { fmt.Fprintln(os.Stderr, s) }}
	if o.Binary, err = filepath.Abs(*binary); err != nil {
		return err
	}
	if _, err := os.Stat(*cases); err == nil {
		if o.Cases, err = filepath.Abs(*cases); err != nil {
			return err
		}
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "conformance"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	} else if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	report, err := own.All(ctx, o)
	if report == nil {
		return err
	}
	if err := errors.Join(err, report.Print(os.Stdout, *all)); err != nil {
		return err
	}
	if *dump != "" {
		b, err := json.Marshal(report.Promises)
		if err == nil {
			err = os.WriteFile(*dump, b, 0o644)
		}
		if err != nil {
			return fmt.Errorf("writing the SCTs: %w", err)
		}
	}
	if o.Cases != "" {
		if err := own.PrintChoices(os.Stdout, report); err != nil {
			return err
		}
		if err := own.CheckCounts(o.Cases, report); err != nil {
			return err
		}
	}
	if !report.OK() {
		return fmt.Errorf("%d clauses failed", report.Count(conformance.Failed))
	}
	switch {
	case *admission == "" && *check == "":
		return nil
	case o.Cases == "":
		fmt.Fprintln(os.Stderr, "SKIPPED, NOT TESTED: without the cases there are no tables")
		return nil
	case *admission != "":
		return own.WriteAdmission(*admission, o.Cases, report)
	}
	return own.CheckAdmission(*check, o.Cases, report)
}

// defaultCases is $DAYBOOK_CASES, or a folder beside the module.
func defaultCases() string {
	if dir := os.Getenv("DAYBOOK_CASES"); dir != "" {
		return filepath.Join(dir, "open")
	}
	return filepath.Join("..", "shared", "cases", "open")
}
