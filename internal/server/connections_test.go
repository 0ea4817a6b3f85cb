package server

import (
	"math"
	"strings"
	"testing"
)

func TestConnections(t *testing.T) {
	for _, c := range []struct {
		files           uint64
		logs, listeners int
		want            int
	}{
		{1024, 1, 1, 266},
		{1024, 1, 2, 133},
		{524288, 10, 2, 87248},
		{math.MaxUint64, 1, 1, math.MaxInt32}, // no limit
		{320, 1, 1, minConnections},
	} {
		if got, err := connections(c.files, c.logs, c.listeners); err != nil || got != c.want {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
	if _, err := connections(319, 1, 1); err == nil || !strings.Contains(err.Error(), "need at least 320") {
		t.Errorf("a limit that is too low: %v", err)
	}
}
