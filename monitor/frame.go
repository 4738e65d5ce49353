package monitor

import (
	"errors"
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

// RowsFromFrame is the inverse of Frame; unrecognised columns are dropped. Line is the row's number in the frame,
// from 1.
func RowsFromFrame(df dataframe.DataFrame) ([]Row, error) {
	if df.Err != nil {
		if errors.Is(df.Err, ErrNoData) {
			return nil, nil
		}
		return nil, fmt.Errorf("rows of a data frame: %w", df.Err)
	}
	rows := make([]Row, df.Nrow())
	for i := range rows {
		rows[i].Line = i + 1
	}
	known := 0
	for _, name := range df.Names() {
		t := resolveName(normalizeName(name))
		if t.kind == toNowhere {
			continue
		}
		known++
		col := df.Col(name)
		if t.kind == toColumn || t.kind == toGPUUtil {
			for i, v := range col.Float() {
				switch {
				case math.IsNaN(v):
				case t.kind == toColumn:
					rows[i].Set(t.column, v)
				default:
					setGPUUtil(&rows[i], t.gpu, v)
				}
			}
			continue
		}
		for i, s := range col.Records() {
			switch t.kind {
			case toStamp:
				rows[i].Stamp = parseStamp([]byte(s), time.Local)
			case toModel:
				rows[i].Model = s
			case toDataset:
				rows[i].Dataset = s
			case toDevice:
				rows[i].Device = s
			}
		}
	}
	if known == 0 {
		return nil, fmt.Errorf("rows of a data frame: no known column among %q", df.Names())
	}
	return rows, nil
}
