package trainlog

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-gota/gota/dataframe"
	"github.com/go-gota/gota/series"
)

// Frame returns a data frame of rows with the canonical column names. It contains the columns in which at least one
// row has a value, in canonical order: timestamp (RFC 3339), the text columns, the numbers as float64 with NaN for no
// data, and gpu_utilization_0…n. Without rows its Err wraps ErrNoData, because gota has no empty frame.
//
// gota's aggregates such as Mean and Max do not skip NaN: filter first.
func Frame(rows []Row) dataframe.DataFrame {
	if len(rows) == 0 {
		return dataframe.DataFrame{Err: fmt.Errorf("data frame of a training log: %w", ErrNoData)}
	}
	var columns []series.Series
	text := func(name string, value func(*Row) string) {
		values, some := make([]string, len(rows)), false
		for i := range rows {
			values[i] = value(&rows[i])
			some = some || values[i] != ""
		}
		if some {
			columns = append(columns, series.New(values, series.String, name))
		}
	}
	number := func(name string, value func(*Row) float64) {
		values, some := make([]float64, len(rows)), false
		for i := range rows {
			values[i] = value(&rows[i])
			some = some || !math.IsNaN(values[i])
		}
		if some {
			columns = append(columns, series.New(values, series.Float, name))
		}
	}
	text(timestampName, func(r *Row) string {
		if r.Stamp.IsZero() {
			return ""
		}
		return r.Stamp.Format(time.RFC3339Nano)
	})
	text(modelName, func(r *Row) string { return r.Model })
	text(datasetName, func(r *Row) string { return r.Dataset })
	text(deviceName, func(r *Row) string { return r.Device })
	gpus := 0
	for i := range rows {
		gpus = max(gpus, len(rows[i].GPUUtil))
	}
	for c := Column(0); c < NumColumns; c++ {
		number(c.String(), func(r *Row) float64 { v, _ := r.Value(c); return v })
	}
	for g := range gpus {
		number(gpuUtilPrefix+strconv.Itoa(g), func(r *Row) float64 {
			if g >= len(r.GPUUtil) {
				return math.NaN()
			}
			return r.GPUUtil[g]
		})
	}
	if len(columns) == 0 {
		return dataframe.DataFrame{Err: fmt.Errorf("data frame of a training log: no known column: %w", ErrNoData)}
	}
	return dataframe.New(columns...)
}
