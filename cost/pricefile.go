package cost

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"trainopt/internal/regular"
)

// priceFile is the name of the file of imported prices in a state directory.
const priceFile = "prices.csv"

// errDamaged is wrapped by the error for a price file that this program did not write, or wrote only in part.
var errDamaged = errors.New("damaged price file")

// ErrNotKept is wrapped by the error of an import whose prices were read but could not be stored.
var ErrNotKept = errors.New("imported prices were not kept")

// ownColumns are the columns of this program's lists: on_demand and spot in USD per hour, memory in GiB, dates
// YYYY-MM-DD.
var ownColumns = []string{"cloud", "type", "gpu", "gpus", "gpu_gib", "vcpus", "ram_gib", "on_demand", "dated", "source", "region",
	"spot", "spot_low", "spot_high", "spot_zones", "spot_dated", "spot_source"}

// priceVersion begins the first line of a price file; the checksum of the remaining lines follows it.
const priceVersion = "# prices of optimize, version 1, crc32 "

// WriteList writes offers in this program's own layout, which [ReadList] reads.
func WriteList(w io.Writer, offers []Offer) error {
	out := csv.NewWriter(w)
	if err := out.Write(ownColumns); err != nil {
		return err
	}
	number := func(v float64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	for _, o := range offers {
		if err := out.Write([]string{o.Cloud, o.Type, o.GPU, strconv.Itoa(o.GPUs), number(float64(o.GPUMemory)), strconv.Itoa(o.CPUs),
			number(float64(o.Memory)), number(float64(o.OnDemand)), o.Dated, o.Source, o.Region, number(float64(o.Spot)), number(float64(o.SpotLow)),
			number(float64(o.SpotHigh)), number(float64(o.SpotZones)), o.SpotDated, o.SpotSource}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// encodePrices returns the content of a price file.
func encodePrices(offers []Offer) ([]byte, error) {
	var body bytes.Buffer
	if err := WriteList(&body, offers); err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, "%s%08x\n", priceVersion, crc32.ChecksumIEEE(body.Bytes())), body.Bytes()...), nil
}

// decodePrices decodes a price file. Any invalid row is an error, because this program writes none.
func decodePrices(data []byte) ([]Offer, error) {
	first, body, _ := bytes.Cut(data, []byte("\n"))
	sum, ours := strings.CutPrefix(string(first), priceVersion)
	switch {
	case !ours && strings.HasPrefix(string(first), "# prices of optimize, version "):
		return nil, fmt.Errorf("%q is of another version of this program: %w", first, errDamaged)
	case !ours:
		return nil, fmt.Errorf("its first line is not that of a price file: %w", errDamaged)
	case sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)):
		return nil, fmt.Errorf("its checksum does not hold, it is torn or was changed: %w", errDamaged)
	}
	list, err := ReadList(bytes.NewReader(body), nil, ListOptions{})
	if err == nil && (len(list.Rejected) > 0 || list.Layout != "our own") {
		err = fmt.Errorf("%d of its rows are refused", len(list.Rejected))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, errDamaged)
	}
	for i := range list.Offers {
		list.Offers[i].Imported = true
	}
	return list.Offers, nil
}

// loadPrices reads the imported prices of a state directory; nil if there are none. The error names the file.
func loadPrices(stateDir string) ([]Offer, error) {
	path := filepath.Join(stateDir, priceFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read imported prices: %w", err)
	}
	offers, err := decodePrices(data)
	if err != nil {
		return nil, fmt.Errorf("read imported prices %s: %w; move it away and import the lists again", path, err)
	}
	return offers, nil
}

// savePrices replaces the imported prices of a state directory atomically.
func savePrices(stateDir string, offers []Offer) error {
	data, err := encodePrices(offers)
	if err == nil {
		err = os.MkdirAll(stateDir, 0o700)
	}
	if err == nil {
		path, mode := filepath.Join(stateDir, priceFile), fs.FileMode(0o600)
		if st, err := os.Stat(path); err == nil { // an existing file keeps its mode
			mode = st.Mode().Perm()
		}
		err = regular.WriteFile(path, mode, data)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return nil
}
