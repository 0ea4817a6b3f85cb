package rounds

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage"
)

// fullRound has a value in every field that the sequencer fills in.
func fullRound() sequencer.RoundRecord {
	r := sequencer.RoundRecord{
		Started: time.Date(2027, 3, 1, 12, 0, 0, 123456000, time.UTC), Late: 2 * time.Millisecond, Took: 300 * time.Millisecond, Skipped: 1,
		Outcome: sequencer.RoundRefused, Cause: errors.New("stage: no space left on device"), Interval: 200 * time.Millisecond, PoolSize: 150,
		Entries: 140, Size: 1000,
		High: sequencer.IntakeCounts{Admitted: 1, Joined: 2, Duplicate: 3, Evicted: 4, Full: 5, Limited: 6, Busy: 7, Other: 8},
		Low:  sequencer.IntakeCounts{Admitted: 9, Full: 10},
		Put:  30 * time.Millisecond, WALCheckpoint: 40 * time.Millisecond, WAL: storage.WAL{Busy: true, Frames: 50, Checkpointed: 20},
		LockWait: time.Millisecond, HoldMax: 5 * time.Millisecond, WaitMax: 6 * time.Millisecond,
	}
	for i := range r.Steps {
		r.Steps[i] = time.Duration(i+1) * time.Millisecond
	}
	return r
}

// The names of the fields are a format: files and scripts outlive a version.
func TestRecordFormat(t *testing.T) {
	rr := fullRound()
	r := FromSequencer("oak2027h1", &rr)
	r.WAL.File = File{Bytes: 412_032, Grew: 4096, New: true}
	r.LockWAL = File{Bytes: 8192}
	r.Fsyncs, r.CPU, r.DiskReads = 14, Duration(25*time.Millisecond), 8
	r.GC = GC{Cycles: 1, Pause: Duration(70 * time.Microsecond), Heap: 1 << 20}
	r.SchedMax = Duration(9 * time.Millisecond)
	const want = `{"time":"2027-03-01T12:00:00.123456Z","log":"oak2027h1","outcome":"refused","cause":"stage: no space left on device",` +
		`"interval_seconds":0.2,"pool_size":150,"tree_size":1000,"entries":140,"took_seconds":0.3,"late_seconds":0.002,"skipped_ticks":1,` +
		`"high":{"admitted":1,"joined":2,"duplicate":3,"evicted":4,"full":5,"limited":6,"busy":7,"other":8},"low":{"admitted":9,"full":10},` +
		`"steps_seconds":{"close":0.001,"assign":0.002,"grow":0.003,"stage":0.004,"sign":0.005,"commit":0.006,"apply":0.007,"publish":0.008,` +
		`"resolve":0.009,"remember":0.01,"discard":0.011},"cache_put_seconds":0.03,"wal_checkpoint_seconds":0.04,"lock_wait_seconds":0.001,` +
		`"hold_max_seconds":0.005,"wait_max_seconds":0.006,"wal":{"bytes":412032,"grew_bytes":4096,"new":true,"frames":50,"frames_left":30,` +
		`"busy":true},"lock_wal":{"bytes":8192},"fsyncs":14,"gc":{"cycles":1,"pause_seconds":0.00007,"heap_bytes":1048576},` +
		`"sched_wait_max_seconds":0.009,"cpu_seconds":0.025,"disk_reads":8}`
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var back Record
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, r) {
		t.Errorf("read back %+v\nwrote %+v", back, r)
	}
	if back.High.Refused() != 5+6+7+8 {
		t.Errorf("refused %d", back.High.Refused())
	}
}

// A later version may know more fields and steps.
func TestRecordOfLaterVersion(t *testing.T) {
	var r Record
	err := json.Unmarshal([]byte(`{"time":"2027-03-01T12:00:00Z","interval_seconds":0.2,"mood":"calm","steps_seconds":{"close":0.5,"witness":1}}`), &r)
	if err != nil || r.Steps[sequencer.StepClose] != 500*time.Millisecond {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestDurations(t *testing.T) {
	for _, s := range []string{`"1s"`, `1e300`, `null`, `-1e12`, `[]`} {
		d := Duration(7)
		if err := d.UnmarshalJSON([]byte(s)); err == nil {
			t.Errorf("%s is %v", s, d)
		}
	}
	for d, want := range map[time.Duration]string{0: "0", time.Nanosecond: "0", 1499 * time.Nanosecond: "0.000001", time.Hour: "3600", -time.Second: "-1"} {
		if b, err := json.Marshal(Duration(d)); err != nil || string(b) != want {
			t.Errorf("%v is %s, %v", d, b, err)
		}
	}
}
