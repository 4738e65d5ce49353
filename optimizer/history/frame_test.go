package history

import (
	"slices"
	"strings"
	"testing"
)

// TestFrame compares the data frame of a log, and requires an error above the limit on rows.
func TestFrame(t *testing.T) {
	path := write(t, "a.csv", "epoch,dauer,gpu_utilization_0\n1,9,50\n2,5,60\n3,4,\n")
	o := LogOptions{Aliases: map[string]string{"dauer": "epoch_time"}}
	df, err := logFrame(path, o)
	if err != nil || df.Nrow() != 3 || !slices.Equal(df.Names(), []string{"epoch", "epoch_time", "gpu_utilization_0"}) || !slices.Equal(df.Col("epoch_time").Float(), []float64{9, 5, 4}) {
		t.Errorf("%v, %v", df, err)
	}
	if _, err := frame(path, o, 2); err == nil || !strings.Contains(err.Error(), "more than 2 rows") || !strings.Contains(err.Error(), path) {
		t.Errorf("three rows where two can be held: %v", err)
	}
	if df, err := logFrame(path+".absent", LogOptions{}); err == nil || df.Err == nil {
		t.Error("no error without a file")
	}
}
