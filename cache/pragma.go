package cache

import (
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"

	"github.com/daybook-ct/daybook/internal/incident"
)

// pageSize of the database in bytes. On ZFS the dataset's record size should be
// the same. It can only be chosen when the file is made.
const pageSize = 4096

// pragma is a setting of a connection, in the form in which SQLite reads it back.
type pragma struct {
	name, value string
}

// settings returns the pragmas of a connection in the order in which they are
// to be set: the page size must precede the WAL.
func settings(pageCache int64, sync int) []pragma {
	autocheckpoint := "0" // WAL checkpoints are run by hand, every round
	if incident.Off(incident.Restart) {
		autocheckpoint = "1000" // SQLite's default
	}
	return []pragma{
		{"page_size", strconv.Itoa(pageSize)},
		{"journal_mode", "wal"},
		{"wal_autocheckpoint", autocheckpoint},
		{"journal_size_limit", "-1"},
		{"synchronous", strconv.Itoa(sync)},
		{"cache_size", strconv.FormatInt(-pageCache/1024, 10)}, // negative: KiB
		{"mmap_size", "0"},                                     // a read error would be a SIGBUS
	}
}

// apply sets pragmas on a connection, reads them back and returns what is in
// force. The page size of an existing database may differ; anything else is an error.
func apply(c *sqlite.Conn, pragmas []pragma) ([]pragma, error) {
	for _, p := range pragmas {
		if err := exec(c, "PRAGMA "+p.name+" = "+p.value); err != nil {
			return nil, fmt.Errorf("setting %s: %w", p.name, err)
		}
	}
	got := make([]pragma, len(pragmas))
	for i, want := range pragmas {
		rows, err := query(c, "PRAGMA "+want.name)
		if err != nil {
			return nil, fmt.Errorf("reading %s back: %w", want.name, err)
		}
		if len(rows) != 1 || len(rows[0]) != 1 {
			return nil, fmt.Errorf("reading %s back: no single value", want.name)
		}
		got[i] = pragma{want.name, rows[0][0]}
		if got[i] != want && want.name != "page_size" {
			return nil, fmt.Errorf("setting %s to %s: SQLite keeps it at %s", want.name, want.value, got[i].value)
		}
	}
	return got, nil
}
