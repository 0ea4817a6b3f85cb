package crash

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// setClock sets the clock of a log's rounds. It is replaced at once, as the
// program reads it at any time.
func (s *subject) setClock(t *testing.T, wrong time.Duration) {
	t.Helper()
	s.write(t, "clock.new", []byte(wrong.String()))
	if err := os.Rename(s.at("clock.new"), s.at("clock")); err != nil {
		t.Fatal(err)
	}
}

// TestClock sets the clock of a running log. Timestamps always grow (S5): a
// step back of some seconds is waited for; after a larger one the log halts,
// and does not start before the clock is right.
func TestClock(t *testing.T) {
	t.Parallel()
	t.Run("back by two seconds", func(t *testing.T) {
		t.Parallel()
		s := fork(t, false)
		p := s.serve(t, how{clock: s.at("clock")})
		s.under(t, p, 10, func() {
			s.grows(t, p, 30)
			s.setClock(t, -2*time.Second)
			s.grows(t, p, 100)
		})
		if n := p.metric(t, "daybook_ticks_skipped_total"); n < 10 {
			t.Errorf("only %v ticks were skipped", n)
		}
		p.healthy(t)
		s.sound(t, p)
	})
	t.Run("back by an hour", func(t *testing.T) {
		t.Parallel()
		s := fork(t, false)
		p := s.serve(t, how{clock: s.at("clock")})
		s.under(t, p, 10, func() {
			s.grows(t, p, 30)
			s.setClock(t, -time.Hour)
			if cause := p.halts(t); !strings.Contains(cause, "before the last checkpoint") {
				t.Error(cause)
			} else {
				t.Log(cause)
			}
		})
		p.kill()
		if message := s.refuses(t, how{clock: s.at("clock")}); !strings.Contains(message, "before the last checkpoint") {
			t.Error(message)
		} else {
			t.Log(message)
		}
		s.setClock(t, 0)
		p = s.serve(t, how{clock: s.at("clock")})
		s.Resubmit(t.Context(), p.Addr, 50)
		s.sound(t, p)
	})
	t.Run("forward by an hour, then right", func(t *testing.T) {
		t.Parallel()
		s := fork(t, false)
		p := s.serve(t, how{clock: s.at("clock")})
		s.under(t, p, 10, func() {
			s.grows(t, p, 30)
			s.setClock(t, time.Hour)
			t.Log(p.says(t, "the clock has jumped forward"))
			s.answers(t, http.StatusServiceUnavailable)
			s.refused(t, p, http.StatusServiceUnavailable)
			if ahead := p.metric(t, "daybook_clock_ahead_seconds"); ahead < 3590 || ahead > 3610 {
				t.Errorf("the metric says it is %v seconds ahead", ahead)
			}
			s.setClock(t, 0)
			t.Log(p.says(t, "the clock is right again"))
			s.grows(t, p, 50)
		})
		p.healthy(t)
		if ahead := time.Until(time.UnixMilli(s.head(t, p).Timestamp)); ahead > time.Second {
			t.Errorf("the checkpoint is %v ahead", ahead)
		}
		s.sound(t, p)
	})
	t.Run("forward by an hour, and restarted", func(t *testing.T) {
		t.Parallel()
		s := fork(t, false)
		p := s.serve(t, how{clock: s.at("clock")})
		s.setClock(t, time.Hour)
		t.Log(p.says(t, "the clock has jumped forward"))
		p.kill()
		p = s.serve(t, how{clock: s.at("clock")}) // says that the time is right
		s.fill(t, p, 20)
		if ahead := time.Until(time.UnixMilli(s.head(t, p).Timestamp)); ahead < 50*time.Minute {
			t.Errorf("the checkpoint is %v ahead", ahead)
		}
		s.sound(t, p)
		// It was wrong after all.
		s.setClock(t, 0)
		t.Log(p.halts(t))
		p.kill()
		t.Log(s.refuses(t, how{clock: s.at("clock")}))
		s.setClock(t, time.Hour) // in place of waiting for an hour
		p = s.serve(t, how{clock: s.at("clock")})
		s.sound(t, p)
	})
}
