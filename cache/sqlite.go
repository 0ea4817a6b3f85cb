package cache

import (
	// The driver asks for an older release of SQLite, in which a Get takes
	// twice as long. This import keeps the newer one among the module's direct
	// requirements; the driver links the same package in any case.
	_ "modernc.org/sqlite/lib"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// exec runs one statement and drops its rows.
func exec(c *sqlite.Conn, sql string) error {
	return sqlitex.ExecuteTransient(c, sql, nil)
}

// query returns the rows of one statement as text.
func query(c *sqlite.Conn, sql string) ([][]string, error) {
	var rows [][]string
	err := sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(stmt *sqlite.Stmt) error {
		row := make([]string, stmt.ColumnCount())
		for i := range row {
			row[i] = stmt.ColumnText(i)
		}
		rows = append(rows, row)
		return nil
	}})
	return rows, err
}

func isBusy(err error) bool {
	return err != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy
}
