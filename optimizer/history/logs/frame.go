package logs

import (
	"fmt"

	"github.com/go-gota/gota/dataframe"

	"trainopt/monitor"
)

// maxFrame is the most rows that Frame holds at once.
const maxFrame = 1_000_000

// Frame reads a log whole into a data frame, with the columns of monitor.Frame. One of more than a million rows is refused:
// Read needs no memory for them. Errors are otherwise those of Read.
func Frame(path string, o Options) (dataframe.DataFrame, error) { return frame(path, o, maxFrame) }

func frame(path string, o Options, most int) (dataframe.DataFrame, error) {
	var rows []monitor.Row
	_, err := monitor.Scan(path, monitor.TailOptions{Format: o.Format, Aliases: o.Aliases}, func(r *monitor.Row) error {
		if len(rows) == most {
			return fmt.Errorf("read training log %s: more than %d rows, too many to hold at once in a data frame", path, most)
		}
		rows = append(rows, r.Clone())
		return nil
	})
	if err != nil {
		return dataframe.DataFrame{Err: err}, err
	}
	df := monitor.Frame(rows)
	return df, df.Err
}
