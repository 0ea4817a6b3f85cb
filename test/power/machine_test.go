package power

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/test/power/disk"
	"github.com/daybook-ct/daybook/test/program"
)

// flushTime is what a flush of the disk takes, about as long as that of a disk
// without a capacitor.
const flushTime = 8 * time.Millisecond

// machine is a virtual machine that runs.
type machine struct {
	*program.Process // QEMU, with the console
	server           *disk.Server
	disk             *disk.Disk
	control, addr    string // of the agent, and of the log
}

// boot starts a machine with a disk and waits until its agent is ready.
func boot(t testing.TB, d *disk.Disk, binary string) *machine {
	t.Helper()
	dir, err := os.MkdirTemp(work, "machine-")
	if err != nil {
		t.Fatal(err)
	}
	ramfs := binary + ".cpio"
	if _, err := os.Stat(ramfs); err != nil {
		if err := os.WriteFile(ramfs, initramfs(t, binary), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "disk")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	d.SetFlush(flushTime)
	m := &machine{disk: d, server: disk.Serve(l, d), control: freeAddr(t), addr: freeAddr(t)}
	cmd := exec.Command("qemu-system-x86_64", "-accel", *accel, "-cpu", "max", "-smp", "2", "-m", "768",
		"-machine", "pc", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", filepath.Join(*kernel, "vmlinuz"), "-initrd", ramfs, "-append", "console=ttyS0 panic=-1 quiet",
		"-blockdev", "driver=nbd,node-name=disk,server.type=unix,server.path="+socket,
		"-device", "virtio-blk-pci,drive=disk,write-cache=on,werror=report,rerror=report",
		"-netdev", fmt.Sprintf("user,id=net,restrict=on,hostfwd=tcp:%s-:8000,hostfwd=tcp:%s-:9000", m.addr, m.control),
		"-device", "virtio-net-pci,netdev=net,romfile=")
	console := program.NewOutput(patience)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if m.Process, err = program.Start(cmd, console); err != nil {
		t.Fatal(errors.Join(err, m.server.Close()))
	}
	t.Cleanup(func() {
		m.cut(t)
		if *verbose {
			t.Log(m.Out.Text())
		}
	})
	line, ok := m.Out.Wait("guest: ready")
	if !ok {
		t.Fatalf("the machine does not start:\n%s", m.Out.Text())
	}
	// Without it the machine would not ask the disk to flush anything.
	if !strings.Contains(line, "write back") {
		t.Fatalf("the machine does not know of the disk's cache: %s", line)
	}
	return m
}

// freeAddr returns an address of this machine that nobody listens on now.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // it was of use only for its number
	return l.Addr().String()
}

// cut kills the machine, and waits until the disk is at rest.
func (m *machine) cut(t testing.TB) {
	t.Helper()
	_ = m.Cmd.Process.Kill() // it may have ended
	<-m.Done
	if err := m.server.Close(); err != nil {
		t.Errorf("the disk was asked for what it does not know: %v", err)
	}
}

// answer is one of the agent.
type answer struct {
	Code          int
	Output, Error string
}

// ask has the agent do something with the program.
func (m *machine) ask(action string, args, env []string) (a answer, err error) {
	body, err := json.Marshal(map[string]any{"Args": args, "Env": env})
	if err != nil {
		return a, err
	}
	c := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Post("http://"+m.control+"/"+action, "application/json", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return a, fmt.Errorf("%s: status %d: %w", action, resp.StatusCode, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s: %s", action, a.Error)
	}
	return a, nil
}

func (m *machine) must(t testing.TB, action string, args, env []string) answer {
	t.Helper()
	a, err := m.ask(action, args, env)
	if err != nil {
		t.Fatalf("%v\n%s", err, m.Out.Text())
	}
	return a
}

// start starts the log and does not wait for it.
func (m *machine) start(t testing.TB, env []string) {
	t.Helper()
	m.must(t, "start", []string{"serve", "-c", "daybook.yaml"}, env)
}

// serves waits until the log serves, for the nth time on this machine.
func (m *machine) serves(t testing.TB, nth int) {
	t.Helper()
	if _, ok := m.Out.WaitNth(`"msg":"serving"`, nth); !ok {
		t.Fatalf("the log does not start:\n%s", m.Out.Text())
	}
}

// off ends the log and the machine in order.
func (m *machine) off(t testing.TB) {
	t.Helper()
	if a := m.must(t, "stop", nil, nil); a.Code != 0 {
		t.Fatalf("the log ended with code %d:\n%s", a.Code, m.Out.Text())
	}
	_, _ = m.ask("off", nil, nil) // there is nobody left to answer
	if err := m.Ended(); err != nil {
		t.Fatal(err)
	}
}
