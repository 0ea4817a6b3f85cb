package rounds

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Handler answers with the records in memory as JSON lines, the oldest first:
// those of ?log=NAME, which may be left out if there is one log, and of the
// last ?since=DURATION, like 10m. logs returns the recorders of all logs; it must
// be safe for concurrent use.
func Handler(logs func() []*Recorder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r, problem := choose(logs(), req.FormValue("log"))
		if problem != "" {
			http.Error(w, problem, http.StatusNotFound)
			return
		}
		var since time.Time
		if s := req.FormValue("since"); s != "" {
			d, err := time.ParseDuration(s)
			if err != nil || d < 0 {
				http.Error(w, "since must be a duration like 10m", http.StatusBadRequest)
				return
			}
			since = time.Now().Add(-d)
		}
		w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		records := r.Recent(since)
		b := bufio.NewWriterSize(w, 64<<10)
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		for i := range records {
			if enc.Encode(&records[i]) != nil {
				return // the client is gone
			}
		}
		_ = b.Flush() // or now
	})
}

func choose(logs []*Recorder, name string) (_ *Recorder, problem string) {
	var names []string
	for _, r := range logs {
		if r.Log() == name || name == "" && len(logs) == 1 {
			return r, ""
		}
		names = append(names, r.Log())
	}
	all := strings.Join(names, ", ")
	switch {
	case len(logs) == 0:
		return nil, "no log is open yet"
	case name == "":
		return nil, "there are several logs (" + all + "): add ?log=NAME"
	}
	return nil, "there is no such log; there are: " + all
}
