package testlog

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestLines(t *testing.T) {
	var l Lines
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() { _, _ = fmt.Fprintf(&l, "level=INFO writer=%d\n", i) }) // it does not fail
	}
	writers.Wait()
	if n := strings.Count(l.String(), "\n"); n != 4 {
		t.Errorf("%d lines were kept", n)
	}
	for _, c := range []struct {
		parts []string
		want  int
	}{
		{[]string{"level=INFO"}, 4},
		{[]string{"level=INFO", "writer=2"}, 1},
		{[]string{"writer=1", "writer=2"}, 0}, // each is there, on another line
		{[]string{"level=INFO", "writer=4"}, 0},
	} {
		if n := l.Count(c.parts...); n != c.want {
			t.Errorf("%d lines have %q, want %d", n, c.parts, c.want)
		}
		if has := l.Has(c.parts...); has != (c.want > 0) {
			t.Errorf("a line with %q: %v", c.parts, has)
		}
	}
	if l.Reset(); l.String() != "" {
		t.Errorf("after a reset there is %q", &l)
	}
}
