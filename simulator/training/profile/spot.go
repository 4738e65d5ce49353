package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"trainopt/simulator/training"
)

// SpotTrace is for how long one machine of spot capacity could be had and could not, measured at even ticks.
type SpotTrace struct {
	Name string
	Tick float64 // seconds
	Up   []bool
}

// ReadSpot reads {"metadata": {"gap_seconds": G}, "data": [n, …]} ("Can't Be Late", NSDI 2024, skypilot-org/spot-traces), n the
// number of machines that could be had at a tick. The machine is up when all were: n is the largest of the trace.
func ReadSpot(r io.Reader) (SpotTrace, error) {
	var in struct {
		Metadata struct {
			Gap float64 `json:"gap_seconds"`
		} `json:"metadata"`
		Data []float64 `json:"data"`
	}
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return SpotTrace{}, fmt.Errorf("read spot trace: %w", err)
	}
	most := 0.0
	for i, n := range in.Data {
		if n < 0 {
			return SpotTrace{}, fmt.Errorf("read spot trace: value %d is %g, want a number of machines", i, n)
		}
		most = max(most, n)
	}
	if !(in.Metadata.Gap > 0) || math.IsInf(in.Metadata.Gap, 0) || len(in.Data) < 2 || most == 0 {
		return SpotTrace{}, fmt.Errorf("read spot trace: gap %g s, %d values, at most %g machines: want a positive gap, two values and a machine", in.Metadata.Gap, len(in.Data), most)
	}
	t := SpotTrace{Tick: in.Metadata.Gap, Up: make([]bool, len(in.Data))}
	for i, n := range in.Data {
		t.Up[i] = n == most
	}
	return t, nil
}

// LoadSpot reads every trace (*.json, *.json.gz) below dir, in order of their names. These carry no licence: for evaluation only.
// The error wraps fs.ErrNotExist when there is none.
func LoadSpot(dir string) ([]SpotTrace, error) {
	var out []SpotTrace
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".json") {
			return err
		}
		f, err := open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		t, err := ReadSpot(f)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if rel, err := filepath.Rel(dir, path); err == nil {
			t.Name, _, _ = strings.Cut(filepath.ToSlash(rel), ".json")
		}
		out = append(out, t)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load spot traces: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("load spot traces: no *.json below %s: %w", dir, fs.ErrNotExist)
	}
	return out, nil
}

// Interruptions of a job that starts at a random tick at which the machine is up; after its end the trace begins again. The
// list covers the given seconds and more. O(ticks).
func (t SpotTrace) Interruptions(rng *rand.Rand, seconds float64) []training.Interruption {
	var starts []int
	for i, up := range t.Up {
		if up {
			starts = append(starts, i)
		}
	}
	if len(starts) == 0 || len(starts) == len(t.Up) {
		return nil
	}
	at := starts[rng.IntN(len(starts))]
	var out []training.Interruption
	for i := 1; ; i++ {
		now := float64(i) * t.Tick
		up := t.Up[(at+i)%len(t.Up)]
		before := t.Up[(at+i-1)%len(t.Up)]
		switch {
		case before && !up:
			if now > seconds {
				return out
			}
			out = append(out, training.Interruption{At: now, Away: t.Tick})
		case !up:
			out[len(out)-1].Away += t.Tick
		}
		if now > seconds && up {
			return out
		}
	}
}

// SpotModel is spot capacity without a trace: times up and away follow each other, each exponential.
type SpotModel struct{ MeanUp, MeanAway float64 } // seconds

// The ranges of the generated capacity, seconds: 10 % and 90 % quantiles over 26 traces of AWS spot capacity, 2022-10 to
// 2023-08 (skypilot-org/spot-traces at 221da1a; V100, K80 and 64-CPU machines), of the mean time up between two interruptions
// and of the mean time away. TestSpotFacts repeats the calculation.
const (
	spotUpLow, spotUpHigh     = 4030, 22000
	spotAwayLow, spotAwayHigh = 1720, 11500
)

// DrawSpot draws the capacity of one zone, log-uniform between what was measured.
func DrawSpot(rng *rand.Rand) SpotModel {
	return SpotModel{MeanUp: logUniform(rng, spotUpLow, spotUpHigh), MeanAway: logUniform(rng, spotAwayLow, spotAwayHigh)}
}

// Interruptions of a job that starts when the machine comes up; the list covers the given seconds and more.
func (m SpotModel) Interruptions(rng *rand.Rand, seconds float64) []training.Interruption {
	var out []training.Interruption
	for now := 0.0; ; {
		now += m.MeanUp * rng.ExpFloat64()
		if now > seconds {
			return out
		}
		i := training.Interruption{At: now, Away: m.MeanAway * rng.ExpFloat64()}
		out = append(out, i)
		now += i.Away
	}
}

// Means are the mean seconds up between two interruptions and away between two times up, leaving out the first and the last
// stretch, which the trace cuts. ErrNoStretch when there are none.
func (t SpotTrace) Means() (up, away float64, err error) {
	var sum, n [2]float64
	start := -1
	for i := 1; i < len(t.Up); i++ {
		if t.Up[i] == t.Up[i-1] {
			continue
		}
		if start >= 0 {
			k := 0
			if t.Up[i-1] {
				k = 1
			}
			sum[k] += float64(i-start) * t.Tick
			n[k]++
		}
		start = i
	}
	if n[0] == 0 || n[1] == 0 {
		return math.NaN(), math.NaN(), ErrNoStretch
	}
	return sum[1] / n[1], sum[0] / n[0], nil
}

// ErrNoStretch says that a trace holds no whole time up and away.
var ErrNoStretch = errors.New("no whole stretch up and away in the trace")

func logUniform(rng *rand.Rand, lo, hi float64) float64 {
	return lo * math.Exp(rng.Float64()*math.Log(hi/lo))
}
