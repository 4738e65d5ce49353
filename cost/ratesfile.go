package cost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"trainopt/internal/regular"
	"trainopt/internal/wording"
)

// rateKeys are all keys of a rates file.
var rateKeys = []string{"gpu_hour", "cpu_hour", "gib_hour", "instance_hour", "source", "dated"}

// maxRatesFile is the maximum size of a rates file in bytes.
const maxRatesFile = 1 << 20

// LoadRates reads a rates file in YAML or JSON. Keys are strict, and the error joins all problems:
// an unknown key (with the most similar known one), a duplicate key, a value that is not a number, unit prices beside
// an instance price, and the problems of [Rates.Validate].
func LoadRates(path string) (Rates, error) {
	f, err := regular.Open(path, regular.Settings)
	if err != nil {
		return Rates{}, fmt.Errorf("read rates: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRatesFile+1))
	if err != nil {
		return Rates{}, fmt.Errorf("read rates: %w", err)
	}
	r, err := parseRates(data)
	if err != nil {
		return Rates{}, fmt.Errorf("read rates %s: %w", path, err)
	}
	return r, nil
}

// parseRates parses the content of a rates file; see [LoadRates].
func parseRates(data []byte) (Rates, error) {
	if len(data) > maxRatesFile {
		return Rates{}, fmt.Errorf("more than %d bytes", maxRatesFile)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return Rates{}, errors.New("the file is empty; keys are " + strings.Join(rateKeys, ", "))
	case err != nil:
		return Rates{}, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Rates{}, errors.New("more than one document")
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return Rates{}, errors.New("not a list of key: value; keys are " + strings.Join(rateKeys, ", "))
	}
	return ratesOf(document.Content[0].Content)
}

// ratesOf decodes the key-value pairs of a rates file. It reads the YAML nodes rather than a struct, so that every
// problem is reported with its line; the error joins all of them.
func ratesOf(pairs []*yaml.Node) (Rates, error) {
	var r Rates
	var problems []error
	given := map[string]bool{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, value := pairs[i].Value, pairs[i+1]
		at := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("line %d: %s", pairs[i].Line, fmt.Sprintf(format, args...)))
		}
		if given[key] {
			at("%s is given twice", key)
			continue
		}
		given[key] = true
		number := map[string]*USD{"gpu_hour": &r.GPUHour, "cpu_hour": &r.CPUHour, "gib_hour": &r.GiBHour, "instance_hour": &r.Instance}[key]
		text := map[string]*string{"source": &r.Source, "dated": &r.Dated}[key]
		switch {
		case number != nil:
			if value.Kind != yaml.ScalarNode || (value.Tag != "!!int" && value.Tag != "!!float") || value.Decode((*float64)(number)) != nil {
				at("%s: %q is not a number", key, value.Value)
			}
		case text != nil:
			if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
				at("%s is not a text", key)
				continue
			}
			*text = strings.TrimSpace(value.Value)
		default:
			at("unknown key %q; the nearest known is %q", key, nearestKey(key))
		}
	}
	units := given["gpu_hour"] || given["cpu_hour"] || given["gib_hour"]
	if units && given["instance_hour"] {
		problems = append(problems, errors.New("instance_hour and unit prices are both given: give one or the other"))
	}
	if len(problems) == 0 && !units && !given["instance_hour"] {
		problems = append(problems, errors.New("no price is given"))
	} else if err := r.Validate(); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return Rates{}, err
	}
	return r, nil
}

// nearestKey returns the known key with the smallest edit distance.
func nearestKey(key string) string {
	key = key[:min(len(key), longestKey)]
	return slices.MinFunc(rateKeys, func(a, b string) int { return wording.Distance(key, a) - wording.Distance(key, b) })
}
