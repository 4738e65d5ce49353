package monitor

import "time"

// Scan reads a log that nobody writes any more, row by row: memory does not grow with the file. A row is valid during the
// call only. Errors are those of ReadLog; what each returns ends the scan and is returned.
func Scan(path string, o TailOptions, each func(*Row) error) (TailStats, error) {
	rows, s, err := ReadLog(path, o)
	for i := range rows {
		rows[i].At = time.Time{}
		if err := each(&rows[i]); err != nil {
			return s, err
		}
	}
	return s, err
}
