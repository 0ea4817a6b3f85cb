//go:build faultpoints

package faultpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled tells whether this binary has fault points.
const Enabled = true

const (
	// planVariable holds the plan: faults, separated by commas, each
	//
	//	[within/]name:before|after:n[+][:action]
	//
	// which happens the nth time that the process comes to the place, or, with
	// +, from then on. A fault within another place counts only while that one
	// has begun and not ended. The action is "kill" (the default: SIGKILL to
	// itself), "stop" (SIGSTOP to itself) or the name of an error.
	planVariable = "DAYBOOK_FAULT"

	// armVariable names a file; nothing is counted before it exists.
	armVariable = "DAYBOOK_FAULT_ARM"

	// clockVariable names a file that holds by how much the clock of rounds
	// is wrong, as time.ParseDuration takes it. It is read each time.
	clockVariable = "DAYBOOK_FAULT_CLOCK"

	// unsyncedVariable names stores, separated by commas, that are not to be
	// made durable: see Unsynced.
	unsyncedVariable = "DAYBOOK_FAULT_UNSYNCED"
)

type fault struct {
	within, name string
	after        bool
	nth          int
	onwards      bool
	action       string

	seen int
}

var (
	mu     sync.Mutex
	plan   = mustParse(os.Getenv(planVariable))
	armed  = os.Getenv(armVariable) == ""
	inside = map[string]int{} // places begun and not ended
)

var errorsByName = map[string]syscall.Errno{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EMFILE": syscall.EMFILE, "EROFS": syscall.EROFS}

func mustParse(s string) []*fault {
	var plan []*fault
	for text := range strings.SplitSeq(s, ",") {
		if text == "" {
			continue
		}
		f, err := parse(text)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %q: %v\n", planVariable, text, err)
			os.Exit(2)
		}
		plan = append(plan, f)
	}
	return plan
}

func parse(s string) (*fault, error) {
	parts := strings.Split(s, ":")
	if len(parts) == 3 {
		parts = append(parts, "kill")
	}
	if len(parts) != 4 {
		return nil, fmt.Errorf("not [within/]name:before|after:n[+][:action]")
	}
	f := &fault{name: parts[0], after: parts[1] == "after", action: parts[3]}
	if within, name, ok := strings.Cut(f.name, "/"); ok {
		f.within, f.name = within, name
	}
	if !f.after && parts[1] != "before" {
		return nil, fmt.Errorf("neither before nor after")
	}
	number, onwards := strings.CutSuffix(parts[2], "+")
	f.onwards = onwards
	var err error
	if f.nth, err = strconv.Atoi(number); err != nil || f.nth < 1 {
		return nil, fmt.Errorf("not a positive number")
	}
	if _, ok := errorsByName[f.action]; !ok && f.action != "kill" && f.action != "stop" {
		return nil, fmt.Errorf("unknown action")
	}
	return f, nil
}

// At is called before and after each named place. An error is what the place
// is to fail with.
func At(name string, after bool) error {
	mu.Lock()
	defer mu.Unlock()
	if after {
		inside[name]--
	}
	err := hit(name, after)
	if !after && err == nil {
		inside[name]++
	}
	return err
}

func hit(name string, after bool) error {
	if len(plan) == 0 || !isArmed() {
		return nil
	}
	for _, f := range plan {
		if f.name != name || f.after != after || f.within != "" && inside[f.within] <= 0 {
			continue
		}
		if f.seen++; f.seen != f.nth && !(f.onwards && f.seen > f.nth) {
			continue
		}
		fmt.Fprintf(os.Stderr, "fault point: %s, after: %v, time %d: %s\n", name, after, f.seen, f.action)
		switch f.action {
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal may take a moment
		case "stop":
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			time.Sleep(100 * time.Millisecond) // by then every thread has stopped
		default:
			return errorsByName[f.action]
		}
	}
	return nil
}

func isArmed() bool {
	if !armed {
		_, err := os.Stat(os.Getenv(armVariable))
		armed = err == nil
	}
	return armed
}

// Now is time.Now, wrong by what the clock file says.
func Now() time.Time {
	now := time.Now()
	b, err := os.ReadFile(os.Getenv(clockVariable))
	if err != nil {
		return now
	}
	offset, err := time.ParseDuration(strings.TrimSpace(string(b)))
	if err != nil {
		return now // it is being written
	}
	return now.Add(offset)
}

// Unsynced tells whether a store, [Storage] or [Cache], is to go without fsync,
// which shows what that is good for when the power is cut.
func Unsynced(store string) bool {
	for name := range strings.SplitSeq(os.Getenv(unsyncedVariable), ",") {
		if name == store {
			return true
		}
	}
	return false
}
