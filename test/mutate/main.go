package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// errSurvived means that at least one mutation was not caught.
var errSurvived = errors.New("not all mutations are caught: write the missing test, or mend the list")

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	only := flags.String("run", "", "only mutations whose name matches this `regexp`")
	jobs := flags.Int("j", runtime.GOMAXPROCS(0), "mutations at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	var chosen []mutation
	for _, m := range mutations() {
		if pattern.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutation is called like %q", *only)
	}
	b, err := newBench()
	if err != nil {
		return err
	}
	defer b.close()
	start := time.Now()
	if err := b.baseline(ctx, chosen); err != nil {
		return err
	}
	results := b.all(ctx, chosen, *jobs)
	return report(out, results, time.Since(start))
}

// all tries the mutations, some at a time, and returns their results in order.
func (b *bench) all(ctx context.Context, list []mutation, jobs int) []result {
	results := make([]result, len(list))
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, jobs) {
		wg.Go(func() {
			for i := range next {
				results[i] = b.try(ctx, list[i])
				fmt.Fprintf(os.Stderr, "%-8s %s (%.1fs)\n", results[i].verdict, list[i].name, results[i].took.Seconds())
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wg.Wait()
	return results
}

// report prints the table and returns errSurvived if a mutation was not caught.
func report(out io.Writer, results []result, took time.Duration) error {
	counts := make(map[verdict]int)
	var err error
	say := func(format string, args ...any) {
		if _, e := fmt.Fprintf(out, format, args...); e != nil && err == nil {
			err = e
		}
	}
	say("| mutation | what it breaks | verdict | by | seconds |\n|---|---|---|---|---|\n")
	for _, r := range results {
		counts[r.verdict]++
		say("| %s | %s | %s | %s | %.1f |\n", r.name, r.why, r.verdict, r.by, r.took.Seconds())
	}
	say("\n%d mutations: %d caught, %d survived, %d skipped, %d broken; %.0f seconds\n",
		len(results), counts[caught], counts[survived], counts[skipped], counts[broken], took.Seconds())
	for _, r := range results {
		if r.verdict == broken {
			say("\n%s: %s\n", r.name, r.detail)
		}
	}
	if err == nil && counts[caught] != len(results) {
		err = errSurvived
	}
	return err
}
