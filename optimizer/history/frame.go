package history

import (
	"fmt"

	"github.com/go-gota/gota/dataframe"

	"trainopt/monitor/trainlog"
)

// maxFrame is the maximum number of rows of a data frame.
const maxFrame = 1_000_000

// logFrame reads a whole log into a data frame with the columns of trainlog.Frame. Logs of more than a million rows are
// an error; Read has no such limit. Other errors are those of Read.
func logFrame(path string, o LogOptions) (dataframe.DataFrame, error) {
	return frame(path, o, maxFrame)
}

func frame(path string, o LogOptions, most int) (dataframe.DataFrame, error) {
	var rows []trainlog.Row
	_, err := trainlog.Scan(path, trainlog.TailOptions{Format: o.Format, Aliases: o.Aliases}, func(r *trainlog.Row) error {
		if len(rows) == most {
			return fmt.Errorf("read training log %s: more than %d rows, too many to hold at once in a data frame", path, most)
		}
		rows = append(rows, r.Clone())
		return nil
	})
	if err != nil {
		return dataframe.DataFrame{Err: err}, err
	}
	df := trainlog.Frame(rows)
	return df, df.Err
}
