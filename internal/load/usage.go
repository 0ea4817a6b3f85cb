package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is what a process used while the requests were sent.
type Usage struct {
	CPU     time.Duration // user and system
	PeakRSS int64         // bytes, since the process began; 0 if not known
	Written int64         // bytes sent to the disk; 0 if not known
}

// json gives the usage with the CPU time for each of n things of a kind.
func (u Usage) json(n int64, kind string) map[string]any {
	out := map[string]any{"cpu_seconds": u.CPU.Seconds(), "peak_rss_bytes": u.PeakRSS, "written_bytes": u.Written}
	if n > 0 {
		out["cpu_seconds_per_10000_"+kind] = u.CPU.Seconds() / float64(n) * 1e4
		out["written_bytes_per_"+kind] = float64(u.Written) / float64(n)
	}
	return out
}

// meter measures this process and, if it is given one, the server's.
type meter struct {
	start  time.Time
	pid    int
	client Usage
	server Usage
	err    error
}

func startMeter(pid int) *meter {
	m := &meter{pid: pid}
	if pid > 0 {
		m.server, m.err = processUsage(pid)
	}
	m.client = ownUsage()
	m.start = time.Now()
	return m
}

// read returns what was used since the start.
func (m *meter) read() (took time.Duration, client Usage, server *Usage, err error) {
	took = time.Since(m.start)
	client = ownUsage()
	client.CPU -= m.client.CPU
	if m.pid <= 0 || m.err != nil {
		return took, client, nil, m.err
	}
	now, err := processUsage(m.pid)
	if err != nil {
		return took, client, nil, err
	}
	now.CPU -= m.server.CPU
	now.Written -= m.server.Written
	return took, client, &now, nil
}

func ownUsage() Usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return Usage{}
	}
	return Usage{CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano()), PeakRSS: int64(r.Maxrss) << 10}
}

// ticks is the unit of CPU times in /proc, which Linux fixes at 100 a second
// for user space.
const ticks = time.Second / 100

// processUsage reads /proc (proc(5)), on Linux.
func processUsage(pid int) (Usage, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Usage{}, fmt.Errorf("reading the usage of process %d: %w", pid, err)
	}
	// The second field is the name, in parentheses, which may hold anything;
	// utime and stime are the 14th and the 15th.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return Usage{}, fmt.Errorf("reading the usage of process %d: %s/stat is too short", pid, dir)
	}
	var u Usage
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("reading the usage of process %d: %w", pid, err)
		}
		u.CPU += time.Duration(n) * ticks
	}
	u.PeakRSS = procField(dir+"/status", "VmHWM:") << 10
	u.Written = procField(dir+"/io", "write_bytes:")
	return u, nil
}

// procField returns a number from a file of "name: number" lines, 0 if it
// cannot be had: another user's process hides some.
func procField(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				n, err := strconv.ParseInt(f[0], 10, 64)
				if err == nil {
					return n
				}
			}
		}
	}
	return 0
}
