//go:build linux

// Command guest is the first and only process of the virtual machine of the
// power tests, beside the program that is tested: it mounts the disk on /log
// and runs the program when it is told to, over HTTP. It says on the console
// when it is ready.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	program   = "/daybook"
	directory = "/log"
	device    = "/dev/vda"
	control   = ":9000"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("guest: failed:", err)
	}
	// The end of process 1 is a panic, and that of the machine.
}

func run() error {
	for _, m := range []struct{ kind, dir string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := errors.Join(os.MkdirAll(m.dir, 0o755), unix.Mount(m.kind, m.dir, m.kind, 0, "")); err != nil {
			return fmt.Errorf("mounting %s: %w", m.kind, err)
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	// A machine that has run for long writes back all the time; so does this one.
	for name, value := range map[string]string{"dirty_expire_centisecs": "100", "dirty_writeback_centisecs": "30"} {
		if err := os.WriteFile("/proc/sys/vm/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	if err := errors.Join(address("lo", 127, 0, 0, 1), address("eth0", 10, 0, 2, 15)); err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	cached, err := os.ReadFile("/sys/block/vda/queue/write_cache")
	if err != nil {
		return fmt.Errorf("there is no disk: %w", err)
	}
	if err := unix.Mount(device, directory, "ext4", 0, ""); err != nil {
		return fmt.Errorf("mounting the disk: %w", err)
	}
	l, err := net.Listen("tcp", control)
	if err != nil {
		return err
	}
	fmt.Printf("guest: ready, write cache: %s\n", strings.TrimSpace(string(cached)))
	return http.Serve(l, newAgent())
}

// loadModules loads the kernel's modules, each after those that it needs.
func loadModules() error {
	modules, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	for len(modules) > 0 {
		var left []string
		var errs []error
		for _, name := range modules {
			if err := loadModule(name); err != nil {
				left, errs = append(left, name), append(errs, fmt.Errorf("loading %s: %w", name, err))
			}
		}
		if len(left) == len(modules) {
			return errors.Join(errs...)
		}
		modules = left
	}
	return nil
}

func loadModule(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(unix.FinitModule(int(f.Fd()), "", 0), f.Close())
}

// address gives a network interface an address and takes it up.
func address(name string, ip ...byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	mask := []byte{255, 255, 255, 0}
	if err := errors.Join(r.SetInet4Addr(ip), unix.IoctlIfreq(fd, unix.SIOCSIFADDR, r),
		r.SetInet4Addr(mask), unix.IoctlIfreq(fd, unix.SIOCSIFNETMASK, r)); err != nil {
		return fmt.Errorf("address of %s: %w", name, err)
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("taking %s up: %w", name, err)
	}
	return nil
}

// agent runs the program. One caller is served at a time.
type agent struct {
	mu   sync.Mutex
	serv *exec.Cmd
	done chan struct{} // closed when serv has ended
}

// request says what to do with the program.
type request struct {
	Args, Env []string
}

// answer tells what became of it.
type answer struct {
	Code   int    // exit code, -1 after a signal
	Output string // of a program that has ended
	Error  string
}

func newAgent() http.Handler {
	a := &agent{}
	mux := http.NewServeMux()
	for name, f := range map[string]func(request) (answer, error){
		"start": a.start, "kill": a.signal(syscall.SIGKILL), "stop": a.signal(syscall.SIGTERM), "quit": a.signal(syscall.SIGQUIT), "run": a.run, "off": a.off,
	} {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
			var q request
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			result, err := f(q)
			if err != nil {
				result.Error = err.Error()
			}
			_ = json.NewEncoder(w).Encode(result) // the caller may have gone
		})
	}
	return mux
}

// start starts the program, which then writes to the console.
func (a *agent) start(q request) (answer, error) {
	if a.serv != nil {
		return answer{}, errors.New("it was started already")
	}
	cmd := exec.Command(program, q.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr = directory, append(os.Environ(), q.Env...), os.Stderr
	if err := cmd.Start(); err != nil {
		return answer{}, err
	}
	a.serv, a.done = cmd, make(chan struct{})
	done := a.done
	go func() { // ends with the program, and that with the machine at the latest
		_ = cmd.Wait() // ProcessState says it all
		fmt.Printf("guest: program has ended: %v\n", cmd.ProcessState)
		close(done)
	}()
	return answer{}, nil
}

func (a *agent) signal(s syscall.Signal) func(request) (answer, error) {
	return func(request) (answer, error) {
		if a.serv == nil {
			return answer{}, errors.New("it is not running")
		}
		_ = a.serv.Process.Signal(s) // it may have ended
		select {
		case <-a.done:
		case <-time.After(time.Minute):
			return answer{}, errors.New("it does not end")
		}
		code := a.serv.ProcessState.ExitCode()
		a.serv = nil
		return answer{Code: code}, nil
	}
}

// run runs the program with other arguments until it ends.
func (a *agent) run(q request) (answer, error) {
	cmd := exec.Command(program, q.Args...)
	cmd.Dir, cmd.Env = directory, append(os.Environ(), q.Env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return answer{}, err
	}
	return answer{Code: cmd.ProcessState.ExitCode(), Output: string(out)}, nil
}

// off ends the machine in order.
func (a *agent) off(request) (answer, error) {
	if err := unix.Unmount(directory, 0); err != nil {
		return answer{}, err
	}
	return answer{}, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
