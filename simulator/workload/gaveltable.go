package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"trainopt/internal/regular"
)

// readThroughputs reads a throughput table of Gavel (OSDI 2020) or Shockwave (NSDI 2023), plain or gzip:
//
//	{"v100": {"('ResNet-18 (batch size 16)', 1)": {"null": 77.3, "('A3C', 1)": [40.1, 5.2]}}}
//
// "null" is the rate alone; another job is paired with it, with both rates. A key without a number of devices means
// one. Pairs with different numbers of devices, which no simulation forms, are errors.
func readThroughputs(r io.Reader) (*Throughputs, error) {
	r, err := regular.Gunzip(r)
	if err != nil {
		return nil, fmt.Errorf("read throughputs: %w", err)
	}
	rates, err := readRates(json.NewDecoder(r))
	var t *Throughputs
	if err == nil {
		t, err = NewThroughputs(rates)
	}
	if err != nil {
		return nil, fmt.Errorf("read throughputs: %w", err)
	}
	return t, nil
}

// readRates reads all rates in file order: by device, job and paired job.
func readRates(dec *json.Decoder) (rates []Rate, err error) {
	err = object(dec, func(device string) error {
		return object(dec, func(job string) error {
			name, gpus := splitJobKey(job)
			return object(dec, func(other string) error {
				rate, err := readRate(dec, device, name, gpus, other)
				rates = append(rates, rate)
				return err
			})
		})
	})
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the table")
	}
	if len(rates) == 0 {
		return nil, errors.New("no rate in it")
	}
	return rates, nil
}

// LoadThroughputs reads the file at path, plain or gzip, or Sia's profiles if path is a directory; see
// loadSiaProfiles.
func LoadThroughputs(path string) (*Throughputs, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return loadSiaProfiles(path)
	}
	f, err := regular.Open(path, regular.Data)
	if err != nil {
		return nil, fmt.Errorf("read throughputs: %w", err)
	}
	defer f.Close()
	t, err := readThroughputs(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// object calls member for the members of a JSON object in file order, which determines the order of job types.
func object(dec *json.Decoder, member func(key string) error) error {
	start, err := dec.Token()
	if err != nil {
		return ended(err)
	}
	if start != json.Delim('{') {
		return fmt.Errorf("%v where an object was expected, at byte %d", start, dec.InputOffset())
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return ended(err)
		}
		if err := member(key.(string)); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return ended(err)
}

// ended maps the end of the input to io.ErrUnexpectedEOF.
func ended(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readRate reads the rate of one member: alone, or a pair of rates.
func readRate(dec *json.Decoder, device, job string, gpus int, other string) (Rate, error) {
	r := Rate{Device: device, Job: job, GPUs: gpus}
	if other == "null" {
		if err := dec.Decode(&r.PerSecond); err != nil {
			return r, fmt.Errorf("%s on %s alone: %w", job, device, err)
		}
		return r, nil
	}
	var pair []float64
	if err := dec.Decode(&pair); err != nil {
		return r, fmt.Errorf("%s on %s beside %s: %w", job, device, other, err)
	}
	var count int
	r.Other, count = splitJobKey(other)
	if len(pair) != 2 || count != gpus {
		return r, fmt.Errorf("%s on %d %s beside %s: %d rates, want 2 and the same number of devices", job, gpus, device, other, len(pair))
	}
	r.PerSecond, r.OtherRate = pair[0], pair[1]
	return r, nil
}

// splitJobKey splits "('A3C', 2)", the notation of a Python tuple. Anything else is the name of a job on one device.
func splitJobKey(key string) (job string, gpus int) {
	inside, ok1 := strings.CutPrefix(key, "('")
	inside, ok2 := strings.CutSuffix(inside, ")")
	if i := strings.LastIndex(inside, "', "); ok1 && ok2 && i >= 0 {
		if n, err := strconv.Atoi(inside[i+3:]); err == nil {
			return inside[:i], n
		}
	}
	return key, 1
}
