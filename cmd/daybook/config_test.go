package main

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/config"
	"github.com/daybook-ct/daybook/internal/server"
)

// Every key of the configuration arrives where it is used.
func TestServerOptions(t *testing.T) {
	c, err := config.Parse([]byte(`
listen: ["127.0.0.1:1", "127.0.0.1:2"]
trusted_proxies: [127.0.0.1, 10.0.0.0/8]
admin: {listen: "127.0.0.1:3"}
lock: {path: lock.db}
shutdown_timeout: 5s
on_halt: exit
roots_interval: 12h
logs:
  - name: a
    submission_prefix: https://ct.example.com/a
    monitoring_prefix: https://mon.example.com/a
    key: a.seed
    storage: {directory: a, min_free: 2GiB, warn_free: 3GiB, min_free_inodes: 4, scrub_rate: 5}
    cache: {path: a.db, page_cache: 2GiB}
    roots: {files: [one.pem, two.pem], ccadb: [three.csv], merge_delay_monitor: true}
    window: {start: 2027-01-01T00:00:00Z, limit: 2027-07-01T00:00:00Z}
    interval: 1s
    pool_size: 7
    duplicate_rate: 9
    duplicate_exempt: [192.0.2.7, "2001:db8::/32"]
    sunset: 2027-07-08T00:00:00Z
    rounds: {path: r.jsonl, max_size: 2MiB}
    accept_any_eku: true
    refuse_precert_signing: true
  - name: b
    submission_prefix: https://ct.example.com/b
    key: b.seed
    storage: {directory: b}
    lock: {path: b-lock.db}
    cache: {path: b.db}
    rounds: {max_size: 0B}
    roots: [one.pem]
`), "/d/daybook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := serverOptions(c)
	want := server.Options{
		Listen:          []string{"127.0.0.1:1", "127.0.0.1:2"},
		AdminListen:     "127.0.0.1:3",
		TrustedProxies:  []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")},
		ShutdownTimeout: 5 * time.Second,
		ExitOnHalt:      true,
		RootsInterval:   12 * time.Hour,
		Logs: []server.LogOptions{{
			Name: "a", SubmissionPrefix: "https://ct.example.com/a/", MonitoringPrefix: "https://mon.example.com/a/",
			KeyFile: "/d/a.seed", StorageDirectory: "/d/a", LockPath: "/d/lock.db", CachePath: "/d/a.db", PageCache: 2 << 30,
			MinFree: 2 << 30, WarnFree: 3 << 30, MinFreeInodes: 4, ScrubRate: 5,
			RootFiles: []string{"/d/one.pem", "/d/two.pem"}, CCADB: []string{"/d/three.csv"}, MergeDelayMonitor: true,
			RoundsPath: "/d/r.jsonl", RoundsSize: 2 << 20,
			WindowStart: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), WindowLimit: time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC),
			Interval: time.Second, PoolSize: 7, DuplicateRate: 9,
			DuplicateExempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8::/32")}, Sunset: time.Date(2027, 7, 8, 0, 0, 0, 0, time.UTC), AcceptAnyEKU: true, RefusePrecertSigning: true,
		}, {
			Name: "b", SubmissionPrefix: "https://ct.example.com/b/", MonitoringPrefix: "https://ct.example.com/b/",
			KeyFile: "/d/b.seed", StorageDirectory: "/d/b", LockPath: "/d/b-lock.db", CachePath: "/d/b.db", PageCache: 1 << 30,
			MinFree: 1 << 30, WarnFree: 5 << 30, MinFreeInodes: 10000, ScrubRate: 1,
			RootFiles: []string{"/d/one.pem"}, Interval: 200 * time.Millisecond, PoolSize: 150, DuplicateRate: 50,
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	// Nothing is forgotten: every field but those of the caller is set above.
	for _, v := range []reflect.Value{reflect.ValueOf(got), reflect.ValueOf(got.Logs[0])} {
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "Listeners", "ReloadRoots", "Logger", "Registry", "Origin":
			default:
				if v.Field(i).IsZero() {
					t.Errorf("%s is not set by any key", name)
				}
			}
		}
	}
}
